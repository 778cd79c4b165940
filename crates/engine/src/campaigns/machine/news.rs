//! What was found out: devices, what became of orders, who came and went.

use base::Incarnation;
use records::{DevicePlace, PickOutcome};
use store::StoreError;

use super::running::{DeviceSearch, PickProgress};
use super::{CampaignMachine, CampaignsStep};
use crate::campaigns::input::PickNews;

impl CampaignMachine {
    pub(super) fn take_news(
        &mut self,
        news: PickNews,
        step: &mut CampaignsStep<'_>,
    ) -> Result<(), StoreError> {
        match news {
            PickNews::Found(task, found) => self.found(task, &found, step),
            PickNews::Unreadable(task) => self.unreadable(task, step),
            PickNews::Moved(moves) => {
                for moved in moves {
                    self.stands(moved.task, moved.number, moved.standing, step)?;
                }
            }
            PickNews::Reported(reports) => {
                for report in reports {
                    self.reported(report, step)?;
                }
            }
            PickNews::WentAway(places) => places.into_iter().for_each(|place| self.went_away(place, step)),
            PickNews::Came(places) => self.came(places, step),
            PickNews::Gone(places) => {
                places.into_iter().for_each(|place| self.deleted(place, step));
            }
            PickNews::AskAgain => self.ask_again(),
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
