//! Rows that can be followed: rollouts, operations, clients and their portals, tasks and campaigns.
//!
//! There are few of each. So a follower is told which sort of row a durable batch has changed, and
//! looks itself which rows these are.

use records::{Batch, Op};

/// A sort of row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistryRows {
    /// Rollouts, and how far they have come.
    Rollouts,
    /// Operations, and how far they have come.
    Operations,
    /// Clients and the portals that show them.
    Clients,
    /// Tasks, and how far they have come.
    Tasks,
    /// Campaigns.
    Campaigns,
}

/// The sorts of rows that a batch changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegistryUpdate(u8);

impl RegistryUpdate {
    /// Any of them.
    pub(crate) const ANY: Self = Self(u8::MAX);

    pub(crate) fn of(batch: &Batch) -> Self {
        let rows = batch.ops.iter().filter_map(|op| match op {
            Op::PutRollout(_) | Op::PutRolloutState(_) | Op::DeleteRollout(_) => Some(RegistryRows::Rollouts),
            Op::PutOperation(_) | Op::PutOperationState(_) | Op::DeleteOperation(_) => {
                Some(RegistryRows::Operations)
            }
            Op::PutClient(_) | Op::DeleteClient(_) | Op::PutPortalToken(_) | Op::DeletePortalToken(_) => {
                Some(RegistryRows::Clients)
            }
            _ => None,
        });
        Self(rows.fold(0, |all, rows| all | bit(rows)))
    }

    pub(super) fn add(&mut self, rows: RegistryRows) {
        self.0 |= bit(rows);
    }

    pub(super) fn has(self, rows: RegistryRows) -> bool {
        self.0 & bit(rows) != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

fn bit(rows: RegistryRows) -> u8 {
    1 << rows as u8
}
