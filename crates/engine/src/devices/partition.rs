//! A device partition: `watch`, `jobs` and `fleet` composed into one deterministic state machine.
//!
//! An input touches the memory below and one [`Turn`], which becomes one batch and its effects. What is not resident -
//! profiles, bodies, old deliveries - is read through [`Pending`]. Nothing here knows a clock, a socket or a file.

mod attempts;
mod counts;
mod devices;
mod import;
mod loading;
mod notifications;
mod pair;
mod pairs;
mod pending;
mod quarantine;
mod registration;
mod repeating;
mod reports;
mod resending;
mod retention;
mod stale;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base::{ClientId, Incarnation, Lineage, PartitionId, Problem, Timestamp, WayIn};
use jobs::{Jobs, NoCalendar, Passed};
use records::{Batch, Counts, CountsKey, DeviceSlot, DeviceState, Op, PartitionHead, Process, QueueKey};
use store::StoreError;
use watch::{Connections, Noticed, Watch};

use crate::devices::effect::Effect;
use crate::devices::input::Input;
use crate::devices::stats::DeviceStanding;
use crate::kernel::fetch::Fetch;
use crate::kernel::hashed::HashMap;
use crate::kernel::idempotency::Answers;
use crate::kernel::machine::{Machine, Moment, Step};
use crate::settings::Settings;
use counts::{Counted, Group, Groups};
use devices::Devices;
use pairs::Pairs;
use pending::Pending;
use quarantine::Quarantine;

pub use loading::Opened;

/// What a batch may weigh before no more work is taken into it, in bytes as [`Op::weight`] counts them. The heaviest report, of a
/// device with 100 clients and values of 4 KiB, adds a megabyte: far below what a frame of the log may hold.
pub(crate) const STEP_BYTES_MAX: usize = 1 << 20;
/// Devices whose silence is looked at, and jobs that come due, between two looks at the weight.
const DEVICES_AT_A_TIME: usize = 8;
const JOBS_AT_A_TIME: usize = 64;
/// With nothing else to write, the attended clocks are recorded this often, so that silence before a crash counts.
const CLOCKS_RECORDED_EVERY: Duration = Duration::from_secs(10);

/// A device partition.
#[derive(Debug)]
pub struct Partition {
    id: PartitionId,
    lineage: Lineage,
    settings: Arc<Settings>,
    process: Process,
    head: PartitionHead,
    devices: Devices,
    watch: Watch,
    jobs: Jobs,
    pairs: Pairs,
    /// Devices whose newest notification to a client has failed for good.
    stale: HashMap<Incarnation, BTreeSet<DeviceSlot>>,
    quarantine: Quarantine,
    /// What devices are counted together with.
    groups: Groups,
    /// Days' counts that were written lately.
    counts_at_hand: HashMap<CountsKey, Counts>,
    /// Addresses of devices that clients were told of lately; they are read from the store.
    addresses: HashMap<DeviceSlot, Option<Arc<str>>>,
    /// Nobody was told yet which clients are stale.
    unannounced: bool,
    /// The ids of clients that devices here are, or were, linked to.
    clients: HashMap<Incarnation, ClientId>,
    pending: Pending,
    /// What requests were answered that may come again.
    answers: Answers,
    /// What loading found to be written; the first batch begins with it.
    opening: Vec<Op>,
    /// Reports that a step took but had no room for; the next begins with them.
    backlog: Option<reports::Unfinished>,
    /// How it stood after the step before.
    stood: DeviceStanding,
    /// The next step is the last: it records the clocks, so that silence before a stop counts to the end.
    closing: bool,
}

/// What one step collects.
struct Turn<'a> {
    now: Timestamp,
    /// The number that the batch will have.
    seq: u64,
    batch: Batch,
    /// Changes that are weighed, and what they weigh.
    weighed: (usize, usize),
    effects: Vec<Effect>,
    /// Queues that became available.
    wakes: Vec<QueueKey>,
    noticed: Vec<Noticed>,
    counted: Counted,
    /// Groups that devices left: theirs may still be counted.
    left_groups: Vec<Group>,
    fetch: &'a dyn Fetch,
}

/// Why an input came to nothing: refused with an answer, or the store cannot be read and the partition must be dropped.
pub(crate) enum Stop {
    Refused(Problem),
    Broken(StoreError),
}

impl From<Problem> for Stop {
    fn from(problem: Problem) -> Self {
        Self::Refused(problem)
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Broken(error)
    }
}

/// A refusal is an answer; only a broken store is an error.
pub(crate) fn answered<T>(result: Result<T, Stop>) -> Result<Result<T, Problem>, StoreError> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(Stop::Refused(problem)) => Ok(Err(problem)),
        Err(Stop::Broken(error)) => Err(error),
    }
}

