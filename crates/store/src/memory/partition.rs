//! One partition in memory: its rows, its devices' signs of life, and their readings.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use base::Timestamp;
use records::{
    Command, CommandState, DeviceSlot, LastSeen, OpenCommand, ParkedJob, PartitionHead, Pick, PickKey,
    Reading, TaskRecord, TaskState,
};

use crate::change::{PreparedBatch, SlotSign, TableChange};
use crate::codec::key::{self, JOB_BYTES, TableKey};
use crate::codec::{Stored, rows_of_command};
use crate::key_range::KeyRange;
use crate::port::ReadingKey;
use crate::record::{Placed, index_rows};
use crate::table::Table;

/// The rows of a table, in order of key.
pub(super) type Rows = BTreeMap<TableKey, Arc<[u8]>>;

/// Everything kept of a partition. A view shares what was not changed since it was opened.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryPartition {
    pub(super) head: PartitionHead,
    tables: BTreeMap<Table, Arc<Rows>>,
    pub(super) seen: Arc<BTreeMap<DeviceSlot, LastSeen>>,
    /// With when each was received.
    pub(super) readings: Arc<BTreeMap<(DeviceSlot, ReadingKey), (Reading, Timestamp)>>,
}

impl MemoryPartition {
    pub(super) fn apply(&mut self, batch: PreparedBatch) {
        let before = std::mem::replace(&mut self.head, batch.head).kept_from;
        let mut changes = VecDeque::from(batch.changes);
        while let Some(change) = changes.pop_front() {
            self.assert_allowed(&change, &changes);
            self.change(change);
        }
        let kept = self.head.kept_from;
        if kept != before {
            let is_kept = |key: &ReadingKey, received: Timestamp| key.ts.max(received) >= kept.readings;
            Arc::make_mut(&mut self.readings).retain(|(_, key), (_, received)| is_kept(key, *received));
        }
    }

    /// The row under a key.
    pub(super) fn get(&self, table: Table, key: &[u8]) -> Option<&Arc<[u8]>> {
        self.tables.get(&table)?.get(key)
    }

    /// The rows of a range.
    pub(super) fn range(
        &self,
        table: Table,
        range: KeyRange,
    ) -> impl DoubleEndedIterator<Item = (&TableKey, &Arc<[u8]>)> {
        let none = KeyRange { low: Bound::Unbounded, high: Bound::Excluded(TableKey::new()) };
        let range = if range.is_empty() { none } else { range };
        self.tables
            .get(&table)
            .into_iter()
            .flat_map(move |rows| rows.range((range.low.clone(), range.high.clone())))
    }

    fn rows_mut(&mut self, table: Table) -> &mut Rows {
        Arc::make_mut(self.tables.entry(table).or_default())
    }

    fn change(&mut self, change: TableChange) {
        match change {
            // a deleted device is swept at once
            TableChange::Put { table: Table::Deleted, .. } => {}
            TableChange::Put { table, key, value } => {
                drop(self.rows_mut(table).insert(key, Arc::from(value)));
            }
            TableChange::Delete { table, key } => drop(self.rows_mut(table).remove(&key)),
            TableChange::Sign(sign) => self.sign(sign),
            TableChange::DropDevice(slot) => self.drop_device(slot),
        }
    }

    fn sign(&mut self, sign: SlotSign) {
        Arc::make_mut(&mut self.seen).insert(sign.slot, sign.seen);
        if let Some(reading) = sign.reading {
            let key = ReadingKey { ts: reading.ts, number: reading.number };
            Arc::make_mut(&mut self.readings).insert((sign.slot, key), (reading, self.head.now));
        }
    }

    /// Notification states, events, commands, what stands beside them, and readings of a device.
    /// Rows that lead to its events are all that its index has.
    fn drop_device(&mut self, slot: DeviceSlot) {
        Arc::make_mut(&mut self.seen).remove(&slot);
        Arc::make_mut(&mut self.readings).retain(|(owner, _), _| *owner != slot);
        let prefix = key::slot(slot);
        for key in self.keys(Table::CommandsByDevice, &prefix) {
            self.drop_command(&key[prefix.len()..]);
        }
        for table in Table::of_a_device().chain([Table::EventsByDevice]) {
            for key in self.keys(table, &prefix) {
                self.rows_mut(table).remove(&key);
                if table == Table::EventsByDevice {
                    self.rows_mut(Table::Events).remove(&key[prefix.len()..]);
                }
            }
        }
    }

