//! Each method by itself, with what it must answer written out.

use std::sync::Arc;
use std::sync::mpsc::channel;

use base::{Attended, ClientId, DeviceId, EntityId, Incarnation, Kind, Lineage, PartitionId, Timestamp};
use base::{Value, WayIn};
use records::{
    Attempt, AttemptDetail, Batch, Client, Command, CommandCause, CommandTerms, Connection, Delivery,
    DeliveryKey, DeliveryProgress, DeliveryStatus, DeviceProfile, DeviceSlot, DeviceState, Event, EventKey,
    EventKind, HeadState, JobHead, JobId, JobTerms, LastSeen, Notice, NoticeKind, NoticePost,
    NotificationState, Op, OutcomeReceiver, PaceOverride, PartitionHead, PortalRights, PortalToken, QueueKey,
    Reading, Sign, SignReading, TokenDigest,
};

use super::{Make, PARTITION, Subject, commit, loaded, next, put};
use crate::port::{CommitOutcome, DeviceResident, FeedFilter, Page, ReadingKey};

pub(crate) fn id(text: &str) -> DeviceId {
    DeviceId::new(text).expect("an id")
}

pub(super) fn device(text: &str, slot: u32, clients: &[u64]) -> DeviceProfile {
    DeviceProfile {
        id: id(text),
        incarnation: Incarnation(u64::from(slot) + 100),
        slot: DeviceSlot(slot),
        kind: Kind::lock(),
        address: None,
        labels: Vec::new(),
        report_interval_ms: None,
        pace: PaceOverride::default(),
        registered_at: Timestamp(1),
        expected_from: Attended(2),
        clients: clients.iter().copied().map(Incarnation).collect(),
    }
}

pub(crate) fn sign(slot: u32, readings: u32, value: f64) -> Op {
    let reading = SignReading { ts: None, value: Value::Number(value), changed: readings == 1 };
    let (slot, way) = (DeviceSlot(slot), WayIn::Http);
    Op::Sign(Sign { slot, way, readings, newest_ts: None, reading: Some(reading) })
}

fn entity(at: i64, number: u32) -> EntityId {
    EntityId::derive(Lineage(1), 5, Incarnation(1), Timestamp(at), number, &[])
}

pub(crate) fn event(slot: u32, at: i64, number: u32) -> Event {
    Event {
        id: entity(at, number),
        slot: DeviceSlot(slot),
        device: id("A"),
        kind: EventKind::Changed,
        sequence: u64::from(number),
        value: Some(Value::Number(1.0)),
        previous: None,
    }
}

pub(crate) fn delivery(slot: u32, client: u64, at: i64, number: u32) -> Delivery {
    let progress = DeliveryProgress {
        status: DeliveryStatus::Pending,
        attempts: 0,
        next_attempt_at: Some(Timestamp(at)),
    };
    Delivery {
        id: entity(at, number),
        slot: DeviceSlot(slot),
        device: id("A"),
        client: Incarnation(client),
        client_id: ClientId::new("gate").expect("an id"),
        kind: EventKind::Changed,
        sequence: 1,
        progress,
        resend_of: None,
    }
}

pub(super) fn notification_state(slot: u32, client: u64) -> NotificationState {
    NotificationState {
        slot: DeviceSlot(slot),
        client: Incarnation(client),
        untold: vec![EventKind::Changed],
        previous: None,
        skipped: 0,
        pending: None,
        in_flight: None,
        failed: None,
    }
}

/// A command that waits for its turn, with something in every field.
pub(crate) fn command(slot: u32, at: i64, number: u32) -> Command {
    Command {
        id: entity(at, number),
        slot: DeviceSlot(slot),
        device: id("A"),
        payload: Arc::from(&b"{\"op\":\"open\"}"[..]),
        origin: Some("console".into()),
        key: Some("door".into()),
        terms: CommandTerms {
            priority: 7,
            not_before: None,
            ttl_ms: Some(60_000),
            ack_timeout_ms: 5_000,
            run_timeout_ms: 600_000,
            attempts_max: 3,
        },
        cause: CommandCause::Call,
        notify: Some(Box::new(OutcomeReceiver::Queue { namespace: "default".into(), queue: "done".into() })),
    }
}

