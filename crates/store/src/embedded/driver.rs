//! The threads of a store: one commits, one makes checkpoints. Both wait for signals, neither
//! polls.

mod committing;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use base::invariant::or_stop_the_process;
use base::{Clock, Timestamp};

use super::locks::locked;
use super::{EmbeddedStore, StepOutcome};
use crate::port::Store;
use committing::Committing;

/// A store whose threads run, until [`Running::stop`] or until it is dropped.
#[derive(Debug)]
pub struct Running {
    store: Arc<EmbeddedStore>,
    bell: Arc<Bell>,
    committer: Option<JoinHandle<()>>,
    checkpointer: Option<JoinHandle<()>>,
}

fn join(thread: Option<JoinHandle<()>>) {
    let ended = thread.map_or(Ok(()), JoinHandle::join);
    debug_assert!(ended.is_ok(), "a thread that panics takes the process with it");
}

impl Running {
    /// Starts the threads. `clock` is the engine clock: by it changes grow old.
    ///
    /// # Errors
    /// When the operating system gives no thread.
    pub fn start(store: Arc<EmbeddedStore>, clock: Arc<dyn Clock>) -> std::io::Result<Self> {
        let bell = Arc::new(Bell::default());
        let mut running = Self { store, bell, committer: None, checkpointer: None };
        let (store, bell) = (Arc::clone(&running.store), Arc::clone(&running.bell));
        running.committer = Some(spawn("store-commit", move || Committing::new(&store, &bell).run())?);
        let (store, bell) = (Arc::clone(&running.store), Arc::clone(&running.bell));
        running.checkpointer = Some(spawn("store-checkpoint", move || checkpoint(&store, &bell, &*clock))?);
        Ok(running)
    }

    /// Lets nothing more in, commits what waits, claims the log, and ends the threads.
    pub fn stop(mut self) {
        self.end();
    }

    /// The committer first: while it commits what waits it may need the checkpointer to make room.
    fn end(&mut self) {
        self.store.inbox.close();
        join(self.committer.take());
        self.bell.end();
        join(self.checkpointer.take());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn spawn(name: &'static str, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(move || or_stop_the_process(name, run))
}

/// Wakes the checkpointer.
#[derive(Debug, Default)]
struct Bell {
    state: Mutex<BellState>,
    rung: Condvar,
    /// The checkpointer waits for any change at all, not for a time.
    waits_for_change: AtomicBool,
}

#[derive(Debug, Default)]
struct BellState {
    is_rung: bool,
    has_ended: bool,
}

impl Bell {
    fn ring(&self) {
        locked(&self.state).is_rung = true;
        self.rung.notify_one();
    }

    /// A batch was committed.
    fn committed(&self, is_laden: bool) {
        if is_laden || self.waits_for_change.load(Ordering::Acquire) {
            self.ring();
        }
    }

    fn end(&self) {
        locked(&self.state).has_ended = true;
        self.rung.notify_one();
    }

    /// Waits until it is rung, or for `timeout`; whether to go on.
    fn wait(&self, timeout: Option<Duration>) -> bool {
        const INVARIANT: &str = "no thread of the store panics while it holds a lock";
        let quiet = |state: &mut BellState| !state.is_rung && !state.has_ended;
        let state = locked(&self.state);
        let mut state = match timeout {
            None => self.rung.wait_while(state, quiet).expect(INVARIANT),
            Some(timeout) => self.rung.wait_timeout_while(state, timeout, quiet).expect(INVARIANT).0,
        };
        state.is_rung = false;
        !state.has_ended
    }

    fn has_ended(&self) -> bool {
        locked(&self.state).has_ended
    }
}

/// Until it is told to end, or the store has failed: then there is nothing left to write.
fn checkpoint(store: &EmbeddedStore, bell: &Bell, clock: &dyn Clock) {
    while !bell.has_ended() && store.failure().is_none() {
        if store.checkpoint_step(clock.now()) == StepOutcome::Worked {
            store.inbox.nudge();
            continue;
        }
        bell.waits_for_change.store(true, Ordering::Release);
        let next = store.next_checkpoint();
        bell.waits_for_change.store(next.is_none(), Ordering::Release);
        if !bell.wait(next.map(|next| until(next, clock.now()))) {
            break;
        }
        bell.waits_for_change.store(false, Ordering::Release);
    }
    // a committer that waits for room must see the end, or the failure
    store.inbox.nudge();
}

/// At least a millisecond: the clocks of engine and threads are not the same.
fn until(next: Timestamp, now: Timestamp) -> Duration {
    next.since(now).max(Duration::from_millis(1))
}
