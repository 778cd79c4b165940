//! The whole way from a report to a receiver, over an engine that keeps everything in memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use base::id::DELIVERY_ID_PREFIX;
use base::{
    ClientId, DeviceId, EntityId, Incarnation, Lineage, PartitionId, SystemClock, Timestamp, Value, WayIn,
};
use bytes::Bytes;
use engine::notices::{NoticeLease, NoticeSettings};
use engine::records::{Attempt, Delivery, DeliveryStatus};
use engine::settings::RetrySettings;
use engine::{AttemptOutcome, ClientPatch, NewClient, NewDevice, Patch, Report, ReportContent};
use http_body_util::Full;
use hyper::{Request, StatusCode};
use standardwebhooks::Webhook;
use store::MemoryStore;
use tokio::task::JoinHandle;

use super::*;
use crate::breaker;
use crate::receiver::{self, TestReceiver};

const SECRET: &[u8] = b"0123456789abcdef01234567";
const TIMEOUT: Duration = Duration::from_secs(30);
const PER_CLIENT: usize = 3;
const BREAKER_PAUSE: Duration = Duration::from_millis(100);

/// An engine with one client, and the sender at work.
struct Running {
    engine: Engine,
    stop: watch::Sender<bool>,
    sender: JoinHandle<()>,
}

impl Running {
    async fn start(url: &str) -> Self {
        let engine = Engine::start(
            settings(),
            Arc::new(MemoryStore::new(Lineage(1), 4)),
            Arc::new(SystemClock::start(Timestamp(0))),
        );
        let engine = engine.await.expect("an empty store loads");
        engine.create_client(acme_at(url)).await.expect("registered");
        let (stop, stopped) = watch::channel(false);
        let sender =
            tokio::spawn(Webhooks::new(engine.clone(), sending(), WebhookMetrics::new()).run(stopped));
        Self { engine, stop, sender }
    }

    async fn lock(&self, id: &str) -> DeviceId {
        linked_lock(&self.engine, id).await
    }

    async fn report(&self, device: &DeviceId, value: f64) {
        report(&self.engine, device, value).await;
    }

    async fn enable(&self, enabled: bool) {
        let patch = ClientPatch { enabled: Patch::Set(enabled), ..ClientPatch::default() };
        self.engine.patch_client(acme(), patch, engine::OnlyIf::default()).await.expect("changed");
    }

    /// Stops the sender, then the engine, so that all that was told is written.
    async fn stop(self) -> Engine {
        self.stop.send_replace(true);
        self.sender.await.expect("the sender ends by itself");
        self.engine.stop().await;
        self.engine
    }
}

fn acme_at(url: &str) -> NewClient {
    NewClient {
        id: Some("acme".to_owned()),
        name: "Acme".to_owned(),
        url: url.to_owned(),
        secret: Some(SECRET.to_vec()),
        notices: false,
    }
}

/// Registers a lock that is linked to the client.
async fn linked_lock(engine: &Engine, id: &str) -> DeviceId {
    engine.create_device(NewDevice { id: id.to_owned(), ..NewDevice::default() }).await.expect("registered");
    let id = DeviceId::new(id).expect("an id");
    engine.link(id.clone(), acme()).await.expect("linked");
    id
}

async fn report(engine: &Engine, device: &DeviceId, value: f64) {
    let value = Value::number(value).expect("finite");
    let report = Report {
        device: device.clone(),
        kind: None,
        content: ReportContent::Value { value, ts: None },
        id: None,
    };
    let pending = engine.intake(WayIn::Http).submit(vec![report]).await.expect("accepting");
    let outcome = pending.durable().await.expect("durable");
    assert_eq!(outcome.accepted, 1, "{outcome:?}");
}

fn settings() -> engine::EngineSettings {
    engine::EngineSettings {
        ways_configured: [true; 3],
        retry: RetrySettings {
            base: Duration::from_millis(5),
            max: Duration::from_millis(20),
            attempts_max: 10,
        },
        attempt_timeout: TIMEOUT,
        allow_private: true,
        render: Arc::new(crate::render),
        ..engine::EngineSettings::for_tests()
    }
}

fn acme() -> ClientId {
    ClientId::new("acme").expect("an id")
}

