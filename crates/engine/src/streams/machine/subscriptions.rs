//! Subscriptions are made, move on and go. A position is durable before its caller is answered.

use std::collections::BTreeMap;

use ::streams::StreamIds;
use ::streams::subscriptions::{begin, commit, untaken_from};
use base::limits::SUBSCRIPTIONS_PER_STREAM_MAX;
use base::{Incarnation, Problem};
use records::{Op, SaveMode, StreamSubscription, SubscriptionPush};
use store::{StoreError, View};

use super::deleting::unknown_stream;
use super::loaded::LoadedStream;
use super::{StreamPartition, StreamsStep};
use crate::kernel::reply::{Answered, Reply};
use crate::streams::effect::{PushChange, StreamsEffect};
use crate::streams::input::{CommitCall, PutSubscriptionCall, PutSubscriptionOutcome};
use crate::streams::subscription::{NewSubscriptionPush, unknown_subscription};

/// The subscriptions of a stream in memory.
#[derive(Default)]
pub(super) struct SubscriptionSet {
    all: BTreeMap<Box<str>, StreamSubscription>,
    /// A block stays only because a push or a copy has not taken it.
    pub(super) holds_up: bool,
}

impl SubscriptionSet {
    pub(super) fn read(view: &dyn View, stream: Incarnation) -> Result<Self, StoreError> {
        let all = view.subscriptions_of(stream, None, usize::MAX)?;
        let all = all.into_iter().map(|subscription| (subscription.name.clone(), subscription)).collect();
        Ok(Self { all, holds_up: false })
    }

    /// Bytes of memory that it takes, about.
    pub(super) fn bytes(&self) -> usize {
        self.all.values().map(|one| size_of::<StreamSubscription>() + 2 * one.text_bytes()).sum()
    }

    /// What a push has not taken is from this message on; `None` if nothing is pushed.
    pub(super) fn untaken_from(&self) -> Option<u64> {
        untaken_from(self.all.values().filter(|one| one.push.is_some()).map(|one| one.position))
    }
}

/// Those of a stream that is not there.
pub(super) const NO_IDS: StreamIds = StreamIds { first: 1, last: 0, next: 1 };

impl StreamPartition {
    /// Makes a subscription, and its stream where that is not there; or gives it other terms.
    pub(super) fn put_subscription(
        &mut self,
        call: PutSubscriptionCall,
        step: &mut StreamsStep<'_>,
    ) -> Result<(), StoreError> {
        let PutSubscriptionCall { stream: name, subscription: new, reply } = call;
        if self.load_stream(&name, step)?.is_none()
            && let Some(Err(refused)) = new.from.map(|from| begin(from, NO_IDS))
        {
            // A call that is refused makes no stream.
            step.emit(StreamsEffect::SubscriptionPut(reply, Err(refused)));
            return Ok(());
        }
        let stream = self.load_or_make(&name, step)?;
        step.own.touched.insert(stream);
        let Some(loaded) = self.loaded.get_mut(&stream) else { return Ok(()) };
        loaded.used_at = step.now;
        let before = loaded.subscriptions.all.get(&new.name);
        if before.is_none() && loaded.subscriptions.all.len() >= SUBSCRIPTIONS_PER_STREAM_MAX {
            let detail = format!("stream {name} has {SUBSCRIPTIONS_PER_STREAM_MAX} subscriptions already");
            let refused = Problem::new(429, "too_many_subscriptions", detail);
            step.emit(StreamsEffect::SubscriptionPut(reply, Err(refused)));
            return Ok(());
        }
        let position = match (new.from, before) {
            (None, Some(before)) => Ok(before.position),
            (from, _) => begin(from.unwrap_or(::streams::SubscriptionStart::Start), loaded.ids()),
        };
        let position = match position {
            Ok(position) => position,
            Err(refused) => {
                step.emit(StreamsEffect::SubscriptionPut(reply, Err(refused)));
                return Ok(());
            }
        };
        let was_pushed = before.is_some_and(|before| before.push.is_some());
        let (push, made_secret) = with_secret(new.push, before);
        let subscription = StreamSubscription {
            stream,
            name: new.name,
            position,
            segments: new.segments,
            push,
            created_at: before.map_or(step.now, |before| before.created_at),
        };
        let is_pushed = subscription.push.is_some();
        let is_new = before.is_none();
        if is_pushed || was_pushed {
            step.emit(StreamsEffect::Pushed(
                self.id,
                PushChange { stream: name, subscription: subscription.name.clone(), is_pushed },
            ));
        }
        loaded.put_subscription(subscription, step);
        let outcome = PutSubscriptionOutcome { is_new, made_secret };
        step.emit(StreamsEffect::SubscriptionPut(reply, Ok(outcome)));
        Ok(())
    }

