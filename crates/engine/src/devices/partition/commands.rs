//! Commands of a partition's devices: what callers ask of them, and who hears what became of them.
//! The rules are those of the crate `commands`.

use std::sync::Arc;
use std::time::Duration;

use base::{DeviceId, EntityId, Problem, Timestamp, hash};
use commands::{AnswerOutcome, CommandLanes, How, Moved, PublishPace};
use jobs::Jobs;
use records::{
    Command, CommandCause, CommandKey, CommandState, CommandStatus, CommandTerms, DevicePlace, DeviceSession,
    DeviceSlot, Happening, Metric, OutcomeOf,
};
use smallvec::SmallVec;
use store::StoreError;

use super::devices::ResidentDevices;
use super::outcomes::RefusedLanes;
use super::{DevicePartition, DeviceStep};
use crate::commands::{NewCommand, PublishedCommand, TrackedCommand, not_its_command, unknown_command};
use crate::devices::effect::DeviceEffect;
use crate::devices::input::CommandInput;
use crate::devices::sessions::PartitionSessions;
use crate::kernel::hashed::{HashMap, HashSet};
use crate::kernel::pending_writes::PendingWrites;
use crate::kernel::reply::{Answered, InputFailure, Reply, answered};
use crate::refusals::unknown_device;

mod by_hand;
mod desired_states;
mod polling;
mod presence;
mod sent_once;
mod stored;
mod waiting;

pub(super) use desired_states::PendingDesiredStates;
pub(super) use polling::Pollers;
pub(super) use stored::PendingCommands;
use stored::StoredCommands;

/// What distinguishes the ids of commands from those of events and deliveries.
const CAUSE_COMMAND: u64 = 3;
/// How long a device that is at work may go without saying so, unless its command says otherwise.
const RUN_TIMEOUT: Duration = Duration::from_secs(600);
/// Commands that time moves on, between two looks at the weight.
pub(super) const COMMANDS_AT_A_TIME: usize = 64;

/// The commands of a partition, and those who wait for them.
#[derive(Debug)]
pub(super) struct DeviceCommands {
    lanes: CommandLanes,
    pub(super) pending: PendingCommands,
    pub(super) desired_states: PendingDesiredStates,
    pub(super) sessions: PartitionSessions,
    /// Devices whose lanes are open because of wildcards alone.
    wide_open: HashSet<DeviceSlot>,
    pending_sessions: PendingWrites<DeviceSlot, DeviceSession>,
    pollers: Pollers,
    /// Who waits for the end of a command, and whose command that is.
    waiters: HashMap<CommandKey, (DeviceSlot, SmallVec<[Waiter; 1]>)>,
    waiting: usize,
    /// What the rules moved and nobody was told of yet.
    moved: Vec<Moved>,
    /// This command is taken back, and that is told of its end: nothing if a rollout does so.
    pub(super) taking_back: Option<(CommandKey, Option<OutcomeOf>)>,
    /// Where commands that should have expired have no room for their outcomes.
    refused: RefusedLanes,
    /// Devices whose books have to be compared with the sessions that live.
    unsure_sessions: Vec<DeviceSlot>,
    /// Where the search for devices that a wildcard reaches goes on.
    pub(super) sweep: Option<presence::ReachSweep>,
}

/// What the passing of time brought to commands.
pub(super) struct CommandsAdvanced {
    /// There is more of it now.
    pub(super) are_due: bool,
    /// Something was written.
    pub(super) have_moved: bool,
}

type Waiter = Reply<Answered<Box<TrackedCommand>>>;

impl DeviceCommands {
    /// With what the store has; nobody is reachable yet.
    pub(super) fn load(
        keep: Duration,
        fetch: &dyn crate::kernel::fetch::Fetch,
        jobs: &Jobs,
    ) -> Result<Self, StoreError> {
        let mut pending = PendingCommands::default();
        let view = fetch.view()?;
        let unanswered = view.unanswered_commands()?.into_iter().filter_map(|open| {
            let read = || -> Result<_, StoreError> {
                let command = view.command(open.key)?.map(Arc::new);
                let tracked = command.zip(view.command_state(open.key)?);
                // Others go on when their device is back, and take no memory until then.
                Ok(tracked.filter(|(command, state)| state.tries >= command.terms.attempts_max))
            };
            read().transpose()
        });
        let mut batch = records::Batch::new(base::PartitionId::REGISTRY);
        // only times are asked for
        let devices = &ResidentDevices::default();
        let (batch, refused) = (&mut batch, &mut RefusedLanes::default());
        let store = StoredCommands { pending: &mut pending, devices, fetch, batch, seq: 0, jobs, refused };
        let lanes = CommandLanes::load(keep, unanswered, &store)?;
        Ok(Self {
            lanes,
            pending,
            desired_states: PendingDesiredStates::default(),
            sessions: PartitionSessions::default(),
            wide_open: HashSet::default(),
            pending_sessions: PendingWrites::default(),
            pollers: Pollers::default(),
            waiters: HashMap::default(),
            waiting: 0,
            moved: Vec::new(),
            taking_back: None,
            refused: RefusedLanes::default(),
            unsure_sessions: Vec::new(),
            sweep: None,
        })
    }

