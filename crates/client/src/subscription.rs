//! A reader of a stream whose place the server keeps.

use std::collections::VecDeque;
use std::time::Duration;

use hyper::Method;
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::error::Error;
use crate::message::{MessageId, ReceivedMessage, ReceivedPage};
use crate::path::Path;
use crate::request::Request;
use crate::retry::Repeat;
use crate::span::Milliseconds;

/// Messages that are read at a time where nothing is said.
const LIMIT: usize = 100;
/// How long a reader that follows waits at the end before it asks again.
const WAIT: Duration = Duration::from_secs(30);

/// A subscription of a stream, read under the name of one reader. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MessageSubscription {
    client: Client,
    path: Path,
    reader: String,
    limit: usize,
    ttl: Option<Duration>,
}

/// What a subscription is to be. What is left out stays as it is, or has its default.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SubscriptionTerms {
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    segment: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    push: Option<PushTerms>,
}

#[derive(Clone, Debug, Serialize)]
struct PushTerms {
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<u32>,
}

impl SubscriptionTerms {
    /// It begins behind this message; one that is there goes on from there.
    #[must_use]
    pub fn after(self, id: &MessageId) -> Self {
        Self { from: Some(id.to_string()), ..self }
    }

    /// It begins behind the newest message; one that is there skips what it has not read.
    #[must_use]
    pub fn at_end(self) -> Self {
        Self { from: Some("end".to_owned()), ..self }
    }

    /// It gives only messages of these segments.
    #[must_use]
    pub fn segments<'a>(self, segments: impl IntoIterator<Item = &'a str>) -> Self {
        let segments: Vec<_> = segments.into_iter().collect();
        Self { segment: Some(segments.join(",")), ..self }
    }

    /// Its messages are posted to this URL, in their order, up to `max` at a time.
    #[must_use]
    pub fn push_to(self, url: impl Into<String>, max: Option<u32>) -> Self {
        Self { push: Some(PushTerms { url: url.into(), max }), ..self }
    }
}

/// How a subscription stands.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SubscriptionSummary {
    /// Its name.
    pub name: String,
    /// Everything up to this message is read.
    pub position: MessageId,
    /// Messages behind it; with segments, those of others count too.
    pub lag: u64,
    /// Who reads at the moment.
    pub reader: Option<String>,
    /// The only segments that it gives.
    pub segment: Option<String>,
    /// Where it is pushed.
    pub push: Option<PushSummary>,
}

/// Where a subscription is pushed, and how that goes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct PushSummary {
    /// The URL.
    pub url: String,
    /// Most messages of a post.
    pub max: u32,
    /// Posts that were not taken, one after the other.
    pub failures: u64,
    /// What came of the latest one of these.
    pub error: Option<String>,
    /// What posts are signed with, only where it was just made.
    #[serde(default)]
    pub secret: Option<String>,
}

#[derive(Serialize)]
struct SubscriptionReadForm<'a> {
    reader: &'a str,
    limit: usize,
    wait: Milliseconds,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<Milliseconds>,
}

#[derive(Serialize)]
struct CommitForm<'a> {
    reader: &'a str,
    id: &'a MessageId,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    rewind: bool,
}

impl MessageSubscription {
    pub(crate) fn new(client: Client, path: Path, reader: String) -> Self {
        Self { client, path, reader, limit: LIMIT, ttl: None }
    }

