//! What one connection has handed in and not acknowledged yet, oldest first: so acknowledgements leave in the order in
//! which reports came, however partitions finish.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use base::Problem;
use engine::intake::NotAccepting;
use engine::{Intake, Outcome, Pending, Report};
use prometheus_client::metrics::gauge::Gauge;

type Wait<T> = Pin<Box<dyn Future<Output = Result<T, NotAccepting>> + Send>>;

/// The slices of one connection that are under way.
pub(super) struct Ring {
    unacknowledged: usize,
    unacknowledged_max: usize,
    /// The newest slice, while it waits for room in an inbox. No other may overtake it.
    handing_in: Option<(Wait<Pending>, Vec<Receipt>)>,
    handed_in: VecDeque<(Option<Pending>, Vec<Receipt>)>,
    /// The oldest slice, while its durability is awaited.
    oldest: Option<(Wait<Outcome>, Vec<Receipt>)>,
    gauge: Gauge,
}

/// Reports that arrived together.
#[derive(Debug, Default)]
pub(super) struct Slice {
    pub(super) reports: Vec<Report>,
    /// One for every publish; those that are not refused stand for `reports`, in order.
    pub(super) receipts: Vec<Receipt>,
}

/// What the sender of a publish will be told.
#[derive(Debug)]
pub(super) struct Receipt {
    /// 0: no acknowledgement is wanted.
    pub(super) packet_id: u16,
    /// Set if the report was not even handed in.
    pub(super) refused: Option<Box<Problem>>,
}

/// A slice whose outcome is durable: the oldest of its connection.
#[derive(Debug)]
pub(super) struct Settled {
    receipts: Vec<Receipt>,
    outcome: Outcome,
}

impl Ring {
    pub(super) fn new(unacknowledged_max: usize, gauge: Gauge) -> Self {
        Self {
            unacknowledged: 0,
            unacknowledged_max,
            handing_in: None,
            handed_in: VecDeque::new(),
            oldest: None,
            gauge,
        }
    }

    /// How many more reports may be handed in now.
    pub(super) fn room(&self) -> usize {
        if self.handing_in.is_some() { 0 } else { self.unacknowledged_max - self.unacknowledged }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unacknowledged == 0
    }

    /// Hands in a slice that fits into [`Ring::room`].
    pub(super) fn hand_in(&mut self, intake: &Intake, slice: Slice) {
        debug_assert!(slice.receipts.len() <= self.room(), "the caller asks for room before it reads");
        if slice.receipts.is_empty() {
            return;
        }
        self.unacknowledged += slice.receipts.len();
        self.gauge.inc_by(slice.receipts.len() as i64);
        if slice.reports.is_empty() {
            self.handed_in.push_back((None, slice.receipts));
            return;
        }
        let intake = intake.clone();
        let submit = Box::pin(async move { intake.submit(slice.reports).await });
        self.handing_in = Some((submit, slice.receipts));
    }

    /// The next slice that is durable. Pending also when there is none.
    pub(super) fn poll_settled(&mut self, cx: &mut Context<'_>) -> Poll<Result<Settled, NotAccepting>> {
        self.poll_handed_in(cx)?;
        if self.oldest.is_none() {
            let Some((pending, receipts)) = self.handed_in.pop_front() else { return Poll::Pending };
            let durable: Wait<Outcome> = match pending {
                Some(pending) => Box::pin(pending.durable()),
                None => Box::pin(std::future::ready(Ok(Outcome::default()))),
            };
            self.oldest = Some((durable, receipts));
        }
        let Some((durable, _)) = &mut self.oldest else { return Poll::Pending };
        let outcome = ready!(durable.as_mut().poll(cx))?;
        let receipts = self.oldest.take().map(|(_, receipts)| receipts).unwrap_or_default();
        self.unacknowledged -= receipts.len();
        self.gauge.dec_by(receipts.len() as i64);
        if self.handed_in.is_empty() {
            // An idle connection holds no buffer.
            self.handed_in = VecDeque::new();
        }
        Poll::Ready(Ok(Settled { receipts, outcome }))
    }

    fn poll_handed_in(&mut self, cx: &mut Context<'_>) -> Result<(), NotAccepting> {
        let Some((submit, _)) = &mut self.handing_in else { return Ok(()) };
        let Poll::Ready(pending) = submit.as_mut().poll(cx) else { return Ok(()) };
        let receipts = self.handing_in.take().map(|(_, receipts)| receipts).unwrap_or_default();
        self.handed_in.push_back((Some(pending?), receipts));
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.gauge.dec_by(self.unacknowledged as i64);
    }
}

impl Settled {
    pub(super) fn accepted(&self) -> u32 {
        self.outcome.accepted
    }

    /// Packet ids in order of receipt, with why a report was refused.
    pub(super) fn receipts(&self) -> impl Iterator<Item = (u16, Option<&Problem>)> {
        let mut rejected = self.outcome.rejected.iter().peekable();
        let mut index = 0;
        self.receipts.iter().map(move |receipt| {
            if let Some(problem) = &receipt.refused {
                return (receipt.packet_id, Some(&**problem));
            }
            let problem =
                rejected.next_if(|rejection| rejection.index == index).map(|rejection| &rejection.problem);
            index += 1;
            (receipt.packet_id, problem)
        })
    }
}

#[cfg(test)]
mod tests {
    use engine::Rejection;

    use super::*;

    #[test]
    fn every_publish_gets_its_own_result() {
        let refused = |code| Problem::not_allowed(code, "");
        let local = |code| Some(Box::new(refused(code)));
        let rejection = |index, code| Rejection { index, device: None, problem: refused(code) };
        let settled = Settled {
            receipts: vec![
                Receipt { packet_id: 1, refused: None },
                Receipt { packet_id: 2, refused: local("a") },
                Receipt { packet_id: 3, refused: None },
                Receipt { packet_id: 0, refused: None },
                Receipt { packet_id: 5, refused: local("b") },
                Receipt { packet_id: 6, refused: None },
            ],
            outcome: Outcome { accepted: 2, rejected: vec![rejection(0, "c"), rejection(2, "d")] },
        };
        let told: Vec<_> =
            settled.receipts().map(|(id, problem)| (id, problem.map_or("", |p| p.code))).collect();
        assert_eq!(told, [(1, "c"), (2, "a"), (3, ""), (0, "d"), (5, "b"), (6, "")]);
    }
}