fn job(number: u8) -> JobHead {
    JobHead {
        id: JobId([number; 16]),
        queue: QueueKey(1),
        number: u64::from(number),
        run_at: Timestamp(5),
        visible_at: Timestamp(6),
        attempt: 0,
        tries: 3,
        state: HeadState::Waiting,
        alias: None,
        terms: JobTerms::default(),
        successor: None,
    }
}

pub(crate) fn all<K>() -> Page<K> {
    Page { from: Timestamp(i64::MIN), to: Timestamp::MAX, ascending: true, after: None, limit: 100 }
}

/// Nothing was ever committed.
pub fn an_empty_store_answers(make: Make<'_>) {
    let mut subject = make();
    for _ in 0..2 {
        let store = subject.store();
        assert_eq!((store.partitions(), store.recorded_now()), (2, Timestamp(0)));
        assert!(store.failure().is_none());
        for partition in [PartitionId(0), PARTITION, PartitionId::REGISTRY] {
            assert_eq!(loaded(store, partition), (PartitionHead::default(), vec![], vec![]));
            let view = store.view(partition).expect("opens");
            assert_eq!(view.device(&id("A")).expect("reads"), None);
            assert_eq!(view.state(DeviceSlot(0)).expect("reads"), DeviceState::default());
            assert_eq!(view.seen(DeviceSlot(0)).expect("reads"), None);
            assert!(view.devices(None, 10).expect("reads").is_empty());
            assert!(view.readings(DeviceSlot(0), all()).expect("reads").is_empty());
            assert!(view.events(FeedFilter::default(), all(), &|_| true).expect("reads").is_empty());
            assert_eq!(view.job_body(JobId([1; 16])).expect("reads"), None);
        }
        subject.churn(3);
        subject.restart();
    }
}

fn attempt() -> Attempt {
    Attempt {
        delivery: DeliveryKey { at: Timestamp(30), number: 1 },
        number: 1,
        at: Timestamp(31),
        duration_ms: 4,
        status_code: Some(200),
        error: None,
        detail: AttemptDetail::default(),
    }
}

fn delivered() -> DeliveryProgress {
    DeliveryProgress { status: DeliveryStatus::Delivered, attempts: 1, next_attempt_at: None }
}

fn state() -> DeviceState {
    DeviceState { connection: Connection::Online, sequence: 1, ..DeviceState::default() }
}

fn body() -> Arc<[u8]> {
    Arc::from(&b"what it carries"[..])
}

/// Everything once, read by every method, before and after the store moved it about.
pub fn every_method_shows_what_was_committed(make: Make<'_>) {
    let mut subject = make();
    let mut head = PartitionHead::default();
    head.attended.ways[WayIn::Http.index()] = Attended(77);
    let ops = vec![
        Op::PutDevice(Box::new(device("A", 0, &[7]))),
        sign(0, 1, 1.0),
        Op::PutState(DeviceSlot(0), state()),
        Op::PutEvent(Box::new(event(0, 20, 1))),
        Op::PutNotificationState(Box::new(notification_state(0, 7))),
        Op::PutDelivery(Box::new(delivery(0, 7, 30, 1))),
        Op::PutProgress(attempt().delivery, delivered()),
        Op::PutAttempt(Box::new(attempt())),
        Op::PutJob(Box::new(job(1))),
        Op::PutJobBody(JobId([1; 16]), body()),
    ];
    put(&mut *subject, next(&mut head, ops));
    for turn in 0..3 {
        assert_devices_shown(&*subject, &head);
        assert_deliveries_shown(&*subject);
        subject.churn(turn + 1);
    }
    let ops = vec![Op::DeleteJob(JobId([1; 16])), Op::DeleteNotificationState(DeviceSlot(0), Incarnation(7))];
    put(&mut *subject, next(&mut head, ops));
    assert_eq!(loaded(subject.store(), PARTITION).1.len(), 1);
    let view = subject.store().view(PARTITION).expect("opens");
    assert_eq!(view.job_body(JobId([1; 16])).expect("reads"), None);
    drop(view);
    clients(&mut *subject);
}

