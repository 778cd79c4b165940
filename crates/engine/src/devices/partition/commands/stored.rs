//! The commands of a partition as its latest writes left them, durable or not.

use std::cmp::Reverse;
use std::sync::Arc;

use base::Timestamp;
use commands::CommandStore;
use jobs::Jobs;
use records::{
    Batch, Command, CommandKey, CommandPhase, CommandState, CommandStatus, DeviceSlot, FinishedCommand, Op,
    OpenCommand,
};
use store::StoreError;

use crate::devices::partition::devices::ResidentDevices;
use crate::devices::partition::outcomes::RefusedLanes;
use crate::kernel::fetch::Fetch;
use crate::kernel::pending_writes::PendingWrites;

/// Rows that are read beyond those asked for: some of them may be gone by pending writes.
const READ_BEYOND: usize = 8;

/// Writes of commands that are not durable yet.
#[derive(Debug, Default)]
pub(in crate::devices::partition) struct PendingCommands {
    commands: PendingWrites<CommandKey, Arc<Command>>,
    states: PendingWrites<CommandKey, CommandState>,
    open: PendingWrites<CommandKey, OpenCommand>,
    finished: PendingWrites<CommandKey, FinishedCommand>,
}

impl PendingCommands {
    /// What a pending write makes of a command.
    pub(super) fn command(&self, key: &CommandKey) -> Option<Option<&Arc<Command>>> {
        self.commands.get(key)
    }

    /// What a pending write makes of a command's state.
    pub(super) fn state(&self, key: &CommandKey) -> Option<Option<&CommandState>> {
        self.states.get(key)
    }

    /// A command that is not durable yet.
    pub(in crate::devices::partition) fn find(
        &self,
        is_it: impl Fn(&Command) -> bool,
    ) -> Option<Arc<Command>> {
        self.commands.present().find(|command| is_it(command)).cloned()
    }

    /// The devices with open commands that are not durable yet, some more than once.
    pub(super) fn slots(&self) -> impl Iterator<Item = DeviceSlot> {
        self.open.present().map(|open| open.slot)
    }

    pub(super) fn settle(&mut self, seq: u64) {
        self.commands.settle(seq);
        self.states.settle(seq);
        self.open.settle(seq);
        self.finished.settle(seq);
    }
}

/// What the rules of commands read and write in a step.
pub(super) struct StoredCommands<'a> {
    pub(super) pending: &'a mut PendingCommands,
    /// Whose commands these are. A device is gone before its deletion is durable; whatever was
    /// written of its commands from then on, the store would not sweep.
    pub(super) devices: &'a ResidentDevices,
    pub(super) fetch: &'a dyn Fetch,
    pub(super) batch: &'a mut Batch,
    pub(super) seq: u64,
    pub(super) jobs: &'a Jobs,
    pub(super) refused: &'a mut RefusedLanes,
}

impl StoredCommands<'_> {
    /// The first `limit` records in the order of `place`: what `read` finds in the store, brought
    /// to what it is now. `read` is asked for more as long as pending writes leave too little of
    /// it.
    fn merged<V: Clone, P: Ord>(
        pending: &PendingWrites<CommandKey, V>,
        limit: usize,
        read: impl Fn(usize) -> Result<Vec<(CommandKey, V)>, StoreError>,
        place: impl Fn(&V) -> P + Copy,
        wanted: impl Fn(&V) -> bool + Copy,
    ) -> Result<Vec<V>, StoreError> {
        let mut ask = if pending.len() == 0 { limit } else { limit + READ_BEYOND };
        loop {
            let stored = read(ask)?;
            let whole = stored.len() < ask;
            let merged = pending.merged(stored, whole, limit, place, wanted);
            if whole || merged.len() >= limit {
                return Ok(merged);
            }
            ask *= 4;
        }
    }

    fn open(
        &self,
        limit: usize,
        read: impl Fn(usize) -> Result<Vec<OpenCommand>, StoreError>,
        place: impl Fn(&OpenCommand) -> (Option<Timestamp>, Reverse<i8>, CommandKey) + Copy,
        wanted: impl Fn(&OpenCommand) -> bool + Copy,
    ) -> Result<Vec<OpenCommand>, StoreError> {
        let keyed = |limit| Ok(read(limit)?.into_iter().map(|open| (open.key, open)).collect());
        Self::merged(&self.pending.open, limit, keyed, place, wanted)
    }
}

