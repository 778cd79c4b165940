//! The requests that lmstfy's clients in Rust, Go, Java and PHP send, each as its library writes
//! it. Also what the library reads of the answer.
//!
//! Heads are those that a recording shows: order and spelling of headers, which parameters are
//! given, and how. Where `{..}` stands, the test puts what it got before. The answers are read into
//! the members that the library's types demand.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::lmstfy::rig::{NAMESPACE, Rig};
use crate::wire::{self, Answer};

/// How a library writes a request: its headers behind the request line.
struct Client {
    headers: &'static str,
    /// What it adds when there is a body.
    with_body: &'static str,
}

const RUST: Client = Client { headers: "x-token: {token}\naccept: */*\nhost: 127.0.0.1", with_body: "" };
const GO: Client = Client {
    headers: "Host: 127.0.0.1\nUser-Agent: Go-http-client/1.1\nX-Token: {token}\nAccept-Encoding: gzip",
    with_body: "",
};
const JAVA: Client = Client {
    headers: "X-Token: {token}\nHost: 127.0.0.1\nAccept-Encoding: gzip\nUser-Agent: okhttp/4.2.2",
    with_body: "\nContent-Type: text/binary",
};
const PHP: Client = Client {
    headers: "Host: 127.0.0.1\nAccept: */*\nX-Token:{token}",
    with_body: "\nContent-Type: application/x-www-form-urlencoded",
};

/// What the Rust library reads of a job. The other libraries read no more than [`FullJob`].
#[derive(Debug, Deserialize)]
struct Job {
    namespace: String,
    queue: String,
    data: String,
    job_id: String,
    ttl: u64,
    #[serde(rename = "elapsed_ms")]
    _elapsed_ms: u64,
}

/// What the libraries in Go and Java read.
#[derive(Debug, Deserialize)]
struct FullJob {
    #[serde(flatten)]
    job: Job,
    remain_tries: i64,
}

#[derive(Deserialize)]
struct Published {
    job_id: String,
}

#[derive(Deserialize)]
struct PublishedMany {
    job_ids: Vec<String>,
}

#[derive(Deserialize)]
struct QueueInfo {
    size: u32,
}

#[derive(Debug, PartialEq, Deserialize)]
struct DeadLetterInfo {
    namespace: String,
    queue: String,
    deadletter_size: u32,
    deadletter_head: String,
}

#[derive(Deserialize)]
struct RespawnResult {
    count: u32,
}

#[derive(Deserialize)]
struct ResponseError {
    error: String,
}

impl Client {
    /// Sends a request whose path begins behind the namespace, and reads the answer's id as every
    /// library does.
    async fn ask(&self, rig: &Rig, method: &str, path: &str, body: &[u8]) -> Answer {
        let headers = self.headers.replace("{token}", &rig.token);
        let more = if body.is_empty() { "" } else { self.with_body };
        let head = format!("{method} /api/{NAMESPACE}/{path} HTTP/1.1\n{headers}{more}");
        let answer = wire::send(rig.api, &head, body).await;
        assert!(!answer.headers["x-request-id"].is_empty(), "{answer:?}");
        answer
    }

    /// Asks for what has to be answered with `status`, and reads it.
    async fn get<T: DeserializeOwned>(&self, rig: &Rig, call: (&str, &str, &[u8]), status: u16) -> T {
        let (method, path, body) = call;
        let answer = self.ask(rig, method, path, body).await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        serde_json::from_str(&answer.body)
            .unwrap_or_else(|error| panic!("{method} {path}: {error}: {answer:?}"))
    }

    async fn status(&self, rig: &Rig, method: &str, path: &str) -> u16 {
        self.ask(rig, method, path, b"").await.status
    }
}

