//! Rollouts and their devices.

use base::Incarnation;
use records::{MemberPlace, MemberStatus, Rollout, RolloutDevices, RolloutMember, RolloutState};

use super::index_of;
use crate::codec::key;
use crate::key_range::KeyRange;
use crate::port::{StoreError, View};
use crate::record::Record;
use crate::table::Table;

impl dyn View + '_ {
    /// A rollout as it was asked for.
    pub fn rollout(&self, id: &str) -> Result<Option<Rollout>, StoreError> {
        self.record(&key::rollout(id))
    }

    /// How far a rollout has come.
    pub fn rollout_state(&self, id: &str) -> Result<Option<RolloutState>, StoreError> {
        self.record(&key::rollout(id))
    }

    /// Rollouts, in order of id, as far as they have come.
    pub fn rollout_states(&self, after: Option<&str>, limit: usize) -> Result<Vec<RolloutState>, StoreError> {
        let range = KeyRange::of(&[]).after(after.map(key::rollout));
        self.records(range, true)?.take(limit).collect()
    }

    /// Devices that a rollout names.
    pub fn rollout_devices(
        &self,
        rollout: Incarnation,
        number: u32,
    ) -> Result<Option<RolloutDevices>, StoreError> {
        self.record(&key::rollout_devices(rollout, number))
    }

    /// A device of a rollout.
    pub fn rollout_member(&self, place: &MemberPlace) -> Result<Option<RolloutMember>, StoreError> {
        self.record(&key::member(place))
    }

    /// The devices of a rollout, or those that stand there, by rank.
    pub fn rollout_members(
        &self,
        rollout: Incarnation,
        status: Option<MemberStatus>,
        after: Option<&MemberPlace>,
        limit: usize,
    ) -> Result<Vec<RolloutMember>, StoreError> {
        let Some(status) = status else {
            let range = KeyRange::of(&key::incarnation(rollout)).after(after.map(key::member));
            return self.records(range, true)?.take(limit).collect();
        };
        let index = index_of::<RolloutMember>(Table::MembersByStatus);
        let after = after.map(|place| key::member_of_status(place, status));
        let range = KeyRange::of(&key::members_of_status(rollout, status)).after(after);
        let rows = self.rows(index.table, range, true)?.take(limit);
        rows.map(|row| row.and_then(|(key, value)| self.surely_named(index, &key, &value))).collect()
    }

    /// The rank of the device of a rollout that has `before` others before it.
    pub fn rollout_rank(&self, rollout: Incarnation, before: u64) -> Result<Option<u64>, StoreError> {
        let range = KeyRange::of(&key::incarnation(rollout));
        let skipped = usize::try_from(before).unwrap_or(usize::MAX);
        let found = self.rows(RolloutMember::TABLE, range, true)?.nth(skipped).transpose()?;
        let rank = |(key, _): (key::TableKey, Vec<u8>)| {
            let rank = key.get(8..16).and_then(|rank| <[u8; 8]>::try_from(rank).ok());
            let what = || "the key of a device of a rollout is cut off".to_owned();
            rank.map(u64::from_be_bytes).ok_or_else(|| self.damaged(RolloutMember::TABLE, &key, what()))
        };
        found.map(rank).transpose()
    }
}
