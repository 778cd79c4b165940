//! What rollouts, their states and their devices say of each other.

use std::collections::BTreeMap;

use base::Incarnation;
use records::{MemberPlace, Rollout, RolloutCounts, RolloutDevices, RolloutMember, RolloutState};

use super::rows::{CheckedPartition, RowCheck};
use crate::codec::key;
use crate::table::Table;

impl RowCheck<'_, '_> {
    /// A rollout has a state, and as many devices in each status as that says.
    pub(super) fn rollouts(&mut self, within: &CheckedPartition) {
        let partition = within.partition;
        let mut counted: BTreeMap<Incarnation, RolloutCounts> = BTreeMap::new();
        self.indexed(partition, |check, rollout: &Rollout| {
            counted.insert(rollout.incarnation, RolloutCounts::default());
            check.needs(Table::RolloutStates, partition, &key::rollout(&rollout.id))
        });
        self.indexed(partition, |_, named: &RolloutDevices| match counted.get(&named.rollout) {
            Some(_) => Ok(()),
            None => Err("its rollout is missing".to_owned()),
        });
        self.indexed(partition, |_, member: &RolloutMember| {
            let place = &member.place;
            let counts = counted.get_mut(&place.rollout).ok_or("its rollout is missing")?;
            counts.0[member.status as usize] += 1;
            match MemberPlace::of(place.rollout, &place.device, place.entry).rank == place.rank {
                true => Ok(()),
                false => Err("its rank is not that of its device".to_owned()),
            }
        });
        self.indexed(partition, |check, state: &RolloutState| {
            let rollout: Option<Rollout> = check.record(partition, &key::rollout(&state.id))?;
            let rollout = rollout.ok_or("its rollout is missing")?;
            match counted.get(&rollout.incarnation) {
                Some(counts) if *counts == state.counts => Ok(()),
                counts => Err(format!("its devices are {counts:?}, not {:?}", state.counts)),
            }
        });
    }
}
