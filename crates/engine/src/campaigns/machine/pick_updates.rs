//! What was found out: devices, what became of orders, who came and went.

use base::Incarnation;
use records::{DevicePlace, PickOutcome};
use store::StoreError;

use super::running::{DeviceSearch, PickProgress};
use super::{CampaignMachine, CampaignsStep};
use crate::campaigns::input::PickUpdate;

/// A device that has left.
#[derive(Clone, Copy, Debug)]
pub(super) struct DepartedDevice {
    place: DevicePlace,
    /// It was deleted; else its last session has ended.
    is_deleted: bool,
}

impl CampaignMachine {
    pub(super) fn take_update(
        &mut self,
        update: PickUpdate,
        step: &mut CampaignsStep<'_>,
    ) -> Result<(), StoreError> {
        match update {
            PickUpdate::Found(task, found) => self.found(task, &found, step),
            PickUpdate::Unreadable(task) => self.unreadable(task, step),
            PickUpdate::Moved(moves) => {
                for moved in moves {
                    self.stands(moved.task, moved.number, moved.standing, step)?;
                }
            }
            PickUpdate::Reported(reports) => {
                for report in reports {
                    self.reported(report, step)?;
                }
            }
            PickUpdate::WentAway(places) => self.leave(places, false, step),
            PickUpdate::Came(places) => self.came(places, step),
            PickUpdate::Answered(places) => self.free(places, step),
            PickUpdate::Gone(places) => self.leave(places, true, step),
            PickUpdate::AskAgain => self.ask_again(),
        }
        Ok(())
    }

    /// The stored selection of a task cannot be read: it picks nobody.
    fn unreadable(&mut self, task: Incarnation, step: &mut CampaignsStep<'_>) {
        if let Some(running) = self.running.get_mut(&task) {
            running.search = DeviceSearch::Idle;
            running.stop_picking();
            step.own.touched.insert(task);
        }
    }

    fn leave(&mut self, places: Vec<DevicePlace>, is_deleted: bool, step: &mut CampaignsStep<'_>) {
        self.departed.extend(places.into_iter().map(|place| DepartedDevice { place, is_deleted }));
        self.let_leave(step);
    }

    /// Looks at the open picks of devices that have left, as far as there is room: a device may
    /// have one of every task.
    pub(super) fn let_leave(&mut self, step: &mut CampaignsStep<'_>) {
        while step.has_room() {
            match self.departed.pop_front() {
                Some(DepartedDevice { place, is_deleted: true }) => self.deleted(place, step),
                Some(DepartedDevice { place, is_deleted: false }) => self.went_away(place, step),
                None => return,
            }
        }
        step.own.is_behind |= !self.departed.is_empty();
    }

    /// A device was deleted: no answer of it comes any more.
    fn deleted(&mut self, place: DevicePlace, step: &mut CampaignsStep<'_>) {
        for (task, number) in self.open.get(&place).cloned().unwrap_or_default() {
            let is_sent = self.progress(task, number) == Some(PickProgress::Sent);
            let outcome = if is_sent { PickOutcome::NoAnswer } else { PickOutcome::WentAway };
            self.end_pick((task, number), outcome, None, step);
        }
        self.forget_device(place, step);
    }

    /// Has every open pick ensured.
    fn ask_again(&mut self) {
        self.to_ensure.clear();
        for (task, running) in &self.running {
            let waits = |progress: PickProgress| matches!(progress, PickProgress::WaitsForRate(_));
            let ordered = running.open.iter().filter(|(_, open)| !waits(open.progress));
            self.to_ensure.extend(ordered.map(|(number, _)| (*task, *number)));
        }
    }
}
