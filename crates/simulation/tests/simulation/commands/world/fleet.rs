//! Devices: how they are reached, what they make of a command, and when they say so.

use std::sync::Arc;
use std::time::Duration;

use base::{DeviceId, EntityId, PartitionId, Timestamp, WayIn, hash};
use engine::devices::input::{Addressed, CommandInput, DeviceInput};
use engine::devices::sessions::PresenceChange;
use engine::intake::SlicePart;
use engine::kernel::reply::Reply;
use engine::presence::{KindSet, LoginDevices, Reach, Session};
use engine::{PublishedCommand, Report, ReportContent};
use records::DisconnectReason;

use super::World;
use super::calls::{Answer, Then, Waiting};
use crate::commands::fault_injection::{ANSWER_INVENTED, GOODBYE_UNHEARD};
use crate::commands::meant::{Meant, Word};
use crate::commands::plan::kind_of;
use crate::harness::violation::Checked;

/// What a device will say, and when.
#[derive(Clone, Debug)]
pub(crate) struct Saying {
    pub(crate) at: Timestamp,
    pub(crate) device: DeviceId,
    pub(crate) id: EntityId,
    pub(crate) said: Word,
}

/// All devices.
#[derive(Default)]
pub(crate) struct Fleet {
    pub(super) devices: Vec<Member>,
    pub(super) sayings: Vec<Saying>,
    /// Sessions that reach others by wildcards.
    wide: Vec<u64>,
    last_session: u64,
    last_poll: u64,
}

/// A device, and its session.
pub(crate) struct Member {
    pub(crate) id: DeviceId,
    pub(crate) session: Option<u64>,
    /// It can be reached, whatever it did before: it does so at rest.
    pub(crate) is_settled: bool,
}

impl Fleet {
    pub(crate) fn new(ids: Vec<DeviceId>) -> Self {
        let devices = ids.into_iter().map(|id| Member { id, session: None, is_settled: false }).collect();
        Self { devices, ..Self::default() }
    }

    /// The process is gone, and every session with it.
    pub(crate) fn cut_off(&mut self) {
        for device in &mut self.devices {
            (device.session, device.is_settled) = (None, false);
        }
        self.wide.clear();
    }

    pub(crate) fn next_saying(&self) -> Option<Timestamp> {
        self.sayings.iter().map(|saying| saying.at).min()
    }

    fn member(&mut self, id: &DeviceId) -> Option<&mut Member> {
        self.devices.iter_mut().find(|device| device.id == *id)
    }
}

impl World {
    fn any_member(&self) -> usize {
        self.machine.random.below(self.fleet.devices.len() as u64) as usize
    }

    /// A session begins, changes or ends.
    pub(super) fn change_presence(&mut self) {
        if self.machine.random.chance(1, 8) {
            return self.change_wide();
        }
        let index = self.any_member();
        let Member { id, session, .. } = &self.fleet.devices[index];
        let (id, session) = (id.clone(), *session);
        match (session, self.machine.random.below(6)) {
            (None, _) => self.connect(index),
            // Another connection takes over.
            (Some(old), 0) => {
                self.connect(index);
                self.tell_presence(PresenceChange::Disconnected(id, old, DisconnectReason::TakenOver));
            }
            (Some(session), 1) => self.tell_presence(PresenceChange::Reaches(id, session, None)),
            (Some(session), 2) => {
                self.tell_presence(PresenceChange::Reaches(id, session, Some(KindSet::Any.into())));
            }
            (Some(_), 3) => self.break_off(&id, DisconnectReason::ConnectionLost),
            (Some(_), _) => self.break_off(&id, DisconnectReason::ClientDisconnect),
        }
    }

    /// A device connects; mostly it can be reached then.
    fn connect(&mut self, index: usize) {
        let id = self.fleet.devices[index].id.clone();
        self.fleet.last_session += 1;
        let number = self.fleet.last_session;
        self.fleet.devices[index].session = Some(number);
        let session = Session { number, address: Some("10.0.0.1:99".into()), label: None };
        self.tell_presence(PresenceChange::Connected(id.clone(), KindSet::Any, session, self.now()));
        let reach = match self.machine.random.below(6) {
            0 => None,
            1 => Some(KindSet::Only(base::Kind::lock())),
            2..=3 => Some(KindSet::Only(kind_of(&id))),
            _ => Some(KindSet::Any),
        };
        if reach.is_some() {
            self.tell_presence(PresenceChange::Reaches(id, number, reach.map(Reach::from)));
        }
    }

