//! Calls off picks that did not go out: of a cancelled task, of one whose time is over, and of
//! devices that went away.

use base::Incarnation;
use records::{DevicePlace, PickOutcome};

use super::picking::order;
use super::running::{PickProgress, Recall, RunningTask};
use super::{CampaignMachine, CampaignsStep};
use crate::campaigns::links::OrderKind;

/// Picks of all tasks that are looked at in a step, to call them off.
const RECALLED_PER_STEP: usize = 1_000;

impl CampaignMachine {
    /// Goes on with calling off what did not go out.
    pub(super) fn recall_some(&mut self, step: &mut CampaignsStep<'_>) {
        self.recalling.extend(step.own.touched.iter().copied());
        let mut left = RECALLED_PER_STEP;
        while let Some(task) = self.recalling.first().copied() {
            let Some(recall) = self.running.get(&task).and_then(|running| running.recall) else {
                self.recalling.remove(&task);
                continue;
            };
            if left == 0 || !step.has_room() {
                step.own.is_behind = true;
                return;
            }
            let next = self.recall_of_task(task, recall, &mut left, step);
            step.own.touched.insert(task);
            if let Some(running) = self.running.get_mut(&task) {
                running.recall = next;
            }
        }
    }

    /// Where it goes on.
    fn recall_of_task(
        &mut self,
        task: Incarnation,
        recall: Recall,
        left: &mut usize,
        step: &mut CampaignsStep<'_>,
    ) -> Option<Recall> {
        let open = &self.running.get(&task)?.open;
        let numbers: Vec<u32> = open.range(recall.from..).map(|(number, _)| *number).take(*left).collect();
        let is_last = numbers.len() < *left;
        let mut from = recall.from;
        for number in numbers {
            *left -= 1;
            from = number + 1;
            self.call_off((task, number), recall.outcome, step);
            if !step.has_room() {
                return Some(Recall { from, ..recall });
            }
        }
        (!is_last).then_some(Recall { from, ..recall })
    }

    /// Calls a pick off, unless it went out.
    pub(super) fn call_off(
        &mut self,
        (task, number): (Incarnation, u32),
        outcome: PickOutcome,
        step: &mut CampaignsStep<'_>,
    ) {
        let Some(running) = self.running.get_mut(&task) else { return };
        let tells_each = tells_each(running);
        let Some(open) = running.open.get_mut(&number) else { return };
        match open.progress {
            PickProgress::WaitsForRate(OrderKind::Give) if !tells_each => {
                self.end_pick((task, number), outcome, None, step);
            }
            // Where each result is told, the device's partition tells this one too.
            PickProgress::WaitsForRate(_) | PickProgress::Ordered => {
                if let PickProgress::WaitsForRate(_) = open.progress {
                    self.rate.drop_one(task);
                }
                open.progress = PickProgress::CalledOff(outcome);
                order(running, number, OrderKind::TakeBack, step);
            }
            PickProgress::CalledOff(_) | PickProgress::Sent => {}
        }
    }

    /// The last session of a device has ended: what did not go out to it is called off. Of a task
    /// that goes on after a start nobody counts as gone.
    pub(super) fn went_away(&mut self, place: DevicePlace, step: &mut CampaignsStep<'_>) {
        for key in self.open.get(&place).cloned().unwrap_or_default() {
            if self.running.get(&key.0).is_some_and(|running| !running.is_recovering) {
                self.call_off(key, PickOutcome::WentAway, step);
            }
        }
    }

    /// A device has a session: whoever was set aside is not any more, and tasks that wait for
    /// devices look again.
    pub(super) fn came(&mut self, places: Vec<DevicePlace>, step: &mut CampaignsStep<'_>) {
        self.free(places, step);
        for task in self.recovering.clone() {
            if let Some(running) = self.running.get_mut(&task) {
                running.look();
                step.own.touched.insert(task);
            }
        }
    }

    /// Whoever was set aside of these devices is not any more.
    pub(super) fn free(&mut self, places: Vec<DevicePlace>, step: &mut CampaignsStep<'_>) {
        for place in places {
            let freed = self.shares.free(place);
            self.put_share(freed, step);
        }
    }
}

/// Whether somebody is told of each pick.
fn tells_each(running: &RunningTask) -> bool {
    running.task.slot.is_some() && running.terms.receiver.is_some()
}
