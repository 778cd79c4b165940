//! Somebody who sends commands over REST at a rate that does not wait for answers, until it is
//! enough.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::ledger::CommandLedger;
use crate::endpoint::Endpoint;
use crate::json_lines::{HttpConnection, refusal};
use crate::traffic::DeviceIds;

/// Between two attempts to connect.
const RECONNECT_PAUSE: Duration = Duration::from_millis(50);

/// What is sent, where to and how fast.
#[derive(Debug, Clone)]
pub struct LoadPlan {
    /// The server's HTTP listener.
    pub endpoint: Endpoint,
    /// The devices that are told, in turn.
    pub devices: DeviceIds,
    /// Commands a second; infinite is as fast as answers come.
    pub per_second: f64,
    /// Ends after so many.
    pub commands: u64,
    /// Connections, each with one request at a time.
    pub connections: u32,
    /// Who asks for them, by which they are found again.
    pub origin: String,
    /// What devices are told.
    pub payload: Box<RawValue>,
}

/// Commands on their way.
#[derive(Debug)]
pub struct CommandLoad {
    schedule: Arc<LoadSchedule>,
    stop: watch::Sender<bool>,
    senders: JoinSet<()>,
}

#[derive(Debug)]
struct LoadSchedule {
    plan: LoadPlan,
    body: String,
    begin: Instant,
    next: AtomicU64,
    behind_us: AtomicU64,
}

#[derive(Serialize)]
struct LoadBody<'a> {
    payload: &'a RawValue,
    origin: &'a str,
}

#[derive(Deserialize)]
struct AcceptedCommand {
    id: String,
}

impl CommandLoad {
    /// Begins at once.
    #[must_use]
    pub fn start(plan: LoadPlan, ledger: &Arc<CommandLedger>) -> Self {
        let body = LoadBody { payload: &plan.payload, origin: &plan.origin };
        let body = serde_json::to_string(&body).expect("a body has only names for keys");
        let connections = plan.connections.max(1);
        let (next, behind_us) = (AtomicU64::new(0), AtomicU64::new(0));
        let schedule = Arc::new(LoadSchedule { plan, body, begin: Instant::now(), next, behind_us });
        let (stop, stopped) = watch::channel(false);
        let mut senders = JoinSet::new();
        for _ in 0..connections {
            senders.spawn(send_all(Arc::clone(&schedule), Arc::clone(ledger), stopped.clone()));
        }
        Self { schedule, stop, senders }
    }

    /// Sends nothing more that has not begun.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits until all is sent. It may be dropped and called again.
    pub async fn sent(&mut self) {
        while let Some(ended) = self.senders.join_next().await {
            ended.expect("a sender neither panics nor is aborted");
        }
    }

    /// How far a command went out behind its time, at most.
    #[must_use]
    pub fn behind(&self) -> Duration {
        Duration::from_micros(self.schedule.behind_us.load(Ordering::Relaxed))
    }
}

/// One sender's part: whichever command is next.
async fn send_all(
    schedule: Arc<LoadSchedule>,
    ledger: Arc<CommandLedger>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut line = None;
    loop {
        let number = schedule.next.fetch_add(1, Ordering::Relaxed);
        if number >= schedule.plan.commands {
            return;
        }
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => return,
            () = schedule.wait_for(number) => {}
        }
        let Some(connection) = connected(&mut line, &schedule.plan.endpoint, &ledger, &mut stopped).await
        else {
            return;
        };
        let asked = Instant::now();
        match connection.post_document(&schedule.path(number), schedule.body.clone().into()).await {
            Ok((status, answer)) => match accepted(status, &answer) {
                Ok(id) => ledger.accepted(&id, asked, Instant::now()),
                Err(why) => ledger.not_accepted(&why),
            },
            Err(error) => {
                // Whether it was taken is not known; it is not sent twice.
                ledger.not_accepted(&error.to_string());
                line = None;
            }
        }
    }
}

/// The connection, a new one if it broke; `None` when there is none and it is over.
async fn connected<'a>(
    line: &'a mut Option<HttpConnection>,
    endpoint: &Endpoint,
    ledger: &CommandLedger,
    stopped: &mut watch::Receiver<bool>,
) -> Option<&'a mut HttpConnection> {
    while line.is_none() {
        match HttpConnection::open(endpoint).await {
            Ok(connection) => *line = Some(connection),
            Err(error) => ledger.broke(&error.to_string()),
        }
        if line.is_none() {
            tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped) => return None,
                () = tokio::time::sleep(RECONNECT_PAUSE) => {}
            }
        }
    }
    line.as_mut()
}

fn accepted(status: StatusCode, answer: &[u8]) -> Result<String, String> {
    if status != StatusCode::CREATED {
        return Err(refusal(status, answer));
    }
    let sent: Result<AcceptedCommand, _> = serde_json::from_slice(answer);
    sent.map(|sent| sent.id).map_err(|error| error.to_string())
}

impl LoadSchedule {
    fn path(&self, number: u64) -> String {
        let devices = &self.plan.devices;
        let device = (number % u64::from(devices.count())) as u32;
        format!("/v1/devices/{}/commands", devices.id(device))
    }

    /// Waits until it is time for a command, or notes how late it is.
    async fn wait_for(&self, number: u64) {
        let after = Duration::try_from_secs_f64(number as f64 / self.plan.per_second);
        let due = self.begin + after.unwrap_or_default();
        let now = Instant::now();
        if due > now {
            tokio::time::sleep_until(due.into()).await;
        } else if self.plan.per_second.is_finite() {
            let behind = now.duration_since(due).as_micros() as u64;
            self.behind_us.fetch_max(behind, Ordering::Relaxed);
        }
    }
}
