//! A small world in which all is well, and one thing wrong at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::receiver::{Arrival, ConnectionStatus, DeviceEventKind, Notification, Retain, WebhookReply};
use crate::sent::ReportAnswer;
use crate::traffic::{DeviceIds, SimulatedReport};

/// One device and one client: the reports 0, 0, 1 (lost, restored), 1, 0; the second change was
/// superseded.
struct World {
    sent: Sent,
    snapshot: ServerSnapshot,
    arrivals: Vec<Arrival>,
    expected: Expected,
}

fn event(sequence: u64, kind: DeviceEventKind, value: u8, previous: Option<u8>) -> Event {
    let previous = previous.map_or(Value::Null, Value::from);
    Event { device_id: "d0".into(), kind, sequence, value: value.into(), previous }
}

fn delivery(sequence: u64, status: NotificationStatus) -> DeliverySnapshot {
    let (id, client_id, device_id) = (format!("m{sequence}"), "c1".into(), "d0".into());
    DeliverySnapshot { id, client_id, device_id, status, attempt_count: 1, attempts_cut: 0 }
}

fn arrival(events: &[Event], base: usize, sequence: usize) -> Arrival {
    let folded = &events[base..sequence];
    let newest = &events[sequence - 1];
    let connection =
        if newest.kind == DeviceEventKind::Lost { ConnectionStatus::Lost } else { ConnectionStatus::Online };
    let notification = Notification {
        kind: newest.kind,
        timestamp_ms: 0,
        device_id: "d0".into(),
        value: newest.value.clone(),
        previous: folded[0].previous.clone(),
        connection,
        changed_at_ms: None,
        sequence: sequence as u64,
        types: folded.iter().map(|event| event.kind).collect(),
        skipped: folded.len() as u64 - 1,
    };
    let webhook_id: Arc<str> = format!("m{sequence}").into();
    let reply = WebhookReply::Status(200);
    Arrival { webhook_id, notification, at: Instant::now(), attempt: 1, body_hash: sequence as u64, reply }
}

fn world() -> World {
    let mut sent = Sent::nothing(DeviceIds::new("d", 1));
    let mut readings = Vec::new();
    for (ts_ms, value, changed) in [(1, 0, true), (2, 0, false), (3, 1, true), (4, 1, false), (5, 0, true)] {
        let position = sent.add(SimulatedReport::plain(0, ts_ms, value), Instant::now());
        sent.answered(0, position, ReportAnswer::Acknowledged(Duration::from_millis(1)));
        readings.push(HistoryReading { ts_ms, value: value.into(), changed });
    }
    let events = vec![
        event(1, DeviceEventKind::Changed, 0, None),
        event(2, DeviceEventKind::Changed, 1, Some(0)),
        event(3, DeviceEventKind::Lost, 1, Some(1)),
        event(4, DeviceEventKind::Restored, 1, Some(1)),
        event(5, DeviceEventKind::Changed, 0, Some(1)),
    ];
    let arrivals =
        vec![arrival(&events, 0, 1), arrival(&events, 1, 3), arrival(&events, 3, 4), arrival(&events, 4, 5)];
    let deliveries = (1..=5)
        .map(|sequence| {
            delivery(
                sequence,
                if sequence == 2 { NotificationStatus::Superseded } else { NotificationStatus::Delivered },
            )
        })
        .collect();
    let state = State { value: 0.into(), connection: ConnectionStatus::Online };
    let devices = BTreeMap::from([(0, DeviceSnapshot { state, readings, events })]);
    let expected = Expected { losses: BTreeMap::from([(0, 1)]), ..Expected::default() };
    World { sent, snapshot: ServerSnapshot { devices, deliveries }, arrivals, expected }
}

impl World {
    fn audit(&self) -> Audit {
        let mut ledger = Ledger::new(Retain::Everything);
        self.arrivals.iter().cloned().for_each(|arrival| ledger.record(arrival));
        let told = NotifiedClient { client_id: "c1", ledger: &ledger };
        audit(&self.sent, &self.snapshot, &[told], &self.expected)
    }

    fn device(&mut self) -> &mut DeviceSnapshot {
        self.snapshot.devices.get_mut(&0).expect("the device is known")
    }
}

/// Breaks one thing and expects a shortfall that speaks of it.
fn check(harm: impl FnOnce(&mut World), expected: &str) {
    let mut world = world();
    harm(&mut world);
    let shortfalls: Vec<String> = world.audit().shortfalls.iter().map(ToString::to_string).collect();
    assert!(shortfalls.iter().any(|shortfall| shortfall.contains(expected)), "{expected}: {shortfalls:#?}");
}

#[test]
fn a_world_in_order_has_no_shortfall() {
    let audit = world().audit();
    assert_eq!(audit.shortfalls, []);
    assert_eq!((audit.reports_sent, audit.reports_acknowledged, audit.reports_found), (5, 5, 5));
    assert_eq!((audit.changes, audit.losses, audit.restorations), (3, 1, 1));
    assert_eq!((audit.notifications_due, audit.delivered, audit.superseded), (5, 4, 1));
}

#[test]
fn a_snapshot_whose_lists_ended_too_early_is_not_whole() {
    let is_whole = |harm: fn(&mut World)| {
        let mut world = world();
        harm(&mut world);
        world.snapshot.is_whole(world.sent.devices(), std::iter::once("c1"))
    };
    assert!(is_whole(|_| ()));
    assert!(!is_whole(|world| drop(world.snapshot.deliveries.pop())));
    assert!(!is_whole(|world| world.snapshot.deliveries[4].status = NotificationStatus::Pending));
    assert!(!is_whole(|world| drop(world.device().events.pop())));
    assert!(!is_whole(|world| {
        world.device().events.pop();
        world.snapshot.deliveries.pop();
    }));
}

