//! Notices: what an operator wants to be told of the system itself.
//!
//! Whatever happens is signalled where it happens, as the condition in which a subject is from then
//! on. Signals go to the registry partition. There [`hysteresis`] decides what is told, [`table`]
//! keeps the notices, and their posts to clients until these took them.

pub mod hysteresis;

pub(crate) mod courier;
pub(crate) mod firing;
pub(crate) mod links;
pub(crate) mod lost_together;
pub(crate) mod pending;
pub(crate) mod table;

pub use links::NoticeGivenUp;
pub use lost_together::LostDevices;

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use base::{ClientId, Incarnation};
use records::{Client, Notice, NoticeKey, NoticeKind};

use crate::kernel::reply::Reply;
use crate::registry::RegistryInput;

/// What the operator can set of notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoticeSettings {
    /// How long notices are kept.
    pub keep: Duration,
    /// At most one notice about a subject in this time; at its end the present condition is told.
    pub quiet: Duration,
    /// A queue whose oldest ready job has waited so long is told of; `None` if none is.
    pub backlog_age: Option<Duration>,
    /// A queue with so many dead letters is told of; `None` if none is.
    pub dead_letters: Option<u64>,
    /// So many devices with a label in common, lost within the window, are told of as one; `None`
    /// if they are not.
    pub lost_together: Option<u32>,
    /// The window.
    pub lost_window: Duration,
}

impl Default for NoticeSettings {
    fn default() -> Self {
        Self {
            keep: Duration::from_secs(30 * 24 * 3_600),
            quiet: Duration::from_secs(600),
            backlog_age: Some(Duration::from_secs(900)),
            dead_letters: Some(1_000),
            lost_together: Some(20),
            lost_window: Duration::from_secs(60),
        }
    }
}

/// What a signal is about: subjects of one topic are told apart by their text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SignalTopic {
    /// How a client's receiver does.
    Client,
    /// How long jobs wait in a queue.
    Backlog,
    /// How many dead letters a queue has.
    DeadLetters,
    /// That a rollout was stopped.
    Rollout,
    /// How much room the disk has.
    Storage,
    /// How long a certificate holds.
    Certificate,
    /// That devices were lost together.
    Devices,
}

impl SignalTopic {
    /// What is told when a subject is well again, if that is told.
    #[must_use]
    pub fn resolved_notice(self) -> Option<NoticeKind> {
        match self {
            Self::Client => Some(NoticeKind::ClientRecovered),
            Self::Backlog
            | Self::DeadLetters
            | Self::Rollout
            | Self::Storage
            | Self::Certificate
            | Self::Devices => None,
        }
    }

    /// The topic that a notice is of.
    #[must_use]
    pub fn of(kind: NoticeKind) -> Self {
        match kind {
            NoticeKind::ClientFailing | NoticeKind::ClientDisabled | NoticeKind::ClientRecovered => {
                Self::Client
            }
            NoticeKind::QueueBacklog => Self::Backlog,
            NoticeKind::QueueDeadLetters => Self::DeadLetters,
            NoticeKind::RolloutStopped => Self::Rollout,
            NoticeKind::StorageLow => Self::Storage,
            NoticeKind::CertificateEnding => Self::Certificate,
            NoticeKind::DevicesLostTogether => Self::Devices,
        }
    }
}

/// The condition that a subject is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Nothing is wrong, and whoever was told otherwise is told that.
    Resolved,
    /// Nothing is wrong any more, and nobody needs to be told.
    Cleared,
    /// This is wrong.
    Firing(NoticeKind),
    /// This happened, and is over.
    Occurred(NoticeKind),
}

/// A condition, from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    /// What it is about.
    pub topic: SignalTopic,
    /// The subject, as a notice shows it: `client acme`.
    pub subject: Box<str>,
    /// How the subject is now.
    pub condition: Condition,
    /// What there is to say of it.
    pub detail: Detail,
}

/// What there is to say of a notice: the members of a JSON object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detail(String);

impl Detail {
    /// With a text.
    #[must_use]
    pub fn text(mut self, name: &str, text: &str) -> Self {
        self.name(name);
        put_text(&mut self.0, text);
        self
    }

    /// With a number.
    #[must_use]
    pub fn number(mut self, name: &str, number: u64) -> Self {
        self.name(name);
        put(&mut self.0, format_args!("{number}"));
        self
    }

    /// With an object of texts.
    #[must_use]
    pub fn texts<'a>(mut self, name: &str, texts: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let inner = texts.fold(Self::default(), |inner, (name, text)| inner.text(name, text));
        self.name(name);
        self.0.push_str(&inner.to_json());
        self
    }

    /// The object as JSON text.
    #[must_use]
    pub fn to_json(&self) -> String {
        format!("{{{}}}", self.0)
    }

    fn name(&mut self, name: &str) {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        put_text(&mut self.0, name);
        self.0.push(':');
    }
}

fn put_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if u32::from(c) < 0x20 => put(out, format_args!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

fn put(out: &mut String, text: fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes every write");
}

/// An input of the registry about notices.
#[derive(Debug)]
pub enum NoticeInput {
    /// Subjects are in these conditions.
    Signals(Vec<Signal>),
    /// Lease posts to clients that are due.
    Lease {
        /// Which, and how many.
        wanted: NoticeLease,
        /// Gets them.
        reply: Reply<Vec<NoticeDue>>,
    },
    /// A post was tried.
    Tried {
        /// To this client.
        client: Incarnation,
        /// Of this notice.
        notice: NoticeKey,
        /// What came of it.
        outcome: PostOutcome,
        /// Told when that is durable.
        reply: Reply<()>,
    },
}

impl From<NoticeInput> for RegistryInput {
    fn from(input: NoticeInput) -> Self {
        Self::Notices(input)
    }
}

/// Which posts are to be leased: the one of each client that has been due longest.
#[derive(Clone, Debug, Default)]
pub struct NoticeLease {
    /// Most to lease.
    pub max: usize,
    /// None of these clients.
    pub full: BTreeSet<ClientId>,
    /// These clients do not take what they are sent:
    pub failing: BTreeSet<ClientId>,
    /// so many of them at most.
    pub failing_max: usize,
}

/// A notice to be posted to a client now.
#[derive(Clone, Debug)]
pub struct NoticeDue {
    /// The client as it is now.
    pub client: Arc<Client>,
    /// What it is told.
    pub notice: Notice,
}

/// What came of posting a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostOutcome {
    /// It got through.
    Took,
    /// It did not; the receiver asks for so much patience.
    Failed(Option<Duration>),
    /// The receiver is gone for good, and the client is disabled: the post waits.
    Gone,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_is_json() {
        let labels = [("site", "a\"b\\c\n"), ("k", "")];
        let detail = Detail::default().text("client_id", "acme").number("failed", 20);
        let detail = detail.texts("labels", labels.into_iter());
        assert_eq!(
            detail.to_json(),
            r#"{"client_id":"acme","failed":20,"labels":{"site":"a\"b\\c\u000a","k":""}}"#
        );
        assert_eq!(Detail::default().to_json(), "{}");
    }

    #[test]
    fn what_is_told_of_a_topic_belongs_to_it() {
        for kind in NoticeKind::ALL {
            let topic = SignalTopic::of(kind);
            assert!(topic.resolved_notice().is_none_or(|well| SignalTopic::of(well) == topic), "{kind:?}");
        }
    }
}
