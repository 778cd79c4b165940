//! What operations and their states say of each other.

use records::{Operation, OperationState};

use super::rows::{CheckedPartition, RowCheck};
use crate::codec::key;
use crate::table::Table;

impl RowCheck<'_, '_> {
    /// An operation has a state, and a state its operation; no more rows had their turn than were
    /// found.
    pub(super) fn operations(&mut self, within: &CheckedPartition) {
        let partition = within.partition;
        self.indexed(partition, |check, operation: &Operation| {
            check.needs(Table::OperationStates, partition, &key::operation(operation.id))
        });
        self.indexed(partition, |check, state: &OperationState| {
            let operation: Option<Operation> = check.record(partition, &key::operation(state.id))?;
            operation.ok_or("its operation is missing")?;
            let counts = state.counts;
            let had_turn = counts.done + counts.refused + counts.skipped + state.chunk.len() as u64;
            match had_turn == counts.matched {
                true => Ok(()),
                false => {
                    Err(format!("{had_turn} of its rows had their turn, and {} were found", counts.matched))
                }
            }
        });
    }
}
