//! Going through the rows: each is decoded, and handed to what it must agree with. Records of which
//! nothing else must hold are gone through last, whichever there are.
//!
//! A row that cannot be read ends its table within its partition, since the order of keys is lost
//! there. A row that makes no sense is told, and the next one is looked at.

use std::collections::{BTreeSet, HashSet};
use std::convert::Infallible;

use base::{Incarnation, PartitionId};
use records::{Client, DeviceSlot, PartitionHead};

use super::Findings;
use crate::codec::Stored;
use crate::codec::key::TableKey;
use crate::embedded::directory::Covered;
use crate::embedded::tables::{Snapshot, Table};
use crate::key_range::KeyRange;
use crate::port::StoreError;
use crate::record::{Index, Placed, Record, RecordVisitor, for_each_record, index_rows};

/// What is wrong with a row, for people.
pub(super) type Wrong = String;

/// All rows of a snapshot, and what is known of them.
pub(super) struct RowCheck<'a, 't> {
    pub(super) snapshot: &'a Snapshot,
    /// Device partitions.
    pub(super) partitions: u16,
    heads: Vec<(PartitionId, PartitionHead)>,
    pub(super) registered: Registered,
    findings: &'a mut Findings<'t>,
    /// The tables that were gone through in this partition.
    visited: BTreeSet<Table>,
    counts: Vec<u64>,
    readings: u64,
}

/// Clients.
#[derive(Default)]
pub(super) struct Registered {
    pub(super) clients: HashSet<Incarnation>,
    /// From here on none was ever registered.
    next: u64,
}

impl Registered {
    /// Whether it is, or may have been, registered.
    pub(super) fn was(&self, client: Incarnation) -> Result<(), Wrong> {
        if client.0 < self.next || self.clients.contains(&client) {
            Ok(())
        } else {
            Err(format!("there never was a client {}", client.0))
        }
    }
}

/// The partition that is gone through, and its devices.
pub(super) struct CheckedPartition {
    pub(super) partition: PartitionId,
    pub(super) head: PartitionHead,
    /// Slots of devices, a bit each.
    slots: Vec<u64>,
}

impl CheckedPartition {
    fn new(partition: PartitionId, head: PartitionHead) -> Self {
        let slots = vec![0; (head.next_slot as usize).div_ceil(64)];
        Self { partition, head, slots }
    }

    /// Notes the slot of a device; whether no other has it.
    pub(super) fn take(&mut self, slot: DeviceSlot) -> Result<(), Wrong> {
        self.was_given(slot)?;
        let (word, bit) = (slot.0 as usize / 64, 1 << (slot.0 % 64));
        if self.slots[word] & bit != 0 {
            return Err(format!("another device has its slot {}", slot.0));
        }
        self.slots[word] |= bit;
        Ok(())
    }

    /// Whether a device had this slot at some time.
    pub(super) fn was_given(&self, slot: DeviceSlot) -> Result<(), Wrong> {
        if slot.0 < self.head.next_slot {
            Ok(())
        } else {
            Err(format!("no device ever had slot {}, the next free one is {}", slot.0, self.head.next_slot))
        }
    }

    pub(super) fn has(&self, slot: DeviceSlot) -> bool {
        let word = self.slots.get(slot.0 as usize / 64);
        word.is_some_and(|word| word >> (slot.0 % 64) & 1 == 1)
    }

    /// Whether a device has this slot now.
    pub(super) fn is_there(&self, slot: DeviceSlot) -> Result<(), Wrong> {
        if self.has(slot) { Ok(()) } else { Err(format!("no device has slot {}", slot.0)) }
    }
}

impl<'a, 't> RowCheck<'a, 't> {
    pub(super) fn new(
        snapshot: &'a Snapshot,
        partitions: u16,
        heads: Vec<(PartitionId, PartitionHead)>,
        findings: &'a mut Findings<'t>,
    ) -> Self {
        let (registered, counts) = (Registered::default(), vec![0; Table::ALL.len()]);
        let visited = BTreeSet::new();
        Self { snapshot, partitions, heads, registered, findings, visited, counts, readings: 0 }
    }

