//! The forwarder against a server whose answers are set, with a spool on a simulated disk.

use std::collections::VecDeque;
use std::sync::Mutex;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use base::Timestamp;
use blocklog::{Disk, SimulatedDisk};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::*;
use crate::disk_threads::start_saving;
use crate::log::{SpoolFullChoice, SpoolLogOptions, SpoolWriter};
use crate::record::SpoolEntry;
use crate::state::StateFiles;

/// The answer of somebody in between: what the server did is not known.
const LOST: (StatusCode, &str) = (StatusCode::BAD_GATEWAY, "");
const NO_ROOM: (StatusCode, &str) =
    (StatusCode::TOO_MANY_REQUESTS, r#"{"code":"too_many_requests","detail":"no room"}"#);
const QUEUE_FULL: (StatusCode, &str) =
    (StatusCode::CONFLICT, r#"{"code":"queue_full","detail":"may hold 2"}"#);
const STREAM_FULL: (StatusCode, &str) =
    (StatusCode::SERVICE_UNAVAILABLE, r#"{"code":"stream_full","detail":"no room"}"#);
/// The server has taken another call with this key.
const REUSED: (StatusCode, &str) =
    (StatusCode::UNPROCESSABLE_ENTITY, r#"{"code":"idempotency_key_reused","detail":"another body"}"#);
/// Bytes of a job or message: segments of 16 KiB hold some of them.
const BODY_BYTES: usize = 900;

/// Answers what it is told to, then 201, and remembers the keys and the sizes of calls.
#[derive(Clone, Default)]
struct ScriptedServer {
    answers: Arc<Mutex<VecDeque<(StatusCode, &'static str)>>>,
    keys: Arc<Mutex<Vec<String>>>,
    /// Jobs or messages of each call.
    sizes: Arc<Mutex<Vec<usize>>>,
}

impl ScriptedServer {
    async fn answer(
        State(server): State<Self>,
        headers: HeaderMap,
        body: Bytes,
    ) -> (StatusCode, &'static str) {
        let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok()).unwrap_or_default();
        server.keys.lock().expect("no panic").push(key.to_owned());
        let size = memchr::memmem::find_iter(&body, "\"payload\"").count();
        server.sizes.lock().expect("no panic").push(size);
        let told = server.answers.lock().expect("no panic").pop_front();
        told.unwrap_or((StatusCode::CREATED, "{}"))
    }

    fn will_answer(&self, answer: (StatusCode, &'static str)) {
        self.answers.lock().expect("no panic").push_back(answer);
    }

    fn keys(&self) -> Vec<String> {
        self.keys.lock().expect("no panic").clone()
    }
}

/// A spool that gives up the oldest when it is full, and the server that it forwards to.
struct ForwardRig {
    server: ScriptedServer,
    client: Client,
    disk: SimulatedDisk,
    log: Arc<SpoolLog>,
    writer: SpoolWriter,
    refused: Arc<RefusedFile>,
    saves: SaveRequests,
}

impl ForwardRig {
    async fn start() -> Self {
        let server = ScriptedServer::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let router = Router::new().fallback(ScriptedServer::answer).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let client = Client::builder(url).build().expect("a client");
        Self::on(SimulatedDisk::new(1), server, client)
    }

    fn on(disk: SimulatedDisk, server: ScriptedServer, client: Client) -> Self {
        let damaged = Arc::new(SimulatedDisk::new(0));
        let options = SpoolLogOptions {
            bytes_max: 64_000,
            when_full: SpoolFullChoice::DropOldest,
            place: 1,
            earlier_place: 2,
        };
        let (log, writer) = SpoolLog::open(Arc::new(disk.clone()), damaged, options).expect("it opens");
        let refused = Arc::new(RefusedFile::open(Arc::new(disk.clone())).expect("it opens"));
        let (saves, _) = start_saving(Arc::clone(&log)).expect("a thread");
        Self { server, client, disk, log, writer, refused, saves }
    }

    /// The spool as it is after a loss of power, before the same server.
    fn after_power_loss(&self) -> Self {
        Self::on(self.disk.copy_of_durable(2), self.server.clone(), self.client.clone())
    }

    /// Damages the oldest segment there.
    fn damage(&self, at: u64) {
        let names = self.disk.list().expect("listed");
        let name = names.iter().find(|name| name.ends_with(".seg")).expect("a segment");
        self.disk.corrupt(name, at, 1);
    }

    /// The call of the only destination, as it is saved.
    fn saved_call(&self) -> Option<CallInFlight> {
        let (_, state) = StateFiles::open(&self.disk).expect("it opens");
        state?.lanes.first()?.in_flight
    }

    fn forwarder(&self, to: &Destination, max_age: Option<Duration>) -> Forwarder {
        let shared = Forwarding {
            log: Arc::clone(&self.log),
            client: self.client.clone(),
            refused: Arc::clone(&self.refused),
            saves: self.saves.clone(),
            arrivals: Arc::default(),
            calls: Semaphore::new(CALLS_MAX),
            conflicts_noted: LogLimit::default(),
            max_age,
            stop: watch::channel(false).1,
        };
        Forwarder::new(Arc::new(shared), to.clone(), Arc::default())
    }

    fn append(&mut self, to: &Destination, received: Timestamp) {
        let body = format!("{{\"payload\":\"{}\"}}", "x".repeat(BODY_BYTES));
        let entry =
            SpoolEntry { destination: to.clone(), items: 1, key: None, follow: None, body: body.into() };
        let result = self.writer.commit(vec![vec![entry]], received).remove(0);
        assert_eq!(result, Ok(1));
    }
}

fn queue() -> Destination {
    Destination::queue("ns", "q").expect("right names")
}

fn stream() -> Destination {
    Destination::stream("ns", "s").expect("right names")
}

#[tokio::test]
async fn a_call_whose_answer_was_lost_is_repeated_although_some_of_it_is_old() {
    let mut rig = ForwardRig::start().await;
    rig.server.will_answer(LOST);
    for received in [Timestamp(1), Timestamp(2), now()] {
        rig.append(&queue(), received);
    }
    assert!(matches!(rig.forwarder(&queue(), None).step().await, ForwardStep::Later(_)));
    let max_age = Some(Duration::from_secs(3_600));
    assert!(matches!(rig.forwarder(&queue(), max_age).step().await, ForwardStep::Moved));
    let keys = rig.server.keys();
    assert!(keys.len() == 2 && keys[0] == keys[1], "{keys:?}");
    let totals = rig.log.summary().totals;
    assert_eq!((totals.forwarded, totals.dropped), (3, 0));
}

#[tokio::test]
async fn a_destination_without_room_for_all_gets_fewer_at_a_time() {
    for (to, told, expect) in [
        (queue(), [QUEUE_FULL, QUEUE_FULL], vec![5, 2, 1, 2, 2]),
        (stream(), [STREAM_FULL, STREAM_FULL], vec![5, 2, 1, 2, 2]),
        (queue(), [LOST, QUEUE_FULL], vec![5, 5, 5]),
        (stream(), [LOST, STREAM_FULL], vec![5, 5, 2, 3]),
    ] {
        let mut rig = ForwardRig::start().await;
        for answer in told {
            rig.server.will_answer(answer);
        }
        for _ in 0..5 {
            rig.append(&to, now());
        }
        let mut forwarder = rig.forwarder(&to, None);
        while !matches!(forwarder.step().await, ForwardStep::Empty) {}
        let sizes = rig.server.sizes.lock().expect("no panic").clone();
        assert_eq!(sizes, expect, "{to} {told:?}");
        assert_eq!(rig.log.summary().totals.forwarded, 5, "{to} {told:?}");
    }
}

#[tokio::test]
async fn a_call_whose_answer_was_lost_long_ago_is_cut_where_there_is_no_room_for_it() {
    let mut rig = ForwardRig::start().await;
    rig.server.will_answer(LOST);
    rig.server.will_answer(QUEUE_FULL);
    for _ in 0..5 {
        rig.append(&queue(), now());
    }
    let mut forwarder = rig.forwarder(&queue(), None);
    assert!(matches!(forwarder.step().await, ForwardStep::Later(_)));
    let call = rig.log.in_flight(&queue()).expect("its answer is not known");
    let begun = now().before(STRAY_MAX + Duration::from_secs(1));
    assert!(rig.log.begin_call(&queue(), call.end, CallInFlight { begun, ..call }));
    while !matches!(forwarder.step().await, ForwardStep::Empty) {}
    assert_eq!(*rig.server.sizes.lock().expect("no panic"), [5, 5, 2, 3]);
    let keys = rig.server.keys();
    assert!(keys[0] == keys[1] && keys[1] != keys[2], "{keys:?}");
}

#[tokio::test]
async fn what_is_all_too_old_is_dropped_whether_its_answer_was_lost_or_not() {
    let mut rig = ForwardRig::start().await;
    rig.server.will_answer(LOST);
    for received in [Timestamp(1), Timestamp(2)] {
        rig.append(&queue(), received);
    }
    assert!(matches!(rig.forwarder(&queue(), None).step().await, ForwardStep::Later(_)));
    let max_age = Some(Duration::from_secs(3_600));
    assert!(matches!(rig.forwarder(&queue(), max_age).step().await, ForwardStep::Moved));
    let summary = rig.log.summary();
    assert_eq!((rig.server.keys().len(), summary.totals.dropped, summary.waiting), (1, 2, 0));
}

#[tokio::test]
async fn the_rest_of_a_call_that_made_room_is_forwarded_only_if_it_had_no_effect() {
    const JOBS: u64 = 40;
    for (answer, is_forwarded) in [(LOST, false), (NO_ROOM, true)] {
        let mut rig = ForwardRig::start().await;
        rig.server.will_answer(answer);
        for _ in 0..JOBS {
            rig.append(&queue(), now());
        }
        let mut forwarder = rig.forwarder(&queue(), None);
        assert!(matches!(forwarder.step().await, ForwardStep::Later(_)));
        while rig.log.summary().totals.dropped == 0 {
            rig.append(&stream(), now());
        }
        let dropped = rig.log.summary().totals.dropped;
        assert!((1..JOBS).contains(&dropped), "a part of the call: {dropped}");
        assert!(matches!(forwarder.step().await, ForwardStep::Moved));
        assert!(matches!(forwarder.step().await, ForwardStep::Empty));
        let totals = rig.log.summary().totals;
        let (calls, forwarded) = if is_forwarded { (2, JOBS - dropped) } else { (1, 0) };
        assert_eq!((rig.server.keys().len(), totals.forwarded), (calls, forwarded), "{answer:?}");
        assert_eq!(totals.forwarded + totals.dropped, JOBS);
    }
}

#[tokio::test]
async fn the_rest_of_a_call_of_which_a_job_was_damaged_is_not_forwarded() {
    const JOBS: u64 = 9;
    for is_restarted in [false, true] {
        let mut rig = ForwardRig::start().await;
        rig.server.will_answer(LOST);
        for _ in 0..JOBS {
            rig.append(&queue(), now());
        }
        assert!(matches!(rig.forwarder(&queue(), None).step().await, ForwardStep::Later(_)));
        rig.damage(3 * BODY_BYTES as u64);
        if is_restarted {
            rig = rig.after_power_loss();
        }
        let mut forwarder = rig.forwarder(&queue(), None);
        assert!(matches!(forwarder.step().await, ForwardStep::Moved));
        assert!(matches!(forwarder.step().await, ForwardStep::Empty));
        let totals = rig.log.summary().totals;
        assert_eq!((totals.forwarded, totals.dropped, totals.damaged), (0, JOBS - 1, 1), "{is_restarted}");
        assert_eq!(rig.server.keys().len(), 1, "{is_restarted}");
    }
}

#[tokio::test]
async fn a_call_is_repeated_whole_although_something_else_in_its_segments_is_damaged() {
    const JOBS: u64 = 40;
    let mut rig = ForwardRig::start().await;
    rig.server.will_answer(LOST);
    rig.append(&stream(), now());
    for _ in 0..JOBS {
        rig.append(&queue(), now());
    }
    assert!(matches!(rig.forwarder(&queue(), None).step().await, ForwardStep::Later(_)));
    rig.damage(20);
    assert!(matches!(rig.forwarder(&queue(), None).step().await, ForwardStep::Moved));
    let (keys, totals) = (rig.server.keys(), rig.log.summary().totals);
    assert!(keys.len() == 2 && keys[0] == keys[1], "{keys:?}");
    assert_eq!((totals.forwarded, totals.dropped, totals.damaged), (JOBS, 0, 1));
}

#[tokio::test]
async fn a_call_whose_key_the_server_knows_with_another_body_is_given_up_if_its_answer_was_lost() {
    const JOBS: u64 = 3;
    for (is_lost, calls, forwarded) in [(true, 2, 0), (false, 1 + JOBS as usize, JOBS)] {
        let mut rig = ForwardRig::start().await;
        if is_lost {
            rig.server.will_answer(LOST);
        }
        rig.server.will_answer(REUSED);
        for _ in 0..JOBS {
            rig.append(&queue(), now());
        }
        let mut forwarder = rig.forwarder(&queue(), None);
        while !matches!(forwarder.step().await, ForwardStep::Empty) {}
        let totals = rig.log.summary().totals;
        assert_eq!((rig.server.keys().len(), totals.forwarded), (calls, forwarded), "{is_lost}");
        assert_eq!((totals.dropped, totals.refused), (JOBS - forwarded, 0));
    }
}

#[tokio::test]
async fn that_a_call_had_no_effect_is_known_after_a_loss_of_power() {
    let mut rig = ForwardRig::start().await;
    rig.append(&queue(), now());
    let mut forwarder = rig.forwarder(&queue(), None);
    for _ in 0..2 {
        rig.server.will_answer(NO_ROOM);
        assert!(matches!(forwarder.step().await, ForwardStep::Later(_)));
        let saved = async {
            while rig.saved_call().is_some() {
                tokio::task::yield_now().await;
            }
        };
        timeout(ANSWER_MAX, saved).await.expect("it is saved without being asked again");
    }
}

#[tokio::test]
async fn a_message_in_whose_place_the_server_has_another_one_is_counted() {
    let mut rig = ForwardRig::start().await;
    let answer = r#"{"messages":[{"id":"1","duplicate":true,"conflict":true},{"id":"2","duplicate":false}]}"#;
    rig.server.will_answer((StatusCode::CREATED, answer));
    for _ in 0..2 {
        rig.append(&stream(), now());
    }
    assert!(matches!(rig.forwarder(&stream(), None).step().await, ForwardStep::Moved));
    let totals = rig.log.summary().totals;
    assert_eq!((totals.forwarded, totals.conflicts), (2, 1));
}
