//! A server that does what a test says, and remembers what it was asked.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use fieldpost_client::{Client, Worker, WorkerEvent};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

/// Nothing here takes longer, even on a machine that is busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What workers are told is asked for under this; it is not recorded.
const CONTROL: &str = "control";

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    /// How many came before it to the same path.
    pub(crate) before: usize,
}

impl Asked {
    /// What the last part of its path says is to be done.
    pub(crate) fn verb(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("a body is JSON")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// What is done with a request.
pub(crate) enum Reply {
    /// Status and body.
    Answer(u16, String),
    /// The same with one more header.
    With(&'static str, u16, String),
    /// The connection is closed without a word.
    Break,
    /// Nothing, until the other side hangs up.
    Wait,
    /// Nothing until the other side hangs up, and then status and body.
    WaitThen(u16, String),
    /// Status and body, once this is told.
    Gate(Arc<Notify>, u16, String),
}

/// A URL at which nobody listens. The socket is bound and never listens: as long as it is there,
/// nobody else is given the port.
pub(crate) fn nobody() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
    let url = format!("http://{}", socket.local_addr().expect("it is bound"));
    (socket, url)
}

/// An answer with this document.
pub(crate) fn ok(document: &Value) -> Reply {
    Reply::Answer(200, document.to_string())
}

/// A refusal.
pub(crate) fn refused(status: u16, code: &str) -> Reply {
    Reply::Answer(status, json!({ "status": status, "code": code, "detail": "no" }).to_string())
}

/// Jobs as a consumer gets them.
pub(crate) fn jobs(jobs: &[(&str, Value)]) -> String {
    const TIME: &str = "2026-11-21T01:02:03.456Z";
    let one = |(id, payload): &(&str, Value)| {
        json!({ "id": id, "queue": "mail", "payload": payload, "attempt": 1, "tries": 3,
            "reservation": format!("r-{id}"), "published_at": TIME, "run_at": TIME })
    };
    json!({ "jobs": jobs.iter().map(one).collect::<Vec<_>>() }).to_string()
}

/// The answer to acknowledgements that all hold.
pub(crate) fn all_acked(asked: &Asked) -> Reply {
    let count = asked.json()["reservations"].as_array().map_or(0, Vec::len);
    ok(&json!({ "acked": count, "stale": [] }))
}

type Script = Arc<dyn Fn(&Asked) -> Reply + Send + Sync>;

pub(crate) struct Stage {
    url: String,
    asked: Arc<watch::Sender<Vec<Asked>>>,
}

impl Stage {
    pub(crate) async fn new(script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let asked = Arc::new(watch::Sender::new(Vec::new()));
        let script: Script = Arc::new(script);
        let record = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&script), Arc::clone(&record)));
            }
        });
        Self { url, asked }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A client with little time, as tests have.
    pub(crate) fn client(&self) -> Client {
        Client::builder(self.url()).build().expect("a client")
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.borrow().clone()
    }

    /// The requests for this, so far.
    pub(crate) fn asked_to(&self, verb: &str) -> Vec<Asked> {
        self.asked().into_iter().filter(|asked| asked.verb() == verb).collect()
    }

    /// Waits until there were so many requests for this.
    pub(crate) async fn until(&self, verb: &str, count: usize) {
        let mut asked = self.asked.subscribe();
        let enough = |all: &Vec<Asked>| all.iter().filter(|asked| asked.verb() == verb).count() >= count;
        let came = timeout(PATIENCE, asked.wait_for(enough)).await;
        assert!(came.is_ok(), "not {count} times {verb}: {:?}", self.asked());
    }
}

async fn serve(stream: TcpStream, script: Script, record: Arc<watch::Sender<Vec<Asked>>>) {
    let mut stream = BufReader::new(stream);
    while let Some(asked) = read(&mut stream, &record).await {
        // No workers are told anything here.
        let reply = if asked.verb() == CONTROL { refused(404, "no_control") } else { script(&asked) };
        let (header, status, body) = match reply {
            Reply::Answer(status, body) => ("", status, body),
            Reply::With(header, status, body) => (header, status, body),
            Reply::Break => return,
            Reply::Wait => {
                until_hung_up(&mut stream).await;
                return;
            }
            Reply::WaitThen(status, body) => {
                until_hung_up(&mut stream).await;
                ("", status, body)
            }
            Reply::Gate(gate, status, body) => {
                gate.notified().await;
                ("", status, body)
            }
        };
        let length = body.len();
        let text = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n{header}\r\n{body}");
        // A client that no longer listens is for the test to notice.
        drop(stream.write_all(text.as_bytes()).await);
    }
}

async fn until_hung_up(stream: &mut BufReader<TcpStream>) {
    let read = stream.read(&mut [0]).await;
    assert!(matches!(read, Ok(0) | Err(_)), "nothing is said while an answer is awaited");
}

/// The next request, recorded; `None` at the end of the connection.
async fn read(stream: &mut BufReader<TcpStream>, record: &watch::Sender<Vec<Asked>>) -> Option<Asked> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).expect("a head is text");
    let mut lines = head.lines();
    let mut words = lines.next().expect("a request line").split(' ').map(str::to_owned);
    let (method, path) = (words.next().expect("a method"), words.next().expect("a path"));
    let header =
        |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let headers: Vec<_> = lines.filter_map(header).collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().expect("a length"))];
    stream.read_exact(&mut body).await.ok()?;
    let body = String::from_utf8(body).expect("a body is text");
    let mut asked = Asked { method, path, headers, body, before: 0 };
    if asked.verb() == CONTROL {
        return Some(asked);
    }
    record.send_modify(|all| {
        asked.before = all.iter().filter(|other| other.path == asked.path).count();
        all.push(asked.clone());
    });
    Some(asked)
}

/// What a worker told, as text: which event, of which job, and why.
#[derive(Clone)]
pub(crate) struct WorkerEvents(Arc<watch::Sender<Vec<String>>>);

impl WorkerEvents {
    /// Listens to a worker.
    pub(crate) fn by<T>(worker: Worker<T>) -> (Worker<T>, Self) {
        let events = Self(Arc::new(watch::Sender::new(Vec::new())));
        let listener = events.clone();
        (worker.observe(move |event| listener.0.send_modify(|all| all.push(text(event)))), events)
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.borrow().clone()
    }

    /// Waits until it told this.
    pub(crate) async fn until(&self, what: &str) {
        let mut events = self.0.subscribe();
        let came = timeout(PATIENCE, events.wait_for(|all| all.iter().any(|text| text == what))).await;
        assert!(came.is_ok(), "not told {what:?}: {:?}", self.all());
    }
}

fn text(event: &WorkerEvent) -> String {
    match event {
        WorkerEvent::Begun { job, .. } => format!("begun {}", job.id),
        WorkerEvent::Done { job } => format!("done {}", job.id),
        WorkerEvent::Failed { job, error, .. } => format!("failed {}: {error}", job.id),
        WorkerEvent::Lost { job } => format!("lost {}", job.id),
        WorkerEvent::Untold { job, .. } => format!("untold {}", job.id),
        WorkerEvent::Away { .. } => "away".to_owned(),
        WorkerEvent::Stopping { running } => format!("stopping with {running}"),
        other => format!("{other:?}"),
    }
}
