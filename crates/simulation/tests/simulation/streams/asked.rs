//! What is asked of subscriptions, as those who ask know it.

use base::Incarnation;
use engine::streams::{NewSubscription, NewSubscriptionPush, SubscriptionStart};
use records::{StreamSubscription, SubscriptionPush};

/// A subscription, by the names of its stream and of itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SubscriptionKey {
    pub(crate) stream: Box<str>,
    pub(crate) name: Box<str>,
}

/// A call about a subscription.
#[derive(Debug)]
pub(crate) struct AskedSubscription {
    pub(crate) key: SubscriptionKey,
    pub(crate) change: AskedChange,
}

/// What a call asks for.
#[derive(Debug)]
pub(crate) enum AskedChange {
    /// It is made, or has these terms.
    Put(AskedTerms),
    /// It goes; whoever reads it in this stream is forgotten then.
    Delete { of: Incarnation },
    /// It moves.
    Commit(AskedCommit),
}

/// How far somebody has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskedCommit {
    /// Everything up to this message is read.
    pub(crate) id: u64,
    pub(crate) rewinds: bool,
    /// Of a push: only while this is the position.
    pub(crate) pushed_from: Option<u64>,
}

/// What a subscription is to be.
#[derive(Debug)]
pub(crate) struct AskedTerms {
    pub(crate) from: Option<SubscriptionStart>,
    pub(crate) segments: Vec<Box<str>>,
    pub(crate) push: Option<AskedPush>,
}

/// Where a subscription is to be pushed.
#[derive(Debug)]
pub(crate) struct AskedPush {
    pub(crate) url: Box<str>,
    pub(crate) max: u32,
    pub(crate) secret: Box<[u8]>,
    /// The secret was made for it: one that has a secret keeps that.
    pub(crate) is_made: bool,
}

impl AskedTerms {
    pub(crate) fn new_subscription(&self, name: &str) -> NewSubscription {
        let new_push = |push: &AskedPush| NewSubscriptionPush {
            url: push.url.clone(),
            max: push.max,
            secret: push.secret.clone(),
            is_made: push.is_made,
        };
        NewSubscription {
            name: name.into(),
            from: self.from,
            segments: self.segments.clone(),
            push: self.push.as_ref().map(new_push),
        }
    }

    /// Whether a row is what was asked for, where this one was there before.
    pub(crate) fn fit(&self, before: Option<&StreamSubscription>, row: &StreamSubscription) -> bool {
        let is_at = match (self.from, before) {
            (None, Some(before)) => row.position == before.position,
            (Some(SubscriptionStart::Behind(id)), _) => row.position == id,
            // That is looked at where the stream is known.
            (Some(SubscriptionStart::Start | SubscriptionStart::End) | None, _) => true,
        };
        let is_pushed = match (&self.push, &row.push) {
            (None, None) => true,
            (Some(asked), Some(push)) => {
                let secret = asked.kept_secret(before).unwrap_or(&asked.secret);
                asked.url == push.url && asked.max == push.max && *secret == *push.secret
            }
            _ => false,
        };
        let is_as_old = before.is_none_or(|before| before.created_at == row.created_at);
        is_at && is_pushed && is_as_old && self.segments == row.segments
    }

    /// The secret that was made for it and is told.
    pub(crate) fn made_secret(&self, before: Option<&StreamSubscription>) -> Option<&[u8]> {
        let push = self.push.as_ref().filter(|push| push.is_made && push.kept_secret(before).is_none());
        push.map(|push| &*push.secret)
    }

    /// Whether it begins behind a message, which may not be there.
    pub(crate) fn behind(&self) -> Option<u64> {
        match self.from {
            Some(SubscriptionStart::Behind(id)) => Some(id),
            _ => None,
        }
    }
}

impl AskedPush {
    /// The secret that it has already, and keeps.
    fn kept_secret<'a>(&self, before: Option<&'a StreamSubscription>) -> Option<&'a [u8]> {
        let push: Option<&'a SubscriptionPush> = before.and_then(|before| before.push.as_deref());
        push.filter(|_| self.is_made).map(|push| &*push.secret)
    }
}