    /// All batches up to this one are durable.
    pub(super) fn settle(&mut self, seq: u64) {
        self.pending.settle(seq);
        self.desired_states.settle(seq);
        self.pending_sessions.settle(seq);
    }

    pub(super) fn next_wakeup(&self, jobs: &Jobs) -> Option<Timestamp> {
        // A search that is under way goes on at once.
        let is_searching = self.sweep.is_some() || !self.unsure_sessions.is_empty();
        is_searching
            .then_some(Timestamp(0))
            .or_else(|| self.lanes.next_wakeup(|| self.refused.has_room_again(jobs)))
    }
}

impl DevicePartition {
    /// Lets the rules act, then tells whom it concerns what moved.
    fn with_lanes<T>(
        &mut self,
        step: &mut DeviceStep<'_>,
        act: impl FnOnce(
            &mut CommandLanes,
            Timestamp,
            &mut StoredCommands<'_>,
            &mut Vec<Moved>,
        ) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let DeviceCommands { lanes, pending, moved, refused, .. } = &mut self.commands;
        let (fetch, seq) = (step.fetch, step.seq);
        let (devices, jobs) = (&self.devices, &self.jobs);
        let batch = &mut step.batch;
        let mut store = StoredCommands { pending, devices, fetch, batch, seq, jobs, refused };
        let done = act(lanes, step.now, &mut store, moved)?;
        self.tell_moved(step)?;
        Ok(done)
    }

    /// Applies an input about commands.
    pub(super) fn apply_to_commands(
        &mut self,
        input: CommandInput,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), StoreError> {
        let effect = match input {
            CommandInput::Presence { change, reply } => return self.presence_changed(&change, reply, step),
            CommandInput::Send { device, command, reply } => {
                let sent = self.send_command(&device, *command, step);
                DeviceEffect::Command(reply, answered(sent.map(Box::new))?)
            }
            CommandInput::Cancel { id, reply } => {
                DeviceEffect::Done(reply, answered(self.cancel_command(id, step))?)
            }
            CommandInput::Retry { id, reply } => {
                DeviceEffect::Done(reply, answered(self.retry_command(id, step))?)
            }
            CommandInput::Await { id, reply } => return self.await_command(id, reply, step),
            CommandInput::Poll { device, number, reply } => return self.poll(&device, number, reply, step),
            CommandInput::StopPolling { device, number } => return self.stop_polling(&device, number, step),
            CommandInput::SetDesired { device, key, value, reply } => DeviceEffect::DesiredSet(
                reply,
                answered(self.set_desired(&device, &key, value, None, step).map(Box::new))?,
            ),
            CommandInput::LeaseOutcomes { lane, max, reply } => {
                DeviceEffect::OutcomesLeased(reply, self.lease_outcomes(lane, max, step)?)
            }
            CommandInput::OutcomeTold { reservation, result, reply } => {
                self.outcome_told(reservation, result, step);
                DeviceEffect::Kept(reply)
            }
        };
        step.emit(effect);
        Ok(())
    }

    /// What the passing of time brings to commands.
    pub(super) fn advance_commands(
        &mut self,
        step: &mut DeviceStep<'_>,
    ) -> Result<CommandsAdvanced, StoreError> {
        let before = step.batch.ops.len();
        let progress = self.with_lanes(step, |lanes, now, store, moved| {
            lanes.advance(now, COMMANDS_AT_A_TIME, store, moved)
        })?;
        let have_moved = step.batch.ops.len() > before;
        Ok(CommandsAdvanced { are_due: progress == commands::AdvanceResult::More, have_moved })
    }

    pub(super) fn send_command(
        &mut self,
        device: &DeviceId,
        new: NewCommand,
        step: &mut DeviceStep<'_>,
    ) -> Result<TrackedCommand, InputFailure> {
        if let Some(receiver) = &new.notify {
            self.check_room_for_outcome(receiver)?;
        }
        self.send_as(device, new, CommandCause::Call, step)
    }

