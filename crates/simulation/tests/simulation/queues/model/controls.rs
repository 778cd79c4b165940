//! What the workers of queues are told, in the model. It belongs to the name of a queue until the
//! queue is deleted, and whoever asks for jobs gets them nevertheless.

use engine::queues::QueueName;
use records::{WorkState, WorkerControl};

use super::Partition;

impl Partition {
    /// Workers are told all of this, in place of what they were told, or nothing any more.
    pub(super) fn control(&mut self, queue: &QueueName, control: Option<&WorkerControl>) {
        if let Some(control) = control {
            self.counts.controls_put += 1;
            self.controls.insert(queue.clone(), control.clone());
        } else if self.controls.remove(queue).is_some() {
            self.counts.controls_taken_back += 1;
        }
    }

    pub(super) fn are_to_take_no_more(&self, queue: &QueueName) -> bool {
        self.controls.get(queue).is_some_and(|control| control.state != WorkState::Run)
    }
}
