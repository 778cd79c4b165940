//! Streams over an engine in memory: what they begin with, how they go on, and how they end.

mod cut_off;
mod rows;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use access::{Access, Token};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::Request;
use base::{DeviceId, Lineage, SystemClock, Timestamp, Value, WayIn};
use engine::{Engine, EngineSettings, Report, ReportContent, Slice};
use http_body_util::BodyExt;
use net::memory_budget::MemoryBudget;
use net::shares::SenderKey;
use serde_json::Value as Json;
use store::MemoryStore;
use tokio::sync::watch;
use tokio::time::timeout;
use tower_service::Service;

use super::feed::{FeedIdentity, FeedState};
use crate::{ApiState, router};

const PATIENCE: Duration = Duration::from_secs(20);

struct Rig {
    engine: Engine,
    router: Router,
    stop: watch::Sender<bool>,
}

/// A message as its reader has it.
#[derive(Debug)]
struct Message {
    event: String,
    id: Option<String>,
    data: Json,
}

impl Message {
    fn ids(&self) -> Vec<&str> {
        self.data["items"]
            .as_array()
            .expect("items")
            .iter()
            .map(|item| item["id"].as_str().expect("an id"))
            .collect()
    }
}

/// The reader of a stream.
struct Reader {
    body: Body,
    rest: Vec<u8>,
}

impl Reader {
    /// The next message; `None` at the end.
    async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(end) = self.rest.windows(2).position(|two| two == b"\n\n") {
                let block: Vec<u8> = self.rest.drain(..end + 2).collect();
                let message = message(std::str::from_utf8(&block).expect("UTF-8"));
                if message.event.is_empty() {
                    continue; // a comment
                }
                return Some(message);
            }
            let frame = timeout(PATIENCE, self.body.frame()).await.expect("something comes, or the end");
            self.rest.extend(frame?.expect("it does not break").into_data().unwrap_or_else(|_| Bytes::new()));
        }
    }

    /// The next message of that name.
    async fn until(&mut self, event: &str) -> Message {
        loop {
            let message = self.next().await.expect("it has not ended");
            if message.event == event {
                return message;
            }
        }
    }
}

fn message(block: &str) -> Message {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    Message {
        event: field("event: ").unwrap_or_default(),
        id: field("id: "),
        data: field("data: ").map_or(Json::Null, |data| serde_json::from_str(&data).expect("JSON")),
    }
}

impl Rig {
    async fn start(tokens: &[(&str, &str)]) -> Self {
        Self::with_streams(tokens, 16).await
    }

    /// So many streams may be open.
    async fn with_streams(tokens: &[(&str, &str)], streams: usize) -> Self {
        Self::with(tokens, streams, EngineSettings::for_tests()).await
    }

    async fn with(tokens: &[(&str, &str)], streams: usize, settings: EngineSettings) -> Self {
        let store = Arc::new(MemoryStore::new(Lineage(1), 2));
        let clock = Arc::new(SystemClock::start(Timestamp(0)));
        let engine = Engine::start(settings, store, clock).await.expect("an empty store loads");
        engine.intake(WayIn::Http).attend(true).await;
        let access =
            Access::of(tokens.iter().map(|(name, scope)| Token::for_tests(name, &[scope])).collect());
        let stop = watch::Sender::new(false);
        let state =
            ApiState::new(engine.clone(), access, &MemoryBudget::default(), Arc::new(Mutex::default()));
        let router = router(state.ended_by(stop.subscribe()).live_streams(streams));
        Self { engine, router, stop }
    }

    async fn send(&self, call: &str, token: Option<&str>, last: Option<&str>, body: &str) -> (u16, Body) {
        let (method, path) = call.split_once(' ').expect("a method and a path");
        let mut request = Request::builder().method(method).uri(path);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let request = request.body(Body::from(body.to_owned())).expect("a request");
        let response = self.router.clone().call(request).await.expect("a router never fails");
        (response.status().as_u16(), response.into_body())
    }