fn assert_devices_shown(subject: &dyn Subject, head: &PartitionHead) {
    let seen =
        LastSeen { at: head.now, way: WayIn::Http, attended: Attended(77), readings: 1, newest_ts: None };
    let reading = Reading { number: 1, ts: head.now, value: Value::Number(1.0), changed: true };
    let view = subject.store().view(PARTITION).expect("opens");
    assert_eq!(view.device(&id("A")).expect("reads"), Some(device("A", 0, &[7])));
    assert_eq!(view.state(DeviceSlot(0)).expect("reads"), state());
    assert_eq!(view.seen(DeviceSlot(0)).expect("reads"), Some(seen));
    assert_eq!(view.devices(None, 10).expect("reads"), [device("A", 0, &[7])]);
    assert_eq!(view.devices_of(Incarnation(7), None, 10).expect("reads"), [device("A", 0, &[7])]);
    assert!(view.devices_of(Incarnation(8), None, 10).expect("reads").is_empty());
    assert_eq!(view.readings(DeviceSlot(0), all()).expect("reads"), [reading]);
    let events = view.events(FeedFilter::default(), all(), &|_| true).expect("reads");
    assert_eq!(events, [event(0, 20, 1)]);
    assert_eq!(EventKey::from(events[0].id), EventKey { at: Timestamp(20), number: 1 });
    let resident = vec![
        DeviceResident::Device(Box::new(device("A", 0, &[7])), state(), Some(seen)),
        DeviceResident::NotificationState(Box::new(notification_state(0, 7))),
        DeviceResident::Job(Box::new(job(1))),
    ];
    let (loaded_head, found, _) = loaded(subject.store(), PARTITION);
    assert_eq!((&loaded_head, found), (head, resident));
}

fn assert_deliveries_shown(subject: &dyn Subject) {
    let key = attempt().delivery;
    let expect = Delivery { progress: delivered(), ..delivery(0, 7, 30, 1) };
    let view = subject.store().view(PARTITION).expect("opens");
    assert_eq!(view.delivery(key).expect("reads"), Some(expect.clone()));
    let whose = FeedFilter { device: None, client: Some(Incarnation(7)) };
    assert_eq!(view.deliveries(whose, all(), &|_| true).expect("reads"), [expect]);
    assert!(view.deliveries(whose, all(), &|_| false).expect("reads").is_empty());
    assert_eq!(view.attempts(key).expect("reads"), [attempt()]);
    assert_eq!(view.job_body(JobId([1; 16])).expect("reads"), Some(body()));
}

fn clients(subject: &mut dyn Subject) {
    let client = |text: &str| Client {
        id: ClientId::new(text).expect("an id"),
        incarnation: Incarnation(1),
        name: "Gate".to_owned(),
        url: "https://example.org".to_owned(),
        secret: vec![1, 2, 3],
        previous_secret: None,
        enabled: true,
        notices: false,
        created_at: Timestamp(9),
    };
    let mut registry = Batch::new(PartitionId::REGISTRY);
    registry.head.seq = 1;
    registry.ops = ["b", "a"].map(|text| Op::PutClient(Box::new(client(text)))).into();
    put(subject, registry.clone());
    subject.churn(2);
    registry.head.seq = 2;
    registry.ops = vec![Op::DeleteClient(client("b").id)];
    put(subject, registry);
    let view = subject.store().view(PartitionId::REGISTRY).expect("opens");
    assert_eq!(view.clients(None, usize::MAX).expect("reads"), [client("a")]);
    assert!(view.clients(Some(&client("a").id), 10).expect("reads").is_empty());
    drop(view);
    portals(subject);
}

