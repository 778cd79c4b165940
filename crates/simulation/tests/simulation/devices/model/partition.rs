//! The naive model of a device partition: the inputs of each step, one after the other, by the
//! words of the contract.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

use base::{DeviceId, Incarnation, PartitionId, Timestamp};
use engine::{DevicePatch, EngineSettings, NewDevice, Patch};
use records::{Connection, DeliveryKey, DeviceSlot, EventKind, KeptFrom, Metric};

use super::counting::Counted;
use super::device::{Device, Event, Shown};
use super::evidence::Evidence;
use super::listening::{EVERY, Listening};
use super::notifications::Delivery;
use super::quarantine::Quarantine;
use super::reports::Unfinished;
use super::{Expected, ExpectedAttempt};
use crate::devices::counts::Counts;
use crate::devices::meant::Meant;
use crate::harness::calls::CallId;
use crate::harness::violation::{Checked, Invariant};

/// How much later than its deadline a silence may be noticed in a step that looks at everything, in
/// milliseconds.
const TICK_MS: i64 = 100;
/// Devices that one sweep unlinks.
const SWEPT_AT_ONCE: usize = 200;
/// How far the stamp of an event may be ahead of the clock, in milliseconds.
const STAMP_AHEAD_MS_MAX: i64 = 5;

/// A partition.
#[derive(Clone)]
pub(crate) struct Partition {
    pub(crate) settings: Arc<EngineSettings>,
    /// The time of the latest step.
    pub(crate) now: Timestamp,
    pub(crate) listening: Listening,
    pub(crate) devices: BTreeMap<DeviceId, Device>,
    /// All that were ever made, in that order.
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) quarantine: Quarantine,
    pub(crate) counted: Counted,
    /// From when on history is in the lists.
    pub(crate) kept: KeptFrom,
    pub(crate) counts: Counts,
    pub(crate) id: PartitionId,
    /// Attempts whose ends were recorded in this step, or before it when the partition was loaded.
    pub(super) recorded: Vec<(DeliveryKey, u32)>,
    /// Deliveries whose next attempt was put somewhere in this step, and where it may be.
    pub(super) moves: BTreeMap<usize, RangeInclusive<Timestamp>>,
    unused_slot: DeviceSlot,
    /// A slice that a step had no room for to its end.
    pub(super) unfinished: Option<Unfinished>,
    /// The stamp of the latest event or delivery: feeds only grow at one end.
    pub(super) last_stamp: Timestamp,
    /// Whose process has it.
    pub(super) process: u64,
    /// The time of the latest step that looked at all that was due.
    pub(crate) looked_at: Timestamp,
}

/// What a step answers, by call.
pub(crate) type Answers = Vec<(CallId, Expected)>;

impl Partition {
    pub(crate) fn new(settings: Arc<EngineSettings>, id: PartitionId) -> Self {
        Self {
            listening: Listening::new(settings.ways_configured),
            settings,
            now: Timestamp(0),
            devices: BTreeMap::new(),
            deliveries: Vec::new(),
            quarantine: Quarantine::default(),
            counted: Counted::default(),
            kept: KeptFrom::EVER,
            counts: Counts::default(),
            id,
            recorded: Vec::new(),
            moves: BTreeMap::new(),
            unused_slot: DeviceSlot(0),
            unfinished: None,
            last_stamp: Timestamp(0),
            process: 0,
            looked_at: Timestamp(0),
        }
    }

    /// One step: `inputs` in order, then what the passing of time brought. `more` says that the
    /// step stopped early.
    pub(crate) fn step(
        &mut self,
        now: Timestamp,
        inputs: &[Meant],
        evidence: &mut Evidence,
        more: bool,
    ) -> Checked<Answers> {
        self.now = now.max(self.now);
        self.listening.pass(self.now);
        let mut answers = Answers::new();
        if let Some(unfinished) = self.unfinished.take() {
            answers.extend(self.reports(unfinished, evidence)?);
        }
        for input in inputs {
            let answer = self.apply(input, evidence)?;
            answers.extend(answer);
        }
        self.notice_silence(evidence, more)?;
        self.lapse(evidence, more);
        self.shrink_quarantine();
        self.follow_times(evidence)?;
        self.check_recorded(evidence)?;
        Invariant::ONE_EFFECT_PER_CAUSE.check(evidence.deliveries.is_empty(), || {
            format!("deliveries that nothing caused: {:?}", evidence.deliveries)
        })?;
        Invariant::ONE_EFFECT_PER_CAUSE.check(evidence.quarantined.is_empty(), || {
            format!("reports that nobody refused: {:?}", evidence.quarantined)
        })?;
        Invariant::ONE_EFFECT_PER_CAUSE.same("signs of life that nobody gave", &evidence.signs, &0)?;
        if !more {
            self.looked_at = self.now;
        }
        Ok(answers)
    }

