//! What is told of a worker: a line for each job on stderr, where what the commands print is not.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::duration;
use fieldpost_client::{ControlState, JobReservation, QueueControl, WorkerEvent};
use serde_json::{Value, json};

use crate::failure::CommandFailure;
use crate::table::{grouped, plain};

/// Tells what happens, and counts what did not go well.
pub(super) struct WorkLog {
    json: bool,
    failed: AtomicU64,
}

impl WorkLog {
    pub(super) fn new(json: bool) -> Self {
        Self { json, failed: AtomicU64::new(0) }
    }

    pub(super) fn record(&self, event: &WorkerEvent) {
        if matches!(event, WorkerEvent::Failed { .. } | WorkerEvent::Lost { .. } | WorkerEvent::Untold { .. })
        {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        let line = if self.json { document(event).map(|document| document.to_string()) } else { text(event) };
        if let Some(line) = line {
            // When nobody can be told, the work still counts.
            drop(writeln!(io::stderr(), "{line}"));
        }
    }

    /// An error where anything failed: a script that drains a queue has to notice.
    pub(super) fn verdict(&self) -> Result<(), CommandFailure> {
        match self.failed.load(Ordering::Relaxed) {
            0 => Ok(()),
            1 => Err(CommandFailure::Incomplete("one attempt failed".to_owned())),
            count => Err(CommandFailure::Incomplete(format!("{} attempts failed", grouped(count)))),
        }
    }
}

/// For people.
fn text(event: &WorkerEvent) -> Option<String> {
    let of = |job: &JobReservation, what: &str| Some(format!("{} {}", plain(job.id.as_str()), plain(what)));
    match event {
        WorkerEvent::Done { job } => of(job, "done"),
        WorkerEvent::Failed { job, error, again_in } => {
            let error = error.lines().last().unwrap_or_default();
            let next = again_in.map_or_else(
                || "that was its last try".to_owned(),
                |span| format!("again in {}", rough(span)),
            );
            of(job, &format!("failed: {error}; {next}"))
        }
        WorkerEvent::Lost { job } => of(job, "lost: its reservation holds no longer"),
        WorkerEvent::Untold { job, error } => {
            of(job, &format!("ended, but the server could not be told: {error}"))
        }
        WorkerEvent::Away { error, again_in } => {
            let error = plain(&error.to_string());
            Some(format!("{error}; asked again in {}", rough(*again_in)))
        }
        WorkerEvent::Control { control: Some(control) } => {
            Some(format!("the queue's workers are told: {}", control_text(control)))
        }
        WorkerEvent::Control { control: None } => {
            Some("the queue's workers are told nothing any more".to_owned())
        }
        WorkerEvent::Stopping { running } if *running > 0 => Some(format!("stopping: {running} still run")),
        _ => None,
    }
}

fn control_text(control: &QueueControl) -> String {
    let state = match control.state {
        ControlState::Run => "run",
        ControlState::Drain => "drain",
        ControlState::Stop => "stop",
    };
    match control.max_in_flight {
        Some(jobs) => format!("{state}, at most {} at a time", grouped(jobs)),
        None => state.to_owned(),
    }
}

/// A span without the digits that only chance gave it.
fn rough(span: Duration) -> String {
    let unit = if span < Duration::from_secs(1) { 10 } else { 1_000 };
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    duration::format(Duration::from_millis(millis - millis % unit))
}

/// For programs.
fn document(event: &WorkerEvent) -> Option<Value> {
    let of = |job: &JobReservation, what: &str| -> Value {
        json!({ "event": what, "id": job.id.as_str(), "queue": job.queue })
    };
    let with = |mut document: Value, field: &str, value: String| {
        document[field] = value.into();
        Some(document)
    };
    match event {
        WorkerEvent::Begun { job, attempt } => {
            let mut document = of(job, "begun");
            document["attempt"] = (*attempt).into();
            Some(document)
        }
        WorkerEvent::Done { job } => Some(of(job, "done")),
        WorkerEvent::Failed { job, error, .. } => with(of(job, "failed"), "error", error.clone()),
        WorkerEvent::Lost { job } => Some(of(job, "lost")),
        WorkerEvent::Untold { job, error } => with(of(job, "untold"), "error", error.to_string()),
        WorkerEvent::Away { error, .. } => with(json!({ "event": "away" }), "error", error.to_string()),
        WorkerEvent::Control { control } => Some(json!({ "event": "control", "control": control })),
        WorkerEvent::Stopping { running } => Some(json!({ "event": "stopping", "running": running })),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use fieldpost_client::JobId;

    use super::*;

    fn failed(again_in: Option<Duration>) -> WorkerEvent {
        let job = JobReservation { queue: "mail".to_owned(), id: JobId::new("01J"), token: "R".to_owned() };
        WorkerEvent::Failed { job, error: "exit status: 3: no ink\nno paper".to_owned(), again_in }
    }

    #[test]
    fn a_failure_is_told_with_what_was_said_last_and_when_it_is_tried_again() {
        for (again_in, says) in [
            (Some(Duration::from_millis(2_148)), "01J failed: no paper; again in 2s"),
            (Some(Duration::from_millis(148)), "01J failed: no paper; again in 140ms"),
            (None, "01J failed: no paper; that was its last try"),
        ] {
            assert_eq!(text(&failed(again_in)).as_deref(), Some(says));
        }
        let document = document(&failed(None)).expect("it is told");
        assert_eq!((&document["event"], &document["id"]), (&json!("failed"), &json!("01J")));
    }
}
