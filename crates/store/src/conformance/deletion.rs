//! Deleting a device: what goes with it, at once and for good.

use base::{Incarnation, Timestamp};
use records::{DeviceSlot, DeviceState, Op, PartitionHead};

use super::basics::{all, delivery, device, event, id, notification_state, sign};
use super::commands::{SHOWN, everything_of, shown_of};
use super::{Make, PARTITION, Subject, loaded, next, put};
use crate::port::{DeviceResident, FeedFilter};

fn history(slot: u32, count: u32) -> Vec<Op> {
    let events = (0..count).map(|n| Op::PutEvent(Box::new(event(slot, i64::from(n), slot * 10_000 + n))));
    let readings = (1..=count).map(|n| sign(slot, n, 1.0));
    events.chain(readings).collect()
}

fn full(slot: u32, name: &str) -> Vec<Op> {
    let mut ops = vec![
        Op::PutDevice(Box::new(device(name, slot, &[7, 8]))),
        Op::PutState(DeviceSlot(slot), DeviceState { sequence: 9, ..DeviceState::default() }),
        Op::PutNotificationState(Box::new(notification_state(slot, 7))),
        Op::PutNotificationState(Box::new(notification_state(slot, 8))),
        Op::PutDelivery(Box::new(delivery(slot, 7, i64::from(slot), slot))),
    ];
    ops.extend(history(slot, 600));
    ops.extend(everything_of(slot));
    ops
}

fn assert_gone(subject: &dyn Subject, slot: u32, name: &str, context: &str) {
    let view = subject.store().view(PARTITION).expect("opens");
    let device = DeviceSlot(slot);
    assert_eq!(view.device(&id(name)).expect("reads"), None, "{context}");
    assert_eq!(view.state(device).expect("reads"), DeviceState::default(), "{context}");
    assert_eq!(view.seen(device).expect("reads"), None, "{context}");
    assert!(view.readings(device, all()).expect("reads").is_empty(), "{context}");
    let of = FeedFilter { device: Some(device), client: None };
    assert!(view.events(of, all(), &|_| true).expect("reads").is_empty(), "{context}");
    let events = view.events(FeedFilter::default(), all(), &|event| event.slot == device).expect("reads");
    assert!(events.is_empty(), "{context}");
    for client in [7, 8] {
        let linked = view.devices_of(Incarnation(client), None, 100).expect("reads");
        assert!(linked.iter().all(|other| other.slot != device), "{context}");
    }
    let is_of = |resident: &DeviceResident| match resident {
        DeviceResident::Device(profile, _, _) => profile.slot == device,
        DeviceResident::NotificationState(state) => state.slot == device,
        DeviceResident::ReportIds(slot, _) => *slot == device,
        DeviceResident::Job(_) | DeviceResident::Quarantined(..) => false,
    };
    assert!(!loaded(subject.store(), PARTITION).1.iter().any(is_of), "{context}");
    assert_eq!(shown_of(&*view, slot), [0; 9], "{context}");
    // what was on its way is still told of
    assert_eq!(view.deliveries(of, all(), &|_| true).expect("reads").len(), 1, "{context}");
}

fn assert_there(subject: &dyn Subject, slot: u32, name: &str, context: &str) {
    let view = subject.store().view(PARTITION).expect("opens");
    let device = DeviceSlot(slot);
    assert!(view.device(&id(name)).expect("reads").is_some(), "{context}");
    let mut page = all();
    page.limit = 1_000;
    assert_eq!(view.readings(device, page).expect("reads").len(), 600, "{context}");
    let mut page = all();
    page.limit = 1_000;
    let of = FeedFilter { device: Some(device), client: None };
    assert_eq!(view.events(of, page, &|_| true).expect("reads").len(), 600, "{context}");
    assert_eq!(view.devices_of(Incarnation(7), None, 100).expect("reads").len(), 1, "{context}");
    assert_eq!(shown_of(&*view, slot), SHOWN, "{context}");
}

/// Deleted from memory, from the tables, and half-way between; its neighbour in the slice keeps
/// everything.
pub fn a_deleted_device_is_gone_at_once_and_stays_so(make: Make<'_>) {
    for before in 0..4 {
        let mut subject = make();
        let mut head = PartitionHead { now: Timestamp(1_800_000_000_000), ..PartitionHead::default() };
        put(&mut *subject, next(&mut head, full(1, "Gone")));
        subject.churn(before);
        put(&mut *subject, next(&mut head, full(2, "Stays")));
        put(&mut *subject, next(&mut head, vec![Op::DeleteDevice(id("Gone"), DeviceSlot(1))]));
        for after in 0..12 {
            let context = format!("before {before} after {after}");
            assert_gone(&*subject, 1, "Gone", &context);
            assert_there(&*subject, 2, "Stays", &context);
            subject.churn(2);
            if after % 3 == 2 {
                subject.restart();
            }
        }
    }
}

/// The same id, another slot.
pub fn a_device_registered_again_starts_anew(make: Make<'_>) {
    for churn in 0..3 {
        let mut subject = make();
        let mut head = PartitionHead { now: Timestamp(1_800_000_000_000), ..PartitionHead::default() };
        put(&mut *subject, next(&mut head, full(1, "Same")));
        subject.churn(churn);
        let again = vec![
            Op::DeleteDevice(id("Same"), DeviceSlot(1)),
            Op::PutDevice(Box::new(device("Same", 3, &[8]))),
            sign(3, 1, 1.0),
        ];
        put(&mut *subject, next(&mut head, again));
        for turn in 0..6 {
            let view = subject.store().view(PARTITION).expect("opens");
            assert_eq!(
                view.device(&id("Same")).expect("reads"),
                Some(device("Same", 3, &[8])),
                "turn {turn}"
            );
            assert_eq!(view.readings(DeviceSlot(3), all()).expect("reads").len(), 1, "turn {turn}");
            assert!(view.readings(DeviceSlot(1), all()).expect("reads").is_empty(), "turn {turn}");
            assert!(view.devices_of(Incarnation(7), None, 10).expect("reads").is_empty(), "turn {turn}");
            assert_eq!(view.devices_of(Incarnation(8), None, 10).expect("reads").len(), 1, "turn {turn}");
            drop(view);
            subject.churn(2);
        }
    }
}
