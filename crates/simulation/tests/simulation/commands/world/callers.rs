//! Callers: who registers devices, gives them commands, calls commands off, tries them anew, and
//! waits for their ends.

use std::time::Duration;

use base::{Clock, DeviceId};
use engine::devices::input::{CommandInput, DeviceInput};
use engine::kernel::reply::Reply;
use engine::{NewCommand, NewDevice};

use super::World;
use super::calls::{Answer, Then, Waiting};
use crate::commands::fault_injection::CANCELLED_GOES_ON;
use crate::commands::meant::Meant;
use crate::commands::model::payload;
use crate::commands::plan::{device_id, kind_of};

/// Callers that wait at most.
const AWAITING_MAX: usize = 40;

impl World {
    /// Every device is registered, before anything else happens.
    pub(super) fn register_all(&mut self) {
        for id in self.plan.device_ids() {
            let device = NewDevice {
                id: id.to_string(),
                kind: Some(kind_of(&id).to_string()),
                ..NewDevice::default()
            };
            let checked = device.check(&self.plan.settings.registry_rules());
            let checked = Box::new(checked.expect("the workload makes devices that may be"));
            let (call, (reply, receiver)) = (self.next_call(), Reply::new());
            let input = DeviceInput::CreateDevice { device: checked, reply };
            let waiting = Waiting::on(receiver, |device| Answer::Created(device.err()));
            let partition = self.partition_of(&id);
            let meant = Meant::Create { call, device: id };
            self.ask(partition, (input, meant), (waiting, Then::Nothing));
        }
    }

    pub(super) fn send(&mut self) {
        let device = device_id(self.machine.random.below(self.plan.devices + 1));
        self.last_number += 1;
        let number = self.last_number;
        let command = self.any_command(number);
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let meant = Meant::Send { call, device: device.clone(), number, key: command.key.clone() };
        let input = DeviceInput::Commands(CommandInput::Send {
            device: device.clone(),
            command: Box::new(command),
            reply,
        });
        let partition = self.partition_of(&device);
        let answer = (Waiting::on(receiver, Answer::Command), Then::Given(number, device));
        self.ask(partition, (input, meant), answer);
    }

    fn any_command(&self, number: u64) -> NewCommand {
        let random = &self.machine.random;
        let seconds = |most: u64| Duration::from_millis(1 + random.below(most * 1_000));
        let not_before = random.chance(1, 6).then(|| self.machine.clock.wall().after(seconds(90)));
        NewCommand {
            ttl: random.chance(1, 4).then(|| seconds(120)),
            not_before,
            ack_timeout: random.chance(1, 4).then(|| seconds(20)),
            run_timeout: random.chance(3, 4).then(|| seconds(40)),
            attempts_max: random.chance(1, 4).then(|| 1 + random.below(3) as u32),
            key: random.chance(1, 3).then(|| format!("k{}", random.below(self.plan.names))),
            priority: if random.chance(1, 2) { 0 } else { random.below(5) as i8 - 2 },
            ..NewCommand::new(payload(number).into())
        }
    }

    /// A command that is known is called off, tried anew, or waited for.
    pub(super) fn manage(&mut self) {
        if self.given.is_empty() {
            return;
        }
        // Mostly one of the newest.
        let span = if self.machine.random.chance(3, 4) { 8.min(self.given.len()) } else { self.given.len() };
        let index = self.given.len() - 1 - self.machine.random.below(span as u64) as usize;
        let id = self.given[index];
        let partition = self.partition_of_command(id);
        let call = self.next_call();
        match self.machine.random.below(5) {
            0..=1 => {
                let (reply, receiver) = Reply::new();
                let then = Then::Cancelled(id, self.history.retries(id));
                let answer = (Waiting::on(receiver, Answer::Done), then);
                let input = DeviceInput::Commands(CommandInput::Cancel { id, reply });
                self.ask(partition, (input, Meant::Cancel { call, id }), answer);
                if self.machine.injects(CANCELLED_GOES_ON) {
                    let (reply, _) = Reply::new();
                    let (input, call) =
                        (DeviceInput::Commands(CommandInput::Retry { id, reply }), self.next_call());
                    let _not_accepting = self.hand_in(partition, input, Meant::Retry { call, id });
                }
            }
            2 => {
                self.history.retried(id);
                let (reply, receiver) = Reply::new();
                let answer = (Waiting::on(receiver, Answer::Done), Then::Retried(id));
                let input = DeviceInput::Commands(CommandInput::Retry { id, reply });
                self.ask(partition, (input, Meant::Retry { call, id }), answer);
            }
            _ if self.calls.waiting.len() < AWAITING_MAX => {
                let (reply, receiver) = Reply::new();
                let answer = (Waiting::on(receiver, Answer::Command), Then::Awaited(id));
                self.ask(
                    partition,
                    (DeviceInput::Commands(CommandInput::Await { id, reply }), Meant::Await { call }),
                    answer,
                );
            }
            _ => {}
        }
    }

    pub(super) fn is_registered(&self, device: &DeviceId) -> bool {
        self.model[usize::from(self.partition_of(device).0)].present.devices.contains(device)
    }
}
