//! What is told of a worker: a line for each job on stderr, where what the commands print is not.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use base::duration;
use fieldpost_client::{Event, Held};
use serde_json::{Value, json};

use crate::cli::remote::failure::Failure;
use crate::cli::remote::table::{grouped, plain};

/// Tells what happens, and counts what did not go well.
pub(super) struct Told {
    json: bool,
    failed: AtomicU64,
}

impl Told {
    pub(super) fn new(json: bool) -> Self {
        Self { json, failed: AtomicU64::new(0) }
    }

    pub(super) fn tell(&self, event: &Event) {
        if matches!(event, Event::Failed { .. } | Event::Lost { .. } | Event::Untold { .. }) {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        let line = if self.json { document(event).map(|document| document.to_string()) } else { text(event) };
        if let Some(line) = line {
            // When nobody can be told, the work still counts.
            drop(writeln!(io::stderr(), "{line}"));
        }
    }

    /// An error where anything failed: a script that drains a queue has to notice.
    pub(super) fn verdict(&self) -> Result<(), Failure> {
        match self.failed.load(Ordering::Relaxed) {
            0 => Ok(()),
            1 => Err(Failure::Incomplete("one attempt failed".to_owned())),
            count => Err(Failure::Incomplete(format!("{} attempts failed", grouped(count)))),
        }
    }
}

/// For people.
fn text(event: &Event) -> Option<String> {
    let of = |job: &Held, what: &str| Some(format!("{} {}", plain(job.id.as_str()), plain(what)));
    match event {
        Event::Done { job } => of(job, "done"),
        Event::Failed { job, error, delay } => {
            let error = error.lines().last().unwrap_or_default();
            of(job, &format!("failed: {error}; to be tried again after {}", duration::format(*delay)))
        }
        Event::Lost { job } => of(job, "lost: its reservation holds no longer"),
        Event::Untold { job, error } => of(job, &format!("ended, but the server could not be told: {error}")),
        Event::Away { error, again_in } => {
            let error = plain(&error.to_string());
            Some(format!("{error}; asked again in {}", duration::format(*again_in)))
        }
        Event::Stopping { running } if *running > 0 => Some(format!("stopping: {running} still run")),
        _ => None,
    }
}

/// For programs.
fn document(event: &Event) -> Option<Value> {
    let of = |job: &Held, what: &str| json!({ "event": what, "id": job.id.as_str(), "queue": job.queue });
    let with = |mut document: Value, field: &str, value: String| {
        document[field] = value.into();
        Some(document)
    };
    match event {
        Event::Begun { job, attempt } => {
            let mut document = of(job, "begun");
            document["attempt"] = (*attempt).into();
            Some(document)
        }
        Event::Done { job } => Some(of(job, "done")),
        Event::Failed { job, error, .. } => with(of(job, "failed"), "error", error.clone()),
        Event::Lost { job } => Some(of(job, "lost")),
        Event::Untold { job, error } => with(of(job, "untold"), "error", error.to_string()),
        Event::Away { error, .. } => with(json!({ "event": "away" }), "error", error.to_string()),
        Event::Stopping { running } => Some(json!({ "event": "stopping", "running": running })),
        _ => None,
    }
}