impl CommandStore for StoredCommands<'_> {
    type Error = StoreError;

    fn command(&self, key: CommandKey) -> Result<Option<Arc<Command>>, StoreError> {
        let found =
            self.pending.commands.get_or_read(&key, || Ok(self.fetch.view()?.command(key)?.map(Arc::new)))?;
        Ok(found.filter(|command: &Arc<Command>| self.devices.get(command.slot).is_some()))
    }

    fn state(&self, key: CommandKey) -> Result<Option<CommandState>, StoreError> {
        self.pending.states.get_or_read(&key, || self.fetch.view()?.command_state(key))
    }

    fn first(
        &self,
        slot: DeviceSlot,
        phase: CommandPhase,
        limit: usize,
    ) -> Result<Vec<OpenCommand>, StoreError> {
        self.open(
            limit,
            |limit| self.fetch.view()?.open_commands(slot, phase, limit),
            |open| (None, Reverse(open.priority), open.key),
            |open| open.slot == slot && open.phase == phase,
        )
    }

    fn with_key(&self, slot: DeviceSlot, key_hash: u64) -> Result<Vec<OpenCommand>, StoreError> {
        self.open(
            usize::MAX / 8,
            |_| self.fetch.view()?.commands_with_key(slot, key_hash),
            |open| (None, Reverse(0), open.key),
            |open| open.slot == slot && open.key_hash == Some(key_hash),
        )
    }

    fn due(
        &self,
        after: Option<(Timestamp, CommandKey)>,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<OpenCommand>, StoreError> {
        let is_behind = |due, open: &OpenCommand| after.is_none_or(|after| (due, open.key) > after);
        self.open(
            limit,
            |limit| self.fetch.view()?.commands_due(after, until, limit),
            |open| (open.due, Reverse(0), open.key),
            |open| open.due.is_some_and(|due| due <= until && is_behind(due, open)),
        )
    }

    fn has_room_for_outcome(&mut self, of: &Command, end: CommandStatus) -> bool {
        // That of a pick ends in any case, so that its task does.
        let receiver = of.notify.as_deref().filter(|_| of.cause.pick().is_none());
        receiver.is_none_or(|receiver| self.refused.has_room(self.jobs, receiver, end))
    }

    fn has_room_again(&self) -> bool {
        self.refused.has_room_again(self.jobs)
    }

    fn forget_refused(&mut self) {
        self.refused.forget();
    }

    fn finished(&self, until: Timestamp, limit: usize) -> Result<Vec<FinishedCommand>, StoreError> {
        let read = |limit| {
            let finished = self.fetch.view()?.finished_commands(until, limit)?;
            Ok(finished.into_iter().map(|finished| (finished.key, finished)).collect())
        };
        let place = |finished: &FinishedCommand| (finished.at, finished.key);
        Self::merged(&self.pending.finished, limit, read, place, |finished| finished.at <= until)
    }

    fn write(&mut self, op: Op) {
        let (pending, seq) = (&mut *self.pending, self.seq);
        match &op {
            Op::PutCommand(command) => {
                pending.commands.put(seq, command.id.into(), Some(Arc::from(command.clone())));
            }
            Op::DeleteCommand(key, _) => {
                pending.commands.put(seq, *key, None);
                pending.states.put(seq, *key, None);
            }
            Op::PutCommandState(key, state) => pending.states.put(seq, *key, Some((**state).clone())),
            Op::PutOpenCommand(open) => pending.open.put(seq, open.key, Some(**open)),
            Op::DeleteOpenCommand(open) => pending.open.put(seq, open.key, None),
            Op::PutFinishedCommand(finished) => pending.finished.put(seq, finished.key, Some(*finished)),
            Op::DeleteFinishedCommand(finished) => pending.finished.put(seq, finished.key, None),
            _ => debug_assert!(false, "the rules of commands write commands only"),
        }
        self.batch.ops.push(op);
    }
}
