//! Links that end while an attempt is under way.

use super::rig::{Rig, number, status};
use super::*;

/// Longer than the lease of an attempt.
const LEASE_OVER: Duration = Duration::from_secs(60);
const CHANGED: &str = "changed 0xA lock value=0 previous=1 seq=2 types=[Changed] skipped=0 online";

/// 0xA has reported 1, which was under way when its link ended.
fn unlinked() -> (Rig, AttemptDue) {
    let (mut rig, due) = Rig::with_attempt();
    rig.link("0xA", false).expect("unlinked");
    (rig, due)
}

#[test]
fn an_attempt_under_way_is_recorded_and_is_the_last() {
    for answer in [status(200), status(500), status(410)] {
        let (mut rig, due) = Rig::with_attempt();
        rig.report("0xA", number(0));
        rig.link("0xA", false).expect("unlinked");
        assert_eq!(rig.deliveries(), [(DeliveryStatus::Pending, 1), (DeliveryStatus::Cancelled, 0)]);
        rig.ended(&due, answer);
        assert_eq!(rig.deliveries(), [(DeliveryStatus::Cancelled, 1), (DeliveryStatus::Cancelled, 0)]);
        assert_eq!(rig.attempts(due.delivery).len(), 1);
        rig.pass(HOUR / 2);
        rig.leases_nothing();
        assert_eq!((rig.partition.notification_states.len(), rig.partition.next_wakeup_of_jobs()), (0, None));
    }
}

#[test]
fn an_attempt_of_which_nothing_was_sent_is_none() {
    let (mut rig, due) = unlinked();
    rig.ended(&due, AttemptOutcome::Withheld);
    assert_eq!(rig.deliveries(), [(DeliveryStatus::Cancelled, 0)]);
    assert_eq!((rig.attempts(due.delivery).len(), rig.partition.notification_states.len()), (0, 0));
}

#[test]
fn after_a_new_link_a_notification_waits_for_the_attempt_under_way() {
    let (mut rig, due) = unlinked();
    rig.link("0xA", true).expect("linked");
    rig.report("0xA", number(0));
    rig.leases_nothing();
    rig.reload();
    rig.leases_nothing();
    rig.ended(&due, status(200));
    let next = rig.notifies(CHANGED);
    rig.ended(&next, status(200));
    assert_eq!(rig.deliveries(), [(DeliveryStatus::Cancelled, 1), (DeliveryStatus::Delivered, 1)]);
    assert_eq!(rig.partition.notification_states.len(), 0);
}

#[test]
fn an_attempt_that_never_ends_holds_nothing_up_for_ever() {
    for restarts in [false, true] {
        let (mut rig, due) = unlinked();
        rig.link("0xA", true).expect("linked");
        rig.report("0xA", number(0));
        match restarts {
            true => rig.restart(),
            false => rig.stand_still(LEASE_OVER),
        }
        rig.pass(Duration::ZERO);
        rig.notifies(CHANGED);
        assert_eq!(rig.deliveries(), [(DeliveryStatus::Cancelled, 1), (DeliveryStatus::Pending, 1)]);
        assert_eq!(rig.attempts(due.delivery).len(), 1, "restarts: {restarts}");
    }
}

#[test]
fn without_a_new_link_nothing_is_left_of_an_attempt_that_never_ends() {
    for restarts in [false, true] {
        let (mut rig, _) = unlinked();
        match restarts {
            true => rig.restart(),
            false => rig.stand_still(LEASE_OVER),
        }
        rig.pass(Duration::ZERO);
        assert_eq!(rig.deliveries(), [(DeliveryStatus::Cancelled, 1)]);
        assert_eq!((rig.partition.notification_states.len(), rig.partition.next_wakeup_of_jobs()), (0, None));
    }
}

#[test]
fn what_was_cancelled_under_way_is_told_again_when_somebody_asks() {
    for by_client in [false, true] {
        let (mut rig, due) = unlinked();
        rig.link("0xA", true).expect("linked");
        match by_client {
            true => rig.resend(),
            false => rig.retry(due.delivery).expect("accepted"),
        }
        rig.leases_nothing();
        rig.ended(&due, status(500));
        let body = "changed 0xA lock value=1 previous=null seq=1 types=[Changed] skipped=0 online";
        assert_ne!(rig.notifies(body).delivery, due.delivery);
    }
}

#[test]
fn the_attempt_is_forgotten_with_its_device() {
    let (mut rig, due) = unlinked();
    rig.delete("0xA").expect("deleted");
    assert_eq!((rig.partition.notification_states.len(), rig.partition.next_wakeup_of_jobs()), (0, None));
    rig.ended(&due, status(200));
    rig.leases_nothing();
}
