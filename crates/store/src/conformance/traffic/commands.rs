//! Traffic of commands, desired entries, sessions and timelines.
//!
//! A command stands where it and its state say; it moves from there to anywhere.

use base::{ClientId, EntityId, Incarnation};
use records::{
    Attempt, AttemptDetail, CampaignSlot, Command, CommandCause, CommandKey, CommandState, CommandStatus,
    CommandTerms, DeliveryKey, DeliveryStatus, DesiredState, DeviceSession, DeviceSlot, DisconnectReason,
    FinishedCommand, Happening, LateAnswer, Op, OpenCommand, OutcomeReceiver, PickCause, RolloutCause,
    TimelineEntry,
};

use super::{KnownDevice, Traffic};

/// What devices are told, and what is wished of them.
#[derive(Clone, Debug, Default)]
pub(super) struct OfCommands {
    commands: Vec<(Command, CommandState)>,
    desired_states: Vec<(DeviceSlot, Box<str>)>,
}

/// Keys of commands and of desired entries are few, so that they are used again.
const KEYS: [&str; 4] = ["door", "pin", "pin2", "ключ"];

impl Traffic {
    /// Keys that commands and desired entries may have, and one that none has.
    pub fn keys() -> impl Iterator<Item = &'static str> {
        KEYS.into_iter().chain(["pi"])
    }

    /// Commands that are there, and one that never was.
    pub fn commands(&self) -> impl Iterator<Item = CommandKey> + '_ {
        let next = CommandKey { at: self.head.now, number: self.head.next_command };
        self.of_commands.commands.iter().map(|(command, _)| command.id.into()).chain([next])
    }

    pub(super) fn change_of_commands(&mut self, ops: &mut Vec<Op>) {
        match self.below(9) {
            0..=1 => self.give_command(ops),
            2..=3 => self.move_command(ops),
            4 => self.forget_command(ops),
            5 => self.put_desired_state(ops),
            6 => self.delete_desired_state(ops),
            7 => self.session(ops),
            _ => self.happen(ops),
        }
    }

    /// The commands of a device go with it.
    pub(super) fn forget_commands_of(&mut self, slot: DeviceSlot) {
        self.of_commands.commands.retain(|(command, _)| command.slot != slot);
        self.of_commands.desired_states.retain(|(other, _)| *other != slot);
    }

    fn give_command(&mut self, ops: &mut Vec<Op>) {
        let Some(device) = self.pick(&self.devices.clone()) else { return };
        let number = self.head.next_command;
        self.head.next_command = number.wrapping_add(1);
        let command = self.command(&device, number);
        let state = self.command_state();
        ops.push(Op::PutCommand(Box::new(command.clone())));
        self.put_command_state(command, state, ops);
    }

    fn pick_turn(&mut self) -> PickCause {
        let slot = |traffic: &mut Self| {
            let (campaign, due_at) = (Incarnation(traffic.below(5)), traffic.some_ts());
            ("ping".into(), CampaignSlot { campaign, number: traffic.below(9), due_at })
        };
        let task = Incarnation(self.below(5));
        PickCause { task, number: 7, picked_at: self.head.now, slot: self.maybe(slot) }
    }

    fn command(&mut self, device: &KnownDevice, number: u32) -> Command {
        let cause = match self.below(4) {
            0 => CommandCause::Call,
            1 => {
                let key = KEYS[self.below(4) as usize].into();
                CommandCause::DesiredState { key, value: self.maybe(|_| "true".into()) }
            }
            2 => {
                CommandCause::Rollout(RolloutCause { rollout: Incarnation(self.below(5)), entry: 0, turn: 1 })
            }
            _ => CommandCause::Pick(Box::new(self.pick_turn())),
        };
        Command {
            id: self.entity(device, number),
            slot: device.slot,
            device: device.id.clone(),
            payload: (0..self.below(300)).map(|byte| byte as u8).collect(),
            origin: self.maybe(|_| "консоль".into()),
            key: self.maybe(|traffic| KEYS[traffic.below(4) as usize].into()),
            terms: CommandTerms {
                priority: [-100, -1, 0, 1, 100][self.below(5) as usize],
                not_before: self.maybe(Self::some_ts),
                ttl_ms: self.maybe(|traffic| traffic.below(1 << 40)),
                ack_timeout_ms: self.below(1 << 40),
                run_timeout_ms: self.below(1 << 40),
                attempts_max: self.below(10) as u32,
            },
            cause,
            notify: self.maybe(Self::outcome_receiver).map(Box::new),
        }
    }

    pub(super) fn outcome_receiver(&mut self) -> OutcomeReceiver {
        match self.below(3) {
            0 => OutcomeReceiver::Queue { namespace: "default".into(), queue: "done".into() },
            1 => OutcomeReceiver::Stream { namespace: "default".into(), stream: "done".into() },
            _ => {
                let secret = self.random.next_u64().to_le_bytes();
                OutcomeReceiver::Url { url: "https://example.org/done".into(), secret: secret.into() }
            }
        }
    }

    fn command_state(&mut self) -> CommandState {
        let status = CommandStatus::ALL[self.below(8) as usize];
        CommandState {
            status,
            is_held: status == CommandStatus::Scheduled && self.below(2) == 0,
            expires_at: self.maybe(Self::some_ts),
            tries: self.below(5) as u32,
            published_at: self.maybe(Self::some_ts),
            finished_at: status.has_ended().then_some(self.head.now),
            progress: self.maybe(|_| "{\"done\":0.5}".into()),
            progress_at: self.maybe(Self::some_ts),
            result: self.maybe(|_| "\"ладно\"".into()),
            late: self
                .maybe(|traffic| LateAnswer {
                    ok: traffic.below(2) == 0,
                    at: traffic.head.now,
                    result: traffic.maybe(|_| "1".into()),
                })
                .map(Box::new),
        }
    }

    /// Where it stood is nobody's any more.
    fn put_command_state(&mut self, command: Command, state: CommandState, ops: &mut Vec<Op>) {
        ops.push(Op::PutCommandState(command.id.into(), Box::new(state.clone())));
        let open = OpenCommand::of(&command, &state);
        ops.extend(open.map(|open| Op::PutOpenCommand(Box::new(open))));
        ops.extend(FinishedCommand::of(&command, &state).map(Op::PutFinishedCommand));
        self.of_commands.commands.push((command, state));
    }

    /// Takes a command from where it stands.
    fn take_command(&mut self, ops: &mut Vec<Op>) -> Option<Command> {
        let count = self.of_commands.commands.len() as u64;
        if count == 0 {
            return None;
        }
        let at = self.below(count) as usize;
        let (command, state) = self.of_commands.commands.swap_remove(at);
        let open = OpenCommand::of(&command, &state);
        ops.extend(open.map(|open| Op::DeleteOpenCommand(Box::new(open))));
        ops.extend(FinishedCommand::of(&command, &state).map(Op::DeleteFinishedCommand));
        Some(command)
    }

    fn move_command(&mut self, ops: &mut Vec<Op>) {
        if let Some(command) = self.take_command(ops) {
            let state = self.command_state();
            self.put_command_state(command, state, ops);
        }
    }

    fn forget_command(&mut self, ops: &mut Vec<Op>) {
        if let Some(command) = self.take_command(ops) {
            ops.push(Op::DeleteCommand(command.id.into(), command.slot));
        }
    }

    fn put_desired_state(&mut self, ops: &mut Vec<Op>) {
        let Some(device) = self.pick(&self.devices.clone()) else { return };
        let key: Box<str> = KEYS[self.below(4) as usize].into();
        let place = (device.slot, key.clone());
        if !self.of_commands.desired_states.contains(&place) {
            self.of_commands.desired_states.push(place);
        }
        ops.push(Op::PutDesiredState(Box::new(DesiredState {
            slot: device.slot,
            key,
            desired: self.maybe(|_| "true".into()),
            desired_at: self.some_ts(),
            confirmed: self.maybe(|_| "[1,2]".into()),
            confirmed_at: self.maybe(Self::some_ts),
            command: self.maybe(|traffic| CommandKey { at: traffic.head.now, number: 3 }),
        })));
    }

    fn delete_desired_state(&mut self, ops: &mut Vec<Op>) {
        let gone = self.forget(|traffic| &mut traffic.of_commands.desired_states);
        ops.extend(gone.map(|(slot, key)| Op::DeleteDesiredState(slot, key)));
    }

    fn session(&mut self, ops: &mut Vec<Op>) {
        let Some(KnownDevice { slot, .. }) = self.pick(&self.devices.clone()) else { return };
        ops.push(if self.below(2) == 0 {
            Op::DeleteDeviceSession(slot)
        } else {
            Op::PutDeviceSession(Box::new(DeviceSession {
                slot,
                number: self.random.next_u64(),
                since: self.head.now,
                address: self.maybe(|_| "[::1]:1883".into()),
            }))
        });
    }

    fn happen(&mut self, ops: &mut Vec<Op>) {
        let Some(device) = self.pick(&self.devices.clone()) else { return };
        let number = self.head.next_timeline;
        self.head.next_timeline = number.wrapping_add(1);
        let id = self.entity(&device, 6);
        let what = self.happening(id);
        let entry = TimelineEntry { slot: device.slot, at: self.head.now, number, what };
        ops.push(Op::PutTimelineEntry(Box::new(entry)));
    }

    fn happening(&mut self, id: EntityId) -> Happening {
        let address = self.maybe(|_| "10.0.0.1:9".into());
        match self.below(6) {
            0 => Happening::Connected { address },
            1 => Happening::Disconnected {
                reason: DisconnectReason::ALL[self.below(7) as usize],
                address,
                since: self.head.now,
            },
            2 => {
                let (delivery, at) = (DeliveryKey::from(id), self.head.now);
                let attempt = Attempt {
                    delivery,
                    number: 1,
                    at,
                    duration_ms: 4,
                    status_code: Some(204),
                    error: None,
                    detail: AttemptDetail::default(),
                };
                Happening::DeliveryAttempt(id, Box::new(attempt))
            }
            3 => Happening::Delivery(id, DeliveryStatus::ALL[self.below(5) as usize]),
            4 => Happening::Command {
                id,
                status: CommandStatus::ALL[self.below(8) as usize],
                tries: self.below(9) as u32,
            },
            _ => match ClientId::new("client-1") {
                Some(client) => Happening::Link { client, linked: self.below(2) == 0 },
                None => Happening::Connected { address },
            },
        }
    }
}