    /// Ends of attempts are recorded of those whose lease was held, and of no other.
    fn check_recorded(&mut self, evidence: &mut Evidence) -> Checked {
        let mut expected = std::mem::take(&mut self.recorded);
        expected.sort_unstable();
        evidence.attempts.sort_unstable();
        Invariant::ONE_LEASE.same("attempts recorded", &evidence.attempts, &expected)
    }

    fn apply(&mut self, input: &Meant, evidence: &mut Evidence) -> Checked<Option<(CallId, Expected)>> {
        Ok(match input {
            Meant::Reports { call, way, reports } => {
                self.reports(Unfinished::new(*call, *way, reports), evidence)?
            }
            Meant::Attend { way, attended } => {
                self.listening.attend(*way, *attended);
                None
            }
            Meant::Create { call, device } => Some((*call, Expected::Device(self.create(device, evidence)?))),
            Meant::Patch { call, id, patch } => Some((*call, Expected::Device(self.patch(id, patch)))),
            Meant::Delete { call, id } => Some((*call, Expected::Done(self.delete(id)))),
            Meant::Link { call, id, client, linked } => {
                Some((*call, Expected::Done(self.link(id, client.0, *linked))))
            }
            Meant::Sweep { call, client } => Some((*call, Expected::Swept(self.sweep(*client)))),
            Meant::Lease { call, client, max } => {
                Some((*call, Expected::Leased(self.lease(*client, *max, evidence)?)))
            }
            Meant::Ended { attempt, at, took_ms, answer } => {
                self.ended(attempt, (*at, *took_ms), *answer);
                None
            }
            Meant::TellStale { client, probe } => {
                self.tell_stale(*client, *probe, evidence)?;
                None
            }
            Meant::Resend { call, client, after } => {
                Some((*call, Expected::Resent(self.resend(*client, *after, evidence)?)))
            }
            Meant::Import { call, lines } => Some((*call, Expected::Imported(self.import(lines, evidence)?))),
            Meant::Quarantine { call, way, messages } => {
                self.quarantine(*way, messages, evidence)?;
                Some((*call, Expected::Kept))
            }
            Meant::Discard { call, id } => Some((*call, Expected::Done(self.discard(*id)))),
            Meant::Retry { call, id } => Some((*call, Expected::Done(self.retry(*id, evidence)?))),
        })
    }

    /// A loss or restoration: the value stays.
    pub(super) fn happened(&mut self, id: &DeviceId, kind: EventKind, evidence: &mut Evidence) -> Checked {
        let value = self.devices[id].value.clone();
        self.event(id, kind, value.as_ref(), evidence)
    }

    pub(super) fn changed(
        &mut self,
        id: &DeviceId,
        previous: Option<&base::Value>,
        evidence: &mut Evidence,
    ) -> Checked {
        self.event(id, EventKind::Changed, previous, evidence)
    }

