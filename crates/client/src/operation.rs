//! Operations: one action on everything that matches.

use std::collections::BTreeMap;
use std::time::SystemTime;

use hyper::Method;
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::error::Error;
use crate::id::text_id;
use crate::path::Path;
use crate::queue_stats::{Cursor, Page};
use crate::request::Request;
use crate::retry::{Repeat, idempotency_key};
use crate::span::{maybe_moment, moment};

text_id! {
    /// An operation's id.
    OperationId
}

/// An operation to be begun: an action, and what it is done to.
#[derive(Clone, Debug, Serialize)]
pub struct NewOperation {
    action: String,
    filter: OperationFilter,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<u32>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
}

#[derive(Clone, Debug, Default, Serialize)]
struct OperationFilter {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ids: Vec<String>,
    #[serde(flatten)]
    parameters: BTreeMap<String, String>,
}

impl NewOperation {
    /// An action on everything that its list shows: `dead.respawn`, `deliveries.retry`,
    /// `devices.label` and others.
    #[must_use]
    pub fn new(action: impl Into<String>) -> Self {
        Self {
            action: action.into(),
            filter: OperationFilter::default(),
            labels: BTreeMap::new(),
            client: None,
            rate: None,
            dry_run: false,
        }
    }

    /// Only on what has this: a parameter of the list that the action is about.
    #[must_use]
    pub fn filter(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.filter.parameters.insert(name.into(), value.into());
        self
    }

    /// On dead letters or jobs of this queue.
    #[must_use]
    pub fn queue(self, namespace: &str, queue: &str) -> Self {
        self.filter("queue", format!("{namespace}/{queue}"))
    }

    /// Only on these, up to 1,000.
    #[must_use]
    pub fn ids<I: Into<String>>(mut self, ids: impl IntoIterator<Item = I>) -> Self {
        self.filter.ids.extend(ids.into_iter().map(Into::into));
        self
    }

    /// Gives devices a label, or takes it away.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: Option<&str>) -> Self {
        self.labels.insert(key.into(), value.map(str::to_owned));
        self
    }

    /// The client that devices are linked to, or unlinked from.
    #[must_use]
    pub fn client(self, client: impl Into<String>) -> Self {
        Self { client: Some(client.into()), ..self }
    }

    /// Rows in a second.
    #[must_use]
    pub fn rate(self, rate: u32) -> Self {
        Self { rate: Some(rate), ..self }
    }
}

/// An operation, and how far it has come.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Operation {
    /// Its id.
    pub id: OperationId,
    /// What is done.
    pub action: String,
    /// Whether it goes on.
    pub status: OperationStatus,
    /// Rows that were found so far.
    pub matched: u64,
    /// Rows to which it was done.
    pub done: u64,
    /// Rows for which it was refused.
    pub refused: u64,
    /// Rows that are gone, or were so already.
    pub skipped: u64,
    /// When it was asked for.
    #[serde(with = "moment")]
    pub created_at: SystemTime,
    /// When it ended.
    #[serde(default, with = "maybe_moment")]
    pub ended_at: Option<SystemTime>,
    /// The name of the token that began it.
    #[serde(default)]
    pub by: Option<String>,
    /// The latest refusal, what it waits for, or why it failed.
    #[serde(default)]
    pub last_error: Option<OperationRefusal>,
}

/// Whether an operation goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OperationStatus {
    /// It goes on.
    Running,
    /// Every row had its turn.
    Done,
    /// It was called off.
    Cancelled,
    /// It cannot go on.
    Failed,
}

/// A refusal within an operation.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct OperationRefusal {
    /// Its stable code.
    pub code: String,
    /// For people.
    pub detail: String,
    /// The row; empty where it is about the operation as a whole.
    pub subject: String,
}

/// What an operation would be done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct OperationCount {
    /// Rows that match.
    pub matched: u64,
    /// Rows that were looked at.
    pub looked_at: u64,
    /// Whether that were all; else there may be more.
    pub complete: bool,
}

/// The operations of a server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Operations {
    client: Client,
}

impl Operations {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Begins an operation. It is durable when this returns, and goes on by itself.
    ///
    /// # Errors
    /// 409 `too_many_operations`, 403 for what the token may not do to one row; see [`Error`].
    pub async fn begin(&self, operation: &NewOperation) -> Result<Operation, Error> {
        self.post(operation).await
    }

    /// Counts what an operation would be done to, and changes nothing.
    ///
    /// # Errors
    /// See [`Operations::begin`].
    pub async fn count(&self, operation: &NewOperation) -> Result<OperationCount, Error> {
        self.post(&NewOperation { dry_run: true, ..operation.clone() }).await
    }

    async fn post<T: serde::de::DeserializeOwned>(&self, operation: &NewOperation) -> Result<T, Error> {
        let request = Request::document(Method::POST, Path::of(&["operations"]), operation)?;
        let idempotency_key = idempotency_key();
        // Without a key a second try might begin a second operation.
        let repeat = if idempotency_key.is_some() { Repeat::Harmless } else { Repeat::Harmful };
        self.client.fetch(&Request { idempotency_key, ..request }, repeat).await
    }

    /// An operation.
    ///
    /// # Errors
    /// 404 `unknown_operation`; see [`Error`].
    pub async fn get(&self, id: &OperationId) -> Result<Operation, Error> {
        self.client.fetch(&Request::new(Method::GET, of(id)), Repeat::Harmless).await
    }

    /// Operations, the newest first.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn list(&self, after: Option<&Cursor>) -> Result<Page<Operation>, Error> {
        let path = Path::of(&["operations"]);
        let path = after.iter().fold(path, |path, cursor| path.with("cursor", cursor.as_str()));
        self.client.fetch(&Request::new(Method::GET, path), Repeat::Harmless).await
    }

    /// Has an operation do no more. What was done stays done.
    ///
    /// # Errors
    /// 404 `unknown_operation`, 409 `finished` once it has ended; see [`Error`].
    pub async fn cancel(&self, id: &OperationId) -> Result<(), Error> {
        self.client.order(&Request::new(Method::DELETE, of(id)), Repeat::Harmful).await
    }
}

fn of(id: &OperationId) -> Path {
    Path::of(&["operations", id.as_str()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_says_only_what_was_said_of_it() {
        for (operation, expect) in [
            (NewOperation::new("devices.delete"), r#"{"action":"devices.delete","filter":{}}"#),
            (
                NewOperation::new("dead.respawn").queue("shop", "mail").rate(5),
                r#"{"action":"dead.respawn","filter":{"queue":"shop/mail"},"rate":5}"#,
            ),
            (
                NewOperation::new("devices.label")
                    .ids(["a", "b"])
                    .label("old", None)
                    .label("site", Some("12")),
                r#"{"action":"devices.label","filter":{"ids":["a","b"]},"labels":{"old":null,"site":"12"}}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&operation).expect("JSON"), expect);
        }
    }
}