/// Answers with these statuses in turn, then with the last of them.
fn answering(statuses: &'static [u16]) -> impl Fn() -> receiver::Answer + Send + Sync {
    let answered = std::sync::atomic::AtomicUsize::new(0);
    move || {
        let at = answered.fetch_add(1, std::sync::atomic::Ordering::SeqCst).min(statuses.len() - 1);
        let mut answer = receiver::Answer::new(Full::default());
        *answer.status_mut() = StatusCode::from_u16(statuses[at]).expect("a status");
        answer
    }
}

fn id_of(request: &Request<Bytes>) -> EntityId {
    let text = request.headers()["webhook-id"].to_str().expect("text");
    EntityId::from_text(DELIVERY_ID_PREFIX, text).expect("an id")
}

fn shown(engine: &Engine, request: &Request<Bytes>) -> (Delivery, Vec<Attempt>) {
    engine.queries().delivery(id_of(request)).expect("readable").expect("there")
}

fn data(request: &Request<Bytes>) -> serde_json::Value {
    serde_json::from_slice::<serde_json::Value>(request.body()).expect("JSON")["data"].clone()
}

fn sending() -> WebhookSettings {
    WebhookSettings {
        timeout: TIMEOUT,
        per_client_in_flight: PER_CLIENT,
        in_flight: IN_FLIGHT_MAX,
        breaker_pause: BREAKER_PAUSE,
        allow_private: true,
    }
}

#[tokio::test]
async fn a_change_reaches_the_linked_client_and_is_delivered() {
    let mut receiver = TestReceiver::start(answering(&[204])).await;
    let running = Running::start(&receiver.url()).await;
    let lock = running.lock("0xA").await;
    running.report(&lock, 1.0).await;

    let request = receiver.request().await;
    Webhook::from_bytes(SECRET.to_vec())
        .expect("a secret")
        .verify(request.body(), request.headers())
        .expect("a good signature");
    let data = data(&request);
    assert_eq!(
        (&data["device_id"], &data["value"], &data["sequence"]),
        (&"0xA".into(), &1.into(), &1.into())
    );
    let (delivery, attempts) = shown(&running.stop().await, &request);
    assert_eq!(delivery.progress.status, DeliveryStatus::Delivered);
    assert_eq!(attempts.iter().map(|attempt| attempt.status_code).collect::<Vec<_>>(), [Some(204)]);
}

#[tokio::test]
async fn a_failed_attempt_is_repeated_with_the_same_id_and_body() {
    let mut receiver = TestReceiver::start(answering(&[500, 302, 200])).await;
    let running = Running::start(&receiver.url()).await;
    let lock = running.lock("0xA").await;
    running.report(&lock, 1.0).await;

    let first = receiver.request().await;
    for _ in 0..2 {
        let again = receiver.request().await;
        assert_eq!((id_of(&again), again.body()), (id_of(&first), first.body()));
    }
    let (delivery, attempts) = shown(&running.stop().await, &first);
    assert_eq!(delivery.progress.status, DeliveryStatus::Delivered);
    let codes: Vec<_> = attempts.iter().filter_map(|attempt| attempt.status_code).collect();
    assert_eq!(codes, [500, 302, 200]);
}

#[tokio::test]
async fn no_more_than_its_limit_is_in_flight_for_a_client() {
    let mut receiver = TestReceiver::start_closed(answering(&[200])).await;
    let running = Running::start(&receiver.url()).await;
    for n in 0..20 {
        let lock = running.lock(&format!("lock{n}")).await;
        running.report(&lock, 1.0).await;
    }
    let mut seen = std::collections::HashSet::new();
    for _ in 0..PER_CLIENT {
        seen.insert(id_of(&receiver.request().await));
    }
    for _ in PER_CLIENT..20 {
        assert!(receiver.requests.try_recv().is_err(), "nothing more before one is answered");
        receiver.gate.add_permits(1);
        seen.insert(id_of(&receiver.request().await));
    }
    assert_eq!(seen.len(), 20);
    receiver.gate.add_permits(PER_CLIENT);
    running.stop().await;
    assert!(receiver.connections() <= PER_CLIENT, "{} connections", receiver.connections());
}

