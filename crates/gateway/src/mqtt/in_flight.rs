//! What one connection has handed in and not acknowledged yet, oldest first: so acknowledgements
//! leave in the order in which reports came, however partitions finish.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use base::limits::REPORT_BYTES;
use base::{DeviceId, Problem};
use engine::intake::{NotAccepting, Received, Slice};
use engine::{Intake, PendingSlice, Report, SliceOutcome};
use prometheus_client::metrics::gauge::Gauge;

use super::limits::UNACKNOWLEDGED_BYTES_MAX;
use crate::decode::beginning;

type Wait<T> = Pin<Box<dyn Future<Output = Result<T, NotAccepting>> + Send>>;

/// The slices of one connection that are under way.
pub(super) struct UnacknowledgedReports {
    unacknowledged: usize,
    unacknowledged_max: usize,
    unacknowledged_bytes: usize,
    /// The newest slice, while it waits for room in an inbox. No other may overtake it.
    handing_in: Option<(Wait<PendingSlice>, Receipts)>,
    handed_in: VecDeque<(Option<PendingSlice>, Receipts)>,
    /// The oldest slice, while its durability is awaited.
    oldest: Option<(Wait<SliceOutcome>, Receipts)>,
    gauge: Gauge,
}

/// Publishes that arrived together.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    slice: Slice,
    receipts: Receipts,
}

/// What the senders of publishes that arrived together will be told, in order.
#[derive(Debug, Default)]
struct Receipts {
    of: Vec<Receipt>,
    /// What the slice holds of what was received.
    bytes: usize,
    /// The topics of those that nobody can be found to have sent, by their place in the slice.
    refused_topics: Vec<(u32, Box<str>)>,
}

/// Why a publish was refused, and what is known of who sent it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RefusedPublish<'a> {
    pub(super) problem: &'a Problem,
    pub(super) device: Option<&'a DeviceId>,
    pub(super) topic: Option<&'a str>,
}

/// What the sender of a publish will be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Receipt {
    pub(super) packet_id: u16,
    pub(super) wants: Wants,
}

/// The acknowledgement that a publish is to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    Nothing,
    PubAck,
    PubRec,
    /// A PUBREC for a QoS 2 publish that was taken before: nothing was handed in for it.
    PubRecAgain,
}

/// A slice whose outcome is durable: the oldest of its connection.
#[derive(Debug)]
pub(super) struct SettledReports {
    receipts: Receipts,
    outcome: SliceOutcome,
}

impl Arrivals {
    /// Of the connection with this number.
    pub(super) fn of(connection: u64) -> Self {
        Self { slice: Slice::from_source(connection), receipts: Receipts::default() }
    }

    /// Adds a publish, decoded and allowed or not.
    pub(super) fn push(
        &mut self,
        decoded: Result<Report, Problem>,
        received: Received<'_>,
        receipt: Receipt,
    ) {
        self.receipts.of.push(receipt);
        self.receipts.bytes += received.payload.len() + received.topic.map_or(0, str::len);
        match decoded {
            Ok(report) => self.slice.push(report, received),
            Err(problem) => {
                let topic = beginning(received.topic.unwrap_or_default());
                self.receipts.refused_topics.push((self.slice.len() as u32, topic.into()));
                self.slice.push_refused(problem, received);
            }
        }
    }

    /// Adds a QoS 2 publish that was taken before.
    pub(super) fn push_repeat(&mut self, packet_id: u16) {
        self.receipts.of.push(Receipt { packet_id, wants: Wants::PubRecAgain });
    }

    pub(super) fn len(&self) -> usize {
        self.receipts.of.len()
    }
}

impl UnacknowledgedReports {
    pub(super) fn new(unacknowledged_max: usize, gauge: Gauge) -> Self {
        Self {
            unacknowledged: 0,
            unacknowledged_max,
            unacknowledged_bytes: 0,
            handing_in: None,
            handed_in: VecDeque::new(),
            oldest: None,
            gauge,
        }
    }

    /// How many more publishes may be handed in now.
    pub(super) fn room(&self) -> usize {
        if self.handing_in.is_some() || self.unacknowledged_bytes >= UNACKNOWLEDGED_BYTES_MAX {
            return 0;
        }
        self.unacknowledged_max - self.unacknowledged
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unacknowledged == 0
    }