    /// A device is there, and can be reached.
    pub(super) fn settle_down(&mut self, index: usize) {
        if self.fleet.devices[index].session.is_none() {
            self.connect(index);
        }
        let member = &mut self.fleet.devices[index];
        member.is_settled = true;
        if let Some(session) = member.session {
            let id = member.id.clone();
            self.tell_presence(PresenceChange::Reaches(id, session, Some(KindSet::Any.into())));
        }
    }

    fn break_off(&mut self, id: &DeviceId, reason: DisconnectReason) {
        let session = self.fleet.member(id).and_then(|device| device.session.take());
        if let Some(session) = session {
            self.tell_presence(PresenceChange::Disconnected(id.clone(), session, reason));
        }
    }

    /// A session reaches many by wildcards from now on, or others, or nobody.
    fn change_wide(&mut self) {
        let is_new = self.fleet.wide.is_empty();
        if is_new {
            self.fleet.last_session += 1;
            self.fleet.wide.push(self.fleet.last_session);
        }
        let session = self.fleet.wide[0];
        let login = match self.machine.random.below(3) {
            0 => LoginDevices::All,
            1 => LoginDevices::Prefix("0xb".into()),
            _ => LoginDevices::Device(self.fleet.devices[self.any_member()].id.clone()),
        };
        let kind = match self.machine.random.chance(1, 3) {
            true => KindSet::Only(base::Kind::lock()),
            false => KindSet::Any,
        };
        let reach: Arc<[Reach]> = if is_new || self.machine.random.chance(1, 2) {
            [Reach { kind, login }].into()
        } else {
            self.fleet.wide.clear();
            [].into()
        };
        self.tell_presence(PresenceChange::ReachesWidely(session, reach));
    }

    /// An edge tells of a session: noted at once, and handed in where it concerns somebody.
    #[expect(clippy::needless_pass_by_value, reason = "whoever tells makes it")]
    fn tell_presence(&mut self, change: PresenceChange) {
        let partitions: Vec<PartitionId> = match &change {
            PresenceChange::Connected(id, ..)
            | PresenceChange::Disconnected(id, ..)
            | PresenceChange::Reaches(id, ..) => vec![self.partition_of(id)],
            PresenceChange::ReachesWidely(..) => (0..self.machine.plan.partitions).map(PartitionId).collect(),
        };
        self.presence.apply(&change);
        let unheard = self.machine.injects(GOODBYE_UNHEARD)
            && matches!(change, PresenceChange::Disconnected(..) | PresenceChange::Reaches(_, _, None));
        for partition in partitions {
            let (call, (reply, receiver)) = (self.next_call(), Reply::new());
            let meant = Meant::Presence { call, change: change.clone() };
            if unheard {
                let device = self.fleet.devices[0].id.clone();
                let _not_accepting = self.hand_in(
                    partition,
                    DeviceInput::Commands(CommandInput::StopPolling { device, number: 0 }),
                    meant,
                );
                continue;
            }
            if let Some(server) = &self.server {
                server.context.devices.note_presence(partition, &change);
                server.context.tell_rollouts_who_came(&change);
            }
            let input = DeviceInput::Commands(CommandInput::Presence { change: change.clone(), reply });
            let answer = (Waiting::on(receiver, |()| Answer::Kept), Then::Nothing);
            let _not_accepting = self.ask(partition, (input, meant), answer);
        }
    }

    /// What sessions are shown. A device that is there receives it.
    pub(super) fn take_published(&mut self) -> Checked {
        let published = self.server.as_ref().map_or_else(Vec::new, |server| server.take_published());
        for command in published {
            self.machine.trace.note(format_args!("{:?} goes out to {}", command.id, command.device));
            self.history.shown(&command.device.clone(), &command)?;
            if self.presence.reaches(&command.device) {
                self.counts.received += 1;
                self.receive(&command);
            }
        }
        Ok(())
    }

