//! Reading the store without holding up the workers: reads run on threads of their own, a few at a
//! time.
//!
//! A list that looks at every device of a large fleet takes seconds. Meanwhile reports and short
//! calls go on, and lookups do not wait behind it. Reads wait for their turn up to a limit, beyond
//! which callers are told to come back.

use std::sync::Arc;

use base::Problem;
use net::shares::{SenderKey, SenderShares, Share};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

/// Lookups of one thing that run at the same time: enough to keep a disk busy.
const LOOKUPS_RUNNING_MAX: usize = 16;
/// Lookups that wait for their turn.
const LOOKUPS_WAITING_MAX: usize = 1_024;
/// Pages of lists that are read at the same time; each may keep a core busy.
const LISTS_RUNNING_MAX: usize = 4;
/// Pages of lists that wait for their turn.
const LISTS_WAITING_MAX: usize = 256;

/// Of those who run or wait, the callers of one token, or of one address where there are none.
const LISTS_SHARE: usize = 130;

/// Pages of messages that are read at the same time. These are more than may wait for one storage,
/// so a storage that hangs holds up neither the others nor any list.
const MESSAGES_RUNNING_MAX: usize = 16;

/// Pages that are looked at again at the same time, for callers who wait for their first item.
const FOLLOWS_RUNNING_MAX: usize = 3;
/// Of those who run, the reads of one token: it leaves a turn to the others.
const FOLLOWS_TURNS_SHARE: usize = 2;
/// As many as may follow feeds, so that nobody who may is refused here.
const FOLLOWS_WAITING_MAX: usize = 2_048;

/// Pieces of exports that are read at the same time: they have time, and leave a core to the
/// others.
const EXPORTS_RUNNING_MAX: usize = 1;
/// Exports that are under way besides. Each has up to two pieces in memory.
const EXPORTS_WAITING_MAX: usize = 15;
/// Of those under way, the exports of one token, or of one address where there are none.
const EXPORTS_SHARE: usize = 8;

/// Reads of one sort.
#[derive(Debug)]
pub(crate) struct Reads {
    places_max: usize,
    /// For everyone who runs or waits.
    places: Arc<Semaphore>,
    /// For those who run.
    turns: Arc<Semaphore>,
    /// Of the places, for each caller.
    shares: Option<SenderShares>,
    /// Of the turns, for each token.
    shares_of_turns: Option<SenderShares>,
}

/// The right to read, also several times one after the other, each time in its turn.
#[derive(Debug)]
pub(crate) struct ReadPermit {
    _place: OwnedSemaphorePermit,
    _of_share: Option<OwnedSemaphorePermit>,
    turns: Arc<Semaphore>,
    /// Of the turns.
    own_turns: Option<Share>,
}

impl Reads {
    /// Lookups of one thing.
    pub(crate) fn lookups() -> Self {
        Self::new(LOOKUPS_RUNNING_MAX, LOOKUPS_WAITING_MAX)
    }

    /// Pages of lists.
    pub(crate) fn lists() -> Self {
        let shares = Some(SenderShares::new(LISTS_SHARE));
        Self { shares, ..Self::new(LISTS_RUNNING_MAX, LISTS_WAITING_MAX) }
    }

    /// Pages of messages of streams.
    pub(crate) fn messages() -> Self {
        let shares = Some(SenderShares::new(LISTS_SHARE));
        Self { shares, ..Self::new(MESSAGES_RUNNING_MAX, LISTS_WAITING_MAX) }
    }

    /// Pages of feeds that are followed.
    pub(crate) fn follows() -> Self {
        let shares_of_turns = Some(SenderShares::new(FOLLOWS_TURNS_SHARE));
        Self { shares_of_turns, ..Self::new(FOLLOWS_RUNNING_MAX, FOLLOWS_WAITING_MAX) }
    }

    /// Exports, for as long as they are under way.
    pub(crate) fn exports() -> Self {
        let shares = Some(SenderShares::new(EXPORTS_SHARE));
        Self { shares, ..Self::new(EXPORTS_RUNNING_MAX, EXPORTS_WAITING_MAX) }
    }

    fn new(running_max: usize, waiting_max: usize) -> Self {
        let places_max = running_max + waiting_max;
        let turns = Arc::new(Semaphore::new(running_max));
        let places = Arc::new(Semaphore::new(places_max));
        Self { places_max, places, turns, shares: None, shares_of_turns: None }
    }

