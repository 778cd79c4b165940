//! What one connection has handed in and is not durable yet, oldest first. So messages are settled
//! in the order in which they came, however partitions finish.

use std::collections::VecDeque;
use std::task::{Context, Poll, ready};

use engine::intake::{NotAccepting, Slice};
use engine::{Intake, PendingSlice, SliceOutcome};
use futures_util::future::BoxFuture;

use super::settlement::Tag;

type Wait<T> = BoxFuture<'static, Result<T, NotAccepting>>;

/// The slices under way. RabbitMQ's prefetch bounds them.
#[derive(Default)]
pub(super) struct InFlightMessages {
    /// The newest slice, while it waits for room in an inbox. No other may overtake it.
    handing_in: Option<(Wait<PendingSlice>, Vec<Tag>)>,
    handed_in: VecDeque<(PendingSlice, Vec<Tag>)>,
    /// The oldest slice, while its durability is awaited.
    oldest: Option<(Wait<SliceOutcome>, Vec<Tag>)>,
}

/// A slice of which everything is durable: in the history, or in the quarantine.
#[derive(Debug)]
pub(super) struct SettledMessages {
    /// Of every message, in order.
    pub(super) tags: Vec<Tag>,
    pub(super) outcome: SliceOutcome,
}

impl InFlightMessages {
    /// Whether a slice may be handed in now.
    pub(super) fn has_room(&self) -> bool {
        self.handing_in.is_none()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.handing_in.is_none() && self.handed_in.is_empty() && self.oldest.is_none()
    }

    /// Hands in a slice; there has to be room.
    pub(super) fn hand_in(&mut self, intake: &Intake, slice: Slice, tags: Vec<Tag>) {
        debug_assert!(self.has_room() && slice.len() == tags.len(), "one tag a message, one slice at a time");
        let intake = intake.clone();
        self.handing_in = Some((Box::pin(async move { intake.submit(slice).await }), tags));
    }

    /// The next slice that is durable. Pending also when there is none.
    pub(super) fn poll_settled(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SettledMessages, NotAccepting>> {
        self.poll_handing_in(cx)?;
        if self.oldest.is_none() {
            let Some((pending, tags)) = self.handed_in.pop_front() else { return Poll::Pending };
            self.oldest = Some((Box::pin(pending.durable()), tags));
        }
        let Some((durable, tags)) = &mut self.oldest else { return Poll::Pending };
        let outcome = ready!(durable.as_mut().poll(cx))?;
        let tags = std::mem::take(tags);
        self.oldest = None;
        Poll::Ready(Ok(SettledMessages { tags, outcome }))
    }

    fn poll_handing_in(&mut self, cx: &mut Context<'_>) -> Result<(), NotAccepting> {
        let Some((submit, tags)) = &mut self.handing_in else { return Ok(()) };
        let Poll::Ready(pending) = submit.as_mut().poll(cx) else { return Ok(()) };
        self.handed_in.push_back((pending?, std::mem::take(tags)));
        self.handing_in = None;
        Ok(())
    }
}