    pub(super) fn delete_subscription(
        &mut self,
        name: &crate::streams::StreamName,
        subscription: &str,
        reply: Reply<Answered<()>>,
        step: &mut StreamsStep<'_>,
    ) -> Result<(), StoreError> {
        let found = self.load_stream(name, step)?;
        let Some(loaded) = found.and_then(|stream| self.loaded.get_mut(&stream)) else {
            step.emit(StreamsEffect::Done(reply, Err(unknown_stream(name))));
            return Ok(());
        };
        loaded.used_at = step.now;
        step.own.touched.insert(loaded.incarnation());
        let Some(gone) = loaded.subscriptions.all.remove(subscription) else {
            step.emit(StreamsEffect::Done(reply, Err(unknown_subscription(name, subscription))));
            return Ok(());
        };
        step.push(Op::DeleteSubscription(gone.stream, gone.name.clone()));
        loaded.written = step.seq;
        loaded.look_at_what_was_held_up(step);
        if gone.push.is_some() {
            let change = PushChange { stream: name.clone(), subscription: gone.name, is_pushed: false };
            step.emit(StreamsEffect::Pushed(self.id, change));
        }
        step.emit(StreamsEffect::Done(reply, Ok(())));
        Ok(())
    }

    /// A reader, or a push, has come so far.
    pub(super) fn commit(&mut self, call: CommitCall, step: &mut StreamsStep<'_>) -> Result<(), StoreError> {
        let CommitCall { stream: name, subscription, id, rewinds, pushed_from, reply } = call;
        let found = self.load_stream(&name, step)?;
        let Some(loaded) = found.and_then(|stream| self.loaded.get_mut(&stream)) else {
            step.emit(StreamsEffect::Done(reply, Err(unknown_stream(&name))));
            return Ok(());
        };
        loaded.used_at = step.now;
        step.own.touched.insert(loaded.incarnation());
        let Some(before) = loaded.subscriptions.all.get(&subscription) else {
            step.emit(StreamsEffect::Done(reply, Err(unknown_subscription(&name, &subscription))));
            return Ok(());
        };
        let moved = match pushed_from.filter(|from| *from != before.position) {
            Some(from) => {
                let detail = format!("the position is {}, not {from} any more", before.position);
                Err(Problem::new(409, "position_moved", detail))
            }
            None => commit(before.position, id, rewinds, loaded.ids()),
        };
        let answer = match moved {
            Ok(position) if position == before.position => Ok(()),
            Ok(position) => {
                let is_pushed = before.push.is_some();
                let moved = StreamSubscription { position, ..before.clone() };
                loaded.put_subscription(moved, step);
                if is_pushed && pushed_from.is_none() {
                    let change = PushChange { stream: name, subscription, is_pushed };
                    step.emit(StreamsEffect::Pushed(self.id, change));
                }
                Ok(())
            }
            Err(refused) => Err(refused),
        };
        step.emit(StreamsEffect::Done(reply, answer));
        Ok(())
    }

    /// The subscriptions of a stream go with it.
    pub(super) fn delete_subscriptions_of(&self, gone: &mut LoadedStream, step: &mut StreamsStep<'_>) {
        for (name, subscription) in std::mem::take(&mut gone.subscriptions.all) {
            step.push(Op::DeleteSubscription(subscription.stream, name.clone()));
            if subscription.push.is_some() {
                let change = PushChange { stream: gone.name.clone(), subscription: name, is_pushed: false };
                step.emit(StreamsEffect::Pushed(self.id, change));
            }
        }
    }
}

impl LoadedStream {
    /// Where a position may be. In the modes that answer once a message is saved, ids of what waits
    /// for its save are not reserved. A crash gives them to other messages.
    pub(super) fn ids(&self) -> StreamIds {
        let first = self.tail.first;
        match self.mode() {
            SaveMode::Sync | SaveMode::Wait => {
                let next = self.tail.next.min(self.next);
                StreamIds { first, last: self.last.min(next - 1), next }
            }
            SaveMode::Periodic | SaveMode::Memory => StreamIds { first, last: self.last, next: self.next },
        }
    }

    fn put_subscription(&mut self, subscription: StreamSubscription, step: &mut StreamsStep<'_>) {
        step.push(Op::PutSubscription(Box::new(subscription.clone())));
        self.subscriptions.all.insert(subscription.name.clone(), subscription);
        self.written = step.seq;
        self.look_at_what_was_held_up(step);
    }

    /// Blocks that a push or a copy held up may go now.
    pub(super) fn look_at_what_was_held_up(&mut self, step: &StreamsStep<'_>) {
        if std::mem::take(&mut self.subscriptions.holds_up) {
            self.expires_at = Some(step.now);
        }
    }
}

/// Where a subscription is pushed, and the secret if one was made for it just now. One that was
/// pushed before keeps its secret where none is given.
fn with_secret(
    new: Option<NewSubscriptionPush>,
    before: Option<&StreamSubscription>,
) -> (Option<Box<SubscriptionPush>>, Option<Box<[u8]>>) {
    let Some(NewSubscriptionPush { url, max, secret, is_made }) = new else { return (None, None) };
    let kept = before.and_then(|before| before.push.as_ref()).map(|push| push.secret.clone());
    let (secret, made) = match kept.filter(|_| is_made) {
        Some(kept) => (kept, None),
        None => (secret.clone(), is_made.then_some(secret)),
    };
    (Some(Box::new(SubscriptionPush { url, max, secret })), made)
}
