//! Subscriptions as the batches tell them, and the blocks that those which are pushed hold.

use std::time::Duration;

use base::{Incarnation, Timestamp};
use records::{Batch, Op, StreamBlock, StreamSubscription};
use store::View;

use super::asked::SubscriptionKey;
use super::model::Model;
use crate::harness::violation::{Checked, Invariant, unreadable};

/// A subscription, by its stream and its name there.
pub(crate) type SubscriptionId = (Incarnation, Box<str>);

impl Model {
    /// The subscription of these names.
    pub(crate) fn subscription_of(&self, key: &SubscriptionKey) -> Option<&StreamSubscription> {
        let stream = self.names.get(&key.stream)?;
        self.subscriptions.get(&(*stream, key.name.clone()))
    }

    /// The subscriptions of a stream.
    pub(crate) fn subscriptions_of(&self, stream: Incarnation) -> impl Iterator<Item = &StreamSubscription> {
        let all = self.subscriptions.range((stream, Box::<str>::from(""))..);
        all.take_while(move |((of, _), _)| *of == stream).map(|(_, row)| row)
    }

    /// All subscriptions, by names.
    pub(crate) fn named_subscriptions(&self) -> impl Iterator<Item = (SubscriptionKey, &StreamSubscription)> {
        self.names.iter().flat_map(move |(stream, of)| {
            self.subscriptions_of(*of).map(move |row| {
                let (stream, name) = (stream.clone(), row.name.clone());
                (SubscriptionKey { stream, name }, row)
            })
        })
    }

    /// A change, if it is one of a subscription.
    pub(super) fn change_subscription(&mut self, op: &Op) -> Checked {
        match op {
            Op::PutSubscription(row) => {
                let stream = self.streams.get(&row.stream).filter(|found| !found.is_deleted);
                Invariant::ROWS_AGREE
                    .check(stream.is_some(), || format!("there is no stream for {row:?}"))?;
                self.subscriptions.insert((row.stream, row.name.clone()), (**row).clone());
            }
            Op::DeleteSubscription(stream, name) => {
                let gone = self.subscriptions.remove(&(*stream, name.clone()));
                Invariant::ROWS_AGREE.check(gone.is_some(), || format!("{op:?}, and there was none"))?;
            }
            Op::PutStream(row) if row.deleted => {
                let left = self.subscriptions_of(row.incarnation).next();
                Invariant::ROWS_AGREE
                    .check(left.is_none(), || format!("{left:?} is left of a stream that goes"))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// No position is ahead of the ids that were given, or may have been: what is to come is not
    /// read.
    pub(super) fn check_positions_are_given(&self, batch: &Batch) -> Checked {
        for op in &batch.ops {
            let Op::PutSubscription(row) = op else { continue };
            let found = self.streams.get(&row.stream).filter(|found| !found.is_deleted);
            let Some(tail) = found.and_then(|found| found.tail.as_ref()) else { continue };
            Invariant::POSITIONS_ARE_GIVEN
                .check(row.position < tail.next.max(tail.reserved), || format!("{row:?}, and {tail:?}"))?;
        }
        Ok(())
    }

    /// Whether some push has not taken all of a block.
    pub(crate) fn is_held(&self, block: &StreamBlock) -> bool {
        let pushed = self.subscriptions_of(block.stream).filter(|row| row.push.is_some());
        pushed.map(|row| row.position).min().is_some_and(|taken| block.last > taken)
    }

    /// The same of a block that goes.
    pub(super) fn goes_untaken(&self, op: &Op) -> bool {
        let Op::DeleteStreamBlock(stream, first) = op else { return false };
        let found = self.streams.get(stream).filter(|found| !found.is_deleted);
        found.and_then(|found| found.blocks.get(first)).is_some_and(|block| self.is_held(block))
    }

    /// Such a block goes for room alone. The streams here are all told to keep what is not taken.
    pub(super) fn check_untaken(&mut self, op: &Op, for_room: bool) -> Checked {
        self.counts.dropped_untaken += 1;
        Invariant::KEPT_UNTIL_PUSHED
            .check(for_room, || format!("a push has not taken what goes for its age: {op:?}"))
    }

    /// Counts whether a stream has a block whose time is over, and that a push holds.
    pub(super) fn count_held(&mut self, stream: Incarnation, now: Timestamp) {
        let Some(found) = self.streams.get(&stream).filter(|found| !found.is_deleted) else { return };
        let Some(age) = found.row.settings.keep.age_ms.map(Duration::from_millis) else { return };
        let is_held = |block: &StreamBlock| block.last_at.after(age) <= now && self.is_held(block);
        let any = found.blocks.values().any(is_held);
        self.counts.kept_for_pushes += u64::from(any);
    }

    /// All subscriptions are stored as the batches said, and no other.
    pub(super) fn check_subscriptions(&self, view: &dyn View) -> Checked {
        let found = view.subscriptions(usize::MAX).map_err(unreadable)?;
        let expected: Vec<StreamSubscription> = self.subscriptions.values().cloned().collect();
        Invariant::AS_THE_MODEL.same("subscriptions", &found, &expected)?;
        let pushed = view.pushed_subscriptions(usize::MAX).map_err(unreadable)?;
        let expected: Vec<_> = expected.into_iter().filter(|row| row.push.is_some()).collect();
        Invariant::AS_THE_MODEL.same("subscriptions that are pushed", &pushed, &expected)
    }
}
