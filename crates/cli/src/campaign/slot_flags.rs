//! How the slots of a campaign lie, and who is told their results, as flags and as they are sent.

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::receiver::GivenReceiver;

/// How slots lie: what is not given is not sent.
#[derive(Args, Debug, Serialize)]
pub(super) struct SlotFlags {
    /// Ask as many devices as --count says, once in each span of this length (5m).
    #[arg(long, value_name = "DURATION", conflicts_with = "over")]
    #[serde(skip_serializing_if = "Option::is_none")]
    every: Option<String>,
    /// Ask as many devices as --count says in total over each span of this length, evenly spread
    /// (1h).
    #[arg(long, value_name = "DURATION")]
    #[serde(skip_serializing_if = "Option::is_none")]
    over: Option<String>,
    /// No slot before this time (2026-11-21T01:02:03Z).
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// No slot from this time on.
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    /// What becomes of slots that the server was not there for; skip if left out.
    #[arg(long, value_enum, value_name = "CHOICE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<Missed>,
    /// By how much slots are shifted from multiples of their interval; the server levels the
    /// minutes if it is left out.
    #[arg(long, value_name = "DURATION")]
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<String>,
}

/// What becomes of slots that were missed.
#[derive(Clone, Copy, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
enum Missed {
    /// They are skipped.
    Skip,
    /// The newest one is done late.
    #[value(alias = "catch_up")]
    CatchUp,
}

/// Who is told each result.
#[derive(Args, Debug)]
pub(super) struct ResultFlags {
    /// Publish each result as a job of this queue.
    #[arg(long, value_name = "NAMESPACE/QUEUE", group = "results")]
    results_queue: Option<String>,
    /// Append each result to this stream, as a message.
    #[arg(long, value_name = "NAMESPACE/STREAM", group = "results")]
    results_stream: Option<String>,
    /// Post each result to this URL, signed.
    #[arg(long, value_name = "URL", group = "results")]
    results_url: Option<String>,
}

impl ResultFlags {
    pub(super) fn given(&self) -> Option<GivenReceiver<'_>> {
        let stream = self.results_stream.as_deref().map(GivenReceiver::Stream);
        stream.or(GivenReceiver::of(self.results_queue.as_deref(), self.results_url.as_deref()))
    }
}