    /// Runs `read` in its turn.
    ///
    /// # Errors
    /// What `read` says, or `busy`.
    ///
    /// # Panics
    /// When `read` does.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.enter()?.run(read).await
    }

    /// A place among those who run or wait.
    ///
    /// # Errors
    /// `busy`.
    pub(crate) fn enter(&self) -> Result<ReadPermit, Problem> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| busy())?;
        Ok(ReadPermit { _place: place, _of_share: None, turns: Arc::clone(&self.turns), own_turns: None })
    }

    /// The same, of the caller's share.
    ///
    /// # Errors
    /// `busy`.
    pub(crate) fn enter_as(&self, whose: &SenderKey) -> Result<ReadPermit, Problem> {
        let share = self.shares.as_ref().map(|shares| shares.of(whose).try_take(1).ok_or_else(busy));
        let of_share = share.transpose()?;
        let is_token = matches!(whose, SenderKey::Token(_));
        let own_turns = self.shares_of_turns.as_ref().filter(|_| is_token).map(|shares| shares.of(whose));
        Ok(ReadPermit { _of_share: of_share, own_turns, ..self.enter()? })
    }

    /// How many may run or wait.
    pub(crate) fn most(&self) -> usize {
        self.places_max
    }

    /// How many run or wait.
    pub(crate) fn in_flight(&self) -> usize {
        self.places_max - self.places.available_permits()
    }
}

impl ReadPermit {
    /// Runs `read` in its turn.
    ///
    /// # Errors
    /// What `read` says.
    ///
    /// # Panics
    /// When `read` does.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        // First the own one: whoever has used up its share does not stand in the way of others.
        let own_turn = match &self.own_turns {
            Some(share) => Some(share.take(1).await),
            None => None,
        };
        let turn = Arc::clone(&self.turns).acquire_owned().await.expect("the turns are never closed");
        // The turn lasts as long as the read, also when the caller has gone.
        let reading = spawn_blocking(move || {
            let _turns = (own_turn, turn);
            read()
        });
        match reading.await {
            Ok(read) => read,
            Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
            Err(_) => Err(Problem::unavailable("the server is stopping")),
        }
    }
}

fn busy() -> Problem {
    Problem::new(503, "busy", "too many reads are waiting for their turn; try again in a moment")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use futures_util::future::join;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_read_waits_for_its_turn_and_beyond_the_limit_it_is_refused() {
        let reads = Reads::new(1, 1);
        let (release, released) = mpsc::channel();
        let slow = reads.run(move || {
            released.recv().expect("the test releases it");
            Ok("slow")
        });
        let others = async {
            let (waiting, refused) = (reads.run(|| Ok("waited")), reads.run(|| Ok("came too late")));
            let refused = async {
                let refused = refused.await;
                assert_eq!(reads.in_flight(), 2);
                release.send(()).expect("the slow read waits");
                refused
            };
            join(waiting, refused).await
        };
        let (slow, (waited, refused)) = join(slow, others).await;
        assert_eq!((slow, waited), (Ok("slow"), Ok("waited")));
        assert_eq!(refused.map_err(|problem| (problem.status, problem.code)), Err((503, "busy")));
        assert_eq!(reads.in_flight(), 0);
    }

    #[test]
    fn one_caller_leaves_places_for_others() {
        let (own, other) = (SenderKey::Token("a".into()), SenderKey::Token("b".into()));
        for (reads, share) in [(Reads::lists(), LISTS_SHARE), (Reads::exports(), EXPORTS_SHARE)] {
            let held: Vec<_> = (0..share).map(|_| reads.enter_as(&own).expect("of its share")).collect();
            assert_eq!(reads.enter_as(&own).err().map(|problem| problem.code), Some("busy"));
            assert!(reads.enter_as(&other).is_ok());
            drop(held);
            assert!(reads.enter_as(&own).is_ok());
        }
    }

    #[tokio::test]
    async fn the_reads_of_one_token_leave_a_turn_to_others() {
        let reads = Reads::follows();
        let [own, other] = ["a", "b"].map(|name| SenderKey::Token(name.into()));
        let (release, released) = mpsc::channel();
        let released = Arc::new(std::sync::Mutex::new(released));
        let slow = || {
            let (place, released) = (reads.enter_as(&own).expect("a place"), Arc::clone(&released));
            async move {
                let wait = move || {
                    let released = released.lock().expect("unpoisoned");
                    released.recv().expect("the test releases it");
                    Ok(())
                };
                place.run(wait).await
            }
        };
        let all_slow = futures_util::future::join_all((0..FOLLOWS_RUNNING_MAX + 1).map(|_| slow()));
        let others = async {
            let place = reads.enter_as(&other).expect("a place");
            let read = timeout(Duration::from_secs(20), place.run(|| Ok("its turn"))).await;
            for _ in 0..=FOLLOWS_RUNNING_MAX {
                release.send(()).expect("the slow reads wait");
            }
            read
        };
        let (slow, other) = join(all_slow, others).await;
        assert_eq!(other, Ok(Ok("its turn")));
        assert_eq!(slow, vec![Ok(()); FOLLOWS_RUNNING_MAX + 1]);
    }

    #[tokio::test]
    async fn a_read_that_panics_gives_its_turn_back() {
        let reads = Arc::new(Reads::new(1, 0));
        let panicking = Arc::clone(&reads);
        let ended = tokio::spawn(async move { panicking.run::<()>(|| panic!("on purpose")).await }).await;
        assert!(ended.is_err_and(|error| error.is_panic()));
        assert_eq!(reads.run(|| Ok(1)).await, Ok(1));
    }
}
