//! Reports and silence become changes, losses and restorations.
//!
//! One [`Watch`] holds what is known of the devices of one partition. A sign of life or the passing
//! of time goes in. Changes of records are added to the step's batch, and what happened to devices
//! is listed as [`Noticed`]. Who is told of it, and how, is not known here. Time is an argument:
//! nothing here reads a clock.

mod clocks;
mod connections;
mod device;
mod device_table;
mod silence;
mod wheel;

use std::time::Duration;

use base::{Attended, Timestamp, Value, WayIn};
use records::{
    AttendedReadings, Batch, Connection, DeviceProfile, DeviceSlot, DeviceState, EventKind, LastSeen, Op,
    Sign,
};

use crate::clocks::AttendedClocks;
use crate::device::WatchedDevice;
use crate::device_table::DeviceTable;
use crate::silence::{Silence, SilenceCheck};

pub use connections::Connections;

/// Longest time between two calls that counts as attended; of a longer one only this much does.
///
/// A machine that slept, or a process that stood still, was not listening: what it slept through
/// must not lose a device.
pub const GAP_MAX: Duration = Duration::from_secs(5);

/// Longest time until [`Watch::next_wakeup`] while any device waits in a running clock.
pub const PULSE: Duration = Duration::from_secs(2);

const _: () = assert!(2 * PULSE.as_millis() < GAP_MAX.as_millis(), "a pulse that comes late is no gap");

/// How late a loss is noticed, at most, when [`Watch::advance`] is called at every
/// [`Watch::next_wakeup`].
pub const TICK: Duration = Duration::from_millis(100);

/// The settings that silence is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SilenceSettings {
    /// How often a device reports unless its profile says otherwise: `devices.report_interval`.
    pub report_interval: Duration,
    /// How much later it may: `devices.loss_grace`.
    pub loss_grace: Duration,
    /// For how long after a start the attended clocks stand still: `devices.restart_grace`.
    pub restart_grace: Duration,
    /// Which ways in are configured, by [`WayIn::index`].
    pub configured: [bool; 3],
}

/// A sign of life of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignOfLife {
    /// A report that is accepted.
    Report {
        /// What was reported; it suits the device's kind.
        value: Value,
        /// The report's own `ts`.
        ts: Option<Timestamp>,
    },
    /// A heartbeat, or a refused report that is surely this device's.
    Alive,
}

/// Something that happened to a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noticed {
    /// The device.
    pub slot: DeviceSlot,
    /// What happened.
    pub kind: EventKind,
    /// Counts the device's events from 1.
    pub sequence: u64,
    /// The value after it.
    pub value: Option<Value>,
    /// The value before it; for a loss or restoration the same.
    pub previous: Option<Value>,
}

/// Whether everything that is due was done.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchProgress {
    /// Nothing more is due.
    Done,
    /// The limit was reached first; call again, after other inputs if they wait.
    More,
}

/// What is known of the devices of one partition.
///
/// All methods that take `now` take the engine clock, which never goes back. Within one batch `now`
/// must be the one of the batch's head. The head's attended readings must be
/// [`Watch::readings_of_clocks`] at it, because a stored sign of life has only its batch's time.
#[derive(Debug)]
pub struct Watch {
    clocks: AttendedClocks,
    devices: DeviceTable,
    silence: Silence,
    connections: Connections,
    /// Since [`Watch::take_moved`].
    has_moved: bool,
}

impl Watch {
    /// A watch without devices. `attended` are the clocks as they were recovered with the
    /// partition; they stand still until `restart_grace` after `now`, and each until its way is
    /// attended.
    #[must_use]
    pub fn new(settings: SilenceSettings, attended: AttendedReadings, now: Timestamp) -> Self {
        Self {
            clocks: AttendedClocks::start(&settings, attended, now),
            devices: DeviceTable::default(),
            silence: Silence::new(&settings, &attended),
            connections: Connections::default(),
            has_moved: false,
        }
    }

    /// Adds a device as it was stored.
    pub fn load(&mut self, profile: &DeviceProfile, state: DeviceState, seen: Option<LastSeen>) {
        *self.connections.of(state.connection) += 1;
        self.devices.put(profile.slot, WatchedDevice::load(profile, state, seen));
        self.silence.await_sign(&mut self.devices, profile.slot);
    }

    /// Adds a device that was registered just now.
    pub fn register(&mut self, profile: &DeviceProfile) {
        self.load(profile, DeviceState::default(), None);
    }

    /// A device is expected to report this often from now on; `None` is the setting. Without effect
    /// on one that is lost.
    pub fn set_interval(&mut self, slot: DeviceSlot, report_interval_ms: Option<u64>) {
        self.devices.known_mut(slot).set_interval(report_interval_ms);
        self.silence.await_sign(&mut self.devices, slot);
    }