    /// The same for whoever made it, and has looked whether there is room for its outcome.
    pub(super) fn send_as(
        &mut self,
        device: &DeviceId,
        new: NewCommand,
        cause: CommandCause,
        step: &mut DeviceStep<'_>,
    ) -> Result<TrackedCommand, InputFailure> {
        let command = self.new_command(device, new, cause, step)?;
        self.give(command, step)
    }

    /// Hands a new command to its lane, and answers how far it has come.
    fn give(&mut self, command: Command, step: &mut DeviceStep<'_>) -> Result<TrackedCommand, InputFailure> {
        let (key, command) = (command.id.into(), Arc::new(command));
        self.open_with_room(command.slot, step)?;
        let given = Arc::clone(&command);
        self.with_lanes(step, |lanes, now, store, moved| lanes.send(now, given, store, moved))?;
        self.close_if_wide(command.slot, step)?;
        let state = self.command_state(key, step)?.unwrap_or(CommandState::WAITING);
        Ok(TrackedCommand { command, state })
    }

    fn new_command(
        &mut self,
        device: &DeviceId,
        new: NewCommand,
        cause: CommandCause,
        step: &DeviceStep<'_>,
    ) -> Result<Command, Problem> {
        let (slot, found) = self.devices.find(device).ok_or_else(|| unknown_device(device))?;
        // What only tells the end of a pick never goes out.
        if cause.pick().is_none() || new.not_before.is_none() {
            (self.settings.check_payload)(self.devices.kind(found), &new.payload)?;
        }
        let number = self.head.next_command;
        let id = self.entity_id(found, number, &[CAUSE_COMMAND]);
        self.head.next_command = number.wrapping_add(1);
        let defaults = &self.settings.commands;
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        // From the wall clock to the partition's clock, by the time that is left now.
        let not_before = new.not_before.map(|at| step.now.after(at.since(step.wall)));
        Ok(Command {
            id,
            slot,
            device: device.clone(),
            payload: new.payload,
            origin: new.origin.map(String::into_boxed_str),
            key: new.key.map(String::into_boxed_str),
            terms: CommandTerms {
                priority: new.priority,
                not_before: not_before.filter(|at| *at > step.now),
                ttl_ms: new.ttl.map(ms),
                ack_timeout_ms: ms(new.ack_timeout.unwrap_or(defaults.ack_timeout)),
                run_timeout_ms: ms(new.run_timeout.unwrap_or(RUN_TIMEOUT)),
                attempts_max: new.attempts_max.unwrap_or(defaults.attempts_max),
            },
            cause,
            notify: new.notify.map(Box::new),
        })
    }

    pub(super) fn stored_command(
        &self,
        key: CommandKey,
        step: &DeviceStep<'_>,
    ) -> Result<Option<Arc<Command>>, StoreError> {
        match self.commands.pending.command(&key) {
            Some(known) => Ok(known.cloned()),
            None => Ok(step.fetch.view()?.command(key)?.map(Arc::new)),
        }
    }

    /// A command that is looked for by its id; a foreign id with the same key finds none.
    fn command_with(&self, id: EntityId, step: &DeviceStep<'_>) -> Result<Arc<Command>, InputFailure> {
        let command = self.stored_command(CommandKey::from(id), step)?;
        let known = command.filter(|command| command.id == id && self.devices.get(command.slot).is_some());
        Ok(known.ok_or_else(|| unknown_command(id))?)
    }

    pub(super) fn command_state(
        &self,
        key: CommandKey,
        step: &DeviceStep<'_>,
    ) -> Result<Option<CommandState>, StoreError> {
        match self.commands.pending.state(&key) {
            Some(state) => Ok(state.cloned()),
            None => step.fetch.view()?.command_state(key),
        }
    }

    /// An answer of a device, or that it is at work.
    pub(super) fn command_answered(
        &mut self,
        slot: DeviceSlot,
        id: EntityId,
        answer: DeviceAnswer,
        step: &mut DeviceStep<'_>,
    ) -> Result<Result<(), Problem>, StoreError> {
        let key = CommandKey::from(id);
        let routing =
            self.devices.get(slot).map(|device| hash::routing_hash(hash::device_hash(device.id.as_str())));
        if routing != Some(id.routing) {
            return Ok(Err(not_its_command(id)));
        }
        let is_final = matches!(answer, DeviceAnswer::Final { .. });
        let outcome = self.with_lanes(step, |lanes, now, store, moved| match answer {
            DeviceAnswer::Final { ok, result } => lanes.answer(now, slot, key, ok, result, store, moved),
            DeviceAnswer::Progress(progress) => lanes.progress(now, slot, key, progress, store, moved),
        })?;
        self.close_if_wide(slot, step)?;
        if is_final && outcome != AnswerOutcome::Unknown {
            step.emit(DeviceEffect::Answered(DevicePlace { partition: self.id, slot }));
        }
        Ok(match outcome {
            AnswerOutcome::Moved | AnswerOutcome::Late | AnswerOutcome::Repeated => Ok(()),
            AnswerOutcome::Unknown => Err(not_its_command(id)),
        })
    }

