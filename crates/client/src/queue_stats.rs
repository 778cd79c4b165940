//! How a queue stands, and what is set for it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::span::maybe_span;

/// How a queue stands.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct QueueOverview {
    /// Its namespace.
    pub namespace: String,
    /// Its name there.
    pub queue: String,
    /// Jobs that wait for their time.
    pub scheduled: u64,
    /// Jobs that wait for a consumer.
    pub ready: u64,
    /// Jobs that are with a consumer.
    pub reserved: u64,
    /// Jobs that failed for good.
    pub dead: u64,
    /// For how long the first of the ready jobs has been ready, in milliseconds.
    pub oldest_ready_ms: Option<u64>,
    /// How fast jobs go through it.
    #[serde(default)]
    pub rates: QueueFlow,
    /// Whether nothing is handed out.
    pub paused: bool,
    /// What is set for it.
    pub settings: QueueSettings,
}

/// How fast jobs go through a queue: jobs a second, over about the last minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct QueueFlow {
    /// Published.
    pub published: f64,
    /// Given to consumers.
    pub consumed: f64,
    /// Acknowledged.
    pub acked: f64,
}

/// What is set for a queue. `None` is no limit.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct QueueSettings {
    /// Which of the ready jobs is first.
    pub order: ReadyOrder,
    /// Most jobs that are with consumers at the same time.
    pub concurrency: Option<u32>,
    /// Most jobs that are handed out in a second.
    pub rate: Option<f64>,
    /// Most jobs; one more is refused with 409.
    pub jobs_max: Option<u64>,
    /// Most dead jobs; then the oldest are dropped.
    pub dead_max: Option<u64>,
    /// How long a dead job is kept.
    #[serde(with = "maybe_span")]
    pub dead_max_age: Option<Duration>,
}

/// Which of the ready jobs is first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadyOrder {
    /// The one that became available first.
    #[default]
    Fifo,
    /// The one that became available last.
    Lifo,
}

/// A part of a list.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Page<T> {
    /// What it holds, in the list's order.
    pub items: Vec<T>,
    /// Where to go on; `None` at the end.
    #[serde(rename = "next_cursor", default)]
    pub next: Option<Cursor>,
}

/// A part of a feed, the oldest first.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct FeedPage<T> {
    /// What it holds, in the feed's order.
    pub items: Vec<T>,
    /// Where to go on; `None` when this was all that there is now.
    #[serde(rename = "next_cursor", default)]
    pub next: Option<Cursor>,
    /// Where what comes later goes on.
    #[serde(rename = "tail_cursor", default)]
    pub tail: Option<Cursor>,
}

impl<T> FeedPage<T> {
    /// The place behind its last item, for the next question.
    #[must_use]
    pub fn after(&self) -> Option<&Cursor> {
        self.next.as_ref().or(self.tail.as_ref())
    }
}

/// A place in a list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Cursor(String);

impl Cursor {
    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_rates_where_the_server_tells_them() {
        let overview = |rates: &str| {
            let text = format!(
                r#"{{"namespace":"shop","queue":"mail","scheduled":0,"ready":2,"reserved":1,"dead":0,
                "oldest_ready_ms":null,{rates}"paused":false,"settings":{{}}}}"#
            );
            serde_json::from_str::<QueueOverview>(&text).expect("figures").rates
        };
        let told = overview(r#""rates":{"published":0.5,"consumed":12,"acked":0.48},"#);
        assert_eq!(told, QueueFlow { published: 0.5, consumed: 12.0, acked: 0.48 });
        assert_eq!(overview(""), QueueFlow::default());
    }

    #[test]
    fn settings_are_written_as_they_are_read() {
        let text = r#"{"order":"lifo","concurrency":4,"rate":2.5,"jobs_max":null,"dead_max":10,"dead_max_age":"7d"}"#;
        let settings: QueueSettings = serde_json::from_str(text).expect("settings");
        assert_eq!(settings.dead_max_age, Some(Duration::from_secs(7 * 86_400)));
        let written = serde_json::to_string(&settings).expect("JSON");
        assert_eq!(written, text.replace("7d", "604800000ms"));
        assert_eq!(serde_json::from_str::<QueueSettings>("{}").expect("settings"), QueueSettings::default());
    }
}
