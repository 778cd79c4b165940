//! A device partition: `watch`, `jobs` and `fleet` composed into one deterministic state machine.
//!
//! An input touches the memory below and one [`StepContext`], which becomes one batch and its
//! effects. What is not resident - profiles, bodies, old deliveries - is read through
//! [`PendingRecords`]. Nothing here knows a clock, a socket or a file.

mod attempt_ends;
mod attempts;
mod commands;
mod counts;
mod devices;
mod ended_job;
mod import;
mod loading;
mod notification_state;
mod notification_states;
mod notifications;
mod orders;
mod outcomes;
mod pending;
mod picks;
mod purpose;
mod quarantine;
mod registration;
mod report_outbox;
mod reports;
mod resending;
mod retention;
mod rollouts;
mod stale;
mod timeline;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::{ClientId, DeviceId, Incarnation, Lineage, PartitionId, Timestamp, WayIn};
use fleet::index::IndexChange;
use jobs::Jobs;
use records::{CountsKey, DeviceSlot, DeviceState, HourlyCounts, Op, PartitionHead, Process};
use store::StoreError;
use watch::{Connections, Noticed, Watch};

use crate::devices::context::DeviceContext;
use crate::devices::effect::DeviceEffect;
use crate::devices::input::{CommandInput, DeviceInput, Repeatable};
use crate::devices::quarantine_budget::QuarantineChanges;
use crate::devices::stats::DeviceStats;
use crate::jobs_part::{HasJobs, JobsPart};
use crate::kernel::fetch::Fetch;
use crate::kernel::hashed::HashMap;
use crate::kernel::idempotency::{Idempotent, KeptAnswers};
use crate::kernel::loaded_changes::LoadedChanges;
use crate::kernel::machine::{Machine, Step, StepTime};
use crate::kernel::reply::{Answered, answered};
use crate::kernel::step_context::StepContext;
use crate::outcomes::OutcomeLane;
use crate::settings::EngineSettings;
use commands::DeviceCommands;
use counts::{DeviceGroups, Group, StepCounts};
use devices::ResidentDevices;
use ended_job::EndedJob;
use notification_states::NotificationStates;
use pending::PendingRecords;
use quarantine::PartitionQuarantine;
use report_outbox::{BegunRows, ReportOutbox};

pub use loading::OpenedPartition;

/// Devices whose silence is looked at, and jobs that come due, between two looks at the weight.
const DEVICES_AT_A_TIME: usize = 8;
const JOBS_AT_A_TIME: usize = 64;
/// With nothing else to write, the attended clocks are recorded this often, so that silence before
/// a crash counts. They are recorded at multiples of it, where one sync serves all partitions.
const CLOCKS_RECORDED_EVERY: Duration = Duration::from_secs(10);

/// A device partition.
#[derive(Debug)]
pub struct DevicePartition {
    id: PartitionId,
    lineage: Lineage,
    settings: Arc<EngineSettings>,
    process: Process,
    head: PartitionHead,
    devices: ResidentDevices,
    watch: Watch,
    jobs: Jobs,
    notification_states: NotificationStates,
    /// Devices whose newest notification to a client has failed for good.
    stale: HashMap<Incarnation, BTreeSet<DeviceSlot>>,
    quarantine: PartitionQuarantine,
    /// What devices are counted together with.
    groups: DeviceGroups,
    /// Days' counts that were written lately.
    counts_at_hand: HashMap<CountsKey, HourlyCounts>,
    /// Addresses of devices that clients were told of lately; they are read from the store.
    addresses: HashMap<DeviceSlot, Option<Arc<str>>>,
    /// Nobody was told yet which clients are stale.
    unannounced: bool,
    /// The ids of clients that devices here are, or were, linked to.
    clients: HashMap<Incarnation, ClientId>,
    pending: PendingRecords,
    commands: DeviceCommands,
    /// What requests were answered that may come again.
    answers: KeptAnswers,
    loaded_changes: LoadedChanges<LoadedChange>,
    /// Reports that a step took but had no room for; the next begins with them.
    backlog: Option<reports::Unfinished>,
    /// Its counts after the step before.
    latest_stats: DeviceStats,
    /// What copies of kind `reports` get of its reports.
    outbox: ReportOutbox,
    /// The next step is the last: it records the clocks, so that silence before a stop counts to
    /// the end.
    closing: bool,
}