    /// Rows by table, and readings.
    pub(super) fn into_counts(self) -> (Vec<u64>, u64) {
        (self.counts, self.readings)
    }

    pub(super) fn counted_readings(&mut self, readings: u64) {
        self.readings += readings;
    }

    /// The registry first, since everything else is held against its clients.
    pub(super) fn all(&mut self) {
        let mut heads = self.heads.clone();
        heads.reverse();
        for (partition, head) in heads {
            let mut within = CheckedPartition::new(partition, head);
            self.visited.clear();
            if partition == PartitionId::REGISTRY {
                self.clients(&within);
                self.rollouts(&within);
                self.operations(&within);
                self.portals(&within);
                self.nodes(&within);
                self.notices(&within);
            }
            self.heads(&within);
            for table in Table::ALL.into_iter().filter(|table| !table.partitions().has(partition)) {
                self.rows(table, partition, |_, _, _| {
                    Err("such rows are not kept in this partition".to_owned())
                });
            }
            match partition {
                PartitionId::CAMPAIGNS => self.partition_of_campaigns(&within),
                _ if partition.queues_index().is_some() => self.partition_of_queues(&within),
                _ if partition.streams_index().is_some() => self.partition_of_streams(&within),
                _ => self.partition_of_devices(&mut within),
            }
            let Ok(()) = for_each_record(&mut UnvisitedRecords { check: self, partition });
        }
    }

    fn clients(&mut self, within: &CheckedPartition) {
        self.registered.next = within.head.next_incarnation;
        self.indexed(within.partition, |check, client: &Client| {
            check.registered.was(client.incarnation)?;
            if check.registered.clients.insert(client.incarnation) {
                Ok(())
            } else {
                Err(format!("another client has its incarnation {}", client.incarnation.0))
            }
        });
    }

    fn heads(&mut self, within: &CheckedPartition) {
        self.records(Table::Heads, within.partition, |_, _, covered: Covered| {
            let (found, seen) = (&covered.head, &within.head);
            if found == seen {
                Ok(())
            } else {
                Err(format!("it is of batch {}, not {}", found.seq, seen.seq))
            }
        });
    }

    /// Hands out every row of a table and partition, and tells what is wrong with it.
    pub(super) fn rows(
        &mut self,
        table: Table,
        partition: PartitionId,
        mut each: impl FnMut(&mut Self, &TableKey, &[u8]) -> Result<(), Wrong>,
    ) {
        self.visited.insert(table);
        let rows = match self.snapshot.range(table, partition, &KeyRange::all()) {
            Ok(rows) => rows,
            Err(error) => return self.findings.found(error),
        };
        for row in rows {
            let (key, value) = match row {
                Ok(row) => row,
                Err(error) => return self.findings.found(error),
            };
            self.counts[table as usize] += 1;
            if let Err(what) = each(self, &key, &value) {
                self.wrong(table, partition, &key, what);
            }
        }
    }

    /// The same, decoded.
    pub(super) fn records<T: Stored>(
        &mut self,
        table: Table,
        partition: PartitionId,
        mut each: impl FnMut(&mut Self, &TableKey, T) -> Result<(), Wrong>,
    ) {
        self.rows(table, partition, |check, key, row| {
            let record = T::from_row(row).map_err(|error| error.to_string())?;
            each(check, key, record)
        });
    }

