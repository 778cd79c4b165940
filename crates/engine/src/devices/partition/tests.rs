//! Tests of a device partition, driven input by input over a store in memory, on a clock that only
//! the test moves.

mod commands;
mod gathering;
mod import;
mod intake;
mod rig;
mod stale;
mod stats;
mod unlinking;

use std::time::Duration;

use base::{ClientId, Incarnation, Timestamp, Value};
use fleet::{ImportDevice, NewDevice, Patch};
use records::{AttemptError, Connection, DeliveryStatus, EventKind, Op};

use crate::devices::input::DeviceInput;
use crate::devices::intake::ReportContent;
use crate::devices::lanes::{AttemptDue, AttemptOutcome};
use crate::kernel::machine::Machine;
use crate::kernel::reply::Reply;
use crate::kernel::step_context::STEP_BYTES_MAX;
use rig::{CLIENT, Rig, error, number, status};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn the_first_report_is_told_with_a_complete_picture() {
    let mut rig = Rig::with_change();
    let due = rig.notifies("changed 0xA lock value=1 previous=null seq=1 types=[Changed] skipped=0 online");
    assert_eq!(due.attempt, 1);
}

#[test]
fn an_equal_report_tells_nobody_and_writes_one_sign_and_the_days_counts() {
    let (mut rig, _first) = Rig::with_attempt();
    let ops = rig.report("0xA", number(1));
    let is_count = |op: &records::Op| matches!(op, records::Op::PutCounts(..));
    assert!(matches!(ops[0], records::Op::Sign(_)) && ops[1..].iter().all(is_count), "{ops:?}");
}

#[test]
fn a_delivered_notification_leaves_nothing_behind() {
    let (mut rig, due) = Rig::with_attempt();
    rig.ended(&due, status(204));
    assert_eq!(rig.deliveries(), [(DeliveryStatus::Delivered, 1)]);
    assert_eq!(rig.partition.notification_states.len(), 0);
    assert_eq!(rig.partition.next_wakeup_of_jobs(), None);
    rig.report("0xA", number(0));
    rig.notifies("changed 0xA lock value=0 previous=1 seq=2 types=[Changed] skipped=0 online");
}

#[test]
fn a_failed_attempt_is_repeated_with_the_same_body_after_the_delay() {
    let (mut rig, first) = Rig::with_attempt();
    rig.ended(&first, status(500));
    rig.leases_nothing();
    rig.pass(Duration::from_millis(29_999));
    rig.leases_nothing();
    rig.pass(Duration::from_secs(4));
    let second = rig.lease_again(&first);
    assert_eq!(second.body, first.body);
}

#[test]
fn a_client_is_told_the_address_as_it_is_now() {
    let mut rig = Rig::linked();
    let mut told = |address: Patch<String>, value| {
        rig.address("0xA", address);
        rig.report("0xA", number(value));
        let due = rig.lease_one();
        rig.ended(&due, status(200));
        rig.told(&due).split_once(" at ").map(|(_, address)| address.to_owned())
    };
    let door = |number| format!("{number} Harbour St");
    assert_eq!(told(Patch::Set(door(1)), 1), Some(door(1)));
    assert_eq!(told(Patch::Keep, 0), Some(door(1)));
    assert_eq!(told(Patch::Set(door(2)), 1), Some(door(2)));
    assert_eq!(told(Patch::Clear, 0), None);
}

#[test]
fn a_new_change_replaces_the_pending_notification() {
    let (mut rig, first) = Rig::with_attempt();
    rig.ended(&first, error(AttemptError::ConnectFailed));
    rig.report("0xA", number(0));
    // It goes out at once.
    let second = rig
        .notifies("changed 0xA lock value=0 previous=null seq=2 types=[Changed, Changed] skipped=1 online");
    assert_ne!(second.delivery, first.delivery);
    assert_eq!(second.attempt, 1);
    assert_eq!(rig.deliveries(), [(DeliveryStatus::Superseded, 1), (DeliveryStatus::Pending, 1)]);
}