/// What loading changed in a job. It is written whole: a start that found half of it would not see
/// that its attempt was cut off.
#[derive(Debug)]
struct LoadedChange {
    ops: Vec<Op>,
    /// What became of it, if its attempt was under way in an earlier process.
    cut_off: Option<EndedJob>,
}

/// A step of a partition of devices. The heaviest report, of a device with 100 clients and values
/// of 4 KiB, adds a megabyte to its batch.
type DeviceStep<'a> = StepContext<'a, DeviceEffect, DeviceStepPart>;

/// What only partitions of devices collect in a step.
#[derive(Default)]
struct DeviceStepPart {
    jobs: JobsPart,
    noticed: Vec<Noticed>,
    /// Devices that were lost, by group, and one of each.
    lost: HashMap<Group, (u32, DeviceId)>,
    counted: StepCounts,
    /// Groups that devices left: theirs may still be counted.
    left_groups: Vec<Group>,
    /// What changes in the index of devices.
    indexed: Vec<IndexChange>,
    /// What is gathered for copies.
    gathered: BegunRows,
    /// Refused reports that came or were discarded.
    quarantine: QuarantineChanges,
    /// Outcomes that were given up.
    outcomes_given_up: BTreeMap<OutcomeLane, u64>,
}

impl HasJobs for DeviceStepPart {
    fn jobs_part(&mut self) -> &mut JobsPart {
        &mut self.jobs
    }
}

impl Machine for DevicePartition {
    type Input = DeviceInput;
    type Effect = DeviceEffect;
    type Context = DeviceContext;

    fn weight(input: &DeviceInput) -> usize {
        match input {
            DeviceInput::Reports { reports, .. } => reports.len(),
            DeviceInput::Lease { wanted, .. } => wanted.iter().map(|(_, max)| *max).sum(),
            DeviceInput::Commands(CommandInput::LeaseOutcomes { max, .. }) => *max,
            DeviceInput::Import { lines, .. } => lines.len(),
            DeviceInput::Quarantine { messages, .. } => messages.len(),
            DeviceInput::AttemptsEnded { ended, .. } => ended.len(),
            DeviceInput::RolloutOrders { orders, .. } => orders.len(),
            DeviceInput::PickOrders { orders, .. } => orders.len(),
            _ => 1,
        }
    }

    fn step(
        &mut self,
        moment: StepTime,
        inputs: &mut dyn Iterator<Item = DeviceInput>,
        fetch: &dyn Fetch,
    ) -> Result<Step<DeviceEffect>, StoreError> {
        self.head.stamp = self.head.stamp.max(moment.stamp);
        let mut step = StepContext::new(self.id, &self.head, moment, fetch, DeviceStepPart::default());
        if !self.write_loaded(&mut step) {
            return self.seal(step, true);
        }
        self.announce_stale(&mut step);
        self.outbox.refresh();
        // Inputs first: a device whose report has arrived is not silent, however late the step is.
        if let Some(unfinished) = self.backlog.take() {
            self.reports(unfinished, &mut step)?;
        }
        // What the step before has left comes first. Otherwise at least one: whoever runs this has
        // taken it from its inbox.
        let mut takes_more = self.backlog.is_none();
        while takes_more && let Some(input) = inputs.next() {
            self.apply(input, &mut step)?;
            takes_more = step.has_room();
        }
        let more = self.advance(&mut step)? | self.answers.forget(&mut step)?;
        self.seal(step, more)
    }

    fn settled(&mut self, seq: u64) {
        self.pending.settle(seq);
        self.answers.settle(seq);
        self.commands.settle(seq);
    }

    fn close(&mut self) {
        self.closing = true;
    }

    fn has_unfinished(&self) -> bool {
        self.backlog.is_some() || !self.loaded_changes.is_empty()
    }

    fn next_wakeup(&self, now: Timestamp) -> Option<Timestamp> {
        let next_move = || retention::next_move(now, &self.settings.keep, self.head.kept_from);
        let days_are_over = (self.head.seq > 0).then(next_move).flatten();
        let own =
            [self.watch.next_wakeup(now), self.jobs.next_wakeup(), self.commands.next_wakeup(&self.jobs)];
        let quarantine = self.quarantine.next_wakeup(&self.settings.keep);
        let kept = [quarantine, self.answers.next_wakeup(), days_are_over];
        own.into_iter().chain(kept).flatten().min()
    }
}

