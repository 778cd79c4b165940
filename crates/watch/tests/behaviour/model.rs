//! A naive model of a watch. It keeps every span of counted time, and adds them up to learn how
//! long somebody has been silent. No clock readings, no deadlines, no wheel.

use std::collections::BTreeMap;

use base::{Timestamp, Value, WayIn};
use records::{Connection, DeviceSlot, DeviceState, EventKind};
use watch::{Noticed, SignOfLife, SilenceSettings};

/// A span of time between two calls, as far as it counts.
struct CountedTime {
    ms: i64,
    ways: [bool; 3],
    every: bool,
}

struct Device {
    state: DeviceState,
    /// Its last way in, if it was ever heard.
    way: Option<WayIn>,
    /// How many spans there were when it was last heard, or registered.
    heard_at: usize,
    last_seen: Option<Timestamp>,
    newest_ts: Option<Timestamp>,
    allowed_ms: i64,
}

pub(crate) struct Model {
    settings: SilenceSettings,
    now: Timestamp,
    still_until: Timestamp,
    attended: [bool; 3],
    counted: Vec<CountedTime>,
    devices: BTreeMap<DeviceSlot, Device>,
}

impl Model {
    pub(crate) fn new(settings: SilenceSettings, now: Timestamp) -> Self {
        let still_until = now.after(settings.restart_grace);
        let (counted, devices) = (Vec::new(), BTreeMap::new());
        Self { settings, now, still_until, attended: [false; 3], counted, devices }
    }

    /// How much of counted time there is by now; a crash may take back what was not kept.
    pub(crate) fn counted(&self) -> usize {
        self.counted.len()
    }

    /// Every call to a watch begins with this.
    pub(crate) fn pass(&mut self, now: Timestamp) {
        let from = self.now.0.max(self.still_until.0);
        let ms = (now.0 - from).clamp(0, 5_000);
        let ways = WayIn::ALL.map(|way| self.is_listening(Some(way)));
        self.counted.push(CountedTime { ms, ways, every: self.is_listening(None) });
        self.now = now;
    }

    pub(crate) fn restart(&mut self, now: Timestamp, counted: usize) {
        self.counted.truncate(counted);
        self.now = now;
        self.still_until = now.after(self.settings.restart_grace);
        self.attended = [false; 3];
    }

    pub(crate) fn attend(&mut self, way: WayIn, attended: bool) {
        self.attended[way.index()] = attended;
    }

    pub(crate) fn register(&mut self, slot: DeviceSlot, interval_ms: Option<u64>) {
        let state = DeviceState::default();
        let allowed_ms = self.allowed_ms(interval_ms);
        let heard_at = self.counted.len();
        self.devices.insert(
            slot,
            Device { state, way: None, heard_at, last_seen: None, newest_ts: None, allowed_ms },
        );
    }

    pub(crate) fn set_interval(&mut self, slot: DeviceSlot, interval_ms: Option<u64>) {
        let allowed_ms = self.allowed_ms(interval_ms);
        self.devices.get_mut(&slot).expect("registered").allowed_ms = allowed_ms;
    }

    pub(crate) fn forget(&mut self, slot: DeviceSlot) {
        self.devices.remove(&slot);
    }

    pub(crate) fn state(&self, slot: DeviceSlot) -> &DeviceState {
        &self.devices[&slot].state
    }

    pub(crate) fn last_seen(&self, slot: DeviceSlot) -> Option<Timestamp> {
        self.devices[&slot].last_seen
    }

    /// What a sign must make noticed, by the letter of the contract.
    pub(crate) fn sign(&mut self, slot: DeviceSlot, way: WayIn, sign: &SignOfLife) -> Vec<Noticed> {
        let (now, heard_at) = (self.now, self.counted.len());
        let device = self.devices.get_mut(&slot).expect("registered");
        (device.way, device.heard_at, device.last_seen) = (Some(way), heard_at, Some(now));
        let state = &mut device.state;
        let mut noticed = Vec::new();
        if state.connection == Connection::Lost {
            noticed.push(next(slot, state, EventKind::Restored, state.value.clone()));
        }
        state.connection = Connection::Online;
        if let SignOfLife::Report { value, ts } = sign
            && !is_late(device.newest_ts, *ts)
        {
            device.newest_ts = device.newest_ts.max(*ts);
            if state.value.as_ref() != Some(value) {
                state.changed_at = Some(ts.unwrap_or(now));
                let previous = state.value.replace(value.clone());
                noticed.push(next(slot, state, EventKind::Changed, previous));
            }
        }
        noticed
    }

    /// A device was said to be lost: that must be allowed.
    pub(crate) fn lose(&mut self, noticed: &Noticed) {
        let slot = noticed.slot;
        assert!(self.overdue().contains_key(&slot), "{slot:?} is lost too early at {}", self.now);
        let state = &mut self.devices.get_mut(&slot).expect("registered").state;
        state.connection = Connection::Lost;
        let expect = next(slot, state, EventKind::Lost, state.value.clone());
        assert_eq!(*noticed, expect);
    }

    /// Devices that are to be lost by now, and how many milliseconds ago they were; nobody is lost
    /// while nobody listens.
    pub(crate) fn overdue(&self) -> BTreeMap<DeviceSlot, i64> {
        let mut overdue = self.silent_too_long();
        overdue.retain(|slot, _| self.can_be_lost(*slot));
        overdue
    }

    /// Devices that have been silent for too long, and by how many milliseconds.
    pub(crate) fn silent_too_long(&self) -> BTreeMap<DeviceSlot, i64> {
        let not_lost = self.devices.iter().filter(|(_, device)| device.state.connection != Connection::Lost);
        not_lost
            .map(|(slot, device)| (*slot, self.silent_ms(device) - device.allowed_ms))
            .filter(|(_, late_ms)| *late_ms >= 0)
            .collect()
    }

    fn can_be_lost(&self, slot: DeviceSlot) -> bool {
        self.now >= self.still_until && self.is_listening(self.devices[&slot].way)
    }

    fn silent_ms(&self, device: &Device) -> i64 {
        let counts = |time: &&CountedTime| device.way.map_or(time.every, |way| time.ways[way.index()]);
        self.counted[device.heard_at..].iter().filter(counts).map(|time| time.ms).sum()
    }

    fn is_listening(&self, way: Option<WayIn>) -> bool {
        let configured = |way: &WayIn| self.settings.configured[way.index()];
        match way.filter(configured) {
            Some(way) => self.attended[way.index()],
            None => {
                let configured: Vec<_> = WayIn::ALL.into_iter().filter(configured).collect();
                !configured.is_empty() && configured.iter().all(|way| self.attended[way.index()])
            }
        }
    }

    fn allowed_ms(&self, interval_ms: Option<u64>) -> i64 {
        let interval = interval_ms.map_or(self.settings.report_interval, std::time::Duration::from_millis);
        i64::try_from((interval + self.settings.loss_grace).as_millis()).expect("a sane interval")
    }
}

fn is_late(newest: Option<Timestamp>, ts: Option<Timestamp>) -> bool {
    matches!((ts, newest), (Some(ts), Some(newest)) if ts < newest)
}

fn next(slot: DeviceSlot, state: &mut DeviceState, kind: EventKind, previous: Option<Value>) -> Noticed {
    state.sequence += 1;
    Noticed { slot, kind, sequence: state.sequence, value: state.value.clone(), previous }
}