#[test]
fn a_new_change_waits_for_the_one_in_flight_and_stops_its_retries() {
    let (mut rig, first) = Rig::with_attempt();
    rig.report("0xA", number(0));
    rig.leases_nothing();
    rig.ended(&first, status(503));
    let second = rig
        .notifies("changed 0xA lock value=0 previous=null seq=2 types=[Changed, Changed] skipped=1 online");
    rig.ended(&second, status(200));
    assert_eq!(rig.deliveries(), [(DeliveryStatus::Superseded, 1), (DeliveryStatus::Delivered, 1)]);
    rig.pass(HOUR / 2);
    rig.leases_nothing();
}

#[test]
fn what_came_while_one_was_delivered_is_told_from_there_on() {
    let (mut rig, first) = Rig::with_attempt();
    rig.report("0xA", number(0));
    rig.report("0xA", number(1));
    rig.ended(&first, status(200));
    rig.notifies("changed 0xA lock value=1 previous=1 seq=3 types=[Changed, Changed] skipped=1 online");
}

#[test]
fn out_of_attempts_it_fails_for_good_and_the_next_change_tells_it() {
    let mut rig = Rig::with_change();
    for attempt in 1..=3 {
        let due = rig.lease_one();
        assert_eq!(due.attempt, attempt);
        rig.ended(&due, status(500));
        rig.pass(Duration::from_secs(120));
    }
    rig.leases_nothing();
    assert_eq!(rig.deliveries(), [(DeliveryStatus::Failed, 3)]);
    rig.report("0xA", number(0));
    rig.notifies("changed 0xA lock value=0 previous=null seq=2 types=[Changed, Changed] skipped=1 online");
}

#[test]
fn an_interrupted_attempt_is_repeated_at_once_and_is_never_the_last() {
    let mut rig = Rig::with_change();
    let mut bodies = Vec::new();
    for attempt in 1..=5 {
        let due = rig.lease_one();
        assert_eq!(due.attempt, attempt);
        bodies.push((due.delivery, due.body));
        rig.restart();
    }
    rig.pass(Duration::ZERO);
    assert!(bodies.windows(2).all(|two| two[0] == two[1]), "same webhook-id and body");
    let attempts = rig.attempts(bodies[0].0);
    assert_eq!(attempts.len(), 5);
    assert!(attempts.iter().all(|attempt| attempt.error == Some(AttemptError::Interrupted)));
    rig.attempt(status(200));
    assert_eq!(rig.deliveries(), [(DeliveryStatus::Delivered, 6)]);
}

#[test]
fn a_stored_notification_that_waited_for_too_long_failed_and_the_next_one_tells_it() {
    let mut rig = Rig::with_change();
    rig.restart_with_time_to_live(Duration::from_secs(1));
    rig.pass(Duration::from_secs(2));
    assert_eq!(rig.deliveries(), [(DeliveryStatus::Failed, 0)]);
    rig.leases_nothing();
    rig.report("0xA", number(0));
    rig.notifies("changed 0xA lock value=0 previous=null seq=2 types=[Changed, Changed] skipped=1 online");
}

#[test]
fn an_interrupted_attempt_gives_way_to_a_newer_change() {
    let (mut rig, _first) = Rig::with_attempt();
    rig.report("0xA", number(0));
    rig.restart();
    rig.notifies("changed 0xA lock value=0 previous=null seq=2 types=[Changed, Changed] skipped=1 online");
    assert_eq!(rig.deliveries(), [(DeliveryStatus::Superseded, 1), (DeliveryStatus::Pending, 1)]);
}

#[test]
fn gone_is_recorded_and_does_not_count() {
    let mut rig = Rig::with_change();
    for _ in 0..5 {
        rig.attempt(status(410));
    }
    assert_eq!(rig.deliveries(), [(DeliveryStatus::Pending, 5)]);
}

#[test]
fn what_was_not_sent_was_no_attempt() {
    let (mut rig, first) = Rig::with_attempt();
    rig.ended(&first, AttemptOutcome::Withheld);
    assert_eq!(rig.deliveries(), [(DeliveryStatus::Pending, 0)]);
    assert!(rig.attempts(first.delivery).is_empty());
    let second = rig.lease_one();
    assert_eq!((second.delivery, second.attempt), (first.delivery, 1));
}

