//! Random traffic: the store must show what the model shows, whatever happens to it in between.

mod commands;
mod picks;
mod queues;
mod registry;
mod rollouts;
mod streams;

use base::random::Random;
use base::{ClientId, DeviceId, Incarnation, Kind, Lineage, PartitionId, Timestamp};
use records::{DeliveryKey, DeliveryStatus, DeviceSlot, EventKey, EventKind, JobId, QuarantineKey};

use super::traffic::{CLIENTS, Traffic};
use super::{Make, Subject, loaded, put};
use crate::memory::MemoryStore;
use crate::port::{CommitOutcome, FeedFilter, Page, ReadingKey, Store, View};

/// Traffic in partitions of every kind; restarts and whatever the store does by itself come at
/// random.
pub fn random_traffic_agrees_with_the_model(make: Make<'_>) {
    for seed in 0..6 {
        let mut subject = make();
        let model = MemoryStore::new(Lineage(1), 2);
        let [registry, campaigns] = [PartitionId::REGISTRY, PartitionId::CAMPAIGNS];
        let [queues, streams] = [PartitionId::of_queues(0), PartitionId::of_streams(1)];
        let partitions = [PartitionId(0), PartitionId(1), registry, queues, campaigns, streams];
        let mut traffic =
            partitions.map(|partition| Traffic::new(seed * 3 + u64::from(partition.0), partition));
        let mut random = Random::new(seed);
        for turn in 0..120 {
            let traffic = &mut traffic[random.below(6) as usize];
            let batch = traffic.next_batch(1 + random.below(60));
            model.commit(
                batch.clone(),
                Box::new(|outcome| assert!(matches!(outcome, CommitOutcome::Durable))),
            );
            put(&mut *subject, batch);
            match random.below(12) {
                0 => subject.restart(),
                1..=5 => subject.churn(random.below(4)),
                _ => {}
            }
            if turn % 6 == 0 {
                check(&*subject, &model, traffic, &mut random, seed);
            }
        }
        for traffic in &traffic {
            check(&*subject, &model, traffic, &mut random, seed);
        }
        assert_eq!(subject.store().recorded_now(), model.recorded_now(), "seed {seed}");
    }
}

fn check(subject: &dyn Subject, model: &MemoryStore, traffic: &Traffic, random: &mut Random, seed: u64) {
    let partition = traffic.partition();
    assert_eq!(loaded(subject.store(), partition), loaded(model, partition), "seed {seed}");
    agree(subject.store(), model, traffic, random, &format!("seed {seed} partition {partition}"));
}

/// Compares what two stores show of a partition: all of some lists, random pages of the others.
pub fn agree(store: &dyn Store, model: &dyn Store, traffic: &Traffic, random: &mut Random, context: &str) {
    let views = [store, model].map(|store| store.view(traffic.partition()).expect("opens"));
    let [view, model] = views.each_ref().map(|view| &**view);
    by_key(view, model, traffic, context);
    let clients = |view: &dyn View| read(view.clients(None, usize::MAX));
    assert_eq!(clients(view), clients(model), "{context}");
    for _ in 0..12 {
        pages(view, model, traffic, random, context);
    }
    commands::agree(view, model, traffic, random, context);
    queues::agree(view, model, traffic, random, context);
    registry::agree(view, model, traffic, random, context);
    rollouts::agree(view, model, traffic, random, context);
    picks::agree(view, model, traffic, random, context);
    streams::agree(view, model, traffic, random, context);
}

fn by_key(view: &dyn View, model: &dyn View, traffic: &Traffic, context: &str) {
    for id in Traffic::device_ids() {
        assert_eq!(read(view.device(&id)), read(model.device(&id)), "{context} {id}");
    }
    for slot in traffic.slots_about_devices() {
        assert_eq!(read(view.state(slot)), read(model.state(slot)), "{context} {slot:?}");
        assert_eq!(read(view.seen(slot)), read(model.seen(slot)), "{context} {slot:?}");
    }
    for key in traffic.deliveries() {
        assert_eq!(read(view.delivery(key)), read(model.delivery(key)), "{context} {key:?}");
        assert_eq!(read(view.attempts(key)), read(model.attempts(key)), "{context} {key:?}");
    }
    for key in traffic.quarantined() {
        assert_eq!(read(view.quarantined_one(key)), read(model.quarantined_one(key)), "{context} {key:?}");
    }
    for key in traffic.counts() {
        assert_eq!(read(view.counts(key)), read(model.counts(key)), "{context} {key:?}");
    }
    for gather in Traffic::gathers() {
        let of = |view: &dyn View| read(view.gathered_reports((gather, 0), 7));
        assert_eq!(of(view), of(model), "{context} {gather:?}");
    }
    for job in traffic.jobs().iter().copied().chain([JobId([0; 16])]) {
        assert_eq!(read(view.job_body(job)), read(model.job_body(job)), "{context} {job:?}");
    }
}