    /// A device is missed from this reading of the clock of devices never seen. Without effect on
    /// one that was seen, or is lost.
    pub fn expect_from(&mut self, slot: DeviceSlot, expected_from: Attended) {
        self.devices.known_mut(slot).expect_from(expected_from);
        self.silence.await_sign(&mut self.devices, slot);
    }

    /// A device is gone.
    pub fn forget(&mut self, slot: DeviceSlot) {
        self.silence.leave(&mut self.devices, slot);
        if let Some(gone) = self.devices.remove(slot) {
            *self.connections.of(gone.connection()) -= 1;
        }
    }

    /// From now on a way in is attended, or not.
    pub fn attend(&mut self, now: Timestamp, way: WayIn, attended: bool) {
        self.clocks.advance(now);
        self.clocks.attend(way, attended);
    }

    /// A device gave a sign of life. A restoration is noticed before the change that came with it.
    ///
    /// # Panics
    /// When there is no such device: the caller has looked the slot up.
    pub fn sign(
        &mut self,
        now: Timestamp,
        slot: DeviceSlot,
        way: WayIn,
        sign: SignOfLife,
        batch: &mut Batch,
        noticed: &mut Vec<Noticed>,
    ) {
        self.clocks.advance(now);
        let device = self.devices.known_mut(slot);
        let was = device.connection();
        device.see(now, way, self.clocks.reading(Some(way)));
        device.greet(slot, noticed);
        let (reading, changed) = match sign {
            SignOfLife::Report { value, ts } => device.take_report(slot, now, value, ts, noticed),
            SignOfLife::Alive => (None, false),
        };
        let (readings, newest_ts) = (device.readings(), device.newest_ts());
        batch.ops.push(Op::Sign(Sign { slot, way, readings, newest_ts, reading }));
        self.connections.moved(was, Connection::Online);
        self.has_moved |= was != Connection::Online;
        if changed || was != Connection::Online {
            batch.ops.push(Op::PutState(slot, device.state()));
        }
        self.silence.heard(&mut self.devices, slot);
    }

    /// Notices silence: looks at no more than `limit` devices, which must not be 0.
    ///
    /// Nobody is lost in a clock that stands still. A sign that comes late, but before its silence
    /// was noticed, is a sign in time.
    pub fn advance(
        &mut self,
        now: Timestamp,
        limit: usize,
        batch: &mut Batch,
        noticed: &mut Vec<Noticed>,
    ) -> WatchProgress {
        self.clocks.advance(now);
        for _ in 0..limit {
            match self.silence.check_next(&mut self.devices, &self.clocks) {
                SilenceCheck::NobodyDue => return WatchProgress::Done,
                SilenceCheck::Waits => {}
                SilenceCheck::Lost(slot) => {
                    let device = self.devices.known_mut(slot);
                    self.connections.moved(device.connection(), Connection::Lost);
                    self.has_moved = true;
                    noticed.push(device.lose(slot));
                    batch.ops.push(Op::PutState(slot, device.state()));
                }
            }
        }
        if self.silence.is_anybody_due(&self.clocks) { WatchProgress::More } else { WatchProgress::Done }
    }

    /// When [`Watch::advance`] should be called next if nothing else happens; `None` while no
    /// device waits in a clock that runs or will run by itself. Often early, so that a longer time
    /// between calls tells of a standstill.
    #[must_use]
    pub fn next_wakeup(&self, now: Timestamp) -> Option<Timestamp> {
        self.silence.next_wakeup(&self.clocks, now)
    }

    /// The attended clocks at `now`, for the head of a batch.
    #[must_use]
    pub fn readings_of_clocks(&self, now: Timestamp) -> AttendedReadings {
        self.clocks.readings_at(now)
    }

    /// How many devices there are of each connection.
    #[must_use]
    pub fn connections(&self) -> Connections {
        self.connections
    }

    /// Whether any device is in another connection since this was last asked: then the batches
    /// since have its [`Op::PutState`].
    pub fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.has_moved)
    }

    /// What a device is like now; `None` if there is no such device.
    #[must_use]
    pub fn state(&self, slot: DeviceSlot) -> Option<DeviceState> {
        self.devices.get(slot).map(WatchedDevice::state)
    }

    /// A device's latest sign of life.
    #[must_use]
    pub fn seen(&self, slot: DeviceSlot) -> Option<LastSeen> {
        self.devices.get(slot).and_then(WatchedDevice::seen)
    }

    /// When a device gave its latest sign of life.
    #[must_use]
    pub fn last_seen(&self, slot: DeviceSlot) -> Option<Timestamp> {
        self.seen(slot).map(|seen| seen.at)
    }
}
