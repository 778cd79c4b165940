//! What commands, and what stands beside them, leave in a data directory. What comes and goes
//! between two checkpoints leaves as little as can be, and what is gone leaves nothing.

use records::{
    Command, CommandKey, CommandState, CommandStatus, DesiredState, DeviceSession, DeviceSlot,
    FinishedCommand, Happening, KeptFrom, Op, OpenCommand, PartitionHead, TimelineEntry,
};

use super::*;
use crate::conformance::{command, id};
use crate::embedded::tables::Table;

const PARTITION: PartitionId = PartitionId(0);
const START: i64 = 1_800_000_000_000;
const TABLES: [Table; 10] = [
    Table::Commands,
    Table::CommandsByDevice,
    Table::CommandStates,
    Table::OpenCommands,
    Table::CommandsByDue,
    Table::CommandsByKey,
    Table::FinishedCommands,
    Table::Wishes,
    Table::DeviceSessions,
    Table::Timeline,
];

/// A partition of devices of an open store.
struct Devices {
    disk: SimulatedDisk,
    store: EmbeddedStore,
    head: PartitionHead,
}

impl Devices {
    fn new() -> Self {
        let disk = SimulatedDisk::new(1);
        let store = open(&disk).expect("opens");
        let head = PartitionHead { now: Timestamp(START), next_slot: 10_000, ..PartitionHead::default() };
        Self { disk, store, head }
    }

    fn commit(&mut self, ops: Vec<Op>) {
        self.head.seq += 1;
        self.head.now.0 += 1;
        let outcome = give(&self.store, Batch { partition: PARTITION, head: self.head.clone(), ops });
        settle(&self.store);
        assert!(matches!(outcome.try_recv(), Ok(CommitOutcome::Durable)));
    }

    fn crash(&mut self) {
        self.disk.crash();
        self.store = open(&self.disk).expect("opens again");
    }

    /// Rows in memory that no checkpoint has written.
    fn changed_rows(&self) -> usize {
        self.store.partition(PARTITION).overlay_size().0
    }

    fn rows(&self) -> [u64; TABLES.len()] {
        let snapshot = self.store.tables.snapshot().expect("reads");
        TABLES.map(|table| snapshot.rows(table).expect("reads"))
    }

    fn new_command(&mut self, slot: u32) -> Command {
        self.head.next_command += 1;
        command(slot, self.head.now.0, self.head.next_command)
    }

    /// Everything that becomes of a command, one step after the other, until it is answered.
    fn answered(&mut self, slot: u32) -> (Command, CommandState) {
        let command = self.new_command(slot);
        let expires_at = Some(Timestamp(START + 60_000));
        let mut state = CommandState { expires_at, ..CommandState::WAITING };
        let mut ops = vec![Op::PutCommand(Box::new(command.clone()))];
        ops.extend(moved(&command, None, &state));
        self.commit(ops);
        for status in [CommandStatus::Published, CommandStatus::Running, CommandStatus::Acknowledged] {
            let finished_at = status.has_ended().then_some(self.head.now);
            let next = CommandState { status, finished_at, ..state.clone() };
            self.commit(moved(&command, Some(&state), &next));
            state = next;
        }
        (command, state)
    }

    /// Does everything that is due by itself; how many pieces of work it was.
    fn work(&self) -> usize {
        let mut steps = 0;
        while self.store.checkpoint_step(Timestamp::MAX) == StepOutcome::Worked {
            steps += 1;
        }
        steps
    }
}

fn moved(command: &Command, from: Option<&CommandState>, to: &CommandState) -> Vec<Op> {
    let open = |state: &CommandState| OpenCommand::of(command, state).map(Box::new);
    let left = from.and_then(open).map(Op::DeleteOpenCommand);
    let state = Op::PutCommandState(CommandKey::from(command.id), Box::new(to.clone()));
    let ended = FinishedCommand::of(command, to).map(Op::PutFinishedCommand);
    left.into_iter().chain([state]).chain(open(to).map(Op::PutOpenCommand)).chain(ended).collect()
}

fn entry(slot: u32, at: i64, number: u32) -> Op {
    let what = Happening::Connected { address: None };
    let entry = TimelineEntry { slot: DeviceSlot(slot), at: Timestamp(at), number, what };
    Op::PutTimelineEntry(Box::new(entry))
}

