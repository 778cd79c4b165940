//! The pace of who takes a large answer: while others wait for the memory that it takes, it has to
//! move on.
//!
//! A connection that takes nothing at all is closed in any case. One that takes a little now and
//! then would hold its memory for as long as it likes. While there is enough, it is in nobody's
//! way.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::Poll;
use std::time::Duration;

use base::answers::TakenFrom;
use base::locks::locked;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::pace::{PaceWatch, TAKING};

/// Who was refused is thought to wait for so long: it was told to come back.
const COMES_BACK_WITHIN: Duration = Duration::from_secs(30);

const _: () = assert!(COMES_BACK_WITHIN.as_secs() > TAKING.every.as_secs(), "each refusal is noticed");

/// When somebody was refused last.
#[derive(Clone, Debug, Default)]
pub(super) struct LastRefusal(Arc<Mutex<Option<Instant>>>);

impl LastRefusal {
    pub(super) fn note(&self) {
        *locked(&self.0) = Some(Instant::now());
    }

    fn is_recent(&self) -> bool {
        let last = *locked(&self.0);
        last.is_some_and(|at| at.elapsed() < COMES_BACK_WITHIN)
    }
}

/// Of the answers of a connection, one after the other.
#[derive(Debug, Default)]
pub(super) struct AnswerPace {
    begun: Notify,
    in_flight: Mutex<Weak<AnswerInFlight>>,
}

/// An answer that is on its way, as long as anything of it is there.
#[derive(Debug)]
pub(super) struct AnswerInFlight {
    taken: AtomicUsize,
    refused: LastRefusal,
    from: Option<TakenFrom>,
}

impl AnswerInFlight {
    /// The connection has sent so many bytes more.
    pub(super) fn takes(&self, bytes: usize) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    fn others_wait(&self) -> bool {
        self.refused.is_recent() || self.from.as_ref().is_some_and(TakenFrom::is_wanted)
    }
}

impl AnswerPace {
    /// An answer is on its way; others wait for what it takes when somebody was refused lately, or
    /// wants it.
    pub(super) fn begins(&self, refused: &LastRefusal, from: Option<TakenFrom>) -> Arc<AnswerInFlight> {
        let in_flight =
            Arc::new(AnswerInFlight { taken: AtomicUsize::new(0), refused: refused.clone(), from });
        *locked(&self.in_flight) = Arc::downgrade(&in_flight);
        self.begun.notify_one();
        in_flight
    }

    /// Resolves when too little was taken of an answer while others waited.
    pub(super) async fn is_lost(&self) {
        loop {
            self.begun.notified().await;
            loop {
                let watched = Weak::clone(&locked(&self.in_flight));
                if watched.strong_count() == 0 {
                    break;
                }
                // In a box: most connections are never looked at.
                if Box::pin(is_too_slow(&watched)).await {
                    return;
                }
            }
        }
    }
}

/// Whether the answer was taken too slowly, which is known when it is over.
async fn is_too_slow(watched: &Weak<AnswerInFlight>) -> bool {
    let mut watch = PaceWatch::new(TAKING);
    poll_fn(|cx| {
        let Some(in_flight) = watched.upgrade() else { return Poll::Ready(false) };
        watch.moved(in_flight.taken.swap(0, Ordering::Relaxed));
        watch.poll_too_slow(cx, || in_flight.others_wait()).map(|()| true)
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use base::answers::Wanted;
    use futures_util::FutureExt;
    use tokio::time::{advance, pause};

    use super::*;

    /// Whether the connection is lost after each of so many looks, when so many bytes are taken
    /// between them.
    async fn looks(pace: &AnswerPace, in_flight: &AnswerInFlight, bytes: usize, looks: usize) -> bool {
        let mut lost = pin!(pace.is_lost());
        for _ in 0..looks {
            if lost.as_mut().now_or_never().is_some() {
                return true;
            }
            in_flight.takes(bytes);
            advance(TAKING.every + Duration::from_millis(1)).await;
        }
        lost.now_or_never().is_some()
    }

    #[tokio::test]
    async fn who_takes_little_is_lost_only_while_others_wait() {
        pause();
        let (refused, wanted) = (LastRefusal::default(), Wanted::default());
        for (taken, waits, expect) in [
            (0, false, false),
            (TAKING.bytes_min - 1, true, true),
            (TAKING.bytes_min, true, false),
            (0, true, true),
        ] {
            let pace = AnswerPace::default();
            let in_flight = pace.begins(&refused, Some(TakenFrom([Wanted::default(), wanted.clone()])));
            let _waits = waits.then(|| wanted.wait());
            assert_eq!(
                looks(&pace, &in_flight, taken, 5).await,
                expect,
                "{taken} bytes, others wait: {waits}"
            );
        }
        let pace = AnswerPace::default();
        let in_flight = pace.begins(&refused, None);
        assert!(!looks(&pace, &in_flight, 0, 5).await);
        pace.begun.notify_one();
        refused.note();
        assert!(looks(&pace, &in_flight, 0, 2).await, "somebody was refused");
    }

    #[tokio::test]
    async fn an_answer_that_is_sent_is_not_looked_at() {
        pause();
        let (pace, refused) = (AnswerPace::default(), LastRefusal::default());
        drop(pace.begins(&refused, None));
        let next = pace.begins(&refused, None);
        refused.note();
        drop(next);
        let none = AnswerInFlight { taken: AtomicUsize::new(0), refused, from: None };
        assert!(!looks(&pace, &none, 0, 5).await);
    }
}
