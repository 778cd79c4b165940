//! What is asked of subscriptions, and what is shown of them.

use std::time::Duration;

use ::streams::SubscriptionStart;
use base::{Problem, Timestamp};
use records::OutcomeReceiver;

use super::StreamName;
use super::pushes::PushFailure;

/// A subscription to be made, or the terms that one is to have.
#[derive(Debug)]
pub struct NewSubscription {
    /// Its name: as for a stream.
    pub name: Box<str>,
    /// Where it begins. `None`: one that is there stays where it is, a new one begins at the start.
    pub from: Option<SubscriptionStart>,
    /// Messages of these segments alone; all if there are none.
    pub segments: Vec<Box<str>>,
    /// Where its messages are posted.
    pub push: Option<NewSubscriptionPush>,
}

/// Where a subscription begins, as a caller gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionFrom {
    /// At the start, at the end, or behind a message.
    Place(SubscriptionStart),
    /// At the first message that was received no earlier.
    Time(Timestamp),
}

/// Where the messages of a subscription are to be posted.
pub struct NewSubscriptionPush {
    /// The URL.
    pub url: Box<str>,
    /// Most messages of a post.
    pub max: u32,
    /// What each post is signed with.
    pub secret: Box<[u8]>,
    /// The secret was made, not given: a subscription that has one keeps that.
    pub is_made: bool,
}

impl std::fmt::Debug for NewSubscriptionPush {
    /// Without the secret: it is never to reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewSubscriptionPush").field("url", &self.url).field("max", &self.max).finish()
    }
}

impl NewSubscriptionPush {
    /// Messages of a post where nothing is said.
    pub const MAX: u32 = 100;

    /// A push to a URL that was checked.
    #[must_use]
    pub fn to(receiver: OutcomeReceiver, max: u32, is_made: bool) -> Option<Self> {
        match receiver {
            OutcomeReceiver::Url { url, secret } => Some(Self { url, max, secret, is_made }),
            OutcomeReceiver::Queue { .. } | OutcomeReceiver::Stream { .. } => None,
        }
    }
}

/// A reader that reads on.
#[derive(Clone, Debug)]
pub struct SubscriptionRead {
    /// Which subscription.
    pub subscription: Box<str>,
    /// What the reader calls itself.
    pub reader: Box<str>,
    /// How long nobody else reads after this call.
    pub ttl: Duration,
}

impl SubscriptionRead {
    /// How long a reader has a subscription where nothing is said.
    pub const TTL: Duration = Duration::from_secs(30);
}

/// How far a reader has come.
#[derive(Clone, Debug)]
pub struct ReaderCommit {
    /// Which subscription.
    pub subscription: Box<str>,
    /// What the reader calls itself.
    pub reader: Box<str>,
    /// Everything up to this message is read.
    pub id: u64,
    /// Whether it may be before the position.
    pub rewinds: bool,
}

/// How a subscription stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionStatus {
    /// Its name.
    pub name: Box<str>,
    /// Everything up to this message is read.
    pub position: u64,
    /// Messages behind it that are kept; with segments, those of others count too.
    pub lag: u64,
    /// Who reads it at the moment.
    pub reader: Option<Box<str>>,
    /// When the oldest of the messages behind it was received.
    pub oldest_unread_at: Option<Timestamp>,
    /// The segments that it gives; all if there are none.
    pub segments: Vec<Box<str>>,
    /// Where it is pushed.
    pub push: Option<PushStatus>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Where a subscription is pushed, and how that goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushStatus {
    /// The URL.
    pub url: Box<str>,
    /// Most messages of a post.
    pub max: u32,
    /// Why the latest post was not taken.
    pub failure: Option<PushFailure>,
}

/// There is no such subscription.
pub(crate) fn unknown_subscription(stream: &StreamName, name: &str) -> Problem {
    Problem::unknown("unknown_subscription", format!("stream {stream} has no subscription {name:?}"))
}