#[test]
fn a_missing_or_invented_reading_is_found() {
    check(|world| drop(world.device().readings.remove(1)), "the acknowledged report 0 of");
    check(|world| world.device().readings[1].value = 1.into(), "which was not sent so often");
    check(
        |world| {
            let twice = world.device().readings[1].clone();
            world.device().readings.push(twice);
        },
        "which was not sent so often",
    );
}

#[test]
fn what_was_sent_twice_may_be_there_twice() {
    let mut world = world();
    world.sent.sent_again(0, 1);
    let twice = world.device().readings[1].clone();
    world.device().readings.insert(2, twice);
    assert_eq!(world.audit().shortfalls, []);
}

#[test]
fn what_was_sent_twice_under_one_id_is_there_once() {
    let twice = |world: &mut World| {
        world.expected.repeats_have_no_effect = true;
        world.sent.sent_again(0, 1);
        let twice = world.device().readings[1].clone();
        world.device().readings.insert(2, twice);
    };
    check(twice, "which was not sent so often");
}

#[test]
fn a_report_without_an_answer_may_be_there_or_not() {
    for arrived in [false, true] {
        let mut world = world();
        let position = world.sent.add(SimulatedReport::plain(0, 6, 0), Instant::now());
        assert_eq!(position, 5);
        if arrived {
            world.device().readings.push(HistoryReading { ts_ms: 6, value: 0.into(), changed: false });
        }
        assert_eq!(world.audit().shortfalls, []);
    }
}

#[test]
fn a_wrong_state_or_event_is_found() {
    check(|world| world.device().state.value = 1.into(), "its value is 1");
    check(
        |world| world.device().state.connection = ConnectionStatus::Lost,
        "it is Lost, by its events Online",
    );
    check(|world| world.device().events[1].sequence = 7, "its events are numbered");
    check(|world| world.device().events[4].previous = 0.into(), "says the value was 0");
    check(|world| drop(world.device().events.remove(4)), "changes, there are 2");
    check(|world| world.device().readings[1].changed = true, "4 readings are marked");
    check(|world| world.expected.losses.clear(), "it fell silent 0 times and was lost 1 times");
    check(|world| world.device().events[3].kind = DeviceEventKind::Lost, "is device.lost while Lost");
    check(|world| drop(world.snapshot.devices.remove(&0)), "not registered");
}

#[test]
fn a_client_that_was_not_told_is_found() {
    check(|world| drop(world.arrivals.pop()), "last told of event 4 of 5");
    check(|world| drop(world.arrivals.pop()), "m5 is called delivered, but was never taken");
    check(|world| world.arrivals.clear(), "nothing was ever told");
    check(
        |world| world.arrivals[3].reply = WebhookReply::Status(500),
        "m5 is called delivered, but was never taken",
    );
    check(|world| drop(world.snapshot.deliveries.pop()), "5 events, but 4 notifications");
    check(|world| drop(world.snapshot.deliveries.pop()), "m5 came, but is not in the books");
    check(|world| world.snapshot.deliveries[4].status = NotificationStatus::Failed, "m5 is Failed");
    check(|world| world.snapshot.deliveries[4].attempt_count = 0, "m5 came 1 times, 0 attempts");
}

#[test]
fn a_wrongly_told_client_is_found() {
    check(|world| world.arrivals[3].notification.value = 1.into(), "value is");
    check(|world| world.arrivals[3].notification.value = 1.into(), "last told 1 Online");
    check(|world| world.arrivals[1].notification.skipped = 0, "skipped is 0");
    check(|world| world.arrivals[1].notification.types.truncate(1), "types is");
    check(|world| world.arrivals[1].notification.previous = 1.into(), "previous is");
    check(|world| world.arrivals.swap(1, 2), "came after 4");
    check(
        |world| {
            let mut again = world.arrivals[3].clone();
            again.body_hash += 1;
            world.arrivals.push(again);
        },
        "repeats with another body",
    );
}

#[test]
fn a_repeat_after_a_crash_is_in_order() {
    let again = |attempts_cut| {
        move |world: &mut World| {
            world.arrivals.insert(3, world.arrivals[2].clone());
            world.snapshot.deliveries[3].attempt_count = 2;
            world.snapshot.deliveries[3].attempts_cut = attempts_cut;
        }
    };
    let mut world = world();
    again(1)(&mut world);
    let audit = world.audit();
    assert_eq!((audit.shortfalls, audit.retried), (vec![], 1));
    check(again(0), "m4 was taken 2 times, but is Delivered with 0 cut attempts");
}

#[test]
fn what_was_taken_may_be_superseded_only_when_its_attempt_was_cut() {
    let cut = |attempts_cut| {
        move |world: &mut World| {
            let events = world.device().events.clone();
            world.arrivals.insert(1, arrival(&events, 1, 2));
            world.snapshot.deliveries[1].attempts_cut = attempts_cut;
        }
    };
    check(cut(0), "m2 was taken 1 times, but is Superseded with 0 cut attempts");
    let mut world = world();
    cut(1)(&mut world);
    assert_eq!(world.audit().shortfalls, []);
}

#[test]
fn latencies_leave_out_disturbed_times() {
    let mut world = world();
    assert_eq!(world.audit().report_to_ack.count(), 5);
    let now = Instant::now();
    world
        .expected
        .disturbed
        .push(now.checked_sub(Duration::from_secs(60)).expect("the machine is up for a minute")..now);
    assert_eq!(world.audit().report_to_ack.count(), 0);
}