fn read<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

fn pages(view: &dyn View, model: &dyn View, traffic: &Traffic, random: &mut Random, context: &str) {
    let limit = random.below(40) as usize;
    let after = DeviceId::new(&format!("dev{}", random.below(60)));
    let after = after.as_ref().filter(|_| random.below(2) == 0);
    assert_eq!(read(view.devices(after, limit)), read(model.devices(after, limit)), "{context}");
    for client in (0..=CLIENTS).map(Incarnation) {
        let of = |view: &dyn View| read(view.devices_of(client, after, limit));
        assert_eq!(of(view), of(model), "{context} {client:?}");
    }
    for (key, value) in Traffic::some_labels() {
        let with = |view: &dyn View| read(view.devices_with((key, &value), after, limit));
        assert_eq!(with(view), with(model), "{context} {key} {value}");
    }
    for kind in ["lock", "face", "loc"].into_iter().filter_map(Kind::new) {
        let of = |view: &dyn View| read(view.devices_of_kind(&kind, after, limit));
        assert_eq!(of(view), of(model), "{context} {kind}");
    }
    let after = ClientId::new(&format!("client-{}", random.below(20)));
    let clients = |view: &dyn View| read(view.clients(after.as_ref(), limit));
    assert_eq!(clients(view), clients(model), "{context}");
    feeds(view, model, traffic, random, context);
}

fn feeds(view: &dyn View, model: &dyn View, traffic: &Traffic, random: &mut Random, context: &str) {
    let slot = DeviceSlot(random.below(u64::from(traffic.slots()) + 1) as u32);
    // What is older may be shown for a while, or as long as others that were received with it.
    let page =
        page(random, traffic, |ts, number| ReadingKey { ts, number }).kept_from(traffic.kept_from().readings);
    assert_eq!(
        read(view.readings(slot, page)),
        read(model.readings(slot, page)),
        "{context} {slot:?} {page:?}"
    );

    let times = |view: &dyn View| {
        let mut times = Vec::new();
        read(view.reading_times(slot, page.from, page.to, &mut |ts| times.push(ts)));
        times.sort_unstable();
        times
    };
    assert_eq!(times(view), times(model), "{context} {slot:?} {page:?}");

    let whose = FeedFilter {
        device: (random.below(2) == 0).then_some(slot),
        client: (random.below(2) == 0).then_some(Incarnation(random.below(CLIENTS + 1))),
    };
    let page = self::page(random, traffic, |at, number| EventKey { at, number });
    let all = random.below(2) == 0;
    let events =
        |view: &dyn View| read(view.events(whose, page, &|event| all || event.kind == EventKind::Lost));
    assert_eq!(events(view), events(model), "{context} {whose:?} {page:?}");
    let page = self::page(random, traffic, |at, number| DeliveryKey { at, number });
    let pending = |status| status == DeliveryStatus::Pending;
    let deliveries = |view: &dyn View| {
        read(view.deliveries(whose, page, &|delivery| all || pending(delivery.progress.status)))
    };
    assert_eq!(deliveries(view), deliveries(model), "{context} {whose:?} {page:?}");
    let page = self::page(random, traffic, |at, number| QuarantineKey { at, number });
    assert_eq!(read(view.quarantined(page)), read(model.quarantined(page)), "{context} {page:?}");
}

/// A page somewhere in the times of the traffic, or beyond.
fn page<K>(random: &mut Random, traffic: &Traffic, key: impl Fn(Timestamp, u32) -> K) -> Page<K> {
    let (start, end) = traffic.times();
    let some = |random: &mut Random| Timestamp(start.0 + random.below((end.0 - start.0 + 2) as u64) as i64);
    Page {
        from: if random.below(2) == 0 { Timestamp(i64::MIN) } else { some(random) },
        to: if random.below(2) == 0 { Timestamp::MAX } else { some(random) },
        ascending: random.below(2) == 0,
        after: (random.below(2) == 0).then(|| key(some(random), random.below(50) as u32)),
        limit: random.below(40) as usize,
    }
}
