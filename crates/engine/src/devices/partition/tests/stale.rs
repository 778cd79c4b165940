//! Clients that are told again: what failed for good, and by hand.

use super::rig::{Rig, number, status};
use super::*;
use crate::devices::stale_clients::StaleOrder;

/// What the clients' keeper would order now.
fn orders(rig: &Rig) -> Vec<StaleOrder> {
    rig.context.devices.stale.take(Timestamp(0))
}

/// The notification of 0xA has failed for good; 0xB is linked too.
fn stale() -> Rig {
    let mut rig = Rig::linked();
    rig.create_linked("0xB");
    rig.report("0xA", number(1));
    fail_for_good(&mut rig);
    assert_eq!(rig.deliveries(), [(DeliveryStatus::Failed, 3)]);
    rig
}

fn fail_for_good(rig: &mut Rig) {
    for _ in 0..3 {
        rig.attempt(status(500));
        rig.pass(HOUR / 4);
    }
}

fn get_through(rig: &mut Rig) -> Vec<String> {
    let due = rig.lease_all();
    due.iter().for_each(|due| rig.ended(due, status(200)));
    due.iter().map(|due| rig.told(due)).collect()
}

#[test]
fn one_that_gets_through_brings_what_failed_with_it() {
    let mut rig = stale();
    rig.report("0xB", number(1));
    assert_eq!(orders(&rig), []);
    get_through(&mut rig);
    let order = orders(&rig).remove(0);
    assert!(!order.probe);
    rig.tell_stale(order.probe);
    assert_eq!(
        get_through(&mut rig),
        ["changed 0xA lock value=1 previous=null seq=1 types=[Changed] skipped=1 online"]
    );
    assert_eq!(orders(&rig), []);
    rig.report("0xB", number(0));
    get_through(&mut rig);
    assert_eq!(orders(&rig), [], "nothing is stale any more");
}

#[test]
fn a_newer_event_makes_what_failed_good() {
    let mut rig = stale();
    rig.report("0xA", number(0));
    assert_eq!(
        get_through(&mut rig),
        ["changed 0xA lock value=0 previous=null seq=2 types=[Changed, Changed] skipped=1 online"]
    );
    assert_eq!(orders(&rig), []);
}

#[test]
fn a_probe_tells_of_one_device() {
    let mut rig = stale();
    rig.report("0xB", number(1));
    fail_for_good(&mut rig);
    rig.tell_stale(true);
    assert_eq!(get_through(&mut rig).len(), 1);
    assert_eq!(orders(&rig).len(), 1, "the probe got through: now the rest");
}

#[test]
fn another_process_knows_what_is_stale() {
    let mut rig = stale();
    rig.restart();
    rig.attend();
    rig.report("0xB", number(1));
    get_through(&mut rig);
    assert_eq!(orders(&rig).len(), 1);
}

#[test]
fn an_unlinked_client_is_not_told_again() {
    let mut rig = stale();
    rig.link("0xA", false).expect("unlinked");
    rig.report("0xB", number(1));
    get_through(&mut rig);
    assert_eq!(orders(&rig), []);
}

#[test]
fn by_hand_every_device_that_has_events_is_told_again() {
    let mut rig = stale();
    rig.create_linked("0xC");
    rig.report("0xB", number(1));
    get_through(&mut rig);
    rig.report("0xB", number(0));
    get_through(&mut rig);
    rig.resend();
    let mut told = get_through(&mut rig);
    told.sort();
    assert_eq!(
        told,
        [
            "changed 0xA lock value=1 previous=null seq=1 types=[Changed] skipped=1 online",
            "changed 0xB lock value=0 previous=1 seq=2 types=[Changed] skipped=0 online"
        ]
    );
}

#[test]
fn by_hand_what_waits_for_its_retry_goes_at_once() {
    let (mut rig, due) = Rig::with_attempt();
    rig.ended(&due, status(500));
    rig.resend();
    rig.lease_again(&due);
}

/// 0xA has reported 1 and then 0, and both were told.
fn told() -> Rig {
    let mut rig = Rig::linked();
    for value in [1, 0] {
        rig.report("0xA", number(value));
        rig.attempt(status(200));
    }
    rig
}

/// Ways to tell again by hand what was told.
const BY_HAND: [fn(&mut Rig); 2] = [
    |rig| {
        let newest = rig.all_deliveries().pop().expect("the newest");
        rig.retry(newest.id).expect("accepted");
    },
    Rig::resend,
];

#[test]
fn what_is_told_again_in_vain_stays_told() {
    for by_hand in BY_HAND {
        let mut rig = told();
        by_hand(&mut rig);
        let again =
            rig.notifies("changed 0xA lock value=0 previous=1 seq=2 types=[Changed] skipped=0 online");
        rig.ended(&again, status(500));
        rig.restart();
        rig.attend();
        rig.report("0xA", number(1));
        rig.notifies("changed 0xA lock value=1 previous=0 seq=3 types=[Changed] skipped=1 online");
    }
}

#[test]
fn what_is_told_again_and_not_yet_sent_gives_way_to_a_change() {
    for by_hand in BY_HAND {
        let mut rig = told();
        by_hand(&mut rig);
        rig.report("0xA", number(1));
        rig.notifies("changed 0xA lock value=1 previous=0 seq=3 types=[Changed] skipped=1 online");
    }
}

#[test]
fn a_change_while_something_is_told_again_is_told_from_there_on() {
    for by_hand in BY_HAND {
        for (answer, skipped) in [(200, 0), (500, 1)] {
            let mut rig = told();
            by_hand(&mut rig);
            let again = rig.lease_one();
            rig.report("0xA", number(1));
            rig.ended(&again, status(answer));
            let next =
                format!("changed 0xA lock value=1 previous=0 seq=3 types=[Changed] skipped={skipped} online");
            let next = rig.notifies(&next);
            rig.ended(&next, status(200));
            assert_eq!(rig.partition.notification_states.len(), 0);
        }
    }
}

#[test]
fn what_is_told_again_and_fails_for_good_is_stale_and_stays_told() {
    for by_hand in BY_HAND {
        let mut rig = told();
        by_hand(&mut rig);
        fail_for_good(&mut rig);
        rig.restart();
        rig.attend();
        rig.tell_stale(true);
        let probe =
            rig.notifies("changed 0xA lock value=0 previous=1 seq=2 types=[Changed] skipped=1 online");
        rig.ended(&probe, status(500));
        rig.report("0xA", number(1));
        let next = rig.notifies("changed 0xA lock value=1 previous=0 seq=3 types=[Changed] skipped=2 online");
        rig.ended(&next, status(200));
        assert_eq!(rig.partition.notification_states.len(), 0);
    }
}

#[test]
fn a_loss_and_a_restoration_are_told_again_as_they_were() {
    for by_hand in BY_HAND {
        let mut rig = told();
        rig.pass_slowly(HOUR + SECOND);
        rig.attempt(status(200));
        by_hand(&mut rig);
        let again = rig.notifies("lost 0xA lock value=0 previous=0 seq=3 types=[Lost] skipped=0 lost");
        rig.ended(&again, status(500));
        rig.say("0xA", ReportContent::Alive);
        let next =
            rig.notifies("restored 0xA lock value=0 previous=0 seq=4 types=[Restored] skipped=1 online");
        rig.ended(&next, status(200));
        by_hand(&mut rig);
        rig.notifies("restored 0xA lock value=0 previous=0 seq=4 types=[Restored] skipped=0 online");
        let newest = rig.all_deliveries().pop().expect("the newest");
        assert_eq!(newest.kind, EventKind::Restored);
    }
}
