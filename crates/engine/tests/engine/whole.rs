//! The engine as the edges hold it, over a store in memory in which the test decides when a batch
//! is durable.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use base::{
    ClientId, Clock, DeviceId, Incarnation, Lineage, PartitionId, SystemClock, Timestamp, Value, WayIn, hash,
};
use engine::queries::{DeliveryFilter, DeviceFilter, EventFilter};
use engine::{
    AttemptDue, AttemptEnd, AttemptOutcome, ClientPatch, Engine, EngineSettings, NewClient, NewDevice,
    OnlyIf, Page, Patch, PendingSlice, Report, ReportContent, SliceOutcome,
};
use futures_util::future::poll_immediate;
use records::{Connection, Delivery, DeliveryStatus};
use store::{MemoryStore, Planned};

use crate::queues::rig::{NOON, TestClock};

const PARTITIONS: u16 = 4;

pub(crate) fn settings() -> EngineSettings {
    EngineSettings {
        ways_configured: [true, true, false],
        allow_private: true,
        render: Arc::new(|picture| picture.sequence.to_string().into_bytes()),
        ..EngineSettings::for_tests()
    }
}

fn id(text: &str) -> DeviceId {
    DeviceId::new(text).expect("a device id")
}

fn report(device: &str, value: f64) -> Report {
    let value = Value::number(value).expect("finite");
    Report { device: id(device), kind: None, content: ReportContent::Value { value, ts: None }, id: None }
}

/// Lets other tasks run until `done`; a run that never gets there is ended by the test runner.
async fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        tokio::task::yield_now().await;
    }
}

fn newest_first<K>() -> Page<K> {
    Page { from: Timestamp(0), to: Timestamp::MAX, ascending: false, after: None, limit: 100 }
}

/// An engine over a store in memory.
struct Rig {
    store: Arc<MemoryStore>,
    engine: Engine,
}

impl Rig {
    /// Every batch is durable at once, if nothing else is planned.
    async fn start() -> Self {
        Self::over(MemoryStore::new(Lineage(1), PARTITIONS)).await
    }

    async fn over(store: MemoryStore) -> Self {
        Self::with(store, Arc::new(SystemClock::start(Timestamp(0)))).await
    }

    async fn with(store: MemoryStore, clock: Arc<dyn Clock>) -> Self {
        let store = Arc::new(store);
        let port = Arc::clone(&store) as Arc<dyn engine::Store>;
        Self { store, engine: Engine::start(settings(), port, clock).await.expect("loads") }
    }

    /// With a client, and a device 0xA that is linked to it and has reported 1.
    async fn linked() -> (Self, ClientId) {
        let rig = Self::start().await;
        let acme = rig.acme().await;
        rig.create_linked("0xA", &acme).await;
        rig.accept(vec![report("0xA", 1.0)]).await;
        (rig, acme)
    }

    async fn create(&self, device: &str) {
        let device = NewDevice { id: device.to_owned(), ..NewDevice::default() };
        self.engine.create_device(device).await.expect("registered");
    }

    /// Registers devices while the test has every batch written.
    async fn create_stepping(&self, devices: impl IntoIterator<Item = &String>) {
        for device in devices {
            let (engine, id) = (self.engine.clone(), device.clone());
            let device = NewDevice { id, ..NewDevice::default() };
            let making = tokio::spawn(async move { engine.create_device(device).await });
            until(|| self.store.step()).await;
            making.await.expect("no panic").expect("registered");
        }
    }

    async fn create_linked(&self, device: &str, client: &ClientId) {
        self.create(device).await;
        self.engine.link(id(device), client.clone()).await.expect("linked");
    }

    async fn acme(&self) -> ClientId {
        let client = NewClient {
            id: Some("acme".to_owned()),
            name: "Acme".to_owned(),
            url: "http://127.0.0.1:9/".to_owned(),
            secret: None,
            notices: false,
        };
        self.engine.create_client(client).await.expect("registered").id
    }

    fn client(&self, id: &ClientId) -> Arc<records::Client> {
        self.engine.directory().by_id(id).expect("there")
    }

    async fn submit(&self, reports: Vec<Report>) -> PendingSlice {
        self.engine.intake(WayIn::Http).submit(reports).await.expect("taken")
    }

    /// Hands in reports of which none is refused, and waits until they are durable.
    async fn accept(&self, reports: Vec<Report>) {
        let count = reports.len() as u32;
        let outcome = self.submit(reports).await.durable().await;
        assert_eq!(outcome, Ok(SliceOutcome { accepted: count, rejected: Vec::new() }));
    }

    async fn lease(&self, (partition, client): (PartitionId, Incarnation)) -> Vec<AttemptDue> {
        self.engine.exchange(partition, Vec::new(), vec![(client, 10)]).await.concat()
    }

