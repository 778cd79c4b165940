//! Publishing a job, and changing one that waits.

use clap::{ArgGroup, Args, ValueEnum};
use serde::Serialize;
use serde_json::value::RawValue;

use super::OneJob;
use super::view::{PublishedView, ShownJob};
use crate::api::ServerApi;
use crate::failure::CommandFailure;
use crate::payload_flags::PayloadFlags;
use crate::queue::QueueArgs;
use crate::screen::Screen;

/// When a job runs.
#[derive(Args, Debug)]
struct DueFlags {
    /// Not before this is over (30s, 2h30m).
    #[arg(long, value_name = "DURATION", group = "due")]
    delay: Option<String>,
    /// Not before this time (2026-11-21T01:02:03Z).
    #[arg(long, value_name = "TIME", group = "due")]
    run_at: Option<String>,
}

#[derive(Args, Debug)]
pub struct PublishJob {
    #[command(flatten)]
    place: QueueArgs,
    #[command(flatten)]
    carried: PayloadFlags,
    #[command(flatten)]
    due: DueFlags,
    /// Drop it if it was not done by then (1h, 7d).
    #[arg(long, value_name = "DURATION")]
    ttl: Option<String>,
    /// So many attempts, the first included; 1 if left out.
    #[arg(long, value_name = "N")]
    tries: Option<u32>,
    /// An id of your own, which no other waiting or reserved job of the queue may have.
    #[arg(long)]
    alias: Option<String>,
    /// What to do when another job has the alias.
    #[arg(long, value_enum, value_name = "WHAT", requires = "alias")]
    on_conflict: Option<ConflictChoice>,
    /// Jobs of a group run one at a time, in order.
    #[arg(long)]
    group: Option<String>,
    /// It comes again, so long after it was due before (5m, 1d).
    #[arg(long, value_name = "DURATION", group = "recurs")]
    every: Option<String>,
    /// It comes again, by a cron expression ('0 9 * * 1-5').
    #[arg(long, value_name = "EXPRESSION", group = "recurs")]
    cron: Option<String>,
    /// The time zone of the cron expression (Europe/Berlin); UTC if left out.
    #[arg(long, value_name = "ZONE", requires = "cron")]
    tz: Option<String>,
    /// It comes so many times.
    #[arg(long, value_name = "N", requires = "recurs")]
    executions: Option<u32>,
    /// Publish only once, however often this is asked with the same key within a day.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("changes").required(true).multiple(true).args(["payload", "file", "delay", "run_at"]))]
pub struct ChangeJob {
    #[command(flatten)]
    one: OneJob,
    #[command(flatten)]
    carried: PayloadFlags,
    #[command(flatten)]
    due: DueFlags,
}

/// What to do when another job has the alias.
#[derive(Clone, Copy, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
enum ConflictChoice {
    /// Refuse this one.
    Reject,
    /// Put this one in its place; behind it, if it is with a consumer.
    Replace,
    /// Keep that one; put this one behind it, if it is with a consumer.
    Keep,
}

/// A job, or a change of one, on its way out.
#[derive(Serialize)]
struct PublishBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_at: Option<&'a str>,
    #[serde(flatten)]
    terms: Option<TermsBody<'a>>,
}

#[derive(Serialize)]
struct TermsBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tries: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    alias: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_conflict: Option<ConflictChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    every: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tz: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    executions: Option<u32>,
}

impl PublishJob {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let path = self.place.below(&["jobs"]);
        let answer = api.post_once(&path, &self.body()?, self.idempotency_key.as_deref())?;
        screen.show(&answer, || Ok(api.read::<PublishedView>(&answer)?.to_text()))
    }

    fn body(&self) -> Result<PublishBody<'_>, CommandFailure> {
        let (payload, payload_base64) = self.carried.read_or_null()?;
        let terms = TermsBody {
            ttl: self.ttl.as_deref(),
            tries: self.tries,
            alias: self.alias.as_deref(),
            on_conflict: self.on_conflict,
            group: self.group.as_deref(),
            every: self.every.as_deref(),
            cron: self.cron.as_deref(),
            tz: self.tz.as_deref(),
            executions: self.executions,
        };
        Ok(PublishBody {
            payload,
            payload_base64,
            delay: self.due.delay.as_deref(),
            run_at: self.due.run_at.as_deref(),
            terms: Some(terms),
        })
    }
}

impl ChangeJob {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let (payload, payload_base64) = self.carried.read()?;
        let (delay, run_at) = (self.due.delay.as_deref(), self.due.run_at.as_deref());
        let body = PublishBody { payload, payload_base64, delay, run_at, terms: None };
        let job = api.patch(&self.one.path(), &body)?;
        screen.show(&job, || Ok(api.read::<ShownJob>(&job)?.facts()))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        publish: PublishJob,
    }

    fn body(words: &[&str]) -> Option<String> {
        let words = ["test", "shop", "mail"].iter().chain(words);
        let line = Line::try_parse_from(words).ok()?;
        let body = line.publish.body().expect("no file is read");
        Some(serde_json::to_string(&body).expect("a body has only names for keys"))
    }

    #[test]
    fn a_job_says_what_was_given_and_nothing_else() {
        for (words, expect) in [
            (&[][..], Some(r#"{"payload":null}"#)),
            (
                &["--payload", r#"{"n": 1.50}"#, "--delay", "30s"],
                Some(r#"{"payload":{"n": 1.50},"delay":"30s"}"#),
            ),
            (
                &[
                    "--payload",
                    "-1",
                    "--every",
                    "5m",
                    "--executions",
                    "3",
                    "--run-at",
                    "2026-11-21T00:00:00Z",
                ],
                Some(r#"{"payload":-1,"run_at":"2026-11-21T00:00:00Z","every":"5m","executions":3}"#),
            ),
            (
                &["--cron", "0 9 * * *", "--tz", "Europe/Berlin", "--alias", "a", "--on-conflict", "keep"],
                Some(
                    r#"{"payload":null,"alias":"a","on_conflict":"keep","cron":"0 9 * * *","tz":"Europe/Berlin"}"#,
                ),
            ),
            (
                &["--ttl", "1h", "--tries", "5", "--group", "g"],
                Some(r#"{"payload":null,"ttl":"1h","tries":5,"group":"g"}"#),
            ),
        ] {
            assert_eq!(body(words).as_deref(), expect, "{words:?}");
        }
    }

    #[test]
    fn what_excludes_itself_is_refused_before_anything_is_sent() {
        for words in [
            &["--payload", "open"][..],
            &["{}"],
            &["--payload", "1", "--file", "f"],
            &["--bytes"],
            &["--bytes", "--payload", "1"],
            &["--delay", "1s", "--run-at", "2026-11-21T00:00:00Z"],
            &["--every", "1s", "--cron", "* * * * *"],
            &["--tz", "UTC"],
            &["--executions", "3"],
            &["--on-conflict", "keep"],
            &["--on-conflict", "nothing", "--alias", "a"],
        ] {
            assert_eq!(body(words), None, "{words:?}");
        }
    }
}