    /// Every record of a table: it stands under its key, its indexes have its rows, and lead to
    /// nothing else. `each` looks at what else it says.
    pub(super) fn indexed<R: Placed>(
        &mut self,
        partition: PartitionId,
        mut each: impl FnMut(&mut Self, &R) -> Result<(), Wrong>,
    ) {
        self.records(R::TABLE, partition, |check, key, record: R| {
            let place = record.place();
            same_key(key, &R::key(&place))?;
            each(check, &record)?;
            let mut needed = Ok(());
            index_rows::<R>(&place, |table, row, _| {
                if needed.is_ok() {
                    needed = check.needs(table, partition, &row);
                }
            });
            needed
        });
        for index in R::INDEXES {
            self.rows(index.table, partition, |check, key, value| {
                check.leads::<R>(partition, index, key, value)
            });
        }
    }

    /// Whether a row of an index is one of the record that it leads to.
    fn leads<R: Placed>(
        &self,
        partition: PartitionId,
        index: &Index<R::Place>,
        key: &TableKey,
        value: &[u8],
    ) -> Result<(), Wrong> {
        let named = (index.names)(key, value).map_err(|error| error.to_string())?;
        let record: Option<R> = self.record(partition, &named)?;
        let record = record.ok_or_else(|| format!("what it names is not in {}", R::TABLE.name()))?;
        let mut is_its_own = false;
        (index.rows)(&record.place(), &mut |row, held| is_its_own |= row == *key && held == value);
        if is_its_own { Ok(()) } else { Err("what it names stands elsewhere".to_owned()) }
    }

    pub(super) fn wrong(&mut self, table: Table, partition: PartitionId, key: &[u8], what: Wrong) {
        let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let at = format!("{} {partition} {key}", table.name());
        self.findings.found(StoreError::Damaged { file: self.snapshot.name().to_owned(), at, what });
    }

    /// A row of another table.
    pub(super) fn get(
        &self,
        table: Table,
        partition: PartitionId,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, Wrong> {
        self.snapshot.get(table, partition, key).map_err(elsewhere)
    }

    /// A record of another table.
    pub(super) fn record<R: Record>(&self, partition: PartitionId, key: &[u8]) -> Result<Option<R>, Wrong> {
        let row = self.get(R::TABLE, partition, key)?;
        row.map(|row| R::from_row(&row)).transpose().map_err(|error| error.to_string())
    }

    /// Whether another table has this row.
    pub(super) fn needs(&self, table: Table, partition: PartitionId, key: &[u8]) -> Result<(), Wrong> {
        match self.get(table, partition, key)? {
            Some(_) => Ok(()),
            None => Err(format!("its row in {} is missing", table.name())),
        }
    }
}

/// Goes through the records of a partition whose tables were not gone through.
struct UnvisitedRecords<'c, 'a, 't> {
    check: &'c mut RowCheck<'a, 't>,
    partition: PartitionId,
}

impl RecordVisitor for UnvisitedRecords<'_, '_, '_> {
    type Error = Infallible;

    fn placed<R: Placed>(&mut self) -> Result<(), Infallible> {
        if !self.check.visited.contains(&R::TABLE) {
            self.check.indexed(self.partition, |_, _: &R| Ok(()));
        }
        Ok(())
    }

    fn keyed<R: Record>(&mut self) -> Result<(), Infallible> {
        if !self.check.visited.contains(&R::TABLE) {
            self.check.records(R::TABLE, self.partition, |_, _, _: R| Ok(()));
        }
        Ok(())
    }
}

/// What is wrong with what a row names, in the same file.
pub(super) fn elsewhere(error: StoreError) -> Wrong {
    match error {
        StoreError::Damaged { at, what, .. } => format!("what it names is damaged at {at}: {what}"),
        error => error.to_string(),
    }
}

/// Whether a row stands under the key that its record has.
pub(super) fn same_key(found: &TableKey, expect: &TableKey) -> Result<(), Wrong> {
    if found == expect { Ok(()) } else { Err("it stands under the key of another".to_owned()) }
}

/// The slot at the begin of a key.
pub(super) fn slot_in(key: &[u8]) -> Result<DeviceSlot, Wrong> {
    let slot = key.first_chunk::<4>().ok_or("its key is too short")?;
    Ok(DeviceSlot(u32::from_be_bytes(*slot)))
}
