//! Many rows, written in transactions of some size and table after table.

use std::collections::BTreeMap;

use base::PartitionId;

use super::tables::{Table, Tables};
use crate::port::StoreError;

/// Bytes of rows in one transaction: what is kept in memory before it is written.
const TRANSACTION_BYTES: usize = 16 << 20;

/// Rows on their way into the tables.
pub(super) struct BulkRows<'a> {
    tables: &'a Tables,
    waiting: BTreeMap<(Table, PartitionId), Vec<KeyAndValue>>,
    bytes: usize,
}

type KeyAndValue = (Vec<u8>, Vec<u8>);

impl<'a> BulkRows<'a> {
    pub(super) fn new(tables: &'a Tables) -> Self {
        Self { tables, waiting: BTreeMap::new(), bytes: 0 }
    }

    /// Takes a row, and writes those that it has once they are many.
    pub(super) fn put(
        &mut self,
        table: Table,
        partition: PartitionId,
        key: &[u8],
        value: Vec<u8>,
    ) -> Result<(), StoreError> {
        self.bytes += key.len() + value.len();
        self.waiting.entry((table, partition)).or_default().push((key.to_vec(), value));
        if self.bytes >= TRANSACTION_BYTES { self.write() } else { Ok(()) }
    }

    /// Writes the rows that wait.
    pub(super) fn write(&mut self) -> Result<(), StoreError> {
        let waiting = std::mem::take(&mut self.waiting);
        self.bytes = 0;
        self.tables.write(|writer| {
            for ((table, partition), rows) in &waiting {
                let mut out = writer.table(*table)?;
                rows.iter().try_for_each(|(key, value)| out.put(*partition, key, value))?;
            }
            Ok(())
        })
    }
}