/// Follows what became of clients.
fn portals(subject: &mut dyn Subject) {
    let token = |id| PortalToken {
        id: Incarnation(id),
        client: Incarnation(1),
        client_id: ClientId::new("a").expect("an id"),
        digest: TokenDigest([9; 32]),
        may: PortalRights { read: true, retry: true, url: false },
        created_at: Timestamp(9),
        expires_at: Timestamp(10),
        by: Some("ops".into()),
    };
    let mut registry = Batch::new(PartitionId::REGISTRY);
    registry.head.seq = 3;
    registry.ops = [4, 3].map(|id| Op::PutPortalToken(Box::new(token(id)))).into();
    put(subject, registry.clone());
    subject.churn(2);
    registry.head.seq = 4;
    registry.ops = vec![Op::DeletePortalToken(Incarnation(3))];
    put(subject, registry);
    let view = subject.store().view(PartitionId::REGISTRY).expect("opens");
    assert_eq!(view.portal_tokens(None, 10).expect("reads"), [token(4)]);
    assert!(view.portal_tokens(Some(Incarnation(4)), 10).expect("reads").is_empty());
    drop(view);
    notices(subject);
}

/// Follows what became of portals.
fn notices(subject: &mut dyn Subject) {
    let notice = |number, kind| Notice {
        id: EntityId { routing: 0, at: Timestamp(9), number, tag: 7 },
        kind,
        subject: "queue a/b".into(),
        detail: "{}".into(),
    };
    let [first, second] = [(0, NoticeKind::QueueBacklog), (1, NoticeKind::StorageLow)]
        .map(|(number, kind)| notice(number, kind));
    let post = |client| NoticePost {
        client: Incarnation(client),
        notice: first.id.into(),
        attempts: 2,
        due_at: Timestamp(8),
    };
    let mut registry = Batch::new(PartitionId::REGISTRY);
    registry.head.seq = 5;
    registry.ops = [&first, &second].map(|notice| Op::PutNotice(Box::new(notice.clone()))).into();
    registry.ops.extend([1, 2].map(|client| Op::PutNoticePost(post(client))));
    put(subject, registry.clone());
    subject.churn(2);
    let view = subject.store().view(PartitionId::REGISTRY).expect("opens");
    assert_eq!(view.notices(all(), &|_| true).expect("reads"), [first.clone(), second.clone()]);
    let low = |notice: &Notice| notice.kind == NoticeKind::StorageLow;
    assert_eq!(view.notices(all(), &low).expect("reads"), std::slice::from_ref(&second));
    assert_eq!(view.notice(second.id.into()).expect("reads"), Some(second.clone()));
    assert_eq!(view.notice_posts(None, 10).expect("reads"), [post(1), post(2)]);
    let behind = Some((Incarnation(1), first.id.into()));
    assert_eq!(view.notice_posts(behind, 10).expect("reads"), [post(2)]);
    drop(view);
    registry.head.seq = 6;
    registry.ops =
        vec![Op::DeleteNotice(first.id.into()), Op::DeleteNoticePost(Incarnation(1), first.id.into())];
    put(subject, registry);
    let view = subject.store().view(PartitionId::REGISTRY).expect("opens");
    assert_eq!(view.notices(all(), &|_| true).expect("reads"), [second]);
    assert_eq!(view.notice_posts(None, 10).expect("reads"), [post(2)]);
}

/// The number of a batch says what it is.
pub fn a_repeated_batch_is_ignored_and_a_gap_is_fenced(make: Make<'_>) {
    let mut subject = make();
    let mut head = PartitionHead::default();
    let first = next(&mut head, vec![sign(0, 1, 1.0)]);
    put(&mut *subject, first.clone());
    let mut again = first.clone();
    again.ops.push(sign(0, 2, 0.0));
    for turn in 0..3 {
        put(&mut *subject, again.clone());
        let view = subject.store().view(PARTITION).expect("opens");
        assert_eq!(view.readings(DeviceSlot(0), all()).expect("reads").len(), 1, "turn {turn}");
        drop(view);
        if turn == 0 { subject.churn(2) } else { subject.restart() }
    }
    head.seq += 1;
    let outcome = commit(&mut *subject, next(&mut head, vec![sign(0, 2, 1.0)]));
    assert!(matches!(outcome, CommitOutcome::Fenced), "{outcome}");
    assert_eq!(loaded(subject.store(), PARTITION).0, first.head);
    head = first.head;
    put(&mut *subject, next(&mut head, vec![sign(0, 2, 1.0)]));
}

