//! Who hears of a job of a partition of devices that ended without its worker, and of lines with
//! something to lease. What jobs are for is stored, and so in [`records::JobPurpose`].

use records::{JobLine, JobPurpose};

use super::ended_job::EndedJob;
use super::{DevicePartition, DeviceStep};
use crate::devices::effect::DeviceEffect;

impl DevicePartition {
    /// A job ended without a word of its worker.
    pub(super) fn job_ended(&mut self, ended: EndedJob, step: &mut DeviceStep<'_>) {
        match JobPurpose::of(ended.line, ended.alias) {
            Some(JobPurpose::Notification(slot, client)) => {
                self.notification_ended(slot, client, ended.end, step);
            }
            Some(JobPurpose::Outcome { lane, key, .. }) => self.outcome_ended((lane, key), ended.end, step),
            None => debug_assert!(false, "a job has a purpose: {ended:?}"),
        }
    }

    /// Says which lines have something to lease since this step.
    pub(super) fn announce_lines(&mut self, step: &mut DeviceStep<'_>) {
        if step.own.jobs.wakes.is_empty() {
            return;
        }
        let (mut clients, mut outcomes) = (Vec::new(), Vec::new());
        for line in step.own.jobs.wakes.iter().filter_map(|line| JobLine::of(*line)) {
            match line {
                JobLine::Notifications(client) => clients.push(client),
                JobLine::Outcomes(lane) => outcomes.push(lane),
            }
        }
        if !clients.is_empty() {
            step.emit(DeviceEffect::LanesDue(self.id, clients));
        }
        if !outcomes.is_empty() {
            step.emit(DeviceEffect::OutcomesDue(self.id, outcomes));
        }
    }
}
