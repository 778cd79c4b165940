//! Stored forms of notices, and of their posts to clients.

use std::borrow::Cow;

use base::Incarnation;
use records::{Notice, NoticeKey, NoticeKind, NoticePost};

use super::field::{choices, fields, stored};
use super::key::{self, FeedEntryKey};
use crate::record::record;

stored!(
    Notice, "a notice", version 1:
    id, kind, subject, detail
);

stored!(
    NoticePost, "a notice on its way to a client", version 1:
    client, notice, attempts, due_at
);

fields! {
    NoticeKey: at, number;
}

choices! {
    NoticeKind, "a kind of notice": ClientFailing = 0, ClientDisabled = 1, ClientRecovered = 2,
        QueueBacklog = 3, QueueDeadLetters = 4, RolloutStopped = 5, StorageLow = 6, CertificateEnding = 7,
        DevicesLostTogether = 8;
}

record!(
    Notice: Notices by NoticeKey,
    key: |at| key::feed_entry(*at),
    place: |notice| Cow::Owned(notice.id.into()),
);

record!(
    NoticePost: NoticePosts by (Incarnation, NoticeKey),
    key: |(client, notice)| FeedEntryKey::from(*notice).below(&key::incarnation(*client)),
    place: |post| Cow::Owned((post.client, post.notice)),
);