#[tokio::test]
async fn the_rust_client_gets_what_it_reads() {
    let rig = &Rig::start().await;
    let Published { job_id: first } = RUST.get(rig, ("PUT", "q?ttl=0&tries=1&delay=0", b"hello"), 201).await;
    let job: Job = RUST.get(rig, ("GET", "q?ttr=5&timeout=1&count=1", b""), 200).await;
    assert_eq!((job.namespace.as_str(), job.queue.as_str(), job.ttl), (NAMESPACE, "q", 0));
    assert_eq!((&job.job_id, job.data.as_str()), (&first, "aGVsbG8="));
    let again = format!("q/job/{first}?ttl=100&tries=1&delay=0");
    let Published { job_id: second } = RUST.get(rig, ("PUT", &again, b"hello"), 201).await;
    let job: Job = RUST.get(rig, ("GET", "q/peek", b""), 200).await;
    assert_eq!(job.job_id, second);
    assert!((1..=100).contains(&job.ttl), "{job:?}");
    let job: Job = RUST.get(rig, ("GET", &format!("q/job/{second}"), b""), 200).await;
    assert_eq!(job.job_id, second);
    let QueueInfo { size } = RUST.get(rig, ("GET", "q/size", b""), 200).await;
    assert_eq!(size, 1);
    let jobs: Vec<Job> = RUST.get(rig, ("GET", "q?ttr=3&timeout=3&count=3", b""), 200).await;
    assert_eq!(jobs.iter().map(|job| &job.job_id).collect::<Vec<_>>(), [&second]);
    assert_eq!(RUST.status(rig, "DELETE", &format!("q/job/{second}")).await, 204);
    assert_eq!(RUST.status(rig, "GET", "q2,q?ttr=10&timeout=0&count=1").await, 404);
    let ResponseError { error } = RUST.get(rig, ("PUT", "q?ttl=1&tries=1&delay=2", b""), 400).await;
    assert_eq!(error, "ttl is shorter than delay");
}

#[tokio::test]
async fn the_rust_client_finds_its_dead_letters() {
    let rig = &Rig::start().await;
    let Published { job_id } = RUST.get(rig, ("PUT", "q?ttl=0&tries=1&delay=0", b"hello"), 201).await;
    let _taken: Job = RUST.get(rig, ("GET", "q?ttr=1&timeout=0&count=1", b""), 200).await;
    rig.until_size("q/deadletter/size", 1).await;
    let dead: DeadLetterInfo = RUST.get(rig, ("GET", "q/deadletter", b""), 200).await;
    let (namespace, queue) = (NAMESPACE.to_owned(), "q".to_owned());
    assert_eq!(
        dead,
        DeadLetterInfo { namespace, queue, deadletter_size: 1, deadletter_head: job_id.clone() }
    );
    let RespawnResult { count } = RUST.get(rig, ("PUT", "q/deadletter?limit=1&ttl=10", b""), 200).await;
    assert_eq!(count, 1);
    let job: Job = RUST.get(rig, ("GET", "q?ttr=5&timeout=1&count=1", b""), 200).await;
    assert_eq!(job.job_id, job_id);
}