impl Machine for Partition {
    type Input = Input;

    fn weight(input: &Input) -> usize {
        match input {
            Input::Reports { reports, .. } => reports.len(),
            Input::Lease { max, .. } => *max,
            Input::Import { lines, .. } => lines.len(),
            Input::Quarantine { messages, .. } => messages.len(),
            Input::AttemptsEnded { ended, .. } => ended.len(),
            _ => 1,
        }
    }

    fn step(
        &mut self,
        moment: Moment,
        inputs: &mut dyn Iterator<Item = Input>,
        fetch: &dyn Fetch,
    ) -> Result<Step, StoreError> {
        self.head.stamp = self.head.stamp.max(moment.stamp);
        let mut turn = Turn {
            now: moment.now.max(self.head.now),
            seq: self.head.seq + 1,
            batch: Batch::new(self.id),
            weighed: (0, 0),
            effects: Vec::new(),
            wakes: Vec::new(),
            noticed: Vec::new(),
            counted: Counted::default(),
            left_groups: Vec::new(),
            fetch,
        };
        turn.batch.ops.append(&mut self.opening);
        self.announce_stale(&mut turn);
        // Inputs first: a device whose report has arrived is not silent, however late the step is.
        if let Some(unfinished) = self.backlog.take() {
            self.reports(unfinished, &mut turn);
        }
        // What the step before has left comes first. Otherwise at least one: whoever runs this has taken it from its inbox.
        let mut takes_more = self.backlog.is_none();
        while takes_more && let Some(input) = inputs.next() {
            self.apply(input, &mut turn)?;
            takes_more = turn.has_room();
        }
        let more = self.advance(&mut turn) | self.answers.forget(repeating::within(&mut turn))?;
        self.seal(turn, more)
    }

    fn settled(&mut self, seq: u64) {
        self.pending.settle(seq);
        self.answers.settle(seq);
    }

    fn close(&mut self) {
        self.closing = true;
    }

    fn has_unfinished(&self) -> bool {
        self.backlog.is_some()
    }

    fn next_wakeup(&self, now: Timestamp) -> Option<Timestamp> {
        let next_move = || retention::next_move(now, &self.settings.keep, self.head.kept_from);
        let days_are_over = (self.head.seq > 0).then(next_move).flatten();
        let own = [self.watch.next_wakeup(now), self.jobs.next_wakeup()];
        let kept = [self.quarantine.next_wakeup(), self.answers.next_wakeup(), days_are_over];
        own.into_iter().chain(kept).flatten().min()
    }
}

impl Partition {
    /// A way in listens from now on, or no longer.
    pub fn attend(&mut self, now: Timestamp, way: WayIn, attended: bool) {
        self.watch.attend(now, way, attended);
    }

    /// What the passing of time brings: silence noticed, jobs due, leases run out. Whether there is more of it now.
    fn advance(&mut self, turn: &mut Turn<'_>) -> bool {
        let mut passed = Vec::new();
        // Once also where inputs have filled the batch: time passes however many come, and who is due must not wait for their end.
        let more_is_due = loop {
            let silence = self.watch.advance(turn.now, DEVICES_AT_A_TIME, &mut turn.batch, &mut turn.noticed);
            self.tell_noticed(turn);
            let due = self.jobs.advance(
                turn.now,
                JOBS_AT_A_TIME,
                &mut NoCalendar,
                &mut turn.batch,
                &mut turn.wakes,
                &mut passed,
            );
            for passed in passed.drain(..) {
                match passed {
                    Passed::Lapsed(lapsed) => self.attempt_lapsed(&lapsed, turn),
                    Passed::Expired(_) => unreachable!("a notification does not expire"),
                }
            }
            let more = silence == watch::Progress::More || due == jobs::Progress::More;
            if !more || !turn.has_room() {
                break more;
            }
        };
        let too_old = self.shrink_quarantine(turn);
        too_old || more_is_due || self.backlog.is_some()
    }

    fn state(&self, slot: DeviceSlot) -> DeviceState {
        self.watch.state(slot).unwrap_or_default()
    }