#[test]
fn a_command_that_is_answered_between_checkpoints_writes_only_what_is_kept() {
    let mut devices = Devices::new();
    for turn in 0..6 {
        let (command, state) = devices.answered(0);
        // the command, its row by device, its state, and when it ended
        assert_eq!(devices.changed_rows(), 4, "turn {turn}");
        devices.store.checkpoint_all().expect("writes");
        let kept = turn + 1;
        assert_eq!(devices.rows(), [kept, kept, kept, 0, 0, 0, kept, 0, 0, 0]);
        if turn % 2 == 1 {
            devices.crash();
        }
        // what is in the tables is taken out of them
        let again = CommandState { status: CommandStatus::Scheduled, finished_at: None, ..state.clone() };
        let finished = FinishedCommand::of(&command, &state).expect("it has ended");
        let mut ops = vec![Op::DeleteFinishedCommand(finished)];
        ops.extend(moved(&command, None, &again));
        devices.commit(ops);
        devices.store.checkpoint_all().expect("writes");
        assert_eq!(devices.rows(), [kept, kept, kept, 1, 1, 1, kept - 1, 0, 0, 0]);
        devices.commit(moved(&command, Some(&again), &state));
        devices.store.checkpoint_all().expect("writes");
        assert_eq!(devices.rows(), [kept, kept, kept, 0, 0, 0, kept, 0, 0, 0]);
    }
}

#[test]
fn a_device_that_is_gone_leaves_no_row() {
    let mut devices = Devices::new();
    for slot in [1, 2] {
        for _ in 0..250 {
            devices.answered(slot);
        }
        let waiting = devices.new_command(slot);
        let mut ops = vec![Op::PutCommand(Box::new(waiting.clone()))];
        ops.extend(moved(&waiting, None, &CommandState::WAITING));
        let slot = DeviceSlot(slot);
        let desired_state = |key: u32| DesiredState {
            slot,
            key: key.to_string().into(),
            desired: None,
            desired_at: Timestamp(START),
            confirmed: None,
            confirmed_at: None,
            command: None,
        };
        ops.extend((0..1_500).map(|key| Op::PutDesiredState(Box::new(desired_state(key)))));
        ops.extend((0..1_500).map(|number| entry(slot.0, START, number)));
        let session = DeviceSession { slot, number: 1, since: Timestamp(START), address: None };
        ops.push(Op::PutDeviceSession(Box::new(session)));
        devices.commit(ops);
    }
    devices.store.checkpoint_all().expect("writes");
    let of_both = devices.rows();
    devices.commit(vec![Op::DeleteDevice(id("A"), DeviceSlot(1))]);
    assert!(devices.work() > 5, "a bounded number of rows at a time");
    assert_eq!(devices.rows(), of_both.map(|rows| rows / 2));
    let deleted = devices.store.tables.snapshot().and_then(|snapshot| snapshot.rows(Table::Deleted));
    assert_eq!(deleted.expect("reads"), 0, "the mark goes last");
}

/// More timelines than are looked at at once, half of whose entries are kept no longer. Meanwhile
/// less and less is kept, and the server is killed.
#[test]
fn timelines_are_gone_through_in_rounds() {
    const TIMELINES: u32 = 4_500;
    let mut devices = Devices::new();
    let old = (0..TIMELINES).map(|slot| entry(slot, START, slot));
    let new = (0..TIMELINES).map(|slot| entry(slot, START + 10, slot));
    devices.commit(old.chain(new).collect());
    devices.store.checkpoint_all().expect("writes");
    devices.head.kept_from = KeptFrom { events: Timestamp(START), ..KeptFrom::EVER };
    devices.commit(Vec::new());
    devices.store.checkpoint_all().expect("writes");
    for from in [START + 3, START + 7] {
        devices.store.checkpoint_step(Timestamp(0));
        devices.head.kept_from.events = Timestamp(from);
        devices.commit(Vec::new());
        devices.store.checkpoint_all().expect("writes");
    }
    assert_eq!(devices.store.checkpoint_step(Timestamp(0)), StepOutcome::Worked);
    devices.crash();
    let steps = devices.work();
    assert!(steps > 3, "{steps}");
    assert_eq!(devices.rows()[TABLES.len() - 1], u64::from(TIMELINES));
    let view = devices.store.view(PARTITION).expect("opens");
    for slot in (0..TIMELINES).step_by(100).map(DeviceSlot) {
        let timeline = view.timeline(slot, crate::conformance::all()).expect("reads");
        assert_eq!(timeline.iter().map(|entry| entry.at.0).collect::<Vec<_>>(), [START + 10], "{slot:?}");
    }
}