#[tokio::test]
async fn a_disabled_client_is_told_the_newest_when_it_is_enabled() {
    let mut receiver = TestReceiver::start(answering(&[200])).await;
    let running = Running::start(&receiver.url()).await;
    let lock = running.lock("0xA").await;
    running.enable(false).await;
    for value in [1.0, 0.0, 1.0] {
        running.report(&lock, value).await;
    }
    assert!(receiver.requests.try_recv().is_err());
    running.enable(true).await;
    let request = receiver.request().await;
    let data = data(&request);
    assert_eq!((&data["value"], &data["sequence"], &data["skipped"]), (&1.into(), &3.into(), &2.into()));
    let (_, attempts) = shown(&running.stop().await, &request);
    assert_eq!(attempts.len(), 1, "waiting is no attempt");
}

#[tokio::test]
async fn an_answer_of_410_disables_the_client_and_does_not_count() {
    let mut receiver = TestReceiver::start(answering(&[410, 200])).await;
    let running = Running::start(&receiver.url()).await;
    let lock = running.lock("0xA").await;
    let mut clients = running.engine.directory().subscribe();
    running.report(&lock, 1.0).await;
    let first = receiver.request().await;
    let enabled = || running.engine.directory().by_id(&acme()).expect("there").enabled;
    while enabled() {
        clients.changed().await.expect("the engine runs");
    }
    running.enable(true).await;
    let again = receiver.request().await;
    assert_eq!(id_of(&again), id_of(&first));
    let (delivery, attempts) = shown(&running.stop().await, &first);
    assert_eq!(delivery.progress.status, DeliveryStatus::Delivered);
    assert_eq!(attempts.len(), 2);
}

#[tokio::test]
async fn an_attempt_that_could_outlast_its_lease_is_not_begun() {
    let mut receiver = TestReceiver::start(answering(&[200])).await;
    let running = Running::start(&receiver.url()).await;
    running.stop.send_replace(true);
    running.sender.await.expect("the sender ends by itself");
    let engine = running.engine;
    let (tell, _told) = mpsc::channel(1);
    let driver = WebhookDriver::new(Webhooks::new(engine.clone(), sending(), WebhookMetrics::new()), tell);
    report(&engine, &linked_lock(&engine, "0xA").await, 1.0).await;
    let (partition, client) = engine.due_lanes().take().await.into_iter().next().expect("a lane is due");

    let wanted = || vec![(client, 1)];
    let mut due = engine.exchange(partition, Vec::new(), wanted()).await.concat().remove(0);
    due.until = engine.clock().now().after(TIMEOUT / 2);
    let ended = driver.shared.send(due).await.ended;
    assert!(receiver.requests.try_recv().is_err(), "nothing is sent");

    let again = engine.exchange(partition, ended.into_iter().collect(), wanted()).await.concat().remove(0);
    assert_eq!(again.attempt, 1, "what was not begun does not count");
    driver.shared.send(again).await;
    receiver.request().await;
}

#[tokio::test]
async fn what_comes_while_an_exchange_is_under_way_goes_together_with_the_next() {
    let running = Running::start("http://127.0.0.1:9/").await;
    let mut exchanges = Exchanges::new(running.engine.clone());
    let lease = |client| LaneLease { partition: PartitionId(0), client: Incarnation(client), max: 1 };
    let clients = |leased: Option<Vec<(LaneLease, Vec<AttemptDue>)>>| -> Vec<u64> {
        leased.into_iter().flatten().map(|(lease, _)| lease.client.0).collect()
    };
    exchanges.lease(lease(1));
    exchanges.start();
    exchanges.lease(lease(2));
    exchanges.lease(lease(3));
    exchanges.start();
    assert_eq!(clients(exchanges.next().await), [1]);
    exchanges.start();
    assert_eq!(clients(exchanges.next().await), [2, 3]);
    assert!(exchanges.is_empty());
}