#[test]
fn a_client_that_is_unlinked_is_told_nothing_more() {
    let (mut rig, due) = Rig::with_attempt();
    rig.ended(&due, status(500));
    rig.link("0xA", false).expect("unlinked");
    rig.pass(HOUR / 2);
    rig.leases_nothing();
    assert_eq!(rig.deliveries(), [(DeliveryStatus::Cancelled, 1)]);
    rig.report("0xA", number(0));
    assert_eq!(rig.deliveries().len(), 1);
}

#[test]
fn a_silent_device_is_lost_once_and_restored_by_any_sign() {
    let (mut rig, due) = Rig::with_attempt();
    rig.ended(&due, status(200));
    rig.pass_slowly(HOUR + SECOND);
    let due = rig.notifies("lost 0xA lock value=1 previous=1 seq=2 types=[Lost] skipped=0 lost");
    rig.ended(&due, status(200));
    rig.pass_slowly(HOUR + SECOND);
    rig.leases_nothing();
    rig.say("0xA", ReportContent::Alive);
    rig.notifies("restored 0xA lock value=1 previous=1 seq=3 types=[Restored] skipped=0 online");
}

#[test]
fn a_report_that_restores_and_changes_is_told_as_a_change_that_names_both() {
    let (mut rig, due) = Rig::with_attempt();
    rig.ended(&due, status(200));
    rig.pass_slowly(HOUR + SECOND);
    rig.attempt(status(200));
    rig.report("0xA", number(0));
    rig.notifies("changed 0xA lock value=0 previous=1 seq=4 types=[Restored, Changed] skipped=1 online");
    assert_eq!(rig.events(), [EventKind::Changed, EventKind::Lost, EventKind::Restored, EventKind::Changed]);
}

#[test]
fn silence_before_a_crash_counts_and_the_outage_does_not() {
    let mut rig = Rig::with_change();
    rig.pass_slowly(HOUR - Duration::from_secs(60));
    rig.restart();
    rig.pass(10 * HOUR);
    rig.attend();
    rig.pass_slowly(Duration::from_secs(30));
    assert_eq!(rig.connection("0xA"), Connection::Online);
    rig.pass_slowly(Duration::from_secs(45));
    assert_eq!(rig.connection("0xA"), Connection::Lost);
}

#[test]
fn a_refused_report_of_a_known_device_is_a_sign_of_life() {
    let mut rig = Rig::linked();
    let rejected = rig.rejected("0xA", Some("face"), ReportContent::Value { value: number(1), ts: None });
    assert_eq!(rejected, Some("wrong_kind"));
    let rejected = rig.rejected("0xA", None, ReportContent::Value { value: number(2), ts: None });
    assert_eq!(rejected, Some("value_not_allowed"));
    assert_eq!(rig.connection("0xA"), Connection::Online);
    assert_eq!(rig.events(), []);
    assert_eq!(rig.rejected("0xB", None, ReportContent::Alive), Some("unknown_device"));
}

#[test]
fn a_device_registered_again_starts_anew() {
    let (mut rig, due) = Rig::with_attempt();
    rig.delete("0xA").expect("deleted");
    rig.ended(&due, status(500));
    rig.leases_nothing();
    assert_eq!(rig.delete("0xA").expect_err("gone").code, "unknown_device");
    rig.create_linked("0xA");
    rig.report("0xA", number(1));
    let again = rig.notifies("changed 0xA lock value=1 previous=null seq=1 types=[Changed] skipped=0 online");
    assert_ne!(again.delivery, due.delivery);
}

#[test]
fn registering_twice_is_a_conflict() {
    let mut rig = Rig::linked();
    assert_eq!(rig.create("0xA").expect_err("there").code, "exists");
    rig.link("0xA", true).expect("linking twice changes nothing");
}

