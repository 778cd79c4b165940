//! Following a list from page to page, each page a view of its own, while the store goes on.

use base::random::Random;
use base::{Incarnation, Timestamp};
use records::{
    CommandKey, CommandState, DeliveryKey, DeviceSlot, EventKey, Happening, Op, PartitionHead, TimelineEntry,
    TimelineEntryKey,
};

use super::basics::{all, command, delivery, device, event, sign};
use super::commands::given;
use super::{Make, PARTITION, Subject, next, put};
use crate::port::{FeedFilter, Page, ReadingKey, Store};

const START: i64 = 1_800_000_000_000;

/// The next batch of a fleet of 40 devices of which each page must show what was there when the
/// list was begun.
fn go_on(subject: &mut dyn Subject, head: &mut PartitionHead, random: &mut Random) {
    let mut ops = Vec::new();
    for _ in 0..30 {
        let slot = random.below(40) as u32;
        head.next_event += 1;
        let number = head.next_event;
        let at = head.now.0 + 1_000;
        ops.push(Op::PutEvent(Box::new(event(slot, at, number))));
        ops.push(Op::PutDelivery(Box::new(delivery(slot, 1 + u64::from(slot % 3), at, number))));
        ops.push(sign(slot, number, f64::from(number % 2)));
        ops.extend(given(&command(slot, at, number), &CommandState::WAITING));
        let entry = TimelineEntry { slot: DeviceSlot(slot), at: Timestamp(at), number, what: connected() };
        ops.push(Op::PutTimelineEntry(Box::new(entry)));
    }
    put(subject, next(head, ops));
    subject.churn(random.below(4));
}

/// The keys of a list, one page after the other.
fn follow<K: Copy + Ord>(
    subject: &mut dyn Subject,
    mut between: impl FnMut(&mut dyn Subject),
    page: Page<K>,
    read: impl Fn(&dyn Store, Page<K>) -> Vec<K>,
) -> Vec<K> {
    let mut keys = Vec::new();
    let mut page = page;
    loop {
        let found = read(subject.store(), page);
        let Some(last) = found.last() else { return keys };
        assert!(found.len() <= page.limit);
        page.after = Some(*last);
        keys.extend(found);
        between(subject);
    }
}

fn assert_once_in_order<K: Copy + Ord + std::fmt::Debug>(
    followed: &[K],
    there: &[K],
    ascending: bool,
    context: &str,
) {
    let in_order =
        followed.windows(2).all(|pair| if ascending { pair[0] < pair[1] } else { pair[0] > pair[1] });
    assert!(in_order, "{context}: out of order, or repeated");
    let missed: Vec<_> = there.iter().filter(|key| !followed.contains(key)).collect();
    assert!(missed.is_empty(), "{context}: missed {missed:?}");
}

fn events(store: &dyn Store, whose: FeedFilter, page: Page<EventKey>) -> Vec<EventKey> {
    let view = store.view(PARTITION).expect("opens");
    let found = view.events(whose, page, &|_| true).expect("reads");
    found.iter().map(|event| EventKey::from(event.id)).collect()
}

fn deliveries(store: &dyn Store, whose: FeedFilter, page: Page<DeliveryKey>) -> Vec<DeliveryKey> {
    let view = store.view(PARTITION).expect("opens");
    let found = view.deliveries(whose, page, &|_| true).expect("reads");
    found.iter().map(|delivery| DeliveryKey::from(delivery.id)).collect()
}

fn connected() -> Happening {
    Happening::Connected { address: None }
}

fn commands(store: &dyn Store, device: Option<DeviceSlot>, page: Page<CommandKey>) -> Vec<CommandKey> {
    let view = store.view(PARTITION).expect("opens");
    let found = view.commands(device, page, &|_, _| true).expect("reads");
    found.iter().map(|(command, _)| CommandKey::from(command.id)).collect()
}

fn timeline(store: &dyn Store, slot: DeviceSlot, page: Page<TimelineEntryKey>) -> Vec<TimelineEntryKey> {
    let view = store.view(PARTITION).expect("opens");
    let found = view.timeline(slot, page).expect("reads");
    found.iter().map(TimelineEntryKey::from).collect()
}

fn readings(store: &dyn Store, slot: DeviceSlot, page: Page<ReadingKey>) -> Vec<ReadingKey> {
    let view = store.view(PARTITION).expect("opens");
    let found = view.readings(slot, page).expect("reads");
    found.iter().map(|reading| ReadingKey { ts: reading.ts, number: reading.number }).collect()
}

fn reading_times(store: &dyn Store, slot: DeviceSlot, from: Timestamp, to: Timestamp) -> Vec<Timestamp> {
    let view = store.view(PARTITION).expect("opens");
    let mut times = Vec::new();
    view.reading_times(slot, from, to, &mut |ts| times.push(ts)).expect("reads");
    times.sort_unstable();
    times
}

fn first_page<K>(ascending: bool, limit: usize) -> Page<K> {
    Page { ascending, limit, ..all() }
}

