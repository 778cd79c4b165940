//! A subscription of a stream: how far one reader has come, and where its messages are pushed.

use base::{Incarnation, Timestamp};

use crate::weight::{RECORD_BYTES, weighs};

/// A subscription. It belongs to one stream, and goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSubscription {
    /// The stream.
    pub stream: Incarnation,
    /// Its name among those of the stream.
    pub name: Box<str>,
    /// Every message up to this id is read. 0 is before the first.
    pub position: u64,
    /// Only messages of these segments are given; all if there are none.
    pub segments: Vec<Box<str>>,
    /// Where its messages are posted; `None` for one that is read.
    pub push: Option<Box<SubscriptionPush>>,
    /// When it was made.
    pub created_at: Timestamp,
}

weighs!(StreamSubscription: |subscription| RECORD_BYTES + subscription.text_bytes());

/// Where the messages of a subscription are posted.
#[derive(Clone, PartialEq, Eq)]
pub struct SubscriptionPush {
    /// The URL.
    pub url: Box<str>,
    /// Most messages of a post.
    pub max: u32,
    /// What each post is signed with.
    pub secret: Box<[u8]>,
}

impl std::fmt::Debug for SubscriptionPush {
    /// Without the secret: it is never to reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SubscriptionPush").field("url", &self.url).field("max", &self.max).finish()
    }
}

impl StreamSubscription {
    /// Bytes of its texts.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        let push = self.push.as_ref().map_or(0, |push| push.url.len() + push.secret.len() + 16);
        self.name.len() + push + self.segments.iter().map(|segment| segment.len() + 2).sum::<usize>()
    }
}