#[test]
fn a_client_that_is_gone_is_swept_from_every_device() {
    let mut rig = Rig::linked();
    for n in 0..450 {
        let id = format!("d{n}");
        rig.create_linked(&id);
        rig.report(&id, number(1));
    }
    let mut sweeps = 1;
    while rig.sweep() {
        sweeps += 1;
    }
    assert_eq!(sweeps, 3, "a bounded number at a time");
    rig.leases_nothing();
    assert!(rig.deliveries().iter().all(|(status, _)| *status == DeliveryStatus::Cancelled));
    assert_eq!(rig.partition.notification_states.len(), 0);
}

#[test]
fn a_hanging_sender_loses_its_lease() {
    let (mut rig, first) = Rig::with_attempt();
    rig.pass(Duration::from_secs(60));
    assert_eq!(rig.deliveries(), [(DeliveryStatus::Pending, 1)]);
    rig.lease_again(&first);
    rig.ended(&first, status(200));
    assert_eq!(rig.deliveries(), [(DeliveryStatus::Pending, 2)], "the stale reservation changes nothing");
    assert_eq!(rig.attempts(first.delivery)[0].error, Some(AttemptError::TimedOut));
}

#[test]
fn a_lease_holds_until_the_time_that_it_names() {
    let (mut rig, first) = Rig::with_attempt();
    let holds = first.until.since(first.delivery.at);
    let moment = Duration::from_millis(1);
    rig.pass(holds - moment);
    rig.leases_nothing();
    rig.pass(moment);
    assert_eq!(rig.lease_all().len(), 1);
}

#[test]
fn an_input_leases_of_several_clients_in_their_order_and_weighs_what_it_may_give() {
    let mut rig = Rig::with_change();
    rig.create_linked("0xB");
    rig.report("0xB", number(1));
    let wanted = vec![(CLIENT, 1), (Incarnation(CLIENT.0 + 1), 5), (CLIENT, 5)];
    let (reply, mut answer) = Reply::new();
    let input = DeviceInput::Lease { wanted, reply };
    assert_eq!(super::DevicePartition::weight(&input), 11);
    rig.step(vec![input]);
    let leased = answer.try_recv().expect("answered once durable");
    assert_eq!(leased.iter().map(Vec::len).collect::<Vec<_>>(), [1, 0, 1]);
    assert_ne!(leased[0][0].delivery, leased[2][0].delivery);
}

#[test]
fn a_waiting_delivery_can_be_sent_now_and_a_delivered_one_again() {
    let (mut rig, first) = Rig::with_attempt();
    rig.ended(&first, status(500));
    rig.retry(first.delivery).expect("accepted");
    let second = rig.lease_again(&first);
    rig.ended(&second, status(200));
    rig.retry(first.delivery).expect("accepted");
    let again = rig.notifies("changed 0xA lock value=1 previous=null seq=1 types=[Changed] skipped=0 online");
    assert_ne!(again.delivery, first.delivery);
    rig.ended(&again, status(200));
    rig.report("0xA", number(0));
    assert_eq!(rig.retry(first.delivery).expect_err("newer").code, "superseded");
    rig.link("0xA", false).expect("unlinked");
    assert_eq!(rig.retry(first.delivery).expect_err("unlinked").code, "not_linked");
}

#[test]
fn the_newest_delivery_is_sent_again_though_the_device_changed_while_nobody_was_linked() {
    let (mut rig, first) = Rig::with_attempt();
    rig.ended(&first, status(200));
    rig.link("0xA", false).expect("unlinked");
    rig.report("0xA", number(0));
    rig.link("0xA", true).expect("linked");
    rig.retry(first.delivery).expect("accepted");
    let again = rig.notifies("changed 0xA lock value=0 previous=1 seq=2 types=[Changed] skipped=0 online");
    let resent = rig.all_deliveries().into_iter().find(|delivery| delivery.id == again.delivery);
    assert_eq!(resent.expect("a delivery of its own").resend_of, Some(first.delivery));
}

#[test]
fn the_client_is_named_in_the_history_as_it_was_linked() {
    let rig = Rig::with_change();
    let delivery = rig.all_deliveries().remove(0);
    assert_eq!(
        (delivery.client, delivery.client_id),
        (Incarnation(7), ClientId::new("acme").expect("an id"))
    );
    assert!(matches!(status(200), AttemptOutcome::Status { code: 200, .. }));
}

