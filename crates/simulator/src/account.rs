//! The account: is anything missing that the server vouched for?
//!
//! Three witnesses that owe each other nothing are held against one another:
//! - the devices: [`Sent`] is what was sent and acknowledged.
//! - the receivers: [`Ledger`] is what clients were told.
//! - the public API: [`ServerSnapshot`] is what the server says it holds.
//!
//! The server's own counters are not asked. What does not agree is a [`Shortfall`] that names the
//! device, the report or the notification.
//!
//! [`ServerSnapshot::take`] asks the API, [`audit`] compares and is a pure function, [`close`] does
//! both once things are quiet.

mod closing;
mod notifications;
mod reports;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::time::Instant;

use serde_json::Value;

use crate::latency::Latency;
use crate::receiver::Ledger;
use crate::sent::Sent;

pub use closing::close;
pub use snapshot::{
    DeliverySnapshot, DeviceSnapshot, Event, HistoryReading, NotificationStatus, ServerSnapshot, State,
};

/// A client and what its receiver was told. Every device of the run is linked to it, from before
/// its first report.
#[derive(Debug, Clone, Copy)]
pub struct NotifiedClient<'a> {
    /// The client's id.
    pub client_id: &'a str,
    /// Its receiver's ledger, which must retain everything.
    pub ledger: &'a Ledger,
}

/// What the run was like, as far as the server cannot know it.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    /// How often each device fell silent long enough to be lost; absent means never.
    pub losses: BTreeMap<u32, u64>,
    /// When something was broken on purpose: what was reported then counts, but its latency is not
    /// measured.
    pub disturbed: Vec<Range<Instant>>,
    /// Every report carried an id, so that one that went out again counts once.
    pub repeats_have_no_effect: bool,
}

impl Expected {
    fn is_calm(&self, at: Instant) -> bool {
        !self.disturbed.iter().any(|disturbed| disturbed.contains(&at))
    }
}

/// Something that was vouched for and is not so.
#[derive(Debug, Clone, PartialEq)]
pub enum Shortfall {
    /// An acknowledged report is not in the history.
    ReportMissing {
        /// The device.
        device_id: String,
        /// The report's `ts`.
        ts_ms: i64,
        /// What it said.
        value: u8,
    },
    /// The history holds a reading that was never sent, or more often than it was sent.
    ReadingInvented {
        /// The device.
        device_id: String,
        /// The reading's `ts`.
        ts_ms: i64,
        /// What it says.
        value: Value,
    },
    /// A device's state or its events are not what its reports make them.
    DeviceWrong {
        /// The device.
        device_id: String,
        /// What is wrong.
        what: String,
    },
    /// A client has not been told, or wrongly.
    NotificationWrong {
        /// The client.
        client_id: String,
        /// The device.
        device_id: String,
        /// What is wrong.
        what: String,
    },
    /// A receiver met something that the contract excludes.
    ReceiverComplains {
        /// The client.
        client_id: String,
        /// What it met.
        what: String,
    },
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReportMissing { device_id, ts_ms, value } => {
                let ts = crate::wire_time::format_ms(*ts_ms);
                write!(f, "{device_id}: the acknowledged report {value} of {ts} is not in the history")
            }
            Self::ReadingInvented { device_id, ts_ms, value } => {
                let ts = crate::wire_time::format_ms(*ts_ms);
                write!(f, "{device_id}: the history holds {value} of {ts}, which was not sent so often")
            }
            Self::DeviceWrong { device_id, what } => write!(f, "{device_id}: {what}"),
            Self::NotificationWrong { client_id, device_id, what } => {
                write!(f, "{device_id} to {client_id}: {what}")
            }
            Self::ReceiverComplains { client_id, what } => write!(f, "the receiver of {client_id}: {what}"),
        }
    }
}

/// The figures of a run, and what is missing.
#[derive(Debug, Clone, Default)]
pub struct Audit {
    /// Reports that went out, repeats not counted.
    pub reports_sent: u64,
    /// Reports that the server vouched for.
    pub reports_acknowledged: u64,
    /// Acknowledged reports that the history holds.
    pub reports_found: u64,
    /// Events `device.changed`.
    pub changes: u64,
    /// Events `device.lost`.
    pub losses: u64,
    /// Events `device.restored`.
    pub restorations: u64,
    /// Notifications that became due: one per event and client.
    pub notifications_due: u64,
    /// Notifications delivered.
    pub delivered: u64,
    /// Notifications that took more than one attempt.
    pub retried: u64,
    /// Notifications replaced by a newer one before they were delivered.
    pub superseded: u64,
    /// From a report's first going out to its acknowledgement, in calm times.
    pub report_to_ack: Latency,
    /// From a report's first going out to the arrival of the notification about it, in calm times,
    /// per client.
    pub report_to_webhook: BTreeMap<String, Latency>,
    /// What is missing or wrong; empty when every promise was kept.
    pub shortfalls: Vec<Shortfall>,
}

/// Compares the witnesses once things are quiet: all traffic answered, no notification pending.
#[must_use]
pub fn audit(
    sent: &Sent,
    snapshot: &ServerSnapshot,
    told: &[NotifiedClient<'_>],
    expected: &Expected,
) -> Audit {
    let mut audit = Audit::default();
    reports::check(sent, snapshot, expected, &mut audit);
    for told in told {
        notifications::check(sent, snapshot, told, expected, &mut audit);
    }
    audit
}