    /// The same, reading at most so many messages at a time, up to 1,000.
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// The same, where nobody else reads for so long after a call; 30 s otherwise.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl: Some(ttl), ..self }
    }

    /// Makes it, and its stream, or changes it.
    ///
    /// # Errors
    /// 422 for what is not allowed, 429 `too_many_subscriptions`; see [`Error`].
    pub async fn put(&self, terms: &SubscriptionTerms) -> Result<SubscriptionSummary, Error> {
        let request = Request::document(Method::PUT, self.path.clone(), terms)?;
        self.client.fetch(&request, Repeat::Harmless).await
    }

    /// What comes behind its position; waits so long for the first message, up to a minute.
    ///
    /// # Errors
    /// 409 `subscription_busy` while somebody else reads; see [`Error`].
    pub async fn read(&self, wait: Duration) -> Result<ReceivedPage, Error> {
        let body = SubscriptionReadForm {
            reader: &self.reader,
            limit: self.limit,
            wait: Milliseconds(wait),
            ttl: self.ttl.map(Milliseconds),
        };
        let request = Request::document(Method::POST, self.path.clone().and(&["read"]), &body)?;
        let timeout = self.client.timeout_of(&request) + wait;
        self.client.fetch(&request.timeout(timeout), Repeat::Harmless).await
    }

    /// Everything up to this message is read; durable when this returns.
    ///
    /// # Errors
    /// 409 `position_behind` for one that is read already; see [`Error`].
    pub async fn commit(&self, id: &MessageId) -> Result<(), Error> {
        self.move_to(id, false).await
    }

    /// Goes back, or forth: what is behind this message is to be read.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn rewind(&self, id: &MessageId) -> Result<(), Error> {
        self.move_to(id, true).await
    }

    async fn move_to(&self, id: &MessageId, rewind: bool) -> Result<(), Error> {
        let body = CommitForm { reader: &self.reader, id, rewind };
        let request = Request::document(Method::POST, self.path.clone().and(&["commit"]), &body)?;
        self.client.order(&request, Repeat::Harmless).await
    }

    /// Reads on and on: what is there, and every message as it comes.
    #[must_use]
    pub fn follow(&self) -> SubscriptionReader {
        SubscriptionReader { subscription: self.clone(), taken: VecDeque::new(), next_after: None }
    }

    /// How far it is behind.
    ///
    /// # Errors
    /// 404 `unknown_subscription`; see [`Error`].
    pub async fn summary(&self) -> Result<SubscriptionSummary, Error> {
        self.client.fetch(&Request::new(Method::GET, self.path.clone()), Repeat::Harmless).await
    }

    /// Deletes it.
    ///
    /// # Errors
    /// 404 `unknown_subscription`; see [`Error`].
    pub async fn delete(&self) -> Result<(), Error> {
        match self.client.ask(&Request::new(Method::DELETE, self.path.clone()), Repeat::Harmless).await {
            Ok(_) => Ok(()),
            // An earlier try of this call, whose answer was lost, has done it.
            Err(failed) if failed.perhaps_done && failed.error.code() == Some("unknown_subscription") => {
                Ok(())
            }
            Err(failed) => Err(failed.error),
        }
    }
}

/// A reader that goes on. What it gave is committed when more is read: whoever drops it gets the
/// latest messages again.
#[derive(Debug)]
pub struct SubscriptionReader {
    subscription: MessageSubscription,
    taken: VecDeque<ReceivedMessage>,
    /// Up to where the page that was given last goes.
    next_after: Option<MessageId>,
}

impl SubscriptionReader {
    /// The next message, once there is one. Commits those of the page before when it is used up.
    ///
    /// # Errors
    /// 409 `subscription_busy` where somebody else reads now; see [`Error`].
    pub async fn next(&mut self) -> Result<ReceivedMessage, Error> {
        loop {
            if let Some(message) = self.taken.pop_front() {
                return Ok(message);
            }
            self.commit().await?;
            let page = self.subscription.read(WAIT).await?;
            self.next_after = Some(page.next_after);
            self.taken = page.items.into();
        }
    }

    /// Commits the page that was given last, if all of it was taken.
    ///
    /// # Errors
    /// See [`MessageSubscription::commit`].
    pub async fn commit(&mut self) -> Result<(), Error> {
        if let Some(id) = self.next_after.as_ref().filter(|_| self.taken.is_empty()) {
            self.subscription.commit(id).await?;
            self.next_after = None;
        }
        Ok(())
    }
}