    /// Something happened to a device: exactly one event, and for each linked client one
    /// notification.
    fn event(
        &mut self,
        id: &DeviceId,
        kind: EventKind,
        previous: Option<&base::Value>,
        evidence: &mut Evidence,
    ) -> Checked {
        let device = self.devices.get_mut(id).expect("it is there");
        device.sequence += 1;
        let made = evidence.events.pop_front().filter(|event| event.device == *id);
        let Some(made) = made else {
            let detail = format!("no event for {kind:?} of {id}, sequence {}", device.sequence);
            return Err(Invariant::ONE_EFFECT_PER_CAUSE.broken(detail));
        };
        let event = Event {
            at: made.id.at,
            kind,
            sequence: device.sequence,
            value: device.value.clone(),
            previous: previous.cloned(),
        };
        let found = Event {
            at: made.id.at,
            kind: made.kind,
            sequence: made.sequence,
            value: made.value,
            previous: made.previous,
        };
        let invariant =
            if found.kind == kind { Invariant::ORDER_PER_DEVICE } else { Invariant::ONE_EFFECT_PER_CAUSE };
        invariant.same(format_args!("event of {id}"), &found, &event)?;
        let at = event.at;
        device.events.push(event);
        let metric = match kind {
            EventKind::Changed => Some(Metric::Changes),
            EventKind::Lost => Some(Metric::Losses),
            EventKind::Restored => None,
        };
        let mut clients = device.links.clone();
        clients.sort_unstable();
        self.stamped(id, at)?;
        metric.into_iter().for_each(|metric| self.count(id, metric, at));
        for client in clients {
            let device = self.devices.get_mut(id).expect("it is there");
            device.pairs.entry(client).or_default().add_event(kind, previous.cloned());
            self.notify(id, client, kind, None, evidence)?;
        }
        Ok(())
    }

    /// What was made now is stamped now, or a little later, and behind everything that was made
    /// before.
    pub(super) fn stamped(&mut self, what: impl std::fmt::Display, at: Timestamp) -> Checked {
        let ahead = at.0 - self.now.0;
        let behind = self.last_stamp;
        Invariant::AS_THE_MODEL.check((0..=STAMP_AHEAD_MS_MAX).contains(&ahead) && at >= behind, || {
            format!("{what} at {} is stamped {ahead} ms later, behind {behind}", self.now)
        })?;
        self.last_stamp = at;
        Ok(())
    }

