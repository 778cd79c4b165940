//! A list that filters behind its index, as a stream reads it.

use std::sync::Arc;

use access::Access;
use base::{EntityId, Lineage, SystemClock};
use engine::Engine;
use engine::queries::FeedKey;
use engine::records::{DeviceSlot, Event, EventKey, EventKind};
use net::memory_budget::MemoryBudget;
use net::shares::SenderKey;
use store::MemoryStore;

use super::*;
use crate::ApiState;
use crate::list::PageOfList;
use crate::shape::EventShape;

/// Rows that one look looks at.
const LOOKED_AT: u32 = 100;

/// Numbers from 1 on, of which every so-manieth is meant.
#[derive(Clone, Copy)]
struct Sparse {
    rows: u32,
    every: u32,
    is_ascending: bool,
}

fn key(number: u32) -> FeedKey<EventKey> {
    FeedKey { key: EventKey { at: Timestamp(0), number }, partition: base::PartitionId(0) }
}

impl List for Sparse {
    type Key = FeedKey<EventKey>;
    type Found = (FeedKey<EventKey>, Event);
    type Shown<'a> = EventShape;

    fn look(&self, after: Option<&Self::Key>, limit: usize, _cost_max: usize) -> PageOfList<Self> {
        let behind: Vec<u32> = match (self.is_ascending, after.map(|key| key.key.number)) {
            (true, after) => (after.unwrap_or(0) + 1..=self.rows).collect(),
            (false, after) => (1..after.unwrap_or(self.rows + 1)).rev().collect(),
        };
        let looked_at: Vec<u32> = behind.iter().copied().take(LOOKED_AT as usize).collect();
        let meant = looked_at.iter().filter(|number| **number % self.every == 0);
        let found: Vec<_> = meant.take(limit).map(|number| (key(*number), event(*number))).collect();
        let is_short = found.len() < limit && looked_at.len() < behind.len();
        let next = looked_at.last().filter(|_| is_short).map(|last| key(*last));
        let cost = looked_at.len();
        Ok(BoundedPage { found, next, looked_at: Some(cost as u64), cost })
    }

    fn key((key, _): &Self::Found) -> Self::Key {
        *key
    }

    fn show((_, event): &Self::Found) -> EventShape {
        event.into()
    }
}

fn event(number: u32) -> Event {
    Event {
        id: EntityId { routing: 0, at: Timestamp(0), number, tag: 0 },
        slot: DeviceSlot(1),
        device: DeviceId::new("d1").expect("an id"),
        kind: EventKind::Changed,
        sequence: number.into(),
        value: None,
        previous: None,
    }
}

fn sparse(rows: u32, every: u32) -> Arc<dyn FeedSource> {
    Arc::new(ListSource::new(move |feed: FeedQuery| Sparse {
        rows,
        every,
        is_ascending: feed.order == TimeOrder::Ascending,
    }))
}

fn stream(source: Arc<dyn FeedSource>, sent: Option<u32>) -> FeedState {
    let feed =
        FeedIdentity { topic: LiveTopic::Events, device: None, client: None, sees: Visibility::Everything };
    let position = sent.map(|sent| {
        let place = place_of::<Sparse>(Some(key(sent))).expect("a place");
        FeedPosition { place, looked_until: Timestamp(i64::MIN) }
    });
    FeedState::new(source, feed, 2, position)
}

async fn api() -> ApiState {
    let (store, clock) = (MemoryStore::new(Lineage(1), 2), SystemClock::start(Timestamp(0)));
    let settings = engine::EngineSettings::for_tests();
    let engine = Engine::start(settings, Arc::new(store), Arc::new(clock)).await.expect("it loads");
    ApiState::new(engine, Access::of(Vec::new()), &MemoryBudget::default(), Arc::default())
}

fn at(api: &ApiState, tick: u64) -> LiveLook<'_> {
    LiveLook { api, tick, whose: &SenderKey::Unknown }
}

#[tokio::test]
async fn rows_behind_many_that_are_not_meant_come_too() {
    let api = api().await;
    // 250 and 500 are meant; a look ends at 100, 200, ..
    let mut stream = stream(sparse(500, 250), Some(1));
    let (mut items, mut looks) = (0, 0);
    loop {
        looks += 1;
        let update = stream.look(&at(&api, looks)).await.expect("readable");
        assert!(!update.first && !update.behind, "{update:?}");
        items += update.count;
        if update.more {
            // What is behind is looked through again, from its own time on.
            assert_eq!(stream.position.as_ref().map(|at| at.looked_until), Some(Timestamp(i64::MIN)));
        } else {
            break;
        }
    }
    assert_eq!((items, looks), (2, 5));
    assert_ne!(stream.position.expect("a place").looked_until, Timestamp(i64::MIN));
}

#[tokio::test]
async fn a_stream_that_looks_in_vain_for_long_says_that_it_is_behind() {
    let api = api().await;
    let mut stream = stream(sparse(100_000, 50_000), Some(1));
    for look in 1..=u64::from(FULL_MAX) {
        let update = stream.look(&at(&api, look)).await.expect("readable");
        assert_eq!((update.count, update.more, update.behind), (0, true, false));
    }
    let update = stream.look(&at(&api, 100)).await.expect("readable");
    assert_eq!((update.first, update.behind), (true, true));
}

#[test]
fn the_newest_are_looked_for_a_few_times() {
    for (rows, every, expect) in [(400, 1, 2), (400, 150, 2), (400, 399, 1), (400, 450, 0), (1_000, 550, 0)] {
        let page = sparse(rows, every).newest(2).expect("readable");
        assert_eq!((page.count, page.more), (expect, false), "{rows} rows, every {every}");
        assert!(page.place.is_some(), "what comes next is behind it");
    }
}