    async fn make(&self, call: &str, body: &str) {
        let token = Some("admin");
        let (status, answer) = self.send(call, token, None, body).await;
        let answer = answer.collect().await.expect("a body").to_bytes();
        assert!((200..300).contains(&status), "{call}: {answer:?}");
    }

    async fn device(&self, id: &str) {
        self.make("POST /v1/devices", &format!(r#"{{"id":"{id}","kind":"sensor"}}"#)).await;
    }

    async fn client(&self, id: &str) {
        let body = format!(r#"{{"id":"{id}","name":"n","url":"https://{id}.example/"}}"#);
        self.make("POST /v1/clients", &body).await;
    }

    /// The token and the id of a portal that may read.
    async fn portal(&self, client: &str) -> (String, String) {
        let call = format!("POST /v1/clients/{client}/portal");
        let (_, body) = self.send(&call, Some("admin"), None, r#"{"ttl":"1h","may":["read"]}"#).await;
        let body = body.collect().await.expect("a body").to_bytes();
        let portal: Json = serde_json::from_slice(&body).expect("a portal");
        ["token", "id"].map(|field| portal[field].as_str().expect("text").to_owned()).into()
    }

    /// The code of the refusal.
    async fn refused(&self, query: &str, token: Option<&str>) -> (u16, String) {
        let (status, body) = self.send(&format!("GET /v1/live?{query}"), token, None, "").await;
        let body = body.collect().await.expect("a body").to_bytes();
        let problem: Json = serde_json::from_slice(&body).expect("a problem");
        (status, problem["code"].as_str().expect("a code").to_owned())
    }

    async fn open(&self, query: &str, token: Option<&str>, last: Option<&str>) -> Reader {
        let (status, body) = self.send(&format!("GET /v1/live?{query}"), token, last, "").await;
        assert_eq!(status, 200, "{query}");
        let mut reader = Reader { body, rest: Vec::new() };
        assert_eq!(reader.next().await.expect("it has begun").event, "hello");
        reader
    }

    /// The devices report these numbers, one after the other.
    async fn report(&self, device: &str, values: std::ops::Range<u32>) {
        let report = |value: u32| {
            let content =
                ReportContent::Value { value: Value::number(value.into()).expect("finite"), ts: None };
            Report { device: DeviceId::new(device).expect("an id"), kind: None, content, id: None }
        };
        let slice = Slice::from_iter(values.map(report));
        let pending = self.engine.intake(WayIn::Http).submit(slice).await.expect("accepting");
        pending.durable().await.expect("durable");
    }
}

#[tokio::test]
async fn a_feed_begins_with_its_last_items_and_goes_on_as_they_come() {
    let rig = Rig::start(&[]).await;
    rig.device("d1").await;
    rig.report("d1", 0..3).await;
    let mut reader = rig.open("topics=events&last=2", None, None).await;
    let first = reader.next().await.expect("the last ones");
    assert_eq!(
        (first.event.as_str(), first.ids().len(), &first.data["first"]),
        ("events", 2, &Json::Bool(true))
    );
    assert_eq!(first.data["items"][1]["value"], 2, "{first:?}");
    rig.report("d1", 3..5).await;
    let mut values = Vec::new();
    while values.len() < 2 {
        let more = reader.next().await.expect("more");
        assert_eq!(more.data["first"], false);
        values.extend(more.data["items"].as_array().expect("items").iter().map(|item| item["value"].clone()));
    }
    assert_eq!(values, [3, 4]);
}

#[tokio::test]
async fn a_command_that_moves_on_is_sent_again_as_it_stands() {
    let rig = Rig::start(&[]).await;
    rig.device("d1").await;
    let mut reader = rig.open("topics=commands", None, None).await;
    assert_eq!(reader.next().await.expect("none").ids(), [""; 0]);
    rig.make("POST /v1/devices/d1/commands", r#"{"payload":"reboot"}"#).await;
    let given = reader.next().await.expect("the command");
    let id = given.ids()[0].to_owned();
    assert_eq!(given.data["items"][0]["status"], "scheduled", "{given:?}");
    rig.make(&format!("DELETE /v1/commands/{id}"), "").await;
    let is_cancelled = |message: &Message| {
        assert_eq!((message.ids().len(), &message.data["first"]), (0, &Json::Bool(false)), "{message:?}");
        let moved = message.data["moved"].as_array().expect("what moved");
        assert_eq!(
            (moved.len(), &moved[0]["id"], &moved[0]["status"]),
            (1, &id.as_str().into(), &"cancelled".into())
        );
    };
    is_cancelled(&reader.next().await.expect("it again"));
    // Whoever was cut off between is told too.
    let mut resumed = rig.open("topics=commands", None, given.id.as_deref()).await;
    is_cancelled(&resumed.next().await.expect("it again"));
}

#[tokio::test]
async fn a_delivery_that_is_superseded_is_sent_again() {
    let rig = Rig::start(&[]).await;
    rig.make("POST /v1/clients", r#"{"id":"acme","name":"n","url":"https://acme.example/"}"#).await;
    rig.device("d1").await;
    rig.make("PUT /v1/devices/d1/clients/acme", "").await;
    let mut reader = rig.open("topics=deliveries", None, None).await;
    let mut older: Option<String> = None;
    for value in 0..2 {
        rig.report("d1", value..value + 1).await;
        let (mut newest, mut moved) = (None, older.is_none());
        while newest.is_none() || !moved {
            let message = reader.next().await.expect("deliveries");
            newest = message.ids().last().map(|id| (*id).to_owned()).or(newest);
            let is_older = |row: &&Json| row["id"].as_str() == older.as_deref();
            if let Some(row) = message.data["moved"].as_array().and_then(|moved| moved.iter().find(is_older))
            {
                moved |= row["status"] == "superseded";
            }
        }
        older = newest;
    }
}

#[tokio::test]
async fn of_devices_those_are_sent_that_are_asked_for_and_changed() {
    let rig = Rig::start(&[]).await;
    for id in ["d1", "d2", "d3"] {
        rig.device(id).await;
    }
    let mut reader = rig.open("topics=devices&ids=d1,d2,unknown", None, None).await;
    let mut all = reader.next().await.expect("all").ids().into_iter().map(str::to_owned).collect::<Vec<_>>();
    all.sort();
    assert_eq!(all, ["d1", "d2"]);
    rig.report("d3", 0..1).await;
    rig.report("d2", 7..8).await;
    let changed = reader.next().await.expect("one");
    assert_eq!((changed.ids(), &changed.data["items"][0]["state"]["value"]), (vec!["d2"], &Json::from(7)));
    rig.make("DELETE /v1/devices/d1", "").await;
    assert_eq!(reader.next().await.expect("one is gone").data["gone"], serde_json::json!(["d1"]));
}

#[tokio::test]
async fn of_queues_those_are_sent_that_stand_otherwise() {
    let rig = Rig::start(&[]).await;
    let mut reader = rig.open("topics=queues&queues=mail/out,mail/in", None, None).await;
    assert_eq!(reader.next().await.expect("both").data["items"].as_array().map(Vec::len), Some(2));
    rig.make("POST /v1/queues/mail/out/jobs", r#"{"payload":1}"#).await;
    let changed = reader.next().await.expect("one");
    assert_eq!(changed.data["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        (&changed.data["items"][0]["queue"], &changed.data["items"][0]["ready"]),
        (&"out".into(), &1.into())
    );
}

#[tokio::test]
async fn the_overview_comes_with_rates_and_what_fails() {
    let rig = Rig::start(&[]).await;
    rig.device("d1").await;
    rig.make("POST /v1/queues/mail/out/pause", "").await;
    let mut reader = rig.open("topics=overview", None, None).await;
    let overview = reader.next().await.expect("the overview").data;
    assert_eq!((&overview["devices"]["total"], &overview["queues"]["paused"]), (&1.into(), &1.into()));
    assert_eq!(overview["failing"][0]["what"], "queue_paused", "{overview}");
    assert_eq!(overview["failing"][0]["link"], "/queues/mail/out");
    rig.report("d1", 0..50).await;
    let rated = loop {
        let overview = reader.next().await.expect("another").data;
        if overview["rates"]["reports"] != 0.0 {
            break overview;
        }
    };
    assert!(rated["rates"]["changes"].as_f64().expect("a rate") > 0.0, "{rated}");
}

#[tokio::test]
async fn a_server_that_stops_ends_its_streams_at_once() {
    let rig = Rig::start(&[]).await;
    let mut reader = rig.open("topics=queues&queues=mail/out", None, None).await;
    assert!(reader.next().await.is_some());
    rig.stop.send_replace(true);
    assert!(reader.next().await.is_none());
}

#[tokio::test]
async fn there_are_so_many_streams_and_one_token_has_a_share() {
    let rig = Rig::with_streams(&[("admin", "admin"), ("read", "read")], 2).await;
    let query = "topics=overview";
    let first = rig.open(query, Some("admin"), None).await;
    assert_eq!(rig.refused(query, Some("admin")).await, (503, "too_many_live".to_owned()));
    let _other = rig.open(query, Some("read"), None).await;
    drop(first);
    let _again = rig.open(query, Some("admin"), None).await;
}

#[test]
fn a_token_that_sees_only_some_has_fewer_streams() {
    let limits = super::LiveLimits::of(100);
    assert_eq!((limits.of_token_max, limits.of_narrow_token_max), (50, 25));
    let whose = SenderKey::Token("acme".into());
    let narrow = limits.of_narrow_token.of(&whose);
    let held: Vec<_> = std::iter::from_fn(|| narrow.try_take(1)).collect();
    assert_eq!(held.len(), 25);
}

#[tokio::test]
async fn what_a_stream_is_asked_for_is_checked() {
    let rig = Rig::start(&[]).await;
    for (query, expect) in [
        ("", (422, "invalid_parameter")),
        ("topics=", (422, "invalid_parameter")),
        ("topics=events,weather", (422, "invalid_parameter")),
        ("topics=timeline", (422, "invalid_parameter")),
        ("topics=devices", (422, "invalid_parameter")),
        ("topics=queues&queues=mail", (422, "invalid_parameter")),
        ("topics=queues&queues=_own/q", (422, "invalid_parameter")),
        ("topics=events&last=201", (422, "invalid_parameter")),
        ("topics=events&wait=1s", (422, "unknown_parameter")),
        ("topics=events&device=none", (404, "unknown_device")),
        ("topics=deliveries&client=none", (404, "unknown_client")),
        ("topics=client", (422, "invalid_parameter")),
        ("topics=rollouts&rollout=", (422, "invalid_parameter")),
    ] {
        assert_eq!(rig.refused(query, None).await, (expect.0, expect.1.to_owned()), "{query}");
    }
    let many = vec!["d"; 201].join(",");
    assert_eq!(rig.refused(&format!("topics=devices&ids={many}"), None).await.0, 422);
}

#[tokio::test]
async fn each_topic_takes_what_the_list_of_its_name_takes() {
    let tokens = [
        ("admin", "admin"),
        ("read", "read"),
        ("commands", "commands"),
        ("jobs", "jobs:mail"),
        ("acme", "client:acme"),
    ];
    let rig = Rig::start(&tokens).await;
    rig.make("POST /v1/clients", r#"{"id":"acme","name":"n","url":"https://acme.example/"}"#).await;
    for id in ["d1", "d2"] {
        rig.device(id).await;
    }
    rig.make("PUT /v1/devices/d1/clients/acme", "").await;
    for (query, allowed) in [
        ("topics=overview", &["admin", "read", "commands"][..]),
        ("topics=events", &["admin", "read"]),
        ("topics=events&device=d1", &["admin", "read", "acme"]),
        ("topics=events&device=d2", &["admin", "read"]),
        ("topics=deliveries&client=acme", &["admin", "read", "acme"]),
        ("topics=commands", &["admin", "read", "commands"]),
        ("topics=rollouts", &["admin", "read", "commands"]),
        ("topics=operations", &["admin", "read", "commands", "acme"]),
        ("topics=operations&namespace=mail", &["admin", "read", "commands", "acme", "jobs"]),
        ("topics=client&client=acme", &["admin", "read", "acme"]),
        ("topics=timeline&device=d1", &["admin", "read", "commands"]),
        ("topics=devices&ids=d1", &["admin", "read", "commands", "acme"]),
        ("topics=queues&queues=mail/out", &["admin", "read", "jobs"]),
        ("topics=queues&queues=mail/out,other/out", &["admin", "read"]),
        ("topics=deliveries,overview&client=acme", &["admin", "read"]),
    ] {
        for (token, _) in tokens {
            let (status, _) = rig.send(&format!("GET /v1/live?{query}"), Some(token), None, "").await;
            let expect = if allowed.contains(&token) { 200 } else { 403 };
            assert_eq!(status, expect, "{query} with {token}");
        }
    }
    let mut reader = rig.open("topics=devices&ids=d1,d2", Some("acme"), None).await;
    assert_eq!(reader.next().await.expect("its own").ids(), ["d1"]);
}

#[tokio::test]
async fn a_stream_ends_when_its_caller_may_no_longer_see_it() {
    let rig = Rig::start(&[("admin", "admin"), ("acme", "client:acme")]).await;
    rig.make("POST /v1/clients", r#"{"id":"acme","name":"n","url":"https://acme.example/"}"#).await;
    rig.device("d1").await;
    rig.make("PUT /v1/devices/d1/clients/acme", "").await;
    let mut reader = rig.open("topics=events&device=d1", Some("acme"), None).await;
    assert_eq!(reader.next().await.expect("events").event, "events");
    rig.make("DELETE /v1/devices/d1/clients/acme", "").await;
    let mut value = 0;
    let end = loop {
        rig.report("d1", value..value + 1).await;
        value += 1;
        let message = reader.next().await.expect("events, then the end");
        if message.event == "end" {
            break message;
        }
    };
    assert_eq!((&end.data["status"], &end.data["code"]), (&403.into(), &"forbidden".into()));
    assert!(reader.next().await.is_none());
}

#[tokio::test]
async fn streams_at_the_same_place_share_what_one_of_them_read() {
    let rig = Rig::start(&[]).await;
    rig.device("d1").await;
    rig.report("d1", 0..2).await;
    let state =
        ApiState::new(rig.engine.clone(), Access::of(Vec::new()), &MemoryBudget::default(), Arc::default());
    let sees = crate::authorization::Visibility::Everything;
    let source = crate::routes::live::source(&state, super::LiveTopic::Events, (None, None), sees);
    let feed = FeedIdentity { topic: super::LiveTopic::Events, device: None, client: None, sees };
    let (mut one, mut other) =
        (FeedState::new(Arc::clone(&source), feed.clone(), 50, None), FeedState::new(source, feed, 50, None));
    let whose = SenderKey::Unknown;
    let at = |tick| super::LiveLook { api: &state, tick, whose: &whose };
    let looked = [one.look(&at(1)).await.expect("readable"), other.look(&at(1)).await.expect("readable")];
    assert!(Arc::ptr_eq(&looked[0], &looked[1]));
    assert_eq!(looked[0].count, 2);
    let later = other.look(&at(2)).await.expect("readable");
    assert_eq!(later.count, 0, "it was sent");
}