    /// Waits until an attempt is due and leases it.
    async fn lease_next(&self) -> AttemptDue {
        self.lease(self.engine.due_lanes().take().await[0]).await.remove(0)
    }

    async fn end(&self, due: &AttemptDue, to: &records::Client, code: u16) {
        let answer = AttemptOutcome::Status { code, retry_after: None };
        self.engine.note_answer(to, answer).await.expect("accepting");
        let (at, took) = (self.engine.clock().now(), Duration::from_millis(3));
        let end = AttemptEnd { at, took, answer, detail: records::AttemptDetail::default() };
        self.engine.exchange(due.partition, vec![(due.reservation, end)], Vec::new()).await;
    }

    /// How the delivery of an attempt stands: its status, its number of attempts, and the status
    /// code of each of them that has ended.
    fn delivery(&self, due: &AttemptDue) -> (DeliveryStatus, u32, Vec<Option<u16>>) {
        let delivery = self.engine.queries().delivery(due.delivery).expect("readable");
        let (Delivery { progress, .. }, attempts) = delivery.expect("it is there");
        let codes = attempts.iter().map(|attempt| attempt.status_code).collect();
        (progress.status, progress.attempts, codes)
    }

    fn deliveries(&self, filter: &DeliveryFilter) -> Vec<Delivery> {
        let deliveries = self.engine.queries().deliveries(filter, newest_first()).expect("readable");
        deliveries.found.into_iter().map(|(_, delivery)| delivery).collect()
    }

    /// The sequence numbers of all events, newest first.
    fn events(&self) -> Vec<u64> {
        let events = self.engine.queries().events(&EventFilter::default(), newest_first());
        events.expect("readable").found.iter().map(|(_, event)| event.sequence).collect()
    }

