//! The engine as the edges hold it, over a store in memory in which the test decides when a batch
//! is durable.

use std::sync::Arc;
use std::time::Duration;

use base::{
    ClientId, DeviceId, Incarnation, Lineage, PartitionId, SystemClock, Timestamp, Value, WayIn, hash,
};
use engine::queries::{DeliveryFilter, DeviceFilter, EventFilter};
use engine::settings::{Retry, Settings, UnknownDevice};
use engine::{
    Answer, AttemptDue, AttemptEnd, ClientPatch, Engine, NewClient, NewDevice, OnlyIf, Outcome, Page, Patch,
    Pending, Report, Said,
};
use records::{Connection, DeliveryStatus};
use store::{MemoryStore, Planned};

const PARTITIONS: u16 = 4;

pub(crate) fn settings() -> Settings {
    Settings {
        device_ids: base::DeviceIdForm::DEFAULT,
        unknown: UnknownDevice::Reject,
        report_interval: Duration::from_secs(3_600),
        loss_grace: Duration::ZERO,
        restart_grace: Duration::ZERO,
        ways_configured: [true, true, false],
        retry: Retry { base: Duration::from_secs(30), max: Duration::from_secs(3_600), attempts_max: 10 },
        attempt_timeout: Duration::from_secs(10),
        stale_probe: Duration::from_secs(3_600),
        keep: engine::settings::Keep::default(),
        jobs_resident_max: 65_536,
        commands: engine::CommandSettings::default(),
        allow_private: true,
        render: Arc::new(|picture| picture.sequence.to_string().into_bytes()),
    }
}

async fn start(store: &Arc<MemoryStore>) -> Engine {
    let clock = Arc::new(SystemClock::start(Timestamp(0)));
    Engine::start(settings(), Arc::clone(store) as Arc<dyn engine::Store>, clock).await.expect("loads")
}

fn id(text: &str) -> DeviceId {
    DeviceId::new(text).expect("a device id")
}

fn report(device: &str, value: f64) -> Report {
    let value = Value::number(value).expect("finite");
    Report { device: id(device), kind: None, said: Said::Value { value, ts: None }, id: None }
}

async fn create(engine: &Engine, device: &str) {
    let device = NewDevice { id: device.to_owned(), ..NewDevice::default() };
    engine.create_device(device).await.expect("registered");
}

async fn submit(engine: &Engine, reports: Vec<Report>) -> Pending {
    engine.intake(WayIn::Http).submit(reports).await.expect("taken")
}