#[tokio::test]
async fn the_go_client_gets_what_it_reads() {
    let rig = &Rig::start().await;
    let Published { job_id: first } = GO.get(rig, ("PUT", "q?delay=0&tries=3&ttl=100", b"hello"), 201).await;
    let call = ("PUT", "q/bulk?delay=0&tries=3&ttl=100", &br#"[{"a":1},"b"]"#[..]);
    let PublishedMany { job_ids } = GO.get(rig, call, 201).await;
    assert_eq!(job_ids.len(), 2);
    let job: FullJob = GO.get(rig, ("GET", "q?freeze_tries=false&timeout=2&ttr=60", b""), 200).await;
    assert_eq!((&job.job.job_id, job.remain_tries), (&first, 2));
    assert!((1..=100).contains(&job.job.ttl), "{job:?}");
    let jobs: Vec<FullJob> =
        GO.get(rig, ("GET", "q?count=10&freeze_tries=false&timeout=0&ttr=60", b""), 200).await;
    assert_eq!(
        jobs.iter().map(|job| &job.job.job_id).collect::<Vec<_>>(),
        job_ids.iter().collect::<Vec<_>>()
    );
    assert_eq!(GO.status(rig, "DELETE", &format!("q/job/{first}")).await, 204);
    assert_eq!(GO.status(rig, "GET", &format!("q/job/{first}")).await, 404);
    assert_eq!(GO.status(rig, "GET", "empty?freeze_tries=false&timeout=0&ttr=3").await, 404);
    assert_eq!(GO.status(rig, "DELETE", "q/deadletter?limit=1").await, 204);
    let RespawnResult { count } = GO.get(rig, ("PUT", "q/deadletter?limit=10&ttl=60", b""), 200).await;
    assert_eq!(count, 0);
    let ResponseError { error } = GO.get(rig, ("PUT", "q?delay=0&tries=0&ttl=10", b"x"), 400).await;
    assert_eq!(error, "tries shouldn't be zero");
}

#[tokio::test]
async fn the_java_client_gets_what_it_reads() {
    let rig = &Rig::start().await;
    let Published { job_id } = JAVA.get(rig, ("PUT", "q?delay=0&ttl=100&tries=3", b"hello"), 201).await;
    let job: FullJob = JAVA.get(rig, ("GET", "q/peek", b""), 200).await;
    assert_eq!((&job.job.job_id, job.remain_tries), (&job_id, 3));
    let job: FullJob = JAVA.get(rig, ("GET", "p,q?timeout=3&ttr=10&count=1", b""), 200).await;
    assert_eq!((&job.job.job_id, job.job.queue.as_str()), (&job_id, "q"));
    assert_eq!(JAVA.status(rig, "GET", "q?timeout=0&ttr=10&count=5").await, 404);
    assert_eq!(JAVA.status(rig, "DELETE", &format!("q/job/{job_id}")).await, 204);
    let QueueInfo { size } = JAVA.get(rig, ("GET", "q/size", b""), 200).await;
    assert_eq!(size, 0);
    let dead: DeadLetterInfo = JAVA.get(rig, ("GET", "q/deadletter", b""), 200).await;
    assert_eq!((dead.deadletter_size, dead.deadletter_head.as_str()), (0, ""));
    assert_eq!(JAVA.status(rig, "DELETE", "q/deadletter?limit=5").await, 204);
    let large = vec![b'x'; 1_048_577];
    let ResponseError { error } = JAVA.get(rig, ("PUT", "q?delay=0&ttl=10&tries=3", &large), 413).await;
    assert_eq!(error, "body too large");
}

#[tokio::test]
async fn the_php_client_gets_what_it_reads() {
    let rig = &Rig::start().await;
    let Published { job_id } = PHP.get(rig, ("PUT", "q?ttl=0&tries=1&delay=0", b"a=b&c"), 201).await;
    let QueueInfo { size } = PHP.get(rig, ("GET", "q/size", b""), 200).await;
    assert_eq!(size, 1);
    let job: Job = PHP.get(rig, ("GET", "q?ttr=120&timeout=0", b""), 200).await;
    assert_eq!((&job.job_id, job.data.as_str()), (&job_id, "YT1iJmM="));
    let job: Job = PHP.get(rig, ("GET", &format!("q/job/{job_id}"), b""), 200).await;
    assert_eq!(job.job_id, job_id);
    assert_eq!(PHP.status(rig, "DELETE", &format!("q/job/{job_id}")).await, 204);
    assert_eq!(PHP.status(rig, "GET", "q?ttr=120&timeout=0").await, 404);
    // It makes up a query for this call and then leaves it out.
    let RespawnResult { count } = PHP.get(rig, ("PUT", "q/deadletter", b""), 200).await;
    assert_eq!(count, 0);
}