/// Several partitions at once; each learns its outcomes in order.
pub fn outcomes_come_in_the_order_of_commits(make: Make<'_>) {
    let mut subject = make();
    let (sender, receiver) = channel();
    for seq in 1..=20 {
        for partition in [PartitionId(0), PARTITION] {
            let mut batch = Batch::new(partition);
            batch.head.seq = seq;
            batch.ops.push(sign(0, seq as u32, 1.0));
            let sender = sender.clone();
            let told = move |outcome| drop(sender.send((partition, seq, outcome)));
            subject.store().commit(batch, Box::new(told));
        }
        if seq % 7 == 0 {
            subject.settle();
        }
    }
    subject.settle();
    let outcomes: Vec<_> = receiver.try_iter().collect();
    assert!(outcomes.iter().all(|(_, _, outcome)| matches!(outcome, CommitOutcome::Durable)));
    for partition in [PartitionId(0), PARTITION] {
        let of = outcomes.iter().filter(|(other, _, _)| *other == partition).map(|(_, seq, _)| *seq);
        assert!(of.eq(1..=20), "{partition}");
    }
}

/// What is committed later is not seen, and what is moved about does not change.
pub fn an_open_view_shows_the_moment_it_was_opened(make: Make<'_>) {
    let mut subject = make();
    let mut head = PartitionHead::default();
    put(&mut *subject, next(&mut head, vec![Op::PutDevice(Box::new(device("A", 0, &[7])))]));
    let mut views = Vec::new();
    for round in 1..=20 {
        let ops = vec![
            sign(0, round, f64::from(round % 2)),
            Op::PutEvent(Box::new(event(0, i64::from(round), round))),
            Op::PutDevice(Box::new(device(&format!("B{round:02}"), round, &[7]))),
        ];
        put(&mut *subject, next(&mut head, ops));
        views.push((round, subject.store().view(PARTITION).expect("opens")));
        if round % 3 == 0 {
            subject.churn(u64::from(round % 4));
        }
        if round % 5 == 0 {
            views.remove(0);
        }
        for (round, view) in &views {
            let expect = *round as usize;
            let seen = view.seen(DeviceSlot(0)).expect("reads").map(|seen| seen.readings);
            assert_eq!(seen, Some(*round));
            let readings = view.readings(DeviceSlot(0), all::<ReadingKey>()).expect("reads");
            assert_eq!(readings.len(), expect);
            let events = view.events(FeedFilter::default(), all(), &|_| true).expect("reads");
            assert_eq!(events.len(), expect);
            assert_eq!(view.devices(None, 100).expect("reads").len(), expect + 1);
            assert_eq!(view.devices_of(Incarnation(7), None, 100).expect("reads").len(), expect + 1);
        }
    }
}

/// Restarts lose nothing, keep the numbers going, and keep lineage and time.
pub fn what_was_committed_is_there_after_a_restart(make: Make<'_>) {
    let mut subject = make();
    let lineage = subject.store().lineage();
    let mut head = PartitionHead::default();
    for round in 1..=12_u32 {
        let ops = vec![
            Op::PutDevice(Box::new(device(&format!("D{round}"), round, &[]))),
            sign(1, round, 1.0),
            Op::PutJob(Box::new(job(round as u8))),
        ];
        put(&mut *subject, next(&mut head, ops));
        if round % 4 == 0 {
            subject.churn(2);
        }
        if round % 3 == 0 {
            subject.restart();
        }
        let (loaded_head, residents, _) = loaded(subject.store(), PARTITION);
        assert_eq!(loaded_head, head);
        assert_eq!(residents.len(), 2 * round as usize);
        let view = subject.store().view(PARTITION).expect("opens");
        assert_eq!(view.readings(DeviceSlot(1), all()).expect("reads").len(), round as usize);
        assert_eq!((subject.store().lineage(), subject.store().recorded_now()), (lineage, head.now));
    }
}