    pub(super) fn create(
        &mut self,
        device: &NewDevice,
        evidence: &Evidence,
    ) -> Checked<Result<Shown, &'static str>> {
        let id = DeviceId::new(&device.id).expect("the workload makes ids that may be");
        if self.devices.contains_key(&id) {
            return Ok(Err("exists"));
        }
        self.register(device, evidence)?;
        Ok(Ok(self.devices[&id].shown()))
    }

    /// A device that is not registered is.
    pub(super) fn register(&mut self, device: &NewDevice, evidence: &Evidence) -> Checked {
        let id = DeviceId::new(&device.id).expect("the workload makes ids that may be");
        let Some(slot) = evidence.new_slot(&id, self.unused_slot) else {
            return Err(Invariant::ONE_EFFECT_PER_CAUSE
                .broken(format!("device {id} was registered without a record")));
        };
        self.unused_slot = DeviceSlot(slot.0 + 1);
        let registered = Device {
            id: id.clone(),
            slot,
            kind: device.kind.clone().unwrap_or_else(|| "lock".to_owned()),
            address: device.address.clone(),
            labels: device.labels.iter().flatten().cloned().collect(),
            interval_ms: device.report_interval.map(|interval| interval.as_millis() as u64),
            registered_at: self.now,
            expected_from: self.listening.mark(EVERY).counted,
            is_named_time: false,
            links: Vec::new(),
            value: None,
            changed_at: None,
            newest_ts: None,
            connection: Connection::NeverSeen,
            sequence: 0,
            seen: None,
            silent_from: self.listening.mark(EVERY),
            report_ids: VecDeque::new(),
            ids_ever: BTreeSet::new(),
            readings: Vec::new(),
            events: Vec::new(),
            pairs: BTreeMap::new(),
        };
        self.devices.insert(id, registered);
        Ok(())
    }

    fn patch(&mut self, id: &DeviceId, patch: &DevicePatch) -> Result<Shown, &'static str> {
        let device = self.devices.get_mut(id).ok_or("unknown_device")?;
        match &patch.address {
            Patch::Keep => {}
            Patch::Clear => device.address = None,
            Patch::Set(address) => device.address = Some(address.clone()),
        }
        match patch.report_interval {
            Patch::Keep => {}
            Patch::Clear => device.interval_ms = None,
            Patch::Set(interval) => device.interval_ms = Some(interval.as_millis() as u64),
        }
        let labels = device.labels.clone();
        match &patch.labels {
            Patch::Keep => {}
            Patch::Clear => device.labels.clear(),
            Patch::Set(changes) => changes.iter().for_each(|(key, value)| match value {
                Some(value) => drop(device.labels.insert(key.clone(), value.clone())),
                None => drop(device.labels.remove(key)),
            }),
        }
        self.counts.relabelled += u64::from(device.labels != labels);
        Ok(device.shown())
    }

    fn delete(&mut self, id: &DeviceId) -> Result<(), &'static str> {
        let clients = self.devices.get(id).ok_or("unknown_device")?.links.clone();
        clients.into_iter().for_each(|client| self.cancel(id, client));
        self.forget_attempts(id);
        self.devices.remove(id);
        Ok(())
    }

    fn link(&mut self, id: &DeviceId, client: Incarnation, linked: bool) -> Result<(), &'static str> {
        let device = self.devices.get_mut(id).ok_or("unknown_device")?;
        let was = device.links.contains(&client);
        if linked && !was {
            device.links.push(client);
        } else if !linked && was {
            device.links.retain(|other| *other != client);
            self.cancel(id, client);
        }
        Ok(())
    }

    /// Unlinks a client from so many devices, the earliest registered first. Whether more are
    /// linked to it.
    fn sweep(&mut self, client: Incarnation) -> bool {
        let linked = self.devices.values().filter(|device| device.links.contains(&client));
        let mut linked: Vec<(DeviceSlot, DeviceId)> =
            linked.map(|device| (device.slot, device.id.clone())).collect();
        linked.sort_unstable();
        let more = linked.len() > SWEPT_AT_ONCE;
        for (_, id) in linked.into_iter().take(SWEPT_AT_ONCE) {
            let _registered = self.link(&id, client, false);
        }
        more
    }

    /// Losses are found in the evidence: each must be allowed, and those that must be there, are.
    fn notice_silence(&mut self, evidence: &mut Evidence, more: bool) -> Checked {
        while let Some(event) = evidence.events.front() {
            let id = event.device.clone();
            let lost = event.kind == EventKind::Lost && self.devices.contains_key(&id);
            Invariant::ONE_EFFECT_PER_CAUSE.check(lost, || format!("nothing caused {event:?}"))?;
            self.check_may_be_lost(&id)?;
            let device = self.devices.get_mut(&id).expect("it is there");
            device.connection = Connection::Lost;
            self.counts.lost_as_expected += u64::from(std::mem::take(&mut device.is_named_time));
            self.happened(&id, EventKind::Lost, evidence)?;
        }
        if more {
            return Ok(());
        }
        for device in self.devices.values().filter(|device| device.connection != Connection::Lost) {
            let (counted, _) = self.silence_ms(device);
            let late = counted - self.patience_ms(device);
            let overdue = self.listening.runs(device.silent_from.clock) && late >= TICK_MS;
            Invariant::SILENCE_IS_MEASURED
                .check(!overdue, || format!("{} should have been lost {late} ms ago", device.id))?;
        }
        Ok(())
    }

    fn check_may_be_lost(&self, id: &DeviceId) -> Checked {
        let device = &self.devices[id];
        let (counted, listened) = self.silence_ms(device);
        let patience = self.patience_ms(device);
        let runs = self.listening.runs(device.silent_from.clock);
        let allowed = device.connection != Connection::Lost && runs && counted.min(listened) >= patience;
        Invariant::SILENCE_IS_MEASURED.check(allowed, || {
            format!(
                "{id}, {}, is lost after {counted} ms counted of {listened} ms listened; it may be silent for {patience} ms, and its clock runs: {runs}",
                device.connection.as_str()
            )
        })
    }

    /// For how long a device was silent: counted, and listened.
    fn silence_ms(&self, device: &Device) -> (i64, i64) {
        let (then, now) = (device.silent_from, self.listening.mark(device.silent_from.clock));
        (now.counted - then.counted, now.listened - then.listened)
    }

    fn patience_ms(&self, device: &Device) -> i64 {
        let ms = |duration: std::time::Duration| duration.as_millis() as i64;
        device.patience_ms(ms(self.settings.report_interval), ms(self.settings.loss_grace))
    }
}

/// Everything that an attempt must be like.
pub(crate) fn sorted(mut attempts: Vec<ExpectedAttempt>) -> Vec<ExpectedAttempt> {
    attempts.sort_by_key(|attempt| attempt.delivery);
    attempts
}
