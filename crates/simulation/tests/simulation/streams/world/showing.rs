//! How subscriptions stand, as they are shown: where they are, how far behind, and who reads.

use std::collections::BTreeSet;

use engine::streams::SubscriptionStatus;
use records::StreamSubscription;

use super::{World, stream_name};
use crate::harness::track::{AnyTrack, Past};
use crate::harness::violation::{Checked, Invariant};
use crate::streams::asked::SubscriptionKey;
use crate::streams::message::GivenMessage;
use crate::streams::model::StreamModel;

/// Messages behind a position.
struct UnreadMessages {
    /// That were answered.
    told: u64,
    /// That may be seen: those that are on their way to their callers too.
    visible: u64,
    /// Ids behind the position are left out, or may be yet.
    has_gaps: bool,
}

impl UnreadMessages {
    fn of<'a>(
        found: &StreamModel,
        told: impl Iterator<Item = (u64, &'a GivenMessage)>,
        position: u64,
    ) -> Self {
        let from = position.max(found.gone_to) + 1;
        let told: Vec<u64> = told.map(|(id, _)| id).collect();
        let unsaved = told.iter().copied().filter(|id| *id > found.last);
        let ids: BTreeSet<u64> = found.messages.keys().copied().chain(unsaved).collect();
        let newest = ids.last().copied().unwrap_or(0).max(found.last).max(found.gone_to);
        let visible = ids.range(from..).count() as u64;
        let ends_early = found.tail.as_ref().is_some_and(|tail| tail.next <= newest + 1);
        let has_gaps = !ends_early || visible != (newest + 1).saturating_sub(from);
        let told = told.iter().filter(|id| **id >= from).count() as u64;
        Self { told, visible, has_gaps }
    }
}

impl World {
    pub(super) fn show_subscription(&mut self) -> Checked {
        let key = self.any_subscription();
        self.look_at_subscription(&key)
    }

    pub(super) fn look_at_subscription(&mut self, key: &SubscriptionKey) -> Checked {
        let (Some(server), Some(seq)) = (self.server.as_ref(), self.seen_batch()) else { return Ok(()) };
        let shown = server.context.subscription(&stream_name(&key.stream), &key.name);
        let state = self.model.at(seq, Past::Life)?;
        let row = state.subscription_of(key).cloned();
        let found = state.named(&key.stream).zip(row.as_ref());
        let unread =
            found.map(|((of, found), row)| UnreadMessages::of(found, self.ledger.of(of), row.position));
        self.model.shown(seq);
        match (shown, row.zip(unread)) {
            (Ok(shown), Some((row, unread))) => {
                self.check_shown(&row, &shown)?;
                self.check_place(key, shown.position)?;
                self.check_lag(&unread, &shown)
            }
            (Err(problem), _) if problem.status == 503 => {
                self.counts.unreadable += 1;
                Ok(())
            }
            (Err(_), None) => Ok(()),
            (shown, row) => {
                let row = row.map(|(row, _)| row);
                Err(Invariant::AS_THE_MODEL.broken(format!("{key:?} is {row:?}, and shown as {shown:?}")))
            }
        }
    }

    fn check_shown(&self, row: &StreamSubscription, shown: &SubscriptionStatus) -> Checked {
        let url = shown.push.as_ref().map(|push| &*push.url);
        let found = (shown.position, &shown.segments, shown.created_at, url);
        let url = row.push.as_ref().map(|push| &*push.url);
        let expected = (row.position, &row.segments, row.created_at, url);
        Invariant::AS_THE_MODEL.same(format_args!("subscription {:?}", row.name), &found, &expected)?;
        let holder = self.holder(row);
        Invariant::ONE_READER.same(format_args!("the reader of {:?}", row.name), &shown.reader, &holder)
    }

    fn check_lag(&mut self, unread: &UnreadMessages, shown: &SubscriptionStatus) -> Checked {
        let UnreadMessages { told, visible, has_gaps } = *unread;
        let is_true = shown.lag >= told && (has_gaps || shown.lag <= visible);
        Invariant::LAG_IS_TRUE
            .check(is_true, || format!("{told} to {visible} messages are behind it: {shown:?}"))?;
        self.counts.lags += 1;
        self.counts.lags_known += u64::from(!has_gaps && told == visible && told > 0);
        let may_be_unreadable = self.machine.is_storage_faulty() || self.cold.is_away();
        let has_time = told == 0 || shown.oldest_unread_at.is_some() || may_be_unreadable;
        Invariant::READ_AS_ANSWERED
            .check(has_time, || format!("{told} messages are behind it, none of them the oldest: {shown:?}"))
    }
}