    /// A device has a command: sooner or later it says something, or does not.
    pub(super) fn receive(&mut self, command: &PublishedCommand) {
        let now = self.now();
        let later = |ms: u64| now.after(Duration::from_millis(ms));
        let (soon, late) = (self.machine.random.below(500), 1_000 + self.machine.random.below(30_000));
        let sayings = match self.machine.random.below(14) {
            _ if self.is_quiet => vec![(now, Word::Answer(true))],
            0..=3 => vec![(now, Word::Answer(true))],
            4 => vec![(later(late), Word::Answer(true))],
            5 => vec![(now, Word::Answer(true)), (later(soon), Word::Answer(true))],
            6 => vec![(now, Word::Answer(false))],
            7 => vec![(later(soon), Word::Answer(true)), (later(late), Word::Answer(false))],
            8 => vec![(now, Word::AtWork), (later(late), Word::Answer(true))],
            9 => vec![(now, Word::AtWork), (later(soon), Word::AtWork), (later(late), Word::Answer(false))],
            10 => vec![(later(late), Word::AtWork)],
            11 => {
                self.fleet.sayings.retain(|saying| saying.device != command.device);
                self.counts.broken_off += 1;
                self.break_off(&command.device, DisconnectReason::ConnectionLost);
                Vec::new()
            }
            _ => Vec::new(),
        };
        let saying = |(at, said)| Saying { at, device: command.device.clone(), id: command.id, said };
        self.fleet.sayings.extend(sayings.into_iter().map(saying));
    }

    /// A device says what it is to say by now. Whether there was anything.
    pub(super) fn say(&mut self) -> bool {
        let now = self.now();
        let due = self.fleet.sayings.iter().position(|saying| saying.at <= now);
        let Some(due) = due.filter(|_| self.has_room()) else { return false };
        let saying = self.fleet.sayings.remove(due);
        let Saying { device, id, said, .. } = saying.clone();
        let invented = self.machine.injects(ANSWER_INVENTED) && said == Word::AtWork;
        let words = match said {
            Word::AtWork if !invented => ReportContent::Progress { command: id, progress: "1".into() },
            Word::AtWork => ReportContent::Answer { command: id, ok: true, result: None },
            Word::Answer(ok) => {
                let result = self.machine.random.chance(1, 2).then(|| "7".into());
                ReportContent::Answer { command: id, ok, result }
            }
        };
        let (call, retries) = (self.next_call(), self.history.retries(id));
        let (pending, mut parts) = SlicePart::split(1, 1);
        let Some(part) = parts.next() else { return false };
        drop(parts);
        let report = Report { device: device.clone(), kind: None, content: words, id: None };
        let reports = vec![Addressed { index: 0, hash: hash::device_hash(device.as_str()), report }];
        let partition = self.partition_of(&device);
        let input = DeviceInput::Reports { way: WayIn::Mqtt, reports, part };
        let meant = Meant::Said { call, device, id, said };
        let answer = (Waiting::on_slice(pending, Answer::Slice), Then::Said(saying, retries));
        self.ask(partition, (input, meant), answer);
        true
    }

    /// A device polls, or a poll of one is over.
    pub(super) fn poll(&mut self) {
        let polls = self.calls.waiting.iter().filter_map(|call| match &call.then {
            Then::Polled { device, number: Some(number) } => Some((device.clone(), *number)),
            _ => None,
        });
        let polls: Vec<_> = polls.collect();
        if !polls.is_empty() && self.machine.random.chance(1, 2) {
            let (device, number) = self.machine.random.one_of(&polls);
            let partition = self.partition_of(&device);
            let input = DeviceInput::Commands(CommandInput::StopPolling { device, number });
            let _not_accepting = self.hand_in(partition, input, Meant::StopPolling);
            return;
        }
        let device = self.fleet.devices[self.any_member()].id.clone();
        self.fleet.last_poll += 1;
        let number = self.machine.random.chance(2, 3).then_some(self.fleet.last_poll);
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let partition = self.partition_of(&device);
        let input = DeviceInput::Commands(CommandInput::Poll { device: device.clone(), number, reply });
        let answer = (Waiting::on(receiver, Answer::Polled), Then::Polled { device, number });
        self.ask(partition, (input, Meant::Poll { call }), answer);
    }

    /// No device waits for a command any more.
    pub(super) fn stop_all_polls(&mut self) {
        let polls = self.calls.waiting.iter().filter_map(|call| match &call.then {
            Then::Polled { device, number: Some(number) } => Some((device.clone(), *number)),
            _ => None,
        });
        for (device, number) in polls.collect::<Vec<_>>() {
            let partition = self.partition_of(&device);
            let input = DeviceInput::Commands(CommandInput::StopPolling { device, number });
            let _not_accepting = self.hand_in(partition, input, Meant::StopPolling);
        }
    }
}