impl Idempotent for DevicePartition {
    fn answers(&mut self) -> &mut KeptAnswers {
        &mut self.answers
    }
}

impl DevicePartition {
    /// A way in listens from now on, or no longer.
    pub fn attend(&mut self, now: Timestamp, way: WayIn, attended: bool) {
        self.watch.attend(now, way, attended);
    }

    /// Takes what loading found into the batch, as far as there is room. Whether that was all.
    fn write_loaded(&mut self, step: &mut DeviceStep<'_>) -> bool {
        while let Some(LoadedChange { ops, cut_off }) = self.loaded_changes.take_next(step) {
            step.batch.ops.extend(ops);
            cut_off.into_iter().for_each(|ended| self.job_ended(ended, step));
        }
        self.loaded_changes.is_empty()
    }

    /// What the passing of time brings: silence noticed, jobs due, leases run out. Whether there is
    /// more of it now.
    fn advance(&mut self, step: &mut DeviceStep<'_>) -> Result<bool, StoreError> {
        let mut passed = Vec::new();
        // Once also where inputs have filled the batch: time passes however many come, and who is
        // due must not wait for their end.
        let more_is_due = loop {
            let silence =
                self.watch.advance(step.now, DEVICES_AT_A_TIME, &mut step.batch, &mut step.own.noticed);
            self.tell_noticed(step);
            let due = self.jobs.advance(JOBS_AT_A_TIME, &mut passed, &mut step.jobs());
            passed.drain(..).for_each(|passed| self.job_ended(passed.into(), step));
            let commands = self.advance_commands(step)?;
            let others_are_due = silence == watch::WatchProgress::More || due == jobs::JobsProgress::More;
            let more = others_are_due || commands.are_due;
            // Commands that have to wait for room weigh nothing, and cost a look each.
            let looked_only = !others_are_due && !commands.have_moved;
            if !more || looked_only || !step.has_room() {
                break more;
            }
        };
        // Behind what time brings: a command whose time has come takes its place before lanes open.
        let searches = self.sweep_reach(step)? | self.check_sessions(step)?;
        Ok(searches || more_is_due || self.backlog.is_some())
    }

    /// What a request asks that may come again: done once, and the answer is kept with it.
    fn repeatable(
        &mut self,
        act: Repeatable,
        step: &mut DeviceStep<'_>,
    ) -> Result<Answered<Arc<[u8]>>, StoreError> {
        match act {
            Repeatable::CreateDevice(device, form) => {
                self.once(&form, step, |partition, step| Ok(partition.create_device(*device, step)?))
            }
            Repeatable::RetryDelivery(id, form) => {
                self.once(&form, step, |partition, step| partition.retry_delivery(id, step))
            }
            Repeatable::SendCommand(device, command, form) => self.send_once(&device, *command, &form, step),
            Repeatable::RetryCommand(id, form) => {
                self.once(&form, step, |partition, step| partition.retry_command(id, step))
            }
        }
    }

    fn state(&self, slot: DeviceSlot) -> DeviceState {
        self.watch.state(slot).unwrap_or_default()
    }