    /// How commands go to a device: as it says itself, else as its kind does, else as the settings
    /// do.
    fn pace(&self, slot: DeviceSlot) -> PublishPace {
        let settings = &self.settings.commands;
        let kind = self.devices.get(slot).map(|device| self.devices.kind(device));
        let pace = kind.and_then(|kind| settings.by_kind.get(kind)).unwrap_or(&settings.pace);
        let own = self.devices.pace(slot);
        PublishPace {
            in_flight: own.in_flight.unwrap_or(pace.in_flight),
            gap: own.gap_ms.map_or(pace.gap, Duration::from_millis),
        }
    }

    /// Tells of everything that the rules have moved.
    fn tell_moved(&mut self, step: &mut DeviceStep<'_>) -> Result<(), StoreError> {
        let mut moved = std::mem::take(&mut self.commands.moved);
        for one in moved.drain(..) {
            self.tell_rollout(&one, step);
            self.tell_task(&one, step);
            match one.how {
                How::Scheduled => {
                    self.note_command(&one, CommandStatus::Scheduled, step);
                    self.desired_state_scheduled(&one, step)?;
                }
                How::Ready => {
                    // A device that is reached by a wildcard alone has no lane while it has no
                    // work.
                    self.open_with_room(one.command.slot, step)?;
                    self.close_if_wide(one.command.slot, step)?;
                }
                How::Published => {
                    self.note_command(&one, CommandStatus::Published, step);
                    self.publish_command(&one.command, step)?;
                }
                How::Progressed => self.count_command(&one, CommandStatus::Running, step),
                How::Ended => {
                    self.note_command(&one, one.state.status, step);
                    self.desired_state_ended(&one, step)?;
                    self.queue_end(&one, step);
                    self.close_if_wide(one.command.slot, step)?;
                    self.command_ended(one, step);
                }
                How::Late => self.queue_late(&one, step),
            }
        }
        self.commands.moved = moved;
        Ok(())
    }

    fn note_command(&mut self, moved: &Moved, status: CommandStatus, step: &mut DeviceStep<'_>) {
        let (id, tries) = (moved.command.id, moved.state.tries);
        self.count_command(moved, status, step);
        self.put_timeline(moved.command.slot, Happening::Command { id, status, tries }, step);
    }

    fn count_command(&self, moved: &Moved, status: CommandStatus, step: &mut DeviceStep<'_>) {
        if let Some(device) = self.devices.get(moved.command.slot) {
            step.own.counted.add(device.group, Metric::Commands(status), self.head.stamp);
        }
    }

    /// A command as its device is shown it; `None` for a device that is gone.
    fn published(&self, command: &Command) -> Option<PublishedCommand> {
        let device = self.devices.get(command.slot)?;
        Some(PublishedCommand {
            device: device.id.clone(),
            kind: self.devices.kind(device).clone(),
            id: command.id,
            payload: Arc::clone(&command.payload),
        })
    }

    fn publish_command(&mut self, command: &Command, step: &mut DeviceStep<'_>) -> Result<(), StoreError> {
        let Some(published) = self.published(command).map(Box::new) else { return Ok(()) };
        step.carried += command.payload.len();
        if let Some(reply) = self.commands.pollers.take(command.slot) {
            step.emit(DeviceEffect::Polled(reply, Ok(Some(published.clone()))));
            self.close_if_unreachable(command.slot, step)?;
        }
        step.emit(DeviceEffect::CommandPublished(published));
        Ok(())
    }

    /// A device is gone, and its commands with it.
    pub(super) fn forget_commands(&mut self, slot: DeviceSlot, id: &DeviceId, step: &mut DeviceStep<'_>) {
        self.commands.lanes.forget(slot);
        self.commands.wide_open.remove(&slot);
        for reply in self.commands.pollers.forget(slot) {
            step.emit(DeviceEffect::Polled(reply, Err(unknown_device(id))));
        }
        for waiter in self.commands.forget_waiters(slot) {
            step.emit(DeviceEffect::Command(waiter, Err(unknown_device(id))));
        }
        step.emit(DeviceEffect::Gone(DevicePlace { partition: self.id, slot }));
    }
}

/// What a device says about a command.
pub(super) enum DeviceAnswer {
    /// Whether it did it, and what came of it.
    Final { ok: bool, result: Option<Box<str>> },
    /// It is at work.
    Progress(Box<str>),
}
