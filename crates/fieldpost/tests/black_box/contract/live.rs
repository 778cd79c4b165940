//! Live streams over a socket: at once, across a kill, and to the end when the server stops.

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::contract::rig::{PATIENCE, Rig};
use crate::wire;

/// The reader of a stream.
pub(crate) struct Reader {
    socket: TcpStream,
    text: String,
    /// How far it was read.
    at: usize,
}

/// A message's name, id and data.
pub(crate) type Message = (String, Option<String>, Value);

impl Reader {
    pub(crate) async fn open(rig: &Rig, query: &str, last: Option<&str>) -> Self {
        let last = last.map(|id| format!("\nLast-Event-ID: {id}")).unwrap_or_default();
        let head = format!("GET /v1/live?{query} HTTP/1.1\nHost: localhost\nAccept-Encoding: gzip{last}");
        let socket = wire::begin(rig.site.http.address().await, &head, b"").await;
        let mut reader = Self { socket, text: String::new(), at: 0 };
        assert_eq!(reader.next().await.expect("it has begun").0, "hello");
        let head = reader.text.to_ascii_lowercase();
        assert!(
            head.starts_with("http/1.1 200") && head.contains("content-type: text/event-stream\r\n"),
            "{head}"
        );
        assert!(!head.contains("content-encoding") && head.contains("cache-control: no-store\r\n"), "{head}");
        reader
    }

    /// The next message; `None` once the server has ended the answer.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = self.message() {
                return Some(message);
            }
            let mut bytes = vec![0; 16 * 1_024];
            let read = timeout(PATIENCE, self.socket.read(&mut bytes)).await.expect("in time");
            match read.expect("it does not break") {
                0 => {
                    assert!(self.text.ends_with("0\r\n\r\n"), "the answer has an end: {}", self.text);
                    return None;
                }
                count => self.text.push_str(&String::from_utf8_lossy(&bytes[..count])),
            }
        }
    }

    /// A message that is there; each is a chunk of its own.
    fn message(&mut self) -> Option<Message> {
        let rest = &self.text[self.at..];
        let begin = rest.find("event: ")?;
        let end = begin + rest[begin..].find("\n\n")?;
        let block = &rest[begin..end];
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
        let data = serde_json::from_str(field("data: ").expect("data")).expect("JSON");
        let message = (field("event: ").expect("a name").to_owned(), field("id: ").map(str::to_owned), data);
        self.at += end;
        Some(message)
    }
}

#[tokio::test]
async fn a_stream_goes_on_after_a_kill_and_ends_when_the_server_stops() {
    let mut rig = Rig::start(&[]).await;
    rig.device(&json!({"id": "lock1"})).await;
    rig.report("lock1", 1).await;
    let query = "topics=events,overview&last=5";
    let mut reader = Reader::open(&rig, query, None).await;
    let (mut id, mut values) = (None, Vec::new());
    while values.len() < 2 {
        let (topic, new_id, data) = reader.next().await.expect("it goes on");
        if topic != "events" {
            continue;
        }
        id = new_id.or(id);
        values.extend(data["items"].as_array().expect("items").iter().map(|item| item["value"].clone()));
        if values.len() == 1 {
            rig.report("lock1", 0).await;
        }
    }
    rig.restart().await;
    for value in [1, 0] {
        rig.report("lock1", value).await;
    }
    let mut reader = Reader::open(&rig, query, id.as_deref()).await;
    while values.len() < 4 {
        let (topic, _, data) = reader.next().await.expect("it goes on");
        if topic == "events" {
            assert_eq!(data["first"], false);
            values.extend(data["items"].as_array().expect("items").iter().map(|item| item["value"].clone()));
        }
    }
    assert_eq!(values, [1, 0, 1, 0]);
    let (stopped, ()) = tokio::join!(rig.stop(), async { while reader.next().await.is_some() {} });
    assert!(stopped.success(), "{stopped}");
}

#[tokio::test]
async fn the_system_is_shown_without_its_secrets() {
    let settings = [
        ("FIELDPOST_AMQP__URL", "amqp://fleet:hunter2@127.0.0.1:9/vhost"),
        ("FIELDPOST_HTTP__LIVE_MAX", "7"),
    ];
    let rig = Rig::start(&settings).await;
    let system = rig.get("/v1/system").await;
    assert!(!system.to_string().contains("hunter2"), "{system}");
    assert_eq!(system["settings"]["amqp"]["url"], "(hidden)");
    assert_eq!((&system["ready"], &system["settings"]["http"]["live_max"]), (&json!(true), &json!("7")));
    assert!(system["memory"]["resident_bytes"].as_u64().expect("a number") > 1_000_000, "{system}");
    assert!(system["store"]["disk_free_bytes"].as_u64().expect("a number") > 0, "{system}");
    assert!(system["store"]["checkpoints"].is_u64(), "{system}");
    let limits = system["limits"].as_array().expect("limits");
    let streams = limits.iter().find(|limit| limit["name"] == "live streams").expect("it has a limit");
    assert_eq!((&streams["max"], &streams["setting"]), (&json!(7), &json!("http.live_max")));
    let caller = rig.get("/v1/caller").await;
    assert_eq!(caller, json!({"open": true, "token": null, "scopes": ["admin"]}));
}
