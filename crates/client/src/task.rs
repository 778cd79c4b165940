//! Tasks: some devices of many are asked once.

use std::time::{Duration, SystemTime};

use hyper::Method;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::client::Client;
use crate::command::{CommandId, LateAnswer, OutcomeTarget, secret};
use crate::commands::CONFLICT;
use crate::error::Error;
use crate::id::text_id;
use crate::path::Path;
use crate::picks::Picks;
use crate::queue_stats::{Cursor, FeedPage};
use crate::request::Request;
use crate::retry::{Repeat, idempotency_key};
use crate::span::{Milliseconds, maybe_moment, moment};

text_id! {
    /// A task's id.
    TaskId
}

/// A task to be begun.
#[derive(Clone, Debug, Serialize)]
pub struct TaskPlan {
    payload: Box<RawValue>,
    #[serde(flatten)]
    picks: Picks,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<Milliseconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notify: Option<OutcomeTarget>,
}

impl TaskPlan {
    /// A task that asks devices this value: up to 256 KiB of JSON.
    ///
    /// # Errors
    /// [`Error::Unwritable`] when the value cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(value: &T, picks: Picks) -> Result<Self, Error> {
        Ok(Self { payload: to_raw_value(value)?, picks, deadline: None, notify: None })
    }

    /// How long devices that drop out are replaced by others: 1 second to 1 hour, 30 seconds unless
    /// it is said here.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline: Some(Milliseconds(deadline)), ..self }
    }

    /// Its end becomes a job of this queue; in place of [`TaskPlan::notify_url`].
    #[must_use]
    pub fn notify_queue(self, namespace: &str, queue: &str) -> Self {
        Self { notify: OutcomeTarget::queue(namespace, queue), ..self }
    }

    /// Its end is posted to this URL, signed with the secret that [`Task`] shows once; in place of
    /// [`TaskPlan::notify_queue`].
    #[must_use]
    pub fn notify_url(self, url: impl Into<String>) -> Self {
        Self { notify: OutcomeTarget::url(url), ..self }
    }
}

/// A task, and what came of its picks.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// Whether it goes on.
    pub status: TaskStatus,
    /// How many devices were asked for.
    pub wanted: u32,
    /// How many were picked, replacements included.
    pub picked: u32,
    /// How many did it.
    pub answered: u32,
    /// How many said that they could not.
    pub failed: u32,
    /// How many did not answer in time, or went away.
    pub expired: u32,
    /// In whose place another device was picked.
    pub replaced: u32,
    /// The first 1,000 results, where they were waited for.
    #[serde(default)]
    pub results: Vec<PickResult>,
    /// With [`TaskPlan::notify_url`]: what the POST is signed with. It is not shown again.
    #[serde(rename = "notify", default, deserialize_with = "secret")]
    pub secret: Option<String>,
}

/// Whether a task goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskStatus {
    /// It goes on.
    Running,
    /// Every pick has ended.
    Done,
    /// It was called off.
    Cancelled,
}

/// What came of a device that was picked.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct PickResult {
    /// The device.
    pub device_id: String,
    /// The slot of its campaign.
    #[serde(default)]
    pub slot: Option<u64>,
    /// When it was picked.
    #[serde(with = "moment")]
    pub picked_at: SystemTime,
    /// When it answered.
    #[serde(default, with = "maybe_moment")]
    pub answered_at: Option<SystemTime>,
    /// When its pick ended.
    #[serde(default, with = "maybe_moment")]
    pub ended_at: Option<SystemTime>,
    /// What came of it.
    pub outcome: DeviceOutcome,
    /// The device's command.
    #[serde(default)]
    pub command_id: Option<CommandId>,
    /// Why it did not succeed: `not_sent`, `no_answer`, `went_away` or `refused`.
    #[serde(default)]
    pub reason: Option<String>,
    /// What the device said.
    #[serde(default)]
    pub result: Option<Box<RawValue>>,
    /// The device's answer after the end.
    #[serde(default)]
    pub late: Option<LateAnswer>,
}

/// What came of a pick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DeviceOutcome {
    /// The device did it.
    Answered,
    /// The device said that it could not.
    Failed,
    /// The device did not answer in time, or went away.
    Expired,
}

/// The tasks of a server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Tasks {
    client: Client,
}