#[tokio::test]
async fn a_test_is_sent_once_and_signed_also_to_a_client_that_is_disabled() {
    let mut receiver = TestReceiver::start(answering(&[503])).await;
    let running = Running::start(&receiver.url()).await;
    running.enable(false).await;
    let tester = Webhooks::new(running.engine.clone(), sending(), WebhookMetrics::new()).tester();
    let client = running.engine.directory().by_id(&acme()).expect("there");
    let end = tester.test(&client).await.expect("randomness");
    assert!(matches!(end.answer, AttemptOutcome::Status { code: 503, .. }), "{end:?}");
    let request = receiver.request().await;
    Webhook::from_bytes(SECRET.to_vec())
        .expect("a secret")
        .verify(request.body(), request.headers())
        .expect("a good signature");
    let body: serde_json::Value = serde_json::from_slice(request.body()).expect("JSON");
    assert_eq!((&body["type"], &body["data"]["client_id"]), (&"client.test".into(), &"acme".into()));
    running.stop().await;
    assert!(receiver.requests.try_recv().is_err(), "it is not repeated");
}

#[tokio::test]
async fn a_changed_url_is_used_at_the_next_attempt() {
    let mut old = TestReceiver::start_closed(answering(&[500])).await;
    let mut new = TestReceiver::start(answering(&[200])).await;
    let running = Running::start(&old.url()).await;
    let lock = running.lock("0xA").await;
    running.report(&lock, 1.0).await;
    let first = old.request().await;
    let patch = ClientPatch { url: Patch::Set(new.url()), ..ClientPatch::default() };
    running.engine.patch_client(acme(), patch, engine::OnlyIf::default()).await.expect("changed");
    old.gate.add_permits(1);
    assert_eq!(id_of(&new.request().await), id_of(&first));
    running.stop().await;
    assert!(old.requests.try_recv().is_err());
}

#[tokio::test]
async fn a_receiver_that_keeps_failing_is_tried_with_one_at_a_time_until_it_takes_one() {
    const DEVICES: usize = 25;
    let well = Arc::new(AtomicBool::new(false));
    let answers = Arc::clone(&well);
    let mut receiver = TestReceiver::start(move || {
        let mut answer = receiver::Answer::new(Full::default());
        let status = if answers.load(Ordering::SeqCst) { 200 } else { 503 };
        *answer.status_mut() = StatusCode::from_u16(status).expect("a status");
        answer
    })
    .await;
    let running = Running::start(&receiver.url()).await;
    for n in 0..DEVICES {
        let lock = running.lock(&format!("lock{n}")).await;
        running.report(&lock, 1.0).await;
    }
    // Those that were leased before it opened, and two that went out while it was open.
    for _ in 0..breaker::FAILED_IN_A_ROW as usize + PER_CLIENT {
        receiver.request().await;
    }
    // While this was slow, single ones may have come.
    while receiver.requests.try_recv().is_ok() {}
    receiver.request().await;
    let began = Instant::now();
    receiver.request().await;
    receiver.request().await;
    assert!(began.elapsed() >= BREAKER_PAUSE / 2, "{:?} for two", began.elapsed());

    well.store(true, Ordering::SeqCst);
    let mut told = std::collections::HashSet::new();
    while told.len() < DEVICES {
        told.insert(data(&receiver.request().await)["device_id"].to_string());
    }
    running.stop().await;
}

#[tokio::test]
async fn a_stop_lets_attempts_under_way_end() {
    let mut receiver = TestReceiver::start_closed(answering(&[200])).await;
    let running = Running::start(&receiver.url()).await;
    let lock = running.lock("0xA").await;
    running.report(&lock, 1.0).await;
    let request = receiver.request().await;
    running.stop.send_replace(true);
    receiver.gate.add_permits(1);
    let (delivery, _) = shown(&running.stop().await, &request);
    assert_eq!(delivery.progress.status, DeliveryStatus::Delivered);
}

#[tokio::test]
async fn a_notice_is_a_signed_post_and_repeated_until_it_is_taken() {
    let mut receiver = TestReceiver::start(answering(&[503, 204])).await;
    let running = Running::start(&receiver.url()).await;
    let patch = ClientPatch { notices: Patch::Set(true), ..ClientPatch::default() };
    running.engine.patch_client(acme(), patch, engine::OnlyIf::default()).await.expect("changed");
    let detail = Detail::default().number("free_bytes", 7);
    let (subject, condition) = ("disk".into(), Condition::Firing(NoticeKind::StorageLow));
    running.engine.signal(Signal { topic: SignalTopic::Storage, subject, condition, detail });
    let (first, second) = (receiver.request().await, receiver.request().await);
    assert_eq!((id_of(&first), first.body()), (id_of(&second), second.body()), "the same again");
    let body: serde_json::Value = serde_json::from_slice(first.body()).expect("JSON");
    assert_eq!((&body["type"], &body["notice"]["type"]), (&"notice".into(), &"storage.low".into()));
    assert_eq!(
        (&body["notice"]["subject"], &body["notice"]["detail"]["free_bytes"]),
        (&"disk".into(), &7.into())
    );
    let verified =
        Webhook::from_bytes(SECRET.to_vec()).expect("a secret").verify(second.body(), second.headers());
    verified.expect("it is signed");
    let engine = running.stop().await;
    assert!(engine.lease_notices(NoticeLease::default()).await.is_err(), "nothing is accepted any more");
}

