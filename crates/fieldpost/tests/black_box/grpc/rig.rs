//! A server of its own for each test, and clients of its services.

use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use grpc::proto::jobs_client::JobsClient;
use grpc::proto::reports_client::ReportsClient;
use grpc::proto::work_request::{Acks, Open};
use grpc::proto::{
    ConsumeRequest, Job, NewJob, PublishRequest, PublishedJob, WorkRequest, WorkResponse, job, new_job,
};
use serde_json::Value;
use simulator::api_client::ApiClient;
use simulator::server::{RunningServer, Site};
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_fieldpost");

/// Nothing here takes longer, even on a machine that is busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The namespace and the queue of most tests.
pub(crate) const NS: &str = "mail";
pub(crate) const QUEUE: &str = "out";

/// Longer than any test.
pub(crate) const LONG: prost_types::Duration = prost_types::Duration { seconds: 3_000, nanos: 0 };

/// How long consumers wait who are answered because something happened.
pub(crate) const WAIT: prost_types::Duration = prost_types::Duration { seconds: 300, nanos: 0 };

/// A running server.
pub(crate) struct Rig {
    pub(crate) api: ApiClient,
    pub(crate) site: Site,
    server: Option<RunningServer>,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    pub(crate) async fn start_with(settings: &[(&str, &str)]) -> Self {
        let site = Site::new(Path::new(BINARY), settings).expect("a directory");
        let server = site.start(PATIENCE).await.expect("a server");
        let api = ApiClient::new(site.http.clone(), PATIENCE);
        Self { api, site, server: Some(server) }
    }

    /// SIGKILL, and a new process on the same data.
    pub(crate) async fn restart(&mut self) {
        self.server.take().expect("it runs").kill().await.expect("killed");
        self.server = Some(self.site.start(PATIENCE).await.expect("a server"));
    }

    /// A new process after [`Rig::stop`].
    pub(crate) async fn restart_stopped(&mut self) {
        self.server = Some(self.site.start(PATIENCE).await.expect("a server"));
    }

    /// SIGTERM; how it ended.
    pub(crate) async fn stop(&mut self) -> ExitStatus {
        self.server.take().expect("it runs").stop(PATIENCE).await.expect("it ends")
    }

    /// Where gRPC listens.
    pub(crate) fn address(&self) -> String {
        let text = std::fs::read(self.site.log_path().with_file_name("ready.json")).expect("it was written");
        let ready: Value = serde_json::from_slice(&text).expect("one JSON object");
        ready["grpc"].as_str().expect("gRPC is on").to_owned()
    }

    pub(crate) async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address())).expect("an address");
        endpoint.connect().await.expect("it listens")
    }

    /// One that takes little ahead of who reads.
    pub(crate) async fn narrow_channel(&self) -> Channel {
        const WINDOW_BYTES: u32 = 64 * 1_024;
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address())).expect("an address");
        let endpoint =
            endpoint.initial_stream_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES);
        endpoint.connect().await.expect("it listens")
    }

    pub(crate) async fn jobs(&self) -> JobsClient<Channel> {
        JobsClient::new(self.channel().await)
    }

    pub(crate) async fn reports(&self) -> ReportsClient<Channel> {
        ReportsClient::new(self.channel().await)
    }

    /// A queue's figure, as the REST API tells it.
    pub(crate) async fn figure(&self, queue: &str, name: &str) -> u64 {
        let overview: Value = self.api.get(&format!("/v1/queues/{NS}/{queue}")).await.expect("figures");
        overview[name].as_u64().expect("a number")
    }

    /// A figure without labels that `/metrics` shows.
    pub(crate) async fn metric(&self, name: &str) -> u64 {
        let metrics = self.api.any(hyper::Method::GET, "/metrics", None).await.expect("metrics");
        let text = String::from_utf8_lossy(&metrics.body).into_owned();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.trim().parse::<f64>().ok()).expect("a number") as u64
    }

    /// Waits until such a figure is this.
    pub(crate) async fn until_metric(&self, name: &str, expect: u64) {
        let is = async {
            while self.metric(name).await != expect {
                yield_now().await;
            }
        };
        timeout(PATIENCE, is).await.unwrap_or_else(|_| panic!("{name} is never {expect}"));
    }

    /// Waits until a queue's figure is this.
    pub(crate) async fn until_figure(&self, name: &str, expect: u64) {
        let path = format!("/v1/queues/{NS}/{QUEUE}");
        let is = |overview: &Value| overview[name].as_u64() == Some(expect);
        let _overview: Value = self.api.until(&path, PATIENCE, is).await.expect("it becomes so");
    }
}