impl Tasks {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Begins a task. It is durable with its picks when this returns, and goes on by itself.
    ///
    /// Where an answer is lost it is asked again under the same idempotency key, and there is still
    /// one task.
    ///
    /// # Errors
    /// 422 `bad_selector`, 403 for what the token may not ask, 429 `picks_exhausted`; see
    /// [`Error`].
    pub async fn begin(&self, task: &TaskPlan) -> Result<Task, Error> {
        let (request, repeat) = beginning(task, Path::of(&["tasks"]))?;
        self.client.fetch(&request, repeat).await
    }

    /// Begins a task and waits up to five minutes for its end. Gives the task with its results once
    /// it has ended, or as it is when `wait` is over.
    ///
    /// # Errors
    /// See [`Tasks::begin`].
    pub async fn run(&self, task: &TaskPlan, wait: Duration) -> Result<Task, Error> {
        let path = Path::of(&["tasks"]).with("wait", &Milliseconds(wait).to_string());
        let (request, repeat) = beginning(task, path)?;
        let timeout = self.client.timeout_of(&request) + wait;
        self.client.fetch(&request.timeout(timeout), repeat).await
    }

    /// A task.
    ///
    /// # Errors
    /// 404 `unknown_task`, also a day after its end; see [`Error`].
    pub async fn get(&self, id: &TaskId) -> Result<Task, Error> {
        self.client.fetch(&Request::new(Method::GET, of(id)), Repeat::Harmless).await
    }

    /// Results, in the order in which picks ended, from a place on. The first one is waited for as
    /// long as `wait` says, up to a minute.
    ///
    /// # Errors
    /// 404 `unknown_task`; see [`Error`].
    pub async fn results(
        &self,
        id: &TaskId,
        after: Option<&Cursor>,
        wait: Duration,
    ) -> Result<FeedPage<PickResult>, Error> {
        self.client.follow(of(id).and(&["results"]), after, wait).await
    }

    /// Stops a task: what was not sent to a device yet is cancelled.
    ///
    /// # Errors
    /// 404 `unknown_task`, 409 `finished` once it has ended; see [`Error`].
    pub async fn cancel(&self, id: &TaskId) -> Result<(), Error> {
        match self.client.ask(&Request::new(Method::DELETE, of(id)), Repeat::Harmless).await {
            Ok(_) => Ok(()),
            // An earlier try of this call, whose answer was lost, may have done it.
            Err(failed) if failed.perhaps_done && failed.error.status() == Some(CONFLICT) => {
                let is_cancelled = self.get(id).await?.status == TaskStatus::Cancelled;
                if is_cancelled { Ok(()) } else { Err(failed.error) }
            }
            Err(failed) => Err(failed.error),
        }
    }
}

fn beginning(task: &TaskPlan, path: Path) -> Result<(Request, Repeat), Error> {
    let request = Request::document(Method::POST, path, task)?;
    let idempotency_key = idempotency_key();
    // Without a key a second try might begin a second task.
    let repeat = if idempotency_key.is_some() { Repeat::Harmless } else { Repeat::Harmful };
    Ok((Request { idempotency_key, ..request }, repeat))
}

fn of(id: &TaskId) -> Path {
    Path::of(&["tasks", id.as_str()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picks::CustomerClass;

    #[test]
    fn a_task_says_only_what_was_said_of_it() {
        for (task, expect) in [
            (TaskPlan::json(&7, Picks::of(100)), r#"{"payload":7,"count":100}"#),
            (
                TaskPlan::json(
                    &7,
                    Picks::of(1).place("CN_52").class(CustomerClass::Large).not_as(&TaskId::new("t")),
                )
                .map(|task| task.deadline(Duration::from_secs(20)).notify_queue("ops", "done")),
                r#"{"payload":7,"count":1,"place":"CN_52","not_as":"t","class":"large","deadline":"20000ms","notify":{"queue":"ops/done"}}"#,
            ),
            (
                TaskPlan::json(
                    "x",
                    Picks::of(2).devices(["a", "b"]).exclude("kind=lock").spread_by("operator"),
                ),
                r#"{"payload":"x","count":2,"devices":["a","b"],"exclude":"kind=lock","spread_by":"operator"}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&task.expect("a task")).expect("JSON"), expect);
        }
    }
}