async fn acme(engine: &Engine) -> ClientId {
    let client = NewClient {
        id: Some("acme".to_owned()),
        name: "Acme".to_owned(),
        url: "http://127.0.0.1:9/".to_owned(),
        secret: None,
    };
    engine.create_client(client).await.expect("registered").id
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slice_is_acknowledged_only_when_every_part_is_durable() {
    let store = Arc::new(MemoryStore::manual(Lineage(1), PARTITIONS));
    let engine = start(&store).await;
    let devices: Vec<String> = (0..40).map(|n| format!("d{n}")).collect();
    for device in &devices {
        let making = tokio::spawn({
            let (engine, device) = (engine.clone(), device.clone());
            async move { create(&engine, &device).await }
        });
        until(|| store.step()).await;
        making.await.expect("registered");
    }
    let reports = devices.iter().map(|device| report(device, 1.0)).collect();
    let pending = submit(&engine, reports).await;
    until(|| store.waiting() == usize::from(PARTITIONS)).await;
    for _ in 1..PARTITIONS {
        assert!(store.step());
        assert!(!pending.is_ready(), "acknowledged before it was durable");
    }
    assert!(store.step());
    assert_eq!(pending.durable().await, Ok(Outcome { accepted: 40, rejected: Vec::new() }));
}

#[tokio::test]
async fn what_is_refused_is_told_by_its_place() {
    let engine = start(&Arc::new(MemoryStore::new(Lineage(1), PARTITIONS))).await;
    create(&engine, "0xA").await;
    let slice = vec![report("0xB", 1.0), report("0xA", 1.0), report("0xA", 7.0), report("0xC", 0.0)];
    let outcome = submit(&engine, slice).await.durable().await.expect("durable");
    let rejected: Vec<_> = outcome.rejected.iter().map(|r| (r.index, r.problem.code)).collect();
    assert_eq!(rejected, [(0, "unknown_device"), (2, "value_not_allowed"), (3, "unknown_device")]);
    assert_eq!(outcome.accepted, 1);
}

#[tokio::test]
async fn a_batch_of_unknown_outcome_leaves_its_callers_without_an_answer_and_the_partition_running() {
    let store = Arc::new(MemoryStore::new(Lineage(1), PARTITIONS));
    let engine = start(&store).await;
    create(&engine, "0xA").await;
    let partition = hash::device_partition(&id("0xA"), PARTITIONS);
    for planned in [Planned::UnknownLost, Planned::Fenced, Planned::UnknownWritten] {
        store.plan(partition, planned);
        let slice = vec![report("0xA", f64::from(u8::from(planned == Planned::UnknownWritten)))];
        assert!(submit(&engine, slice).await.durable().await.is_err(), "{planned:?}");
    }
    let device = engine.queries().device(&id("0xA")).expect("readable").expect("registered");
    assert_eq!(device.state.value, Value::number(1.0), "the written one counts, the others do not");
    let outcome = submit(&engine, vec![report("0xA", 0.0)]).await.durable().await.expect("running");
    assert_eq!(outcome.accepted, 1);
    let events = engine.queries().events(&EventFilter::default(), newest_first()).expect("readable");
    assert_eq!(events.iter().map(|(_, event)| event.sequence).collect::<Vec<_>>(), [2, 1]);
}

#[tokio::test]
async fn a_directory_change_of_unknown_outcome_is_as_the_store_has_it() {
    let store = Arc::new(MemoryStore::new(Lineage(1), PARTITIONS));
    let engine = start(&store).await;
    let acme = acme(&engine).await;
    let rename = |name: &str| ClientPatch { name: Patch::Set(name.to_owned()), ..ClientPatch::default() };
    for (planned, name, expect) in [(Planned::UnknownLost, "B", "Acme"), (Planned::UnknownWritten, "C", "C")]
    {
        store.plan(PartitionId::REGISTRY, planned);
        let refused =
            engine.patch_client(acme.clone(), rename(name), OnlyIf::default()).await.expect_err("unknown");
        assert_eq!(refused.status, 503);
        let client = engine.directory().by_id(&acme).expect("there");
        assert_eq!(client.name, expect);
    }
}

#[tokio::test]
async fn a_failed_store_refuses_everything_and_says_why() {
    let store = Arc::new(MemoryStore::new(Lineage(1), 1));
    let engine = start(&store).await;
    create(&engine, "0xA").await;
    store.plan(PartitionId(0), Planned::Failed);
    assert!(submit(&engine, vec![report("0xA", 1.0)]).await.durable().await.is_err());
    assert!(engine.failure().is_some());
    let refused = engine.delete_device(id("0xA"), OnlyIf::default()).await.expect_err("refused");
    assert_eq!(refused.status, 503);
    engine.stop().await;
}

#[tokio::test]
async fn stopping_finishes_what_was_taken_and_takes_no_more() {
    let store = Arc::new(MemoryStore::new(Lineage(1), PARTITIONS));
    let engine = start(&store).await;
    create(&engine, "0xA").await;
    let mut taken = Vec::new();
    for n in 0..50 {
        taken.push(submit(&engine, vec![report("0xA", f64::from(n % 2))]).await);
    }
    engine.stop().await;
    for pending in taken {
        assert_eq!(pending.durable().await.map(|outcome| outcome.accepted), Ok(1));
    }
    assert!(engine.intake(WayIn::Http).submit(vec![report("0xA", 1.0)]).await.is_err());
    let readings = engine.queries().readings(&id("0xA"), newest_first()).expect("readable");
    assert_eq!(readings.len(), 50);
}

async fn lease(engine: &Engine, partition: PartitionId, client: Incarnation) -> Vec<AttemptDue> {
    engine.exchange(partition, Vec::new(), vec![(client, 10)]).await.concat()
}

async fn end(engine: &Engine, due: &AttemptDue, to: &records::Client, code: u16) {
    let answer = Answer::Status { code, retry_after: None };
    engine.note_answer(to, answer).await.expect("accepting");
    let end = AttemptEnd { at: engine.clock().now(), took: Duration::from_millis(3), answer };
    engine.exchange(due.partition, vec![(due.reservation, end)], Vec::new()).await;
}

#[tokio::test]
async fn the_end_of_an_attempt_is_recorded_once_though_its_batch_was_lost() {
    for (planned, times) in
        [(Planned::UnknownLost, 1), (Planned::Fenced, 1), (Planned::UnknownWritten, 1), (Planned::Fenced, 3)]
    {
        let store = Arc::new(MemoryStore::new(Lineage(1), PARTITIONS));
        let engine = start(&store).await;
        let acme = acme(&engine).await;
        create(&engine, "0xA").await;
        engine.link(id("0xA"), acme.clone()).await.expect("linked");
        submit(&engine, vec![report("0xA", 1.0)]).await.durable().await.expect("durable");
        let (partition, client) = engine.due_lanes().take().await[0];
        let due = lease(&engine, partition, client).await.remove(0);
        (0..times).for_each(|_| store.plan(partition, planned));
        let to = engine.directory().by_id(&acme).expect("there");
        end(&engine, &due, &to, 200).await;
        let (delivery, attempts) =
            engine.queries().delivery(due.delivery).expect("readable").expect("it is there");
        assert_eq!(delivery.progress.status, DeliveryStatus::Delivered, "{planned:?} {times} times");
        assert_eq!(attempts.len(), 1, "{planned:?} {times} times");
        engine.stop().await;
    }
}

#[tokio::test]
async fn ends_that_are_lost_again_and_again_are_given_up() {
    let store = Arc::new(MemoryStore::new(Lineage(1), PARTITIONS));
    let engine = start(&store).await;
    let acme = acme(&engine).await;
    create(&engine, "0xA").await;
    engine.link(id("0xA"), acme.clone()).await.expect("linked");
    submit(&engine, vec![report("0xA", 1.0)]).await.durable().await.expect("durable");
    let (partition, client) = engine.due_lanes().take().await[0];
    let due = lease(&engine, partition, client).await.remove(0);
    (0..8).for_each(|_| store.plan(partition, Planned::Fenced));
    let to = engine.directory().by_id(&acme).expect("there");
    end(&engine, &due, &to, 200).await;
    let (delivery, attempts) = engine.queries().delivery(due.delivery).expect("readable").expect("there");
    assert_eq!((delivery.progress.status, attempts.len()), (DeliveryStatus::Pending, 0));
    end(&engine, &due, &to, 200).await;
    let (delivery, _) = engine.queries().delivery(due.delivery).expect("readable").expect("there");
    assert_eq!(delivery.progress.status, DeliveryStatus::Delivered, "the partition goes on");
}

#[tokio::test]
async fn a_change_is_leased_sent_and_remembered() {
    let store = Arc::new(MemoryStore::new(Lineage(1), PARTITIONS));
    let engine = start(&store).await;
    let acme = acme(&engine).await;
    create(&engine, "0xA").await;
    engine.link(id("0xA"), acme.clone()).await.expect("linked");
    submit(&engine, vec![report("0xA", 1.0)]).await.durable().await.expect("durable");
    let lanes = engine.due_lanes().take().await;
    let (partition, client) = lanes[0];
    let due = lease(&engine, partition, client).await;
    assert_eq!((lanes.len(), due.len(), &*due[0].body), (1, 1, &b"1"[..]));
    let to = engine.directory().by_id(&acme).expect("there");
    let elsewhere = records::Client { url: format!("{}/old", to.url), ..(*to).clone() };
    end(&engine, &due[0], &elsewhere, 410).await;
    assert!(engine.directory().by_id(&acme).expect("there").enabled, "another receiver is gone");
    engine.due_lanes().take().await;
    let due = lease(&engine, partition, client).await;
    end(&engine, &due[0], &to, 410).await;
    assert!(!engine.directory().by_id(&acme).expect("there").enabled, "410 disables the client");
    engine.due_lanes().take().await;
    let due = lease(&engine, partition, client).await;
    end(&engine, &due[0], &to, 204).await;
    assert!(lease(&engine, partition, client).await.is_empty());
    let (delivery, attempts) = engine.queries().delivery(due[0].delivery).expect("readable").expect("there");
    assert_eq!((delivery.progress.status, delivery.progress.attempts), (DeliveryStatus::Delivered, 3));
    assert_eq!(
        attempts.iter().map(|attempt| attempt.status_code).collect::<Vec<_>>(),
        [Some(410), Some(410), Some(204)]
    );
    let filter =
        DeliveryFilter { client: Some(acme), status: Some(DeliveryStatus::Pending), ..Default::default() };
    assert!(engine.queries().deliveries(&filter, newest_first()).expect("readable").is_empty());
}

#[tokio::test]
async fn a_client_that_is_deleted_is_unlinked_everywhere() {
    let store = Arc::new(MemoryStore::new(Lineage(1), PARTITIONS));
    let engine = start(&store).await;
    let acme = acme(&engine).await;
    for n in 0..20 {
        let device = format!("d{n}");
        create(&engine, &device).await;
        engine.link(id(&device), acme.clone()).await.expect("linked");
        submit(&engine, vec![report(&device, 1.0)]).await.durable().await.expect("durable");
    }
    assert_eq!(engine.queries().devices_of(&acme, None, 100).expect("known").len(), 20);
    engine.delete_client(acme.clone(), OnlyIf::default()).await.expect("deleted");
    assert_eq!(engine.queries().devices_of(&acme, None, 100).expect_err("gone").code, "unknown_client");
    let clients = engine.queries().clients_of(&id("d3")).expect("known");
    assert!(clients.is_empty());
    let deliveries =
        engine.queries().deliveries(&DeliveryFilter::default(), newest_first()).expect("readable");
    assert_eq!(deliveries.len(), 20);
    assert!(deliveries.iter().all(|(_, delivery)| delivery.progress.status == DeliveryStatus::Cancelled));
}

#[tokio::test]
async fn lists_are_in_order_of_id_over_all_partitions() {
    let engine = start(&Arc::new(MemoryStore::new(Lineage(1), PARTITIONS))).await;
    for n in 0..30 {
        create(&engine, &format!("d{n:02}")).await;
    }
    submit(&engine, vec![report("d07", 1.0), report("d11", 0.0)]).await.durable().await.expect("durable");
    let names = |devices: Vec<engine::queries::Device>| {
        devices.into_iter().map(|device| device.profile.id.to_string()).collect::<Vec<_>>()
    };
    let all = DeviceFilter::default();
    let page = names(engine.queries().devices(&all, Some(&id("d04")), 3).expect("readable"));
    assert_eq!(page, ["d05", "d06", "d07"]);
    let online = DeviceFilter { connection: Some(Connection::Online), ..DeviceFilter::default() };
    assert_eq!(names(engine.queries().devices(&online, None, 10).expect("readable")), ["d07", "d11"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_shows_nothing_younger_than_what_is_being_written() {
    let store = Arc::new(MemoryStore::manual(Lineage(1), 2));
    let engine = start(&store).await;
    let on = |partition| {
        (0..).map(|n| format!("d{n}")).find(|d| hash::device_partition(&id(d), 2) == PartitionId(partition))
    };
    let (early, late) = (on(0).expect("one"), on(1).expect("one"));
    for device in [&early, &late] {
        let making = tokio::spawn({
            let (engine, device) = (engine.clone(), device.clone());
            async move { create(&engine, &device).await }
        });
        until(|| store.step()).await;
        making.await.expect("registered");
    }
    let held = submit(&engine, vec![report(&early, 1.0)]).await;
    until(|| store.waiting() == 1).await;
    let stamped = engine.clock().now();
    until(|| engine.clock().now() > stamped).await;
    let second = submit(&engine, vec![report(&late, 1.0)]).await;
    until(|| store.waiting() == 2).await;
    let seen = || engine.queries().events(&EventFilter::default(), newest_first()).expect("readable").len();
    assert_eq!(seen(), 0);
    assert!(store.step() && store.step());
    held.durable().await.expect("durable");
    second.durable().await.expect("durable");
    let now = engine.clock().now();
    until(|| engine.clock().now() > now).await;
    assert_eq!(seen(), 2);
}