#[test]
fn a_delivery_that_failed_for_good_is_sent_again_as_it_was() {
    let (mut rig, mut first) = Rig::with_attempt();
    for attempt in 2..=4 {
        rig.ended(&first, status(500));
        rig.pass(Duration::from_secs(120));
        if attempt < 4 {
            first = rig.lease_one();
        }
    }
    assert_eq!(rig.deliveries(), [(DeliveryStatus::Failed, 3)]);
    rig.restart();
    rig.retry(first.delivery).expect("accepted");
    let again = rig.lease_again(&first);
    assert_eq!(again.body, first.body);
    rig.ended(&again, status(200));
    assert_eq!(rig.deliveries(), [(DeliveryStatus::Delivered, 4)]);
    assert_eq!(rig.partition.notification_states.len(), 0);
}

#[test]
fn a_heavy_slice_is_spread_over_batches_and_acknowledged_at_its_end() {
    let mut rig = Rig::linked();
    rig.create_kind("0xB", "face");
    let text = |n: usize| Value::from_canonical(&format!("\"{}{n:04}\"", "x".repeat(4_000)));
    let content = |n| ReportContent::Value { value: text(n), ts: None };
    let batches = rig.say_many("0xB", (0..999).map(content).collect());
    assert!(batches.iter().all(|weight| *weight < 2 * STEP_BYTES_MAX), "{batches:?}");
    assert!(batches.len() > 2, "{batches:?}");
    assert_eq!(rig.events().len(), 999);
}

/// Leases all that is due, in as many steps as it takes.
fn lease_everything(rig: &mut Rig) -> Vec<AttemptDue> {
    let mut all = Vec::new();
    loop {
        let due = rig.lease_all();
        if due.is_empty() {
            return all;
        }
        all.extend(due);
    }
}

#[test]
fn attempts_that_a_start_cuts_off_are_recorded_in_several_steps_before_anything_else() {
    const DEVICES: usize = 400;
    let mut rig = Rig::linked();
    let text = |n: u32| Value::from_canonical(&format!("\"{}{n}\"", "x".repeat(4_000)));
    let ids: Vec<String> = (0..DEVICES).map(|number| format!("d{number}")).collect();
    for id in &ids {
        rig.create_kind(id, "face");
        rig.link(id, true).expect("linked");
        rig.report(id, text(1));
    }
    for due in lease_everything(&mut rig) {
        rig.ended(&due, status(200));
    }
    ids.iter().for_each(|id| drop(rig.report(id, text(2))));
    assert_eq!(lease_everything(&mut rig).len(), DEVICES);
    rig.restart();
    let (mut weights, mut recorded) = (Vec::new(), 0);
    while rig.partition.has_unfinished() {
        let (ops, _) = rig.one_step(Vec::new());
        weights.push(ops.iter().map(Op::weight).sum::<usize>());
        recorded += ops.iter().filter(|op| matches!(op, Op::PutAttempt(_))).count();
    }
    assert!(weights.len() > 1 && recorded == DEVICES, "{recorded} in batches of {weights:?}");
    assert!(weights.iter().all(|weight| *weight < 2 * STEP_BYTES_MAX), "{weights:?}");
    let again = lease_everything(&mut rig);
    assert!(again.len() == DEVICES && again.iter().all(|due| due.attempt == 2), "{}", again.len());
}

#[test]
fn an_attempt_that_was_cut_off_stands_in_the_timeline_when_that_is_written() {
    let (mut rig, _under_way) = Rig::with_attempt();
    rig.restart();
    // Feeds go on meanwhile: what came at an earlier time would be missed.
    rig.stand_still(Duration::from_secs(5));
    let ops = rig.step(Vec::new());
    let entries = ops.iter().filter_map(|op| match op {
        Op::PutTimelineEntry(entry) => Some(entry.at),
        _ => None,
    });
    assert_eq!(entries.collect::<Vec<_>>(), [rig.now()]);
}