    fn apply(&mut self, input: DeviceInput, step: &mut DeviceStep<'_>) -> Result<(), StoreError> {
        use DeviceInput::{
            Discard, Import, Lease, Link, PickOrders, Repeatable, Resend, RolloutOrders, SweepClient,
        };

        let effect = match input {
            DeviceInput::Reports { way, reports, part } => {
                return self.reports(reports::Unfinished { way, reports: reports.into_iter(), part }, step);
            }
            DeviceInput::Attend { way, attended } => {
                self.attend(step.now, way, attended);
                return Ok(());
            }
            DeviceInput::CreateDevice { device, reply } => {
                DeviceEffect::Device(reply, self.create_device(*device, step).map(Box::new))
            }
            Import { lines, reply } => DeviceEffect::Imported(reply, self.import_lines(lines, step)?),
            DeviceInput::PatchDevice { id, patch, only_if, reply } => DeviceEffect::Device(
                reply,
                answered(self.patch_device(&id, *patch, &only_if, step))?.map(Box::new),
            ),
            DeviceInput::DeleteDevice { id, only_if, reply } => {
                DeviceEffect::Done(reply, answered(self.delete_device(&id, &only_if, step))?)
            }
            Link { id, client, linked, reply } => {
                DeviceEffect::Done(reply, answered(self.link(&id, client, linked, step))?)
            }
            SweepClient { client, reply } => DeviceEffect::Swept(reply, self.sweep(client, step)?),
            Lease { wanted, reply } => DeviceEffect::Leased(reply, self.lease_all(&wanted, step)?),
            DeviceInput::AttemptsEnded { ended, reply } => {
                self.attempts_ended(&ended, step)?;
                DeviceEffect::Kept(reply)
            }
            DeviceInput::TellStale { client, probe } => {
                self.tell_stale(client, probe, step);
                return Ok(());
            }
            Resend { client, after, reply } => DeviceEffect::Resent(reply, self.resend(client, after, step)?),
            DeviceInput::Quarantine { way, messages, reply } => {
                self.quarantine(way, messages, step);
                DeviceEffect::Kept(reply)
            }
            Discard { id, reply } => DeviceEffect::Done(reply, answered(self.discard(id, step))?),
            DeviceInput::ShowBody { slot, client, delivery, reply } => {
                DeviceEffect::Body(reply, self.body_of((slot, client), delivery, step)?)
            }
            DeviceInput::RetryDelivery { id, reply } => {
                DeviceEffect::Done(reply, answered(self.retry_delivery(id, step))?)
            }
            DeviceInput::Commands(input) => return self.apply_to_commands(input, step),
            RolloutOrders { orders, reply } => {
                DeviceEffect::RolloutReports(reply, self.rollout_orders(orders, step)?)
            }
            PickOrders { orders, reply } => DeviceEffect::PickReports(reply, self.pick_orders(orders, step)?),
            Repeatable { act, reply } => DeviceEffect::Written(reply, self.repeatable(act, step)?),
            DeviceInput::Gathered(input) => self.apply_to_gathered(input, step),
        };
        step.effects.push(effect);
        Ok(())
    }

    /// Ends the step: its changes become one batch.
    fn seal(&mut self, mut step: DeviceStep<'_>, more: bool) -> Result<Step<DeviceEffect>, StoreError> {
        self.write_counts(&mut step)?;
        let more = self.shrink_quarantine(&mut step) || more;
        self.write_gathered(&mut step);
        self.tell_lost(&mut step);
        step.own.left_groups.drain(..).for_each(|group| self.groups.leave(group));
        let kept_from = retention::kept_from(step.now, &self.settings.keep, self.head.kept_from);
        let attended = self.watch.readings_of_clocks(step.now);
        let span = |at: Timestamp| at.0.div_euclid(CLOCKS_RECORDED_EVERY.as_millis() as i64);
        let clocks_are_due = (span(step.now) > span(self.head.now) || self.closing)
            && attended != self.head.attended
            && !self.devices.is_empty();
        let days_are_over = kept_from != self.head.kept_from && self.head.seq > 0;
        self.announce_lines(&mut step);
        self.index(&mut step);
        let stats = self.stats();
        if stats != self.latest_stats {
            self.latest_stats = stats;
            step.emit(DeviceEffect::StatsChanged(self.id, stats));
        }
        let numbers = self.jobs.numbers();
        let (batch, effects) = step.seal(&mut self.head, clocks_are_due || days_are_over, |head| {
            head.attended = attended;
            head.kept_from = kept_from;
            head.next_job = numbers.next_job;
            head.next_lease = numbers.next_lease;
        });
        Ok(Step { batch, effects, more })
    }

    /// Has the index of devices changed, in front of the answers of the step.
    fn index(&mut self, step: &mut DeviceStep<'_>) {
        if self.watch.take_moved() {
            let moved = |op: &Op| match op {
                Op::PutState(slot, state) => Some(IndexChange::Connection(*slot, state.connection)),
                _ => None,
            };
            step.own.indexed.extend(step.batch.ops.iter().filter_map(moved));
        }
        let changes = std::mem::take(&mut step.own.indexed);
        if !changes.is_empty() {
            step.effects.insert(0, DeviceEffect::Indexed(self.id, changes));
        }
    }

    fn stats(&self) -> DeviceStats {
        let Connections { never_seen, online, lost } = self.watch.connections();
        let (pending, quarantined) = (self.notification_states.pending(), self.quarantine.len() as u64);
        DeviceStats { never_seen, online, lost, pending, quarantined }
    }
}

#[cfg(test)]
mod tests;
