//! Notices: what an operator wants to be told of the system itself, and their posts to clients.

use base::{EntityId, Incarnation, Timestamp};

use crate::weight::weighs;

/// What the ids of notices begin with.
pub const NOTICE_ID_PREFIX: &str = "ntc_";

/// What a notice tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoticeKind {
    /// A client's receiver fails steadily.
    ClientFailing,
    /// A client was disabled, by its receiver or by hand.
    ClientDisabled,
    /// A client that failed takes notifications again.
    ClientRecovered,
    /// A queue's oldest ready job has waited for long.
    QueueBacklog,
    /// A queue has many dead letters.
    QueueDeadLetters,
    /// A rollout stopped by itself.
    RolloutStopped,
    /// The disk has little room.
    StorageLow,
    /// A certificate of the server is about to end.
    CertificateEnding,
    /// Many devices with a label in common were lost at once.
    DevicesLostTogether,
}

base::names! {
    /// Every kind, in the order of their stored numbers.
    pub NoticeKind: ClientFailing = "client.failing", ClientDisabled = "client.disabled",
        ClientRecovered = "client.recovered", QueueBacklog = "queue.backlog",
        QueueDeadLetters = "queue.dead_letters", RolloutStopped = "rollout.stopped",
        StorageLow = "storage.low", CertificateEnding = "certificate.ending",
        DevicesLostTogether = "devices.lost_together"
}

/// Where a notice is kept, and the order of the feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NoticeKey {
    /// When it was made.
    pub at: Timestamp,
    /// Counts the notices of that time from 0.
    pub number: u32,
}

/// A notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Its id, which holds its key, and under which it is posted.
    pub id: EntityId,
    /// What it tells.
    pub kind: NoticeKind,
    /// Of what: `client acme`, `queue mail/out`.
    pub subject: Box<str>,
    /// What there is to say of it: the text of a JSON object.
    pub detail: Box<str>,
}

weighs!(Notice: |notice| notice.subject.len() + notice.detail.len());

/// A notice on its way to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoticePost {
    /// The client.
    pub client: Incarnation,
    /// The notice.
    pub notice: NoticeKey,
    /// Attempts that failed.
    pub attempts: u32,
    /// When the next attempt is due.
    pub due_at: Timestamp,
}

weighs!(NoticePost: |_| 0);
