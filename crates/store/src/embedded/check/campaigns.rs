//! What tasks, campaigns and their picks say of each other.

use std::collections::BTreeMap;

use base::{Incarnation, PartitionId};
use records::{
    CampaignRecord, CampaignState, Pick, PickCounts, PickOutcome, PickShare, TaskRecord, TaskStanding,
    TaskState,
};

use super::rows::{CheckedPartition, RowCheck, Wrong};
use crate::codec::key;
use crate::table::Table;

/// Picks of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CountedPicks {
    picked: u32,
    ended: u32,
    answered: u32,
    failed: u32,
}

impl CountedPicks {
    fn add(&mut self, pick: &Pick) {
        self.picked += 1;
        let Some(end) = &pick.end else { return };
        self.ended += 1;
        match end.outcome {
            PickOutcome::Answered => self.answered += 1,
            PickOutcome::Refused => self.failed += 1,
            _ => {}
        }
    }

    /// Whether a task says the same. Of one that has ended, picks go before it does.
    fn agrees(self, state: &TaskState) -> Result<(), Wrong> {
        let PickCounts { picked, answered, failed, .. } = state.counts;
        let expect = Self { picked, ended: state.ended, answered, failed };
        let is_going = state.ended_at.is_some() && self.picked < picked;
        if self == expect || is_going {
            Ok(())
        } else {
            Err(format!("its picks are {self:?}, not {expect:?}"))
        }
    }
}

impl RowCheck<'_, '_> {
    /// A task has a state, and as many picks as that says. What runs has its terms, a campaign its
    /// state and its terms. No device is picked whose partition there is not.
    pub(super) fn partition_of_campaigns(&mut self, within: &CheckedPartition) {
        let partition = within.partition;
        self.indexed(partition, |check, share: &PickShare| check.has_devices(share.place.partition));
        self.tasks(partition);
        self.indexed(partition, |check, campaign: &CampaignRecord| {
            check.needs(Table::PickTerms, partition, &key::incarnation(campaign.terms))?;
            check.needs(Table::CampaignStates, partition, &key::campaign(&campaign.id))
        });
        self.indexed(partition, |check, state: &CampaignState| {
            check.needs(Table::Campaigns, partition, &key::campaign(&state.id))
        });
    }

    fn tasks(&mut self, partition: PartitionId) {
        let mut counted: BTreeMap<Incarnation, CountedPicks> = BTreeMap::new();
        self.indexed(partition, |check, pick: &Pick| {
            counted.entry(pick.task).or_default().add(pick);
            check.has_devices(pick.place.partition)?;
            let task: Option<TaskRecord> = check.record(partition, &key::incarnation(pick.task))?;
            match task.ok_or("its task is missing")?.slot == pick.slot {
                true => Ok(()),
                false => Err("its task is not that slot".to_owned()),
            }
        });
        self.indexed(partition, |check, task: &TaskRecord| {
            check.needs(Table::TaskStates, partition, &key::incarnation(task.incarnation))
        });
        self.indexed(partition, |check, state: &TaskState| {
            let task: Option<TaskRecord> = check.record(partition, &key::incarnation(state.task))?;
            let task = task.ok_or("its task is missing")?;
            if task.slot.is_some() != state.is_slot {
                return Err("it is a slot where its task is none, or the other way round".to_owned());
            }
            if state.ended_at.is_none() {
                check.needs(Table::PickTerms, partition, &key::incarnation(task.terms))?;
            }
            let is_wrong = match state.standing {
                TaskStanding::Running => state.ended_at.is_some(),
                TaskStanding::Done => state.ended_at.is_none(),
                // Picks that went out before it was called off may go on.
                TaskStanding::Cancelled => false,
            };
            if is_wrong {
                return Err("it has ended and runs, or has done neither".to_owned());
            }
            counted.get(&state.task).copied().unwrap_or_default().agrees(state)
        });
    }

    /// Whether devices are kept there.
    fn has_devices(&self, partition: PartitionId) -> Result<(), Wrong> {
        match partition.0 < self.partitions {
            true => Ok(()),
            false => Err(format!("there is no partition {partition} of devices")),
        }
    }
}
