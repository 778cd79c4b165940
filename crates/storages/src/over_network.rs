//! Calls to a server over a network, from threads that may block. There are few at a time, each for
//! a bounded time, and none for a while after the server did not answer.

use std::future::Future;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

/// Calls under way at a time.
const CALLS_MAX: usize = 8;
/// How long a call waits until it may begin.
const PERMIT_WAIT_MAX: Duration = Duration::from_secs(2);
/// How long a call takes that is answered with little, or with a part of a block.
pub(crate) const READ_MAX: Duration = Duration::from_secs(30);
/// How long a call takes that sends a block.
pub(crate) const WRITE_MAX: Duration = Duration::from_secs(180);
/// After how long a server that did not answer is asked again, at first.
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// The longest such time.
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// Where calls are done.
#[derive(Debug)]
pub(crate) struct OverNetwork {
    /// There until it is dropped.
    runtime: Option<Runtime>,
    state: Mutex<CallState>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct CallState {
    under_way: usize,
    /// Until when nothing is asked, after how long then, and why.
    paused: Option<(Instant, Duration, String)>,
}

impl OverNetwork {
    pub(crate) fn new(thread: &str) -> io::Result<Self> {
        let runtime =
            Builder::new_multi_thread().worker_threads(1).thread_name(thread).enable_all().build()?;
        Ok(Self { runtime: Some(runtime), state: Mutex::default(), freed: Condvar::new() })
    }

    /// Does a call. An error of another kind than `NotFound` and `UnexpectedEof` says that the
    /// server cannot be used: calls fail for a while without asking it.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        longest: Duration,
        call: impl Future<Output = io::Result<T>> + Send + 'static,
    ) -> io::Result<T> {
        let Some(runtime) = &self.runtime else { return Err(io::Error::other("it is closed")) };
        self.begin_call()?;
        let (tell, told) = mpsc::sync_channel(1);
        runtime.spawn(async move {
            let ended = tokio::time::timeout(longest, call).await;
            let late = |_| io::Error::new(io::ErrorKind::TimedOut, "it does not answer");
            // Whoever asked waits for it.
            let _gone = tell.send(ended.map_err(late).flatten());
        });
        let result = told.recv().unwrap_or_else(|_| Err(io::Error::other("the call was cut off")));
        self.end_call(&result);
        result
    }

    fn begin_call(&self) -> io::Result<()> {
        let mut state = self.state();
        let until = Instant::now() + PERMIT_WAIT_MAX;
        loop {
            if let Some((at, _, why)) = &state.paused
                && Instant::now() < *at
            {
                return Err(io::Error::other(why.clone()));
            }
            if state.under_way < CALLS_MAX {
                state.under_way += 1;
                return Ok(());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "too many calls wait for it"));
            }
            state = self.freed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn end_call<T>(&self, result: &io::Result<T>) {
        let mut state = self.state();
        state.under_way -= 1;
        let answered = |error: &io::Error| {
            matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput
            )
        };
        match result.as_ref().err().filter(|error| !answered(error)) {
            None => state.paused = None,
            // Of calls that were under way together one counts.
            Some(_) if state.paused.as_ref().is_some_and(|(at, ..)| Instant::now() < *at) => {}
            Some(error) => {
                let pause =
                    state.paused.as_ref().map_or(PAUSE_MIN, |(_, pause, _)| (*pause * 2).min(PAUSE_MAX));
                state.paused = Some((Instant::now() + pause, pause, error.to_string()));
            }
        }
        drop(state);
        self.freed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, CallState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OverNetwork {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // It may be dropped where nothing may block.
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_fails_is_left_alone_for_a_while() {
        let network = OverNetwork::new("test").expect("starts");
        let refused = || io::Error::new(io::ErrorKind::ConnectionRefused, "nobody listens");
        assert!(network.call(READ_MAX, async move { Err::<(), _>(refused()) }).is_err());
        // However slow the machine is, the pause is not over yet.
        network.state().paused.as_mut().expect("left alone").0 += Duration::from_secs(60);
        let error = network.call(READ_MAX, async { Ok(()) }).expect_err("it is not asked");
        assert_eq!(error.to_string(), "nobody listens");
        network.state().paused = None;
        let missing = io::Error::new(io::ErrorKind::NotFound, "no such block");
        assert!(network.call(READ_MAX, async move { Err::<(), _>(missing) }).is_err());
        assert_eq!(network.call(READ_MAX, async { Ok(7) }).expect("that was an answer"), 7);
    }
}
