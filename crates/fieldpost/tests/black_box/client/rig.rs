//! A server of its own for each test, a client of it, and workers that are listened to.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fieldpost_client::{
    CancellationToken, Client, Error, Failure, Job, Queue, QueueOverview, Worker, WorkerEvent,
};
use serde_json::Value;
use simulator::endpoint::Endpoint;
use simulator::server::{RunningServer, Site};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::ports::free_ports;

/// Nothing here takes longer, even on a machine that is busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Rig {
    pub(crate) client: Client,
    url: String,
    site: Site,
    server: Option<RunningServer>,
}

impl Rig {
    /// A server whose address stays the same when it is started again. Its devices may take long to
    /// answer.
    pub(crate) async fn start() -> Self {
        let [port] = free_ports();
        let free = format!("127.0.0.1:{port}");
        let settings = [("FIELDPOST_HTTP__LISTEN", free.as_str()), ("FIELDPOST_COMMANDS__ACK_TIMEOUT", "1m")];
        let site = Site::new(Path::new(env!("CARGO_BIN_EXE_fieldpost")), &settings).expect("a directory");
        let server = site.start(PATIENCE).await.expect("a server");
        let url = format!("http://{free}");
        let client = Client::builder(url.clone()).build().expect("a client");
        Self { client, url, site, server: Some(server) }
    }

    /// A client that gives up soon.
    pub(crate) fn impatient(&self) -> Client {
        let client = Client::builder(self.url.clone()).retry_for(Duration::from_millis(100));
        client.build().expect("a client")
    }

    /// SIGKILL.
    pub(crate) async fn kill(&mut self) {
        self.server.take().expect("it runs").kill().await.expect("killed");
    }

    /// A new process on the same data.
    pub(crate) async fn start_again(&mut self) {
        self.server = Some(self.site.start(PATIENCE).await.expect("a server"));
    }

    /// Where devices connect.
    pub(crate) fn mqtt(&self) -> &Endpoint {
        &self.site.mqtt
    }

    pub(crate) fn queue(&self) -> Queue {
        self.client.queue("shop", "mail")
    }
}

/// Scheduled, ready, reserved and dead.
pub(crate) fn counts(overview: &QueueOverview) -> [u64; 4] {
    [overview.scheduled, overview.ready, overview.reserved, overview.dead]
}

/// A worker that runs, and what it tells.
pub(crate) struct Running {
    told: Arc<watch::Sender<Vec<WorkerEvent>>>,
    stop: Arc<Notify>,
    task: JoinHandle<Result<(), Error>>,
}

impl Running {
    pub(crate) fn start<F>(
        worker: Worker<Value>,
        handler: impl Fn(Job<Value>, CancellationToken) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let told = Arc::new(watch::Sender::new(Vec::new()));
        let listener = Arc::clone(&told);
        let worker = worker.observe(move |event| listener.send_modify(|all| all.push(event.clone())));
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(worker.run_until(async move { stopped.notified().await }, handler));
        Self { told, stop, task }
    }

    /// Waits until it told so many such things.
    pub(crate) async fn until(&self, what: &str, count: usize, is: impl Fn(&WorkerEvent) -> bool) {
        let mut told = self.told.subscribe();
        let enough = |all: &Vec<WorkerEvent>| all.iter().filter(|event| is(event)).count() >= count;
        let came = timeout(PATIENCE, told.wait_for(enough)).await;
        assert!(came.is_ok(), "not {count} times {what}: {:?}", self.told.borrow());
    }

    pub(crate) async fn until_done(&self, count: usize) {
        self.until("done", count, |event| matches!(event, WorkerEvent::Done { .. })).await;
    }

    pub(crate) fn say_stop(&self) {
        self.stop.notify_one();
    }

    pub(crate) async fn ended(self) -> Vec<WorkerEvent> {
        let ended = timeout(PATIENCE, self.task).await.expect("it ends in time").expect("it does not panic");
        ended.expect("a good end");
        self.told.borrow().clone()
    }

    /// All that it told.
    pub(crate) async fn stop(self) -> Vec<WorkerEvent> {
        self.say_stop();
        self.ended().await
    }
}
