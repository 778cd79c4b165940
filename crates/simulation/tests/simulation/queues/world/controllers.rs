//! Those who tell the workers of a queue what to do: run, drain or stop, and how many jobs at a
//! time.

use engine::kernel::reply::Reply;
use engine::queues::driving::QueueCall;
use engine::queues::{QueueInput, QueueName};
use records::{WorkState, WorkerControl};

use super::World;
use super::calls::{Answer, Then, Waiting};
use crate::queues::fault_injection::CONTROL_HOLDS_BACK;
use crate::queues::meant::Meant;

/// Jobs that a worker is told to work on at a time, at most.
const IN_FLIGHT_MAX: u64 = 20;

impl World {
    /// The workers of a queue are told something, or nothing any more.
    pub(super) fn control(&mut self) {
        let queue = self.any_queue();
        let control = self.machine.random.chance(3, 4).then(|| self.any_control(&queue));
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let told = control.clone().map(Box::new);
        let input = QueueInput::Queue(QueueCall::Control(queue.clone(), told, reply));
        let are_held_back = control.as_ref().is_some_and(|control| control.state != WorkState::Run);
        let meant = Meant::Control { call, queue: queue.clone(), control };
        self.ask(&queue, (input, meant), Waiting::on(receiver, Answer::Done), Then::Nothing);
        if are_held_back && self.machine.injects(CONTROL_HOLDS_BACK) {
            self.hold_back(queue);
        }
    }

    fn any_control(&self, queue: &QueueName) -> WorkerControl {
        let random = &self.machine.random;
        WorkerControl {
            namespace: queue.namespace().into(),
            queue: queue.queue().into(),
            state: random.one_of(&WorkState::ALL),
            max_in_flight: random.chance(1, 2).then(|| 1 + random.below(IN_FLIGHT_MAX) as u32),
            data: random.chance(1, 3).then(|| format!("[{}]", random.below(1_000)).into()),
        }
    }

    /// The server gives no jobs of a queue any more, and the model does not know.
    fn hold_back(&mut self, queue: QueueName) {
        let partition = self.partition_of(&queue);
        let (reply, _nobody_waits) = Reply::new();
        let input = QueueInput::Queue(QueueCall::Pause(queue, true, reply));
        let _not_accepting = self.hand_in(partition, input, Meant::PassOn);
    }
}