    fn keys(&self, table: Table, prefix: &[u8]) -> Vec<TableKey> {
        self.range(table, KeyRange::of(prefix)).map(|(key, _)| key.clone()).collect()
    }

    /// Every row of a command.
    fn drop_command(&mut self, key: &[u8]) {
        let row = |table| self.get(table, key).unwrap_or_else(|| panic!("{table:?} has {key:?}"));
        let command = Command::from_row(row(Table::Commands)).expect("it was encoded here");
        let state = CommandState::from_row(row(Table::CommandStates)).expect("it was encoded here");
        for (table, key) in rows_of_command(&command, &state) {
            self.rows_mut(table).remove(&key);
        }
    }

    /// Panics on what the port does not allow of jobs, dead letters, answers and open commands:
    /// other stores would keep rows that lead nowhere. `rest` are the changes that follow.
    fn assert_allowed(&self, change: &TableChange, rest: &VecDeque<TableChange>) {
        match change {
            TableChange::Put { table, key, value } => self.assert_may_put(*table, key, value),
            TableChange::Delete { table: Table::JobHeads, key } => self.assert_not_parked(key),
            TableChange::Delete { table: Table::Parked, key } => {
                assert!(self.get(Table::Parked, key).is_some(), "{key:?} is parked");
                self.assert_as_put::<ParkedJob>(key, rest);
            }
            TableChange::Delete { table: Table::OpenCommands, key } => {
                self.assert_as_put::<OpenCommand>(key, rest);
            }
            TableChange::Delete { table: Table::Tasks, key } => self.assert_as_put::<TaskRecord>(key, rest),
            TableChange::Delete { table: Table::TaskStates, key } => {
                self.assert_as_put::<TaskState>(key, rest);
            }
            TableChange::Delete { table: Table::Picks, key } => self.assert_as_put::<Pick>(key, rest),
            TableChange::Delete { .. } | TableChange::Sign(_) | TableChange::DropDevice(_) => {}
        }
    }

    fn assert_may_put(&self, table: Table, key: &[u8], value: &[u8]) {
        match table {
            Table::JobHeads | Table::ParkedIds => self.assert_not_parked(key),
            Table::Picks => self.assert_same_pick(key, value),
            Table::Answers => {
                assert!(
                    self.get(table, key).is_none(),
                    "an answer is deleted before the next one of its key"
                );
            }
            Table::ParkedByLine | Table::ParkedAliases | Table::DeadIds | Table::OpenCommands => {
                let other = self.get(table, key).filter(|other| ***other != *value);
                assert_eq!(other, None, "{table:?}: what was there before has left the place {key:?}");
            }
            Table::Dead => {
                let number = key.last_chunk().map(|number| u64::from_be_bytes(*number));
                let next = self.head.next_dead;
                assert!(number.is_some_and(|number| number < next), "{number:?} is a number to come");
            }
            _ => {}
        }
    }

    /// A pick stays found by what it was found by; its end is new at most.
    fn assert_same_pick(&self, key: &[u8], value: &[u8]) {
        let found_by = |row: &[u8]| Pick::from_row(row).expect("it was encoded here").key();
        let Some(before) = self.get(Table::Picks, key).map(|row| found_by(row)) else { return };
        let now = found_by(value);
        let expect = PickKey { ended: before.ended.or(now.ended), ..before };
        assert_eq!(now, expect, "a pick is found by what it was found by");
    }

    /// The deletion of a record that is there names every row by which it is found.
    fn assert_as_put<R: Placed>(&self, key: &[u8], rest: &VecDeque<TableChange>) {
        let Some(row) = self.get(R::TABLE, key) else { return };
        let record = R::from_row(row).expect("it was encoded here");
        let mut named = rest.iter();
        index_rows::<R>(&record.place(), |place, key, _| {
            let is_named = matches!(named.next(), Some(TableChange::Delete { table, key: other }) if (*table, other) == (place, &key));
            assert!(is_named, "{} is deleted as it was put: {place:?} {key:?}", R::NAME);
        });
    }

    fn assert_not_parked(&self, key: &[u8]) {
        debug_assert_eq!(key.len(), JOB_BYTES, "it is the id of a job");
        assert!(self.get(Table::ParkedIds, key).is_none(), "{key:?} is resident or parked, not both");
    }
}