    fn devices(&self, filter: &DeviceFilter, after: Option<&str>, limit: usize) -> Vec<String> {
        let after = after.map(id);
        let devices = self.engine.queries().devices(filter, after.as_ref(), limit).expect("readable").found;
        devices.into_iter().map(|device| device.profile.id.to_string()).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slice_is_acknowledged_only_when_every_part_is_durable() {
    let rig = Rig::over(MemoryStore::manual(Lineage(1), PARTITIONS)).await;
    let devices: Vec<String> = (0..40).map(|n| format!("d{n}")).collect();
    rig.create_stepping(&devices).await;
    let reports = devices.iter().map(|device| report(device, 1.0)).collect();
    let pending = rig.submit(reports).await;
    until(|| rig.store.waiting() == usize::from(PARTITIONS)).await;
    for _ in 1..PARTITIONS {
        assert!(rig.store.step());
        assert!(!pending.is_ready(), "acknowledged before it was durable");
    }
    assert!(rig.store.step());
    assert_eq!(pending.durable().await, Ok(SliceOutcome { accepted: 40, rejected: Vec::new() }));
}

#[tokio::test]
async fn a_feed_catches_up_with_what_was_answered() {
    // It stands: reports of two partitions are stamped alike.
    let clock = TestClock { now: AtomicI64::new(NOON), wall: AtomicI64::new(NOON) };
    let rig = Rig::with(MemoryStore::manual(Lineage(1), PARTITIONS), Arc::new(clock)).await;
    let devices = ["d1", "d2"].map(str::to_owned);
    assert_ne!(hash::device_partition(&id("d1"), PARTITIONS), hash::device_partition(&id("d2"), PARTITIONS));
    rig.create_stepping(&devices).await;
    let mut taken = Vec::new();
    for device in &devices {
        taken.push(rig.submit(vec![report(device, 1.0)]).await);
        until(|| rig.store.waiting() == taken.len()).await;
    }
    assert!(rig.store.step());
    assert!(taken.remove(0).durable().await.is_ok());
    assert!(rig.events().is_empty(), "what the other partition writes may be older");
    let page = newest_first::<()>();
    rig.engine.feed_caught_up(&Page { after: Some(()), ..page }).await;
    rig.engine.feed_caught_up(&Page { to: Timestamp(NOON), ..page }).await;
    let mut caught_up = pin!(rig.engine.feed_caught_up(&page));
    assert!(poll_immediate(&mut caught_up).await.is_none());
    assert!(rig.store.step());
    assert!(taken.remove(0).durable().await.is_ok());
    caught_up.await;
    assert_eq!(rig.events(), [1, 1]);
}

#[tokio::test]
async fn what_is_refused_is_told_by_its_place() {
    let rig = Rig::start().await;
    rig.create("0xA").await;
    let slice = vec![report("0xB", 1.0), report("0xA", 1.0), report("0xA", 7.0), report("0xC", 0.0)];
    let outcome = rig.submit(slice).await.durable().await.expect("durable");
    let rejected: Vec<_> = outcome.rejected.iter().map(|r| (r.index, r.problem.code)).collect();
    assert_eq!(rejected, [(0, "unknown_device"), (2, "value_not_allowed"), (3, "unknown_device")]);
    assert_eq!(outcome.accepted, 1);
}

#[tokio::test]
async fn a_batch_of_unknown_outcome_leaves_its_callers_without_an_answer_and_the_partition_running() {
    let rig = Rig::start().await;
    rig.create("0xA").await;
    let partition = hash::device_partition(&id("0xA"), PARTITIONS);
    for planned in [Planned::UnknownLost, Planned::Fenced, Planned::UnknownWritten] {
        rig.store.plan(partition, planned);
        let slice = vec![report("0xA", f64::from(u8::from(planned == Planned::UnknownWritten)))];
        assert!(rig.submit(slice).await.durable().await.is_err(), "{planned:?}");
    }
    let device = rig.engine.queries().device(&id("0xA")).expect("readable").expect("registered");
    assert_eq!(device.state.value, Value::number(1.0), "the written one counts, the others do not");
    rig.accept(vec![report("0xA", 0.0)]).await;
    assert_eq!(rig.events(), [2, 1]);
}

#[tokio::test]
async fn a_directory_change_of_unknown_outcome_is_as_the_store_has_it() {
    let rig = Rig::start().await;
    let acme = rig.acme().await;
    let rename = |name: &str| ClientPatch { name: Patch::Set(name.to_owned()), ..ClientPatch::default() };
    for (planned, name, expect) in [(Planned::UnknownLost, "B", "Acme"), (Planned::UnknownWritten, "C", "C")]
    {
        rig.store.plan(PartitionId::REGISTRY, planned);
        let refused = rig.engine.patch_client(acme.clone(), rename(name), OnlyIf::default()).await;
        assert_eq!(refused.expect_err("unknown").status, 503);
        assert_eq!(rig.client(&acme).name, expect);
    }
}

#[tokio::test]
async fn a_failed_store_refuses_everything_and_says_why() {
    let rig = Rig::over(MemoryStore::new(Lineage(1), 1)).await;
    rig.create("0xA").await;
    rig.store.plan(PartitionId(0), Planned::Failed);
    assert!(rig.submit(vec![report("0xA", 1.0)]).await.durable().await.is_err());
    assert!(rig.engine.failure().is_some());
    let refused = rig.engine.delete_device(id("0xA"), OnlyIf::default()).await.expect_err("refused");
    assert_eq!(refused.status, 503);
    rig.engine.stop().await;
}

#[tokio::test]
async fn stopping_finishes_what_was_taken_and_takes_no_more() {
    let rig = Rig::start().await;
    rig.create("0xA").await;
    let mut taken = Vec::new();
    for n in 0..50 {
        taken.push(rig.submit(vec![report("0xA", f64::from(n % 2))]).await);
    }
    rig.engine.stop().await;
    for pending in taken {
        assert_eq!(pending.durable().await.map(|outcome| outcome.accepted), Ok(1));
    }
    assert!(rig.engine.intake(WayIn::Http).submit(vec![report("0xA", 1.0)]).await.is_err());
    let readings = rig.engine.queries().readings(&id("0xA"), newest_first()).expect("readable");
    assert_eq!(readings.len(), 50);
}

#[tokio::test]
async fn the_end_of_an_attempt_is_recorded_once_though_its_batch_was_lost() {
    for (planned, times) in
        [(Planned::UnknownLost, 1), (Planned::Fenced, 1), (Planned::UnknownWritten, 1), (Planned::Fenced, 3)]
    {
        let (rig, acme) = Rig::linked().await;
        let due = rig.lease_next().await;
        (0..times).for_each(|_| rig.store.plan(due.partition, planned));
        rig.end(&due, &rig.client(&acme), 200).await;
        let expect = (DeliveryStatus::Delivered, 1, vec![Some(200)]);
        assert_eq!(rig.delivery(&due), expect, "{planned:?} {times} times");
        rig.engine.stop().await;
    }
}

#[tokio::test]
async fn ends_that_are_lost_again_and_again_are_given_up() {
    let (rig, acme) = Rig::linked().await;
    let due = rig.lease_next().await;
    (0..8).for_each(|_| rig.store.plan(due.partition, Planned::Fenced));
    rig.end(&due, &rig.client(&acme), 200).await;
    assert_eq!(rig.delivery(&due), (DeliveryStatus::Pending, 1, Vec::new()));
    rig.end(&due, &rig.client(&acme), 200).await;
    assert_eq!(rig.delivery(&due).0, DeliveryStatus::Delivered, "the partition goes on");
}

#[tokio::test]
async fn leases_of_many_clients_come_in_the_order_in_which_they_were_wanted() {
    let (rig, _acme) = Rig::linked().await;
    let (partition, client) = rig.engine.due_lanes().take().await[0];
    let mut wanted: Vec<_> = (0..150).map(|number| (Incarnation(1_000_000 + number), 1)).collect();
    wanted[100].0 = client;
    let leased = rig.engine.exchange(partition, Vec::new(), wanted).await;
    let counts: Vec<usize> = leased.iter().map(Vec::len).collect();
    let expect: Vec<usize> = (0..150).map(|place| usize::from(place == 100)).collect();
    assert_eq!(counts, expect);
}

#[tokio::test]
async fn a_change_is_leased_sent_and_remembered() {
    let (rig, acme) = Rig::linked().await;
    let lanes = rig.engine.due_lanes().take().await;
    let due = rig.lease(lanes[0]).await;
    assert_eq!((lanes.len(), due.len(), &*due[0].body), (1, 1, &b"1"[..]));
    let to = rig.client(&acme);
    let elsewhere = records::Client { url: format!("{}/old", to.url), ..(*to).clone() };
    rig.end(&due[0], &elsewhere, 410).await;
    assert!(rig.client(&acme).enabled, "another receiver is gone");
    rig.end(&rig.lease_next().await, &to, 410).await;
    assert!(!rig.client(&acme).enabled, "410 disables the client");
    rig.end(&rig.lease_next().await, &to, 204).await;
    assert!(rig.lease(lanes[0]).await.is_empty());
    let expect = (DeliveryStatus::Delivered, 3, vec![Some(410), Some(410), Some(204)]);
    assert_eq!(rig.delivery(&due[0]), expect);
    let pending = Some(DeliveryStatus::Pending);
    let filter = DeliveryFilter { client: Some(acme), status: pending, ..DeliveryFilter::default() };
    assert_eq!(rig.deliveries(&filter), []);
}

#[tokio::test]
async fn a_client_that_is_deleted_is_unlinked_everywhere() {
    let rig = Rig::start().await;
    let acme = rig.acme().await;
    for n in 0..20 {
        let device = format!("d{n}");
        rig.create_linked(&device, &acme).await;
        rig.accept(vec![report(&device, 1.0)]).await;
    }
    let queries = rig.engine.queries();
    assert_eq!(queries.devices_of(&acme, None, 100).expect("known").len(), 20);
    rig.engine.delete_client(acme.clone(), OnlyIf::default()).await.expect("deleted");
    assert_eq!(queries.devices_of(&acme, None, 100).expect_err("gone").code, "unknown_client");
    assert!(queries.clients_of(&id("d3")).expect("known").is_empty());
    let statuses = rig.deliveries(&DeliveryFilter::default()).into_iter();
    let statuses: Vec<_> = statuses.map(|delivery| delivery.progress.status).collect();
    assert_eq!(statuses, [DeliveryStatus::Cancelled; 20]);
}

#[tokio::test]
async fn lists_are_in_order_of_id_over_all_partitions() {
    let rig = Rig::start().await;
    for n in 0..30 {
        rig.create(&format!("d{n:02}")).await;
    }
    rig.accept(vec![report("d07", 1.0), report("d11", 0.0)]).await;
    assert_eq!(rig.devices(&DeviceFilter::default(), Some("d04"), 3), ["d05", "d06", "d07"]);
    let online = DeviceFilter { connection: Some(Connection::Online), ..DeviceFilter::default() };
    assert_eq!(rig.devices(&online, None, 10), ["d07", "d11"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_shows_nothing_younger_than_what_is_being_written() {
    let rig = Rig::over(MemoryStore::manual(Lineage(1), 2)).await;
    let (store, clock) = (&rig.store, rig.engine.clock());
    let on = |partition| {
        (0..).map(|n| format!("d{n}")).find(|d| hash::device_partition(&id(d), 2) == PartitionId(partition))
    };
    let (early, late) = (on(0).expect("one"), on(1).expect("one"));
    rig.create_stepping([&early, &late]).await;
    let held = rig.submit(vec![report(&early, 1.0)]).await;
    until(|| store.waiting() == 1).await;
    let stamped = clock.now();
    until(|| clock.now() > stamped).await;
    let second = rig.submit(vec![report(&late, 1.0)]).await;
    until(|| store.waiting() == 2).await;
    assert_eq!(rig.events().len(), 0);
    assert!(store.step() && store.step());
    held.durable().await.expect("durable");
    second.durable().await.expect("durable");
    let now = clock.now();
    until(|| clock.now() > now).await;
    assert_eq!(rig.events().len(), 2);
}
