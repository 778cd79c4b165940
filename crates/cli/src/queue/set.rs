//! Changing what is set for a queue.
//!
//! The API sets all at once. Here a change leaves what it does not name as it is: that is asked for
//! before.

use clap::{ArgGroup, Args, ValueEnum};
use serde::Deserialize;
use serde_json::{Map, Number, Value};

use super::QueueArgs;
use crate::api::ServerApi;
use crate::failure::CommandFailure;
use crate::screen::Screen;

/// What a change may name; it names something.
const CHANGES: [&str; 11] = [
    "order",
    "concurrency",
    "no_concurrency",
    "rate",
    "no_rate",
    "jobs_max",
    "no_jobs_max",
    "dead_max",
    "no_dead_max",
    "dead_max_age",
    "no_dead_max_age",
];

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("changes").required(true).multiple(true).args(CHANGES))]
pub struct SetQueue {
    #[command(flatten)]
    place: QueueArgs,
    /// Which of the ready jobs is first: the one that became so first, or last.
    #[arg(long, value_enum)]
    order: Option<JobOrder>,
    /// Most jobs that are with consumers at the same time.
    #[arg(long, value_name = "N")]
    concurrency: Option<u64>,
    /// As many as there are consumers for.
    #[arg(long, conflicts_with = "concurrency")]
    no_concurrency: bool,
    /// Most jobs that are handed out in a second (50, 0.5).
    #[arg(long, value_name = "JOBS", value_parser = number)]
    rate: Option<Number>,
    /// As fast as they are asked for.
    #[arg(long, conflicts_with = "rate")]
    no_rate: bool,
    /// Most jobs; one more is refused.
    #[arg(long, value_name = "N")]
    jobs_max: Option<u64>,
    /// As many as there is room for.
    #[arg(long, conflicts_with = "jobs_max")]
    no_jobs_max: bool,
    /// Most dead jobs; then the oldest are dropped.
    #[arg(long, value_name = "N")]
    dead_max: Option<u64>,
    /// A million, as if it had never been set.
    #[arg(long, conflicts_with = "dead_max")]
    no_dead_max: bool,
    /// How long a dead job is kept (7d).
    #[arg(long, value_name = "DURATION")]
    dead_max_age: Option<String>,
    /// Until it is dropped by hand.
    #[arg(long, conflicts_with = "dead_max_age")]
    no_dead_max_age: bool,
}

/// Which of the ready jobs is first.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum JobOrder {
    Fifo,
    Lifo,
}

#[derive(Deserialize)]
struct CurrentSettings {
    settings: Map<String, Value>,
}

impl SetQueue {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let CurrentSettings { mut settings } = api.read(&api.get(&self.place.below(&[]))?)?;
        settings.extend(self.changes());
        api.set(&self.place.below(&["settings"]), &settings)?;
        screen.tell(&format!("{} set\n", self.place.name()))
    }

    /// What is null is no limit.
    fn changes(&self) -> Map<String, Value> {
        let order = self.order.map(|order| match order {
            JobOrder::Fifo => "fifo",
            JobOrder::Lifo => "lifo",
        });
        let named = [
            ("order", order.map(Value::from), false),
            ("concurrency", self.concurrency.map(Value::from), self.no_concurrency),
            ("rate", self.rate.clone().map(Value::from), self.no_rate),
            ("jobs_max", self.jobs_max.map(Value::from), self.no_jobs_max),
            ("dead_max", self.dead_max.map(Value::from), self.no_dead_max),
            ("dead_max_age", self.dead_max_age.clone().map(Value::from), self.no_dead_max_age),
        ];
        let changed = named.into_iter().filter(|(_, value, cleared)| value.is_some() || *cleared);
        changed.map(|(name, value, _)| (name.to_owned(), value.unwrap_or(Value::Null))).collect()
    }
}

fn number(text: &str) -> Result<Number, String> {
    text.parse().map_err(|_| "write it as 50 or 0.5".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        set: SetQueue,
    }

    #[test]
    fn a_change_names_what_it_changes_and_clears() {
        for (line, expect) in [
            ("--order lifo --rate 0.5", Some(json!({ "order": "lifo", "rate": 0.5 }))),
            ("--concurrency 4 --no-rate", Some(json!({ "concurrency": 4, "rate": null }))),
            (
                "--jobs-max 10 --dead-max 5 --dead-max-age 7d",
                Some(json!({ "jobs_max": 10, "dead_max": 5, "dead_max_age": "7d" })),
            ),
            ("", None),
            ("--rate fast", None),
            ("--rate 1 --no-rate", None),
        ] {
            let words = ["test", "shop", "mail"].into_iter().chain(line.split_whitespace());
            let changes = Line::try_parse_from(words).ok().map(|line| Value::from(line.set.changes()));
            assert_eq!(changes, expect, "{line}");
        }
    }
}
