//! Tasks, their picks, and what devices have had of all picks.

use std::ops::Bound;

use base::{DeviceId, EntityId, Incarnation, Timestamp};
use records::{DevicePlace, Pick, PickClock, PickShare, PickTerms, TaskRecord, TaskState};

use super::{Row, index_of};
use crate::codec::key;
use crate::key_range::KeyRange;
use crate::port::{StoreError, View};
use crate::record::Record;
use crate::table::Table;

/// Which results of a campaign: picks by when they ended.
#[derive(Clone, Copy, Debug)]
pub struct ResultPage<'a> {
    /// Earliest end, inclusive.
    pub from: Timestamp,
    /// Latest end, exclusive.
    pub until: Timestamp,
    /// Only those of this device.
    pub device: Option<&'a DeviceId>,
    /// The last one of the page before: when it ended, its task, and its number among those of the
    /// task that have ended.
    pub after: Option<(Timestamp, Incarnation, u32)>,
    /// Latest first.
    pub is_descending: bool,
    /// Most items to give.
    pub limit: usize,
}

impl dyn View + '_ {
    /// Terms of picks.
    ///
    /// # Errors
    /// When the data cannot be read; the same for every query.
    pub fn pick_terms(&self, terms: Incarnation) -> Result<Option<PickTerms>, StoreError> {
        self.record(&key::incarnation(terms))
    }

    /// A task, or a slot.
    pub fn task(&self, task: Incarnation) -> Result<Option<TaskRecord>, StoreError> {
        self.record(&key::incarnation(task))
    }

    /// The task of an id. Slots are not found by theirs.
    pub fn task_of(&self, id: &EntityId) -> Result<Option<TaskRecord>, StoreError> {
        let (index, key) = (index_of::<TaskRecord>(Table::TasksById), key::task_id(*id));
        let row = self.get(index.table, &key)?;
        row.map(|row| self.surely_named(index, &key, &row)).transpose()
    }

    /// How far a task has come.
    pub fn task_state(&self, task: Incarnation) -> Result<Option<TaskState>, StoreError> {
        self.record(&key::incarnation(task))
    }

    /// Tasks and slots that have not ended, also those that were called off and still have picks
    /// under way; the oldest first.
    pub fn running_tasks(
        &self,
        after: Option<Incarnation>,
        limit: usize,
    ) -> Result<Vec<TaskState>, StoreError> {
        self.listed_tasks(Table::RunningTasks, after, limit)
    }

    /// Tasks whose receivers are still to be told that they ended, the oldest first.
    pub fn untold_tasks(
        &self,
        after: Option<Incarnation>,
        limit: usize,
    ) -> Result<Vec<TaskState>, StoreError> {
        self.listed_tasks(Table::UntoldTasks, after, limit)
    }

    fn listed_tasks(
        &self,
        list: Table,
        after: Option<Incarnation>,
        limit: usize,
    ) -> Result<Vec<TaskState>, StoreError> {
        let range = KeyRange::of(&[]).after(after.map(key::incarnation));
        self.listed(list, range, true, limit)
    }

    /// Tasks, or slots, that ended before a time, the first to end first. `after` is when the last
    /// one of the page before ended, and which it is.
    pub fn tasks_ended(
        &self,
        is_slot: bool,
        after: Option<(Timestamp, Incarnation)>,
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<TaskState>, StoreError> {
        let mut first_kept = key::ended_tasks(is_slot);
        first_kept.extend_from_slice(&key::time(before));
        let after = after.map(|(at, task)| key::ended_task(is_slot, at, task));
        let range = KeyRange::of(&key::ended_tasks(is_slot)).before(Some(first_kept)).after(after);
        self.listed(Table::EndedTasks, range, true, limit)
    }

    /// Slots of a campaign that were due from a time until before another, the latest first.
    /// `after` is when the last one of the page before was due, and its task.
    pub fn slots(
        &self,
        campaign: Incarnation,
        (from, until): (Timestamp, Timestamp),
        after: Option<(Timestamp, Incarnation)>,
        limit: usize,
    ) -> Result<Vec<(TaskRecord, TaskState)>, StoreError> {
        let first_at = |at| key::slot_of_campaign(campaign, at, Incarnation(0));
        let after = after.map(|(due_at, task)| key::slot_of_campaign(campaign, due_at, task));
        let high = after.into_iter().chain([first_at(until)]).min().map_or(Bound::Unbounded, Bound::Excluded);
        let range = KeyRange { low: Bound::Included(first_at(from)), high };
        let tasks: Vec<TaskRecord> = self.listed(Table::SlotsByCampaign, range, false, limit)?;
        let with_state = |task: TaskRecord| {
            let key = key::incarnation(task.incarnation);
            let missing = || self.damaged(Table::Tasks, &key, "its state is missing".to_owned());
            let state = self.task_state(task.incarnation)?.ok_or_else(missing)?;
            Ok((task, state))
        };
        tasks.into_iter().map(with_state).collect()
    }

    /// Picks of a task, or of a slot, by number.
    pub fn picks(
        &self,
        task: Incarnation,
        after: Option<u32>,
        limit: usize,
    ) -> Result<Vec<Pick>, StoreError> {
        let after = after.map(|number| key::pick(task, number));
        let range = KeyRange::of(&key::incarnation(task)).after(after);
        self.records(range, true)?.take(limit).collect()
    }

    /// Hands out the first `limit` picks of a task, or of a slot, by number. They come one at a
    /// time, since each may have a result of 64 KiB. Returns how many they were.
    pub fn each_pick(
        &self,
        task: Incarnation,
        limit: usize,
        each: &mut dyn FnMut(Pick),
    ) -> Result<usize, StoreError> {
        let mut handed_out = 0;
        for pick in self.records(KeyRange::of(&key::incarnation(task)), true)?.take(limit) {
            each(pick?);
            handed_out += 1;
        }
        Ok(handed_out)
    }

    /// A pick.
    pub fn pick(&self, task: Incarnation, number: u32) -> Result<Option<Pick>, StoreError> {
        self.record(&key::pick(task, number))
    }

    /// Picks that have ended of a task that is no slot, in the order in which they ended. `after`
    /// is the number of such an end.
    pub fn results(
        &self,
        task: Incarnation,
        after: Option<u32>,
        is_descending: bool,
        limit: usize,
    ) -> Result<Vec<Pick>, StoreError> {
        let (after, all) = (after.map(|ended| key::pick(task, ended)), KeyRange::of(&key::incarnation(task)));
        let range = if is_descending { all.before(after) } else { all.after(after) };
        self.listed(Table::PicksByEnd, range, !is_descending, limit)
    }

    /// Picks of a campaign's slots that have ended, in order of when they did.
    pub fn campaign_results(
        &self,
        campaign: Incarnation,
        page: ResultPage<'_>,
    ) -> Result<Vec<Pick>, StoreError> {
        let (table, prefix) = match page.device {
            None => (Table::PicksByCampaign, key::incarnation(campaign)),
            Some(device) => (Table::PicksByCampaignDevice, key::device_of_campaign(campaign, device)),
        };
        let first_at = |at| key::result(&prefix, at, Incarnation(0), 0);
        let after = page.after.map(|(at, task, ended)| key::result(&prefix, at, task, ended));
        let (mut low, mut high) = (Bound::Included(first_at(page.from)), first_at(page.until));
        match after {
            Some(after) if page.is_descending => high = high.min(after),
            Some(after) if after >= first_at(page.from) => low = Bound::Excluded(after),
            _ => {}
        }
        let range = KeyRange { low, high: Bound::Excluded(high) };
        self.listed(table, range, !page.is_descending, page.limit)
    }

    /// When a device was picked since a time, and by which tasks; the latest first.
    pub fn picks_since(
        &self,
        place: DevicePlace,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<(Timestamp, Incarnation)>, StoreError> {
        let low = Bound::Included(key::pick_of_device(place, since, Incarnation(0)));
        let range = KeyRange { low, ..KeyRange::of(&key::device_place(place)) };
        let table = Table::PicksByDevice;
        let read = |(key, _): Row| {
            let picked = key::picked_at(&key).map_err(|error| self.unreadable(table, &key, &error))?;
            Ok(picked)
        };
        self.rows(table, range, false)?.take(limit).map(|row| row.and_then(read)).collect()
    }

    /// What devices have had of all picks, in order of their places.
    pub fn pick_shares(
        &self,
        after: Option<DevicePlace>,
        limit: usize,
    ) -> Result<Vec<PickShare>, StoreError> {
        let range = KeyRange::of(&[]).after(after.map(key::device_place));
        self.records(range, true)?.take(limit).collect()
    }

    /// What a device has had of all picks.
    pub fn pick_share(&self, place: DevicePlace) -> Result<Option<PickShare>, StoreError> {
        self.record(&key::device_place(place))
    }

    /// The clock of picks, once it was set.
    pub fn pick_clock(&self) -> Result<Option<PickClock>, StoreError> {
        self.record(&key::pick_clock())
    }

    /// The records that the first rows of a range of an index lead to.
    fn listed<R: Record>(
        &self,
        table: Table,
        range: KeyRange,
        ascending: bool,
        limit: usize,
    ) -> Result<Vec<R>, StoreError> {
        if limit == 0 || range.is_empty() {
            return Ok(Vec::new());
        }
        let index = index_of::<R>(table);
        let rows = self.rows(table, range, ascending)?.take(limit);
        rows.map(|row| row.and_then(|(key, value)| self.surely_named(index, &key, &value))).collect()
    }
}