    fn apply(&mut self, input: Input, turn: &mut Turn<'_>) -> Result<(), StoreError> {
        let effect = match input {
            Input::Reports { way, reports, part } => {
                self.reports(reports::Unfinished { way, reports: reports.into_iter(), part }, turn);
                return Ok(());
            }
            Input::Attend { way, attended } => {
                self.attend(turn.now, way, attended);
                return Ok(());
            }
            Input::CreateDevice { device, reply } => {
                Effect::Device(reply, self.create_device(*device, turn).map(Box::new))
            }
            Input::Import { lines, reply } => {
                let mut outcomes = Vec::with_capacity(lines.len());
                for line in lines {
                    outcomes.push((line.index, answered(self.import(line, turn))?));
                }
                Effect::Imported(reply, outcomes)
            }
            Input::PatchDevice { id, patch, only_if, reply } => {
                Effect::Device(reply, answered(self.patch_device(&id, *patch, &only_if, turn))?.map(Box::new))
            }
            Input::DeleteDevice { id, only_if, reply } => {
                Effect::Done(reply, answered(self.delete_device(&id, &only_if, turn))?)
            }
            Input::Link { id, client, linked, reply } => {
                Effect::Done(reply, answered(self.link(&id, client, linked, turn))?)
            }
            Input::SweepClient { client, reply } => Effect::Swept(reply, self.sweep_client(client, turn)?),
            Input::Lease { client, max, reply } => Effect::Leased(reply, self.lease(client, max, turn)?),
            Input::AttemptsEnded { ended, reply } => {
                for (reservation, end) in &*ended {
                    self.attempt_ended(*reservation, end, turn)?;
                }
                Effect::Kept(reply)
            }
            Input::TellStale { client, probe } => {
                self.tell_stale(client, probe, turn);
                return Ok(());
            }
            Input::Resend { client, after, reply } => {
                Effect::Resent(reply, self.resend(client, after, turn)?)
            }
            Input::Quarantine { way, messages, reply } => {
                self.quarantine(way, messages, turn);
                Effect::Kept(reply)
            }
            Input::Discard { id, reply } => Effect::Done(reply, answered(self.discard(id, turn))?),
            Input::RetryDelivery { id, reply } => {
                Effect::Done(reply, answered(self.retry_delivery(id, turn))?)
            }
            Input::Repeatable { act, reply } => Effect::Written(reply, self.repeatable(act, turn)?),
        };
        turn.effects.push(effect);
        Ok(())
    }

    /// Makes the turn one batch, with the head as it is after it.
    fn seal(&mut self, mut turn: Turn<'_>, more: bool) -> Result<Step, StoreError> {
        self.write_counts(&mut turn)?;
        turn.left_groups.drain(..).for_each(|group| self.groups.leave(group));
        let kept_from = retention::kept_from(turn.now, &self.settings.keep, self.head.kept_from);
        let attended = self.watch.readings_of_clocks(turn.now);
        let long_ago = turn.now.since(self.head.now) >= CLOCKS_RECORDED_EVERY;
        let clocks_are_due =
            (long_ago || self.closing) && attended != self.head.attended && !self.devices.is_empty();
        let days_are_over = kept_from != self.head.kept_from && self.head.seq > 0;
        let batch = (!turn.batch.ops.is_empty() || clocks_are_due || days_are_over).then(|| {
            let numbers = self.jobs.numbers();
            self.head.seq = turn.seq;
            self.head.now = turn.now;
            self.head.attended = attended;
            self.head.kept_from = kept_from;
            self.head.next_job = numbers.next_job;
            self.head.next_lease = numbers.next_lease;
            turn.batch.head = self.head.clone();
            turn.batch
        });
        if !turn.wakes.is_empty() {
            let clients = turn.wakes.iter().map(|queue| client_of(*queue)).collect();
            turn.effects.push(Effect::LanesDue(self.id, clients));
        }
        let standing = self.standing();
        if standing != self.stood {
            self.stood = standing;
            turn.effects.push(Effect::Stands(self.id, standing));
        }
        Ok(Step { batch, effects: turn.effects, more })
    }

    fn standing(&self) -> DeviceStanding {
        let Connections { never_seen, online, lost } = self.watch.connections();
        DeviceStanding { never_seen, online, lost, pending: self.pairs.pending() }
    }
}

impl Turn<'_> {
    /// Whether the batch takes more.
    fn has_room(&mut self) -> bool {
        let (ops, weight) = self.weighed;
        let added: usize = self.batch.ops[ops..].iter().map(Op::weight).sum();
        self.weighed = (self.batch.ops.len(), weight + added);
        self.weighed.1 < STEP_BYTES_MAX
    }

    fn push(&mut self, op: Op) {
        self.batch.ops.push(op);
    }
}

/// The queue of a client's notifications: its registration's number.
fn lane_of(client: Incarnation) -> QueueKey {
    QueueKey(client.0)
}

fn client_of(queue: QueueKey) -> Incarnation {
    Incarnation(queue.0)
}

#[cfg(test)]
mod tests;