/// Feeds in both directions, whole and filtered, with commits and whatever the store does by itself
/// between the pages.
pub fn pages_neither_miss_nor_repeat(make: Make<'_>) {
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let mut subject = make();
        let mut head = PartitionHead { now: Timestamp(START), ..PartitionHead::default() };
        let devices =
            (0..40).map(|n| Op::PutDevice(Box::new(device(&format!("D{n:02}"), n, &[1 + u64::from(n % 3)]))));
        put(&mut *subject, next(&mut head, devices.collect()));
        for _ in 0..15 {
            go_on(&mut *subject, &mut head, &mut random);
        }
        let slot = DeviceSlot(random.below(40) as u32);
        let client = Incarnation(1 + random.below(3));
        for ascending in [true, false] {
            // forwards the list would grow as fast as it is read; it ends once nothing is added
            let mut left = 12;
            let mut between = |subject: &mut dyn Subject| {
                if left > 0 {
                    left -= 1;
                    go_on(subject, &mut head, &mut random);
                } else {
                    subject.churn(1);
                }
            };
            let context = format!("seed {seed} ascending {ascending}");
            for (device, client) in
                [(None, None), (Some(slot), None), (None, Some(client)), (Some(slot), Some(client))]
            {
                let whose = FeedFilter { device, client };
                let there = events(subject.store(), whose, Page { limit: usize::MAX, ..all() });
                let page = first_page(ascending, 47);
                let found =
                    follow(&mut *subject, &mut between, page, |store, page| events(store, whose, page));
                assert_once_in_order(&found, &there, ascending, &context);
                let there = deliveries(subject.store(), whose, Page { limit: usize::MAX, ..all() });
                let page = first_page(ascending, 31);
                let found =
                    follow(&mut *subject, &mut between, page, |store, page| deliveries(store, whose, page));
                assert_once_in_order(&found, &there, ascending, &context);
            }
            for device in [None, Some(slot)] {
                let there = commands(subject.store(), device, Page { limit: usize::MAX, ..all() });
                let page = first_page(ascending, 37);
                let read = |store: &dyn Store, page| commands(store, device, page);
                let found = follow(&mut *subject, &mut between, page, read);
                assert_once_in_order(&found, &there, ascending, &context);
            }
            let there = timeline(subject.store(), slot, Page { limit: usize::MAX, ..all() });
            let page = first_page(ascending, 5);
            let found = follow(&mut *subject, &mut between, page, |store, page| timeline(store, slot, page));
            assert_once_in_order(&found, &there, ascending, &context);
            let there = readings(subject.store(), slot, Page { limit: usize::MAX, ..all() });
            let page = first_page(ascending, 5);
            let found = follow(&mut *subject, &mut between, page, |store, page| readings(store, slot, page));
            assert_once_in_order(&found, &there, ascending, &context);
        }
        devices_in_pages(&mut *subject, client);
    }
}

fn devices_in_pages(subject: &mut dyn Subject, client: Incarnation) {
    let mut all_devices = Vec::new();
    let mut of_client = Vec::new();
    loop {
        let view = subject.store().view(PARTITION).expect("opens");
        let page = view.devices(all_devices.last(), 7).expect("reads");
        let linked = view.devices_of(client, of_client.last(), 3).expect("reads");
        drop(view);
        if page.is_empty() && linked.is_empty() {
            break;
        }
        all_devices.extend(page.into_iter().map(|device| device.id));
        of_client.extend(linked.into_iter().map(|device| device.id));
        subject.churn(1);
    }
    let ids: Vec<_> = (0..40).map(|n| device(&format!("D{n:02}"), n, &[])).collect();
    assert!(all_devices.iter().eq(ids.iter().map(|device| &device.id)));
    let linked = ids.iter().filter(|device| u64::from(device.slot.0 % 3) + 1 == client.0);
    assert!(of_client.iter().eq(linked.map(|device| &device.id)));
}

/// `from` is inclusive and `to` is not; no page goes beyond, nor before what it follows.
pub fn pages_stay_within_their_times(make: Make<'_>) {
    let mut subject = make();
    let mut head = PartitionHead { now: Timestamp(START), ..PartitionHead::default() };
    for n in 1..=10 {
        let now = head.now.0 + 1_000;
        let ops = vec![sign(0, n, 1.0), Op::PutEvent(Box::new(event(0, now, n)))];
        put(&mut *subject, next(&mut head, ops));
        subject.churn(u64::from(n % 3));
    }
    let at = |n: i64| Timestamp(START + n * 1_000);
    for (from, to, after, ascending, expect) in [
        (3, 6, None, true, vec![3, 4, 5]),
        (3, 6, None, false, vec![5, 4, 3]),
        (3, 6, Some(4), true, vec![5]),
        (3, 6, Some(4), false, vec![3]),
        (3, 6, Some(1), true, vec![3, 4, 5]),
        (3, 6, Some(9), false, vec![5, 4, 3]),
        (3, 6, Some(9), true, vec![]),
        (3, 6, Some(1), false, vec![]),
        (6, 3, None, true, vec![]),
        (5, 5, None, true, vec![]),
    ] {
        let context = format!("{from}..{to} after {after:?} ascending {ascending}");
        let (from, to) = (at(from), at(to));
        let key = after.map(|n| EventKey { at: at(n), number: n as u32 });
        let page = Page { from, to, ascending, after: key, limit: 10 };
        let found = events(subject.store(), FeedFilter::default(), page);
        assert!(found.iter().map(|key| i64::from(key.number)).eq(expect.iter().copied()), "{context}");
        let found = events(subject.store(), FeedFilter { device: Some(DeviceSlot(0)), client: None }, page);
        assert!(found.iter().map(|key| i64::from(key.number)).eq(expect.iter().copied()), "{context}");
        let key = after.map(|n| ReadingKey { ts: at(n), number: n as u32 });
        let page = Page { from, to, ascending, after: key, limit: 10 };
        let found = readings(subject.store(), DeviceSlot(0), page);
        assert!(found.iter().map(|key| i64::from(key.number)).eq(expect.iter().copied()), "{context}");
        if after.is_none() {
            let mut expect: Vec<_> = expect.iter().map(|n| at(*n)).collect();
            expect.sort_unstable();
            assert_eq!(reading_times(subject.store(), DeviceSlot(0), from, to), expect, "{context}");
        }
    }
}
