//! `fieldpost rollout run`: what devices are to do, which of them, and how fast.

use clap::{ArgGroup, Args};
use serde::Serialize;
use serde_json::value::RawValue;

use super::of;
use super::view::RolloutView;
use super::watch::WatchUntil;
use crate::api::{ApiPath, ServerApi};
use crate::command::TermFlags;
use crate::failure::CommandFailure;
use crate::input::json;
use crate::screen::Screen;

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("which").required(true).multiple(true).args(["selector", "place", "device"]))]
pub struct RunRollout {
    /// What each device is told, as JSON: 1, '"open"', '{"open":1}'.
    #[arg(value_name = "PAYLOAD", allow_hyphen_values = true, value_parser = json)]
    payload: Box<RawValue>,
    /// Which devices: 'site=12,kind!=lock'; an empty text means every device.
    #[arg(long)]
    selector: Option<String>,
    /// Devices of this place, by the server's setting [fleet] place.
    #[arg(long)]
    place: Option<String>,
    /// This device; may be given several times.
    #[arg(long)]
    device: Vec<String>,
    /// Your own id for the rollout: the same call again is the same rollout.
    #[arg(long)]
    id: Option<String>,
    /// Commands a minute.
    #[arg(long, value_name = "N")]
    rate: Option<u32>,
    /// Commands that may be unanswered at a time.
    #[arg(long, value_name = "N")]
    in_flight: Option<u32>,
    /// A stage: its share, how long it soaks, and whether somebody has to approve, such as
    /// 1%:10m:approve; may be given several times.
    #[arg(long, value_name = "SHARE%[:SOAK][:approve]", value_parser = stage)]
    stage: Vec<StageFlag>,
    /// Hand out only in this window: a cron expression, and for how long, such as '0 2 * * *:3h'.
    #[arg(long, value_name = "CRON:FOR", value_parser = window)]
    window: Option<(String, String)>,
    /// The time zone of the window, for devices without the label tz.
    #[arg(long, value_name = "ZONE", requires = "window")]
    tz: Option<String>,
    /// Stop when more than this share of the ended commands has failed, such as 10%.
    #[arg(long, value_name = "SHARE%", value_parser = share)]
    stop_at: Option<f64>,
    /// Only once this many have ended.
    #[arg(long, value_name = "N", requires = "stop_at")]
    stop_after: Option<u32>,
    /// Add devices that come to be meant later, until it is cancelled.
    #[arg(long)]
    include_later: bool,
    #[command(flatten)]
    terms: TermFlags,
    /// Begin only once, however often this is called with the same key within a day.
    #[arg(long, value_name = "KEY", conflicts_with = "id")]
    idempotency_key: Option<String>,
    /// Follow it until it has ended. Exit code: 0 when it is done and not too many devices failed.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    until: WatchUntil,
}

/// A rollout on its way to the server.
#[derive(Serialize)]
struct RolloutBody<'a> {
    payload: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    devices: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_flight: Option<u32>,
    #[serde(skip_serializing_if = "<[StageFlag]>::is_empty")]
    stages: &'a [StageFlag],
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<WindowBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<StopBody>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    include_later: bool,
    #[serde(flatten)]
    terms: &'a TermFlags,
}

/// A stage of a rollout.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct StageFlag {
    share: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    soak: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    approve: bool,
}

#[derive(Serialize)]
struct WindowBody<'a> {
    cron: &'a str,
    #[serde(rename = "for")]
    open_for: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tz: Option<&'a str>,
}

#[derive(Serialize)]
struct StopBody {
    failed_share: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<u32>,
}

impl RunRollout {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let begun = match &self.id {
            Some(id) => api.replace(&of(id), &self.body())?,
            None => {
                api.post_once(&ApiPath::of(&["rollouts"]), &self.body(), self.idempotency_key.as_deref())?
            }
        };
        let rollout: RolloutView = api.read(&begun)?;
        if !self.wait {
            return screen.show(&begun, || Ok(rollout.facts()));
        }
        self.until.watch(&rollout.id, api, screen)
    }

    fn body(&self) -> RolloutBody<'_> {
        RolloutBody {
            payload: &self.payload,
            selector: self.selector.as_deref(),
            place: self.place.as_deref(),
            devices: &self.device,
            rate: self.rate,
            in_flight: self.in_flight,
            stages: &self.stage,
            window: self.window.as_ref().map(|(cron, open_for)| WindowBody {
                cron,
                open_for,
                tz: self.tz.as_deref(),
            }),
            stop: self.stop_at.map(|failed_share| StopBody { failed_share, after: self.stop_after }),
            include_later: self.include_later,
            terms: &self.terms,
        }
    }
}

/// A share in percent, as the server takes it.
fn share(text: &str) -> Result<f64, String> {
    let percent: Option<f64> = text.strip_suffix('%').and_then(|share| share.parse().ok());
    let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
    // To a millionth, so that 0.1% is 0.001 and not a little more.
    percent.map(|percent| (percent * 10_000.0).round() / 1e6).ok_or_else(|| "a share such as 1%".to_owned())
}

fn stage(text: &str) -> Result<StageFlag, String> {
    let mut parts = text.split(':');
    let mut stage = StageFlag { share: share(parts.next().unwrap_or_default())?, soak: None, approve: false };
    for part in parts {
        match part {
            "approve" => stage.approve = true,
            soak => stage.soak = Some(soak.to_owned()),
        }
    }
    Ok(stage)
}

fn window(text: &str) -> Result<(String, String), String> {
    let parts = text.rsplit_once(':').map(|(cron, open_for)| (cron.to_owned(), open_for.to_owned()));
    parts.ok_or_else(|| "a cron expression, a colon and a duration, such as '0 2 * * *:3h'".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        run: RunRollout,
    }

    fn body(words: &[&str]) -> Option<String> {
        let line = Line::try_parse_from(["test"].iter().chain(words)).ok()?;
        Some(serde_json::to_string(&line.run.body()).expect("a body has only names for keys"))
    }

    #[test]
    fn a_rollout_says_what_was_given_and_nothing_else() {
        for (words, expect) in [
            (&["1", "--selector", ""][..], Some(r#"{"payload":1,"selector":""}"#)),
            (
                &["1", "--device", "a", "--device", "b", "--rate", "60", "--in-flight", "5"],
                Some(r#"{"payload":1,"devices":["a","b"],"rate":60,"in_flight":5}"#),
            ),
            (
                &["1", "--place", "CN", "--stage", "1%:10m:approve", "--stage", "0.1%", "--stop-at", "10%"],
                Some(
                    r#"{"payload":1,"place":"CN","stages":[{"share":0.01,"soak":"10m","approve":true},{"share":0.001}],"stop":{"failed_share":0.1}}"#,
                ),
            ),
            (
                &[
                    "1",
                    "--selector",
                    "a",
                    "--window",
                    "0 2 * * *:3h",
                    "--tz",
                    "Asia/Tokyo",
                    "--include-later",
                ],
                Some(
                    r#"{"payload":1,"selector":"a","window":{"cron":"0 2 * * *","for":"3h","tz":"Asia/Tokyo"},"include_later":true}"#,
                ),
            ),
            (&["1"], None),
            (&["1", "--selector", "a", "--stop-at", "10"], None),
            (&["1", "--selector", "a", "--stop-after", "10"], None),
        ] {
            assert_eq!(body(words).as_deref(), expect, "{words:?}");
        }
    }
}
