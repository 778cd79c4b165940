//! The thin loop that runs a state machine on a task: it waits for inputs, outcomes and timers, and
//! hands them to the [`Runner`].
//!
//! It goes on stepping while earlier batches are being written, up to a limit. Beyond that, inputs
//! gather in the inbox, and when that is full their senders wait.

use std::future::pending;
use std::sync::Arc;

use base::Timestamp;
use base::invariant::or_stop_the_process;
use store::StoreError;
use tokio::sync::{mpsc, watch};
use tracing::error;

use super::alarm::{Alarm, Steps};
use super::context::KernelContext;
use super::machine::Machine;
use super::runner::{BATCHES_IN_FLIGHT_MAX, CommitResult, Runner};

/// Inputs that wait for a partition at most; each is at most a slice.
pub(crate) const INBOX_INPUTS_MAX: usize = 256;
/// What the inputs that one step takes in may weigh together, as [`Machine::weight`] counts them.
const STEP_WEIGHT_MAX: usize = 4_000;
/// Outcomes that wait at most.
const OUTCOMES_MAX: usize = BATCHES_IN_FLIGHT_MAX;

/// One machine with all that drives it.
pub(crate) struct MachineDriver<M: Machine> {
    pub runner: Runner<M>,
    pub inbox: mpsc::Receiver<M::Input>,
    /// Becomes true when the inbox is to be closed.
    pub stop: watch::Receiver<bool>,
    pub kernel: Arc<KernelContext>,
}

/// Why the driver woke.
enum DriverEvent<I> {
    Input(Option<I>),
    Outcome(CommitResult),
    Stop,
    Timer,
}

impl<M: Machine> MachineDriver<M> {
    /// Runs until the inbox is closed and everything is durable, or the store does not go on.
    pub(crate) async fn run(mut self) {
        if let Err(error) = self.serve().await {
            error!(partition = %self.runner.id(), %error, "partition stops: its store does not go on");
            self.kernel.fail(error);
            // Dropping an input tells its sender.
            self.inbox.close();
            while self.inbox.recv().await.is_some() {}
        }
    }

    async fn serve(&mut self) -> Result<(), Arc<StoreError>> {
        let (done, mut outcomes) = mpsc::channel(OUTCOMES_MAX);
        let (mut more, mut open, mut stopping) = (true, true, false);
        let kernel = Arc::clone(&self.kernel);
        let mut steps = kernel.alarm().steps();
        while open || self.runner.has_unfinished() || !self.runner.is_settled() {
            let now = self.kernel.clock.now();
            let may_step = self.runner.may_step();
            // What was taken comes before what waits, and a server that stops notices nothing more.
            let unfinished = self.runner.has_unfinished();
            let wakeup = self.runner.next_wakeup(now).filter(|_| may_step && open);
            let at_once = may_step && (unfinished || (more && open));
            let woken = tokio::select! {
                biased;
                Some(result) = outcomes.recv() => DriverEvent::Outcome(result),
                _ = self.stop.wait_for(|stop| *stop), if !stopping => DriverEvent::Stop,
                input = self.inbox.recv(), if may_step && open && !unfinished => DriverEvent::Input(input),
                () = until(kernel.alarm(), &mut steps, wakeup, at_once) => DriverEvent::Timer,
            };
            match woken {
                DriverEvent::Outcome(result) => {
                    or_stop_the_process("a partition", || self.runner.outcome(result))?;
                }
                DriverEvent::Stop => {
                    self.inbox.close();
                    stopping = true;
                }
                DriverEvent::Input(None) => {
                    open = false;
                    self.runner.close();
                    self.step(None, &done)?;
                }
                DriverEvent::Input(input) => more = self.step(input, &done)?,
                DriverEvent::Timer => more = self.step(None, &done)?,
            }
        }
        Ok(())
    }

    /// One step over `first` and whatever else waits, up to the budget. Whether there is more to do
    /// at once.
    fn step(
        &mut self,
        first: Option<M::Input>,
        done: &mpsc::Sender<CommitResult>,
    ) -> Result<bool, Arc<StoreError>> {
        let mut weight = first.as_ref().map_or(0, M::weight);
        let inbox = &mut self.inbox;
        let mut inputs = first.into_iter().chain(std::iter::from_fn(|| {
            if weight >= STEP_WEIGHT_MAX {
                return None;
            }
            let input = inbox.try_recv().ok()?;
            weight += M::weight(&input);
            Some(input)
        }));
        let done = done.clone();
        let tell = move |result| {
            // A closed channel means that the driver has gone.
            if let Err(mpsc::error::TrySendError::Full(result)) = done.try_send(result) {
                panic!("there is room for every outcome that can wait, {result:?} too");
            }
        };
        let runner = &mut self.runner;
        or_stop_the_process("a partition", || runner.step(&mut inputs, tell)).map_err(Arc::new)
    }
}

/// Waits for `wakeup` or a step of the clocks, or not at all if there is more to do at once.
async fn until(alarm: &Alarm, steps: &mut Steps, wakeup: Option<Timestamp>, at_once: bool) {
    if at_once {
        return;
    }
    match wakeup {
        Some(at) => alarm.until_or_step(at, steps).await,
        None => pending().await,
    }
}