    /// What is held for what is not acknowledged yet, about, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.unacknowledged_bytes + self.unacknowledged * REPORT_BYTES
    }

    /// Hands in what fits into [`UnacknowledgedReports::room`].
    pub(super) fn hand_in(&mut self, intake: &Intake, arrivals: Arrivals) {
        let Arrivals { slice, receipts } = arrivals;
        debug_assert!(receipts.of.len() <= self.room(), "the caller asks for room before it reads");
        if receipts.of.is_empty() {
            return;
        }
        self.unacknowledged += receipts.of.len();
        self.unacknowledged_bytes += receipts.bytes;
        self.gauge.inc_by(receipts.of.len() as i64);
        if slice.is_empty() {
            self.handed_in.push_back((None, receipts));
            return;
        }
        let intake = intake.clone();
        let submit = Box::pin(async move { intake.submit(slice).await });
        self.handing_in = Some((submit, receipts));
    }

    /// The next slice that is durable. Pending also when there is none.
    pub(super) fn poll_settled(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SettledReports, NotAccepting>> {
        self.poll_handed_in(cx)?;
        if self.oldest.is_none() {
            let Some((pending, receipts)) = self.handed_in.pop_front() else { return Poll::Pending };
            let durable: Wait<SliceOutcome> = match pending {
                Some(pending) => Box::pin(pending.durable()),
                None => Box::pin(std::future::ready(Ok(SliceOutcome::default()))),
            };
            self.oldest = Some((durable, receipts));
        }
        let Some((durable, _)) = &mut self.oldest else { return Poll::Pending };
        let outcome = ready!(durable.as_mut().poll(cx))?;
        let receipts = self.oldest.take().map(|(_, receipts)| receipts).unwrap_or_default();
        self.unacknowledged -= receipts.of.len();
        self.unacknowledged_bytes -= receipts.bytes;
        self.gauge.dec_by(receipts.of.len() as i64);
        if self.handed_in.is_empty() {
            // An idle connection holds no buffer.
            self.handed_in = VecDeque::new();
        }
        Poll::Ready(Ok(SettledReports { receipts, outcome }))
    }

    fn poll_handed_in(&mut self, cx: &mut Context<'_>) -> Result<(), NotAccepting> {
        let Some((submit, _)) = &mut self.handing_in else { return Ok(()) };
        let Poll::Ready(pending) = submit.as_mut().poll(cx) else { return Ok(()) };
        let receipts = self.handing_in.take().map(|(_, receipts)| receipts).unwrap_or_default();
        self.handed_in.push_back((Some(pending?), receipts));
        Ok(())
    }
}

impl Drop for UnacknowledgedReports {
    fn drop(&mut self) {
        self.gauge.dec_by(self.unacknowledged as i64);
    }
}

impl SettledReports {
    pub(super) fn accepted(&self) -> u32 {
        self.outcome.accepted
    }

    /// The receipts in order, each with why its report was refused.
    pub(super) fn receipts(&self) -> impl Iterator<Item = (Receipt, Option<RefusedPublish<'_>>)> {
        let mut rejected = self.outcome.rejected.iter().peekable();
        let mut topics = self.receipts.refused_topics.iter().peekable();
        let mut index = 0;
        self.receipts.of.iter().map(move |receipt| {
            if receipt.wants == Wants::PubRecAgain {
                return (*receipt, None);
            }
            let topic = topics.next_if(|(of, _)| *of == index).map(|(_, topic)| &**topic);
            let refused = rejected.next_if(|rejection| rejection.index == index).map(|rejection| {
                RefusedPublish { problem: &rejection.problem, device: rejection.device.as_ref(), topic }
            });
            index += 1;
            (*receipt, refused)
        })
    }
}

#[cfg(test)]
mod tests {
    use engine::Rejection;

    use super::*;

    #[test]
    fn every_publish_gets_its_own_result() {
        let rejection =
            |index, code| Rejection { index, device: None, problem: Problem::not_allowed(code, "") };
        let receipts = [
            (1, Wants::PubAck),
            (2, Wants::PubRec),
            (0, Wants::Nothing),
            (2, Wants::PubRecAgain),
            (5, Wants::PubAck),
            (6, Wants::PubAck),
        ];
        let of = receipts.map(|(packet_id, wants)| Receipt { packet_id, wants }).into();
        let settled = SettledReports {
            receipts: Receipts { of, bytes: 0, refused_topics: vec![(3, "t".into())] },
            outcome: SliceOutcome { accepted: 3, rejected: vec![rejection(0, "a"), rejection(3, "b")] },
        };
        let told: Vec<_> = settled
            .receipts()
            .map(|(receipt, refused)| {
                let told = refused.map(|refused| (refused.problem.code, refused.topic));
                (receipt.packet_id, told)
            })
            .collect();
        let (a, b) = (Some(("a", None)), Some(("b", Some("t"))));
        assert_eq!(told, [(1, a), (2, None), (0, None), (2, None), (5, b), (6, None)]);
    }
}