#[tokio::test]
async fn a_client_that_was_told_failing_before_a_start_is_told_as_recovered() {
    let mut receiver = TestReceiver::start(answering(&[204])).await;
    let store = Arc::new(MemoryStore::new(Lineage(1), 4));
    let notices = NoticeSettings { quiet: Duration::from_millis(1), ..NoticeSettings::default() };
    let open = || {
        let settings = engine::EngineSettings { notices, ..settings() };
        let clock = Arc::new(SystemClock::start(Timestamp(0)));
        Engine::start(settings, Arc::clone(&store) as Arc<dyn engine::Store>, clock)
    };
    let before = open().await.expect("an empty store loads");
    before.create_client(acme_at(&receiver.url())).await.expect("registered");
    let lock = linked_lock(&before, "0xA").await;
    let (subject, condition) = ("client acme".into(), Condition::Firing(NoticeKind::ClientFailing));
    before.signal(Signal { topic: SignalTopic::Client, subject, condition, detail: Detail::default() });
    until_newest(&before, NoticeKind::ClientFailing).await;
    before.stop().await;

    let engine = open().await.expect("it loads again");
    let (stop, stopped) = watch::channel(false);
    let sender = tokio::spawn(Webhooks::new(engine.clone(), sending(), WebhookMetrics::new()).run(stopped));
    report(&engine, &lock, 1.0).await;
    receiver.request().await;
    until_newest(&engine, NoticeKind::ClientRecovered).await;
    stop.send_replace(true);
    sender.await.expect("the sender ends by itself");
}

/// Waits until the newest notice is of this kind.
async fn until_newest(engine: &Engine, kind: NoticeKind) {
    let newest = || {
        let (from, to) = (Timestamp(0), Timestamp::MAX);
        let page = engine::Page { from, to, ascending: false, after: None, limit: 1 };
        engine.queries().notices(None, page).expect("readable").pop().map(|(_, notice)| notice.kind)
    };
    let told = async {
        while newest() != Some(kind) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), told).await.expect("it is told");
}

#[tokio::test]
async fn a_receiver_that_hangs_holds_up_no_notice_of_others() {
    const NOTICES: usize = 100;
    let mut hangs = TestReceiver::start_closed(answering(&[204])).await;
    let mut well = TestReceiver::start(answering(&[204])).await;
    let running = Running::start(&hangs.url()).await;
    let other = NewClient { id: Some("well".to_owned()), notices: true, ..acme_at(&well.url()) };
    running.engine.create_client(other).await.expect("registered");
    let patch = ClientPatch { notices: Patch::Set(true), ..ClientPatch::default() };
    running.engine.patch_client(acme(), patch, engine::OnlyIf::default()).await.expect("changed");
    for n in 0..NOTICES {
        let (subject, condition) = (format!("disk {n}").into(), Condition::Firing(NoticeKind::StorageLow));
        let topic = SignalTopic::Storage;
        running.engine.signal(Signal { topic, subject, condition, detail: Detail::default() });
    }
    let mut told = std::collections::HashSet::new();
    for _ in 0..NOTICES {
        told.insert(id_of_notice(&well.request().await));
    }
    assert_eq!(told.len(), NOTICES);
    let mut waiting = 0;
    while hangs.requests.try_recv().is_ok() {
        waiting += 1;
    }
    assert!((1..=4).contains(&waiting), "{waiting} hang");
    running.stop().await;
}

fn id_of_notice(request: &Request<Bytes>) -> String {
    request.headers()["webhook-id"].to_str().expect("text").to_owned()
}
