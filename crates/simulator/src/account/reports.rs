//! Reports against history, state and events.

use std::collections::HashMap;

use serde_json::Value;

use super::{Audit, DeviceSnapshot, Event, Expected, ServerSnapshot, Shortfall};
use crate::receiver::{ConnectionStatus, DeviceEventKind};
use crate::sent::{ReportAnswer, Sent, SentReport};

/// Checks every device of the run and adds up the figures.
pub(super) fn check(sent: &Sent, snapshot: &ServerSnapshot, expected: &Expected, audit: &mut Audit) {
    for index in 0..sent.devices().count() {
        let (device_id, reports) = (sent.devices().id(index), sent.of(index));
        audit.reports_sent += reports.len() as u64;
        audit.reports_acknowledged += reports.iter().filter(|report| report.is_acknowledged()).count() as u64;
        measure(reports, expected, audit);
        let Some(device) = snapshot.devices.get(&index) else {
            let what = "it is not registered".to_owned();
            audit.shortfalls.push(Shortfall::DeviceWrong { device_id, what });
            continue;
        };
        let account = DeviceAccount { device_id, reports, device };
        account.check_history(expected.repeats_have_no_effect, audit);
        account.check_state(audit);
        account.check_events(expected.losses.get(&index).copied().unwrap_or(0), audit);
    }
}

fn measure(reports: &[SentReport], expected: &Expected, audit: &mut Audit) {
    for report in reports.iter().filter(|report| expected.is_calm(report.first_sent)) {
        if let ReportAnswer::Acknowledged(elapsed) = report.answer {
            audit.report_to_ack.record(elapsed);
        }
    }
}

/// One device as seen by itself and by the server.
struct DeviceAccount<'a> {
    device_id: String,
    reports: &'a [SentReport],
    device: &'a DeviceSnapshot,
}

impl DeviceAccount<'_> {
    /// Each acknowledged report is there; nothing is there that was not sent, nor more often than
    /// it was sent.
    fn check_history(&self, repeats_have_no_effect: bool, audit: &mut Audit) {
        let mut found: HashMap<(i64, u64), u32> = HashMap::new();
        let mut foreign = Vec::new();
        for reading in &self.device.readings {
            match reading.value.as_u64() {
                Some(value) => *found.entry((reading.ts_ms, value)).or_default() += 1,
                None => foreign.push((reading.ts_ms, reading.value.clone())),
            }
        }
        for report in self.reports {
            let times = found.remove(&(report.ts_ms, report.value.into())).unwrap_or(0);
            if times > if repeats_have_no_effect { 1 } else { report.times_sent } {
                foreign.push((report.ts_ms, report.value.into()));
            }
            match (report.is_acknowledged(), times) {
                (true, 0) => audit.shortfalls.push(Shortfall::ReportMissing {
                    device_id: self.device_id.clone(),
                    ts_ms: report.ts_ms,
                    value: report.value,
                }),
                (true, _) => audit.reports_found += 1,
                (false, _) => {}
            }
        }
        foreign.extend(found.into_keys().map(|(ts_ms, value)| (ts_ms, value.into())));
        for (ts_ms, value) in foreign {
            let device_id = self.device_id.clone();
            audit.shortfalls.push(Shortfall::ReadingInvented { device_id, ts_ms, value });
        }
    }

    /// The state is that of the last acknowledged report, or of a later one that may have arrived.
    fn check_state(&self, audit: &mut Audit) {
        let last = self.reports.iter().rposition(SentReport::is_acknowledged);
        let possible: Vec<Value> = match last {
            Some(last) => self.reports[last..].iter().map(|report| report.value.into()).collect(),
            None => self.reports.iter().map(|report| report.value.into()).chain([Value::Null]).collect(),
        };
        let value = &self.device.state.value;
        if !possible.contains(value) {
            self.wrong(
                audit,
                format!("its value is {value}, its last acknowledged report said {}", possible[0]),
            );
        }
    }

    /// Events are numbered without a gap, changes are those of the reports, losses those of the
    /// run.
    fn check_events(&self, losses_expected: u64, audit: &mut Audit) {
        let events = &self.device.events;
        let count = |kind| events.iter().filter(|event| event.kind == kind).count() as u64;
        let (changes, losses) = (count(DeviceEventKind::Changed), count(DeviceEventKind::Lost));
        audit.changes += changes;
        audit.losses += losses;
        audit.restorations += count(DeviceEventKind::Restored);
        if !events.iter().map(|event| event.sequence).eq(1..=events.len() as u64) {
            let numbers: Vec<u64> = events.iter().map(|event| event.sequence).collect();
            self.wrong(audit, format!("its events are numbered {numbers:?}"));
        }
        self.check_changes(audit);
        if losses != losses_expected {
            self.wrong(audit, format!("it fell silent {losses_expected} times and was lost {losses} times"));
        }
        self.check_connection(audit);
    }

    /// The values that events speak of are those of the reports, each where it differs from the one
    /// before.
    fn check_changes(&self, audit: &mut Audit) {
        let is_change = |event: &&Event| event.kind == DeviceEventKind::Changed;
        let told: Vec<&Event> = self.device.events.iter().filter(is_change).collect();
        let mut values: Vec<Value> = self.reports.iter().map(|report| report.value.into()).collect();
        values.dedup();
        let all_answered = self.reports.iter().all(SentReport::is_acknowledged);
        if all_answered && !told.iter().map(|event| &event.value).eq(&values) {
            self.wrong(audit, format!("its reports make {} changes, there are {}", values.len(), told.len()));
        }
        let marked = self.device.readings.iter().filter(|reading| reading.changed).count();
        if marked != told.len() {
            self.wrong(audit, format!("{marked} readings are marked as changes, there are {}", told.len()));
        }
        let mut before = Value::Null;
        for event in told {
            if event.previous != before {
                let Event { sequence, previous, .. } = event;
                self.wrong(audit, format!("event {sequence} says the value was {previous}, it was {before}"));
            }
            before = event.value.clone();
        }
    }

    /// Losses and restorations take turns, and the last of them is the present connection.
    fn check_connection(&self, audit: &mut Audit) {
        let mut connection = ConnectionStatus::NeverSeen;
        for event in &self.device.events {
            let next = if event.kind == DeviceEventKind::Lost {
                ConnectionStatus::Lost
            } else {
                ConnectionStatus::Online
            };
            let is_possible = match event.kind {
                DeviceEventKind::Changed => connection != ConnectionStatus::Lost,
                DeviceEventKind::Lost => connection != ConnectionStatus::Lost,
                DeviceEventKind::Restored => connection == ConnectionStatus::Lost,
            };
            if !is_possible {
                self.wrong(audit, format!("event {} is {} while {connection:?}", event.sequence, event.kind));
            }
            connection = next;
        }
        if self.device.state.connection != connection {
            let present = self.device.state.connection;
            self.wrong(audit, format!("it is {present:?}, by its events {connection:?}"));
        }
    }

    fn wrong(&self, audit: &mut Audit, what: String) {
        audit.shortfalls.push(Shortfall::DeviceWrong { device_id: self.device_id.clone(), what });
    }
}