/// A job that carries a number.
pub(crate) fn numbered(number: usize) -> NewJob {
    NewJob { payload: Some(new_job::Payload::Json(number.to_string().into())), ..NewJob::default() }
}

pub(crate) fn number(job: &Job) -> usize {
    let Some(job::Payload::Json(text)) = &job.payload else { panic!("it was published as JSON: {job:?}") };
    std::str::from_utf8(text).expect("text").parse().expect("a number")
}

pub(crate) fn numbers(jobs: &[Job]) -> Vec<usize> {
    jobs.iter().map(number).collect()
}

pub(crate) fn publish(jobs: Vec<NewJob>) -> PublishRequest {
    PublishRequest { namespace: NS.to_owned(), queue: QUEUE.to_owned(), jobs, ..PublishRequest::default() }
}

/// Publishes jobs with these numbers.
pub(crate) async fn publish_numbers(
    jobs: &mut JobsClient<Channel>,
    numbers: std::ops::Range<usize>,
) -> Vec<PublishedJob> {
    let published = jobs.publish(publish(numbers.map(numbered).collect())).await.expect("published");
    published.into_inner().jobs
}

/// Takes up to so many jobs, without waiting.
pub(crate) async fn consume(jobs: &mut JobsClient<Channel>, max: u32) -> Vec<Job> {
    let asked = ConsumeRequest { max: Some(max), ..consuming(&[QUEUE]) };
    jobs.consume(asked).await.expect("consumed").into_inner().jobs
}

pub(crate) fn consuming(queues: &[&str]) -> ConsumeRequest {
    let queues = queues.iter().map(|&queue| queue.to_owned()).collect();
    ConsumeRequest { namespace: NS.to_owned(), queues, ..ConsumeRequest::default() }
}

/// How a call was refused: the status and the stable code.
pub(crate) fn refused<T: std::fmt::Debug>(answer: Result<T, Status>) -> (Code, String) {
    let status = answer.expect_err("it is refused");
    let code = status.metadata().get("fieldpost-code").map(|code| code.to_str().expect("a word").to_owned());
    (status.code(), code.unwrap_or_default())
}

/// A worker on a stream.
pub(crate) struct Worker {
    says: Option<mpsc::Sender<WorkRequest>>,
    hears: Streaming<WorkResponse>,
}

impl Worker {
    pub(crate) async fn open(jobs: &mut JobsClient<Channel>, queues: &[&str], credits: u32) -> Self {
        let queues = queues.iter().map(|&queue| queue.to_owned()).collect();
        let open = Open { namespace: NS.to_owned(), queues, ttr: Some(LONG) };
        Self::say_first(jobs, WorkRequest { open: Some(open), credits, ..WorkRequest::default() }).await
    }

    pub(crate) async fn say_first(jobs: &mut JobsClient<Channel>, first: WorkRequest) -> Self {
        let (says, said) = mpsc::channel(16);
        let requests =
            futures_util::stream::unfold(said, |mut said| async { Some((said.recv().await?, said)) });
        let hears = jobs.work(requests).await.expect("it answers before it is spoken to").into_inner();
        let mut worker = Self { says: Some(says), hears };
        worker.say(first).await;
        worker
    }

    pub(crate) async fn say(&mut self, message: WorkRequest) {
        self.says.as_ref().expect("it is open").send(message).await.expect("the stream is open");
    }

    pub(crate) async fn ack(&mut self, jobs: &[Job], credits: u32) {
        let reservations = jobs.iter().map(|job| job.reservation.clone()).collect();
        let acks = vec![Acks { reservations, ..Acks::default() }];
        self.say(WorkRequest { acks, credits, ..WorkRequest::default() }).await;
    }

    /// The worker says nothing more.
    pub(crate) fn close(&mut self) {
        self.says = None;
    }

    /// The next message; `None` at the end of the stream.
    pub(crate) async fn hear(&mut self) -> Result<Option<WorkResponse>, Status> {
        timeout(PATIENCE, self.hears.message()).await.expect("something comes")
    }

    /// The next so many jobs.
    pub(crate) async fn jobs(&mut self, count: usize) -> Vec<Job> {
        let mut jobs = Vec::new();
        while jobs.len() < count {
            jobs.extend(self.hear().await.expect("no refusal").expect("the stream goes on").jobs);
        }
        assert_eq!(jobs.len(), count, "no more than were asked for");
        jobs
    }

    /// Hears until so many acknowledgements held.
    pub(crate) async fn until_acked(&mut self, expect: u64) -> Vec<WorkResponse> {
        let mut heard = Vec::new();
        while heard.last().is_none_or(|last: &WorkResponse| last.acked < expect) {
            heard.push(self.hear().await.expect("no refusal").expect("the stream goes on"));
        }
        heard
    }
}
