//! A wall clock that steps an hour under a running server, is not set yet, or was wrong once.
//!
//! Silence and retries go by a clock that never steps and is at most a tenth faster or slower than
//! it should be. So whatever the wall clock does, nothing happens before ten elevenths of its time.
//! Nor does anything happen after ten ninths and what a busy machine needs.

use std::error::Error;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use simulator::api_client::{ApiClient, ApiError};
use simulator::endpoint::Endpoint;
use simulator::fleet::{PayloadFormat, Plan, ReportRecording, ReportingFleet, Way};
use simulator::receiver::{Arrival, Behaviour, DeviceEventKind, Retain, WebhookReceiver};
use simulator::registration::register_locks;
use simulator::server::{RunningServer, ServerError, Site};
use simulator::traffic::{DeviceIds, Dial, DoorLockProfile, DoorLocks};
use simulator::wire_time::{format_ms, parse_ms};

use crate::faults::wall_clock::{WallClock, time};
use crate::faults::{PATIENCE, site};

const HOUR: Duration = Duration::from_secs(3_600);
/// The right time here: so far ahead of the machine that an hour less is still after the program
/// was built.
const RIGHT: Duration = Duration::from_secs(2 * 3_600);
const RETRY_BASE: Duration = Duration::from_secs(2);
/// How long a device may be silent.
const INTERVAL: Duration = Duration::from_secs(4);
/// The same of those that report steadily: as long as a busy machine may keep them from it.
const STEADY_INTERVAL: Duration = Duration::from_secs(30);
const STEADY: u32 = 8;
const STEADY_REPORTS_PER_SECOND: f64 = 40.0;
/// The engine clock runs between nine and eleven tenths as fast as the machine's.
const SLEW_PER_MILLE: u32 = 100;
/// Retries are put off by up to so much more, at random.
const JITTER_PER_MILLE: u32 = 100;
/// What a busy machine may need beyond that.
const BUSY: Duration = Duration::from_secs(20);
/// Engine time and right time are together within this.
const TOGETHER: Duration = Duration::from_secs(60);

/// When something may happen whose time is `due` by the engine clock.
fn window(due: Duration, later_per_mille: u32) -> RangeInclusive<Duration> {
    let latest = due * (1_000 + later_per_mille) / 1_000;
    due * 1_000 / (1_000 + SLEW_PER_MILLE)..=latest * 1_000 / (1_000 - SLEW_PER_MILLE) + BUSY
}

/// A server with a wall clock of its own, devices that report steadily, and two clients. One is
/// told of all of them, the other takes nothing.
struct Scene {
    site: Site,
    clock: WallClock,
    server: Option<RunningServer>,
    api: ApiClient,
    told: WebhookReceiver,
    failing: WebhookReceiver,
    _steady: ReportingFleet,
}

impl Scene {
    async fn begin() -> Result<Self, Box<dyn Error>> {
        let mut site = site();
        site.set("FIELDPOST_NOTIFY__RETRY_BASE", &format!("{}s", RETRY_BASE.as_secs()));
        // A receiver that answers late would be tried again at a time that it does not know.
        site.set("FIELDPOST_NOTIFY__TIMEOUT", "20s");
        site.set("FIELDPOST_DEVICES__RESTART_GRACE", "0s");
        let clock = WallClock::of(&mut site, RIGHT)?;
        let server = Some(site.start(PATIENCE).await?);
        let api = ApiClient::new(site.http.clone(), PATIENCE);
        // They know no secret: webhooks are signed with the server's wall clock, which is not
        // theirs.
        let (told, mut failing) =
            (WebhookReceiver::open(Retain::Everything)?, WebhookReceiver::open(Retain::Everything)?);
        failing.behave(Behaviour::Failing(503)).await;
        for (id, receiver) in [("told", &told), ("failing", &failing)] {
            let client = json!({"id": id, "name": id, "url": receiver.url()});
            api.post::<Value>("/v1/clients", &client).await?;
        }
        api.post::<Value>("/v1/devices", &json!({"id": "probe"})).await?;
        let devices = DeviceIds::new("steady", STEADY);
        register_locks(&api, &devices, 0..STEADY, Some(STEADY_INTERVAL), &["told"]).await?;
        let pace =
            DoorLockProfile { reports_per_second: STEADY_REPORTS_PER_SECOND, change_per_mille: 0, seed: 1 };
        let locks = DoorLocks::new(0..STEADY, pace, Dial::new(&devices));
        let way = Way::LeanMqtt { in_flight: 8 };
        let endpoint = site.mqtt.clone();
        let plan =
            Plan { way, endpoint, devices, payload: PayloadFormat::Value, keep: ReportRecording::Counts };
        let _steady = ReportingFleet::start(plan, vec![locks]);
        Ok(Self { site, clock, server, api, told, failing, _steady })
    }

    /// Registers a device for one client, and lets it report once; when that was.
    async fn one_report(
        &self,
        id: &str,
        interval: Duration,
        client: &str,
    ) -> Result<Instant, Box<dyn Error>> {
        let device = json!({"id": id, "report_interval": format!("{}s", interval.as_secs())});
        self.api.post::<Value>("/v1/devices", &device).await?;
        self.api.put(&format!("/v1/devices/{id}/clients/{client}")).await?;
        let at = Instant::now();
        self.api.post::<Value>("/v1/reports", &json!({"device_id": id, "data": 1})).await?;
        Ok(at)
    }

    /// Steps the wall clock, and waits until the server's answers show it: a report's time may not
    /// be far ahead of it.
    async fn step(&self, ahead: Duration) -> Result<(), Box<dyn Error>> {
        self.clock.set(ahead)?;
        let minutes = |minutes: u64| format_ms(time(ahead + Duration::from_secs(60 * minutes)));
        for (ts, expected) in [(minutes(1), StatusCode::OK), (minutes(10), StatusCode::UNPROCESSABLE_ENTITY)]
        {
            let report = json!({"device_id": "probe", "data": 0, "ts": ts});
            let shown = async {
                while self.api.once(Method::POST, "/v1/reports", Some(&report)).await?.status != expected {}
                Ok::<(), ApiError>(())
            };
            tokio::time::timeout(PATIENCE, shown).await??;
        }
        self.engine_time_is_right().await
    }

    /// What is stored carries engine time, which did not step.
    async fn engine_time_is_right(&self) -> Result<(), Box<dyn Error>> {
        let device: Value = self.api.get("/v1/devices/steady0").await?;
        let seen = device["state"]["last_seen_at"].as_str().and_then(parse_ms).ok_or("never seen")?;
        let off = Duration::from_millis(seen.abs_diff(time(RIGHT)));
        assert!(off < TOGETHER, "the engine clock is {off:?} off");
        Ok(())
    }

    /// The device has been silent since `at`: when it is told as lost.
    async fn is_lost_in_time(&self, id: &str, at: Instant) -> Result<(), Box<dyn Error>> {
        let lost = |arrival: &Arrival| {
            let told = &arrival.notification;
            told.device_id == id && told.kind == DeviceEventKind::Lost
        };
        self.told.until(PATIENCE, |ledger| ledger.arrivals().iter().any(lost)).await?;
        let told = self.told.ledger().arrivals().iter().find(|arrival| lost(arrival)).map(|told| told.at);
        let after = told.ok_or("told just now")?.duration_since(at);
        assert!(window(INTERVAL, 0).contains(&after), "{id} was lost after {after:?}");
        Ok(())
    }

    /// Attempts to tell the other client of the device, once there are `count`.
    async fn attempts(&self, id: &str, count: usize) -> Result<Vec<Instant>, Box<dyn Error>> {
        let of_it = |arrival: &&Arrival| arrival.notification.device_id == id;
        self.failing
            .until(PATIENCE, |ledger| ledger.arrivals().iter().filter(of_it).count() >= count)
            .await?;
        Ok(self.failing.ledger().arrivals().iter().filter(of_it).map(|attempt| attempt.at).collect())
    }

    /// Retries come after `RETRY_BASE` times one and the logarithm of their number.
    async fn is_tried_again_in_time(&self, id: &str, retries: usize) -> Result<(), Box<dyn Error>> {
        let attempts = self.attempts(id, 1 + retries).await?;
        for (failed, pair) in (1_u32..).zip(attempts.windows(2)) {
            let gap = pair[1].duration_since(pair[0]);
            let due = RETRY_BASE.mul_f64(1.0 + f64::from(failed).log2());
            let window = window(due, JITTER_PER_MILLE);
            assert!(window.contains(&gap), "{id}: {gap:?} after attempt {failed}, not {window:?}");
        }
        Ok(())
    }

    /// Stops the server and starts it again: its clock goes on from what was recorded, whatever the
    /// wall clock says.
    async fn restart(&mut self) -> Result<(), Box<dyn Error>> {
        let stopped = self.server.take().ok_or("it runs")?.stop(PATIENCE).await?;
        assert!(stopped.success(), "{stopped}");
        self.server = Some(self.site.start(PATIENCE).await?);
        self.engine_time_is_right().await
    }

    /// Of the steady devices none was ever lost.
    async fn ends_without_a_false_loss(self) -> Result<(), Box<dyn Error>> {
        let losses: Vec<Value> = self.api.list("/v1/events?type=device.lost").await?;
        let lost: Vec<&str> = losses.iter().filter_map(|loss| loss["device_id"].as_str()).collect();
        assert!(!lost.is_empty() && lost.iter().all(|id| id.starts_with("quiet")), "{lost:?}");
        let stopped = self.server.ok_or("it runs")?.stop(PATIENCE).await?;
        assert!(stopped.success(), "{stopped}");
        Ok(())
    }
}

async fn step_under_a_running_server() -> Result<(), Box<dyn Error>> {
    let mut scene = Scene::begin().await?;
    for (direction, ahead) in [("Forward", RIGHT + HOUR), ("Back", RIGHT - HOUR)] {
        let (quiet, retried) = (format!("quiet{direction}"), format!("retried{direction}"));
        let silent_since = scene.one_report(&quiet, INTERVAL, "told").await?;
        scene.one_report(&retried, HOUR, "failing").await?;
        scene.attempts(&retried, 1).await?;
        scene.step(ahead).await?;
        scene.is_lost_in_time(&quiet, silent_since).await?;
        scene.is_tried_again_in_time(&retried, 2).await?;
    }
    scene.one_report("retriedLater", HOUR, "failing").await?;
    scene.attempts("retriedLater", 1).await?;
    scene.restart().await?;
    let silent_since = scene.one_report("quietLater", INTERVAL, "told").await?;
    scene.is_tried_again_in_time("retriedLater", 1).await?;
    scene.is_lost_in_time("quietLater", silent_since).await?;
    scene.ends_without_a_false_loss().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_hour_forward_and_back_makes_no_false_loss_and_moves_no_retry() {
    step_under_a_running_server().await.unwrap();
}

/// Where a server that is starting answers already: it says so in its log.
fn address_in(log: &str) -> Option<SocketAddr> {
    let line = log.lines().rfind(|line| line.contains("starting"))?;
    line.split_once("http=")?.1.split_whitespace().next()?.parse().ok()
}

async fn start_with_an_unset_clock() -> Result<(), Box<dyn Error>> {
    let mut site = site();
    let clock = WallClock::of(&mut site, RIGHT)?;
    clock.unset()?;
    let mut server = site.start_until_it_says("before this program was built", PATIENCE).await?;
    let starting = Endpoint::at(address_in(&site.log()).ok_or("no address in the log")?);
    let api = ApiClient::new(starting, PATIENCE);
    let alive = api.once(Method::GET, "/healthz", None).await?;
    assert_eq!(alive.status, StatusCode::OK);
    let ready = api.once(Method::GET, "/readyz", None).await?;
    assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
    let why = ready.json()["detail"].to_string();
    assert!(why.contains("the wall clock says 20") && why.contains("before this program was built"), "{why}");
    let report = json!({"device_id": "early", "data": 1});
    let refused = api.once(Method::POST, "/v1/reports", Some(&report)).await?;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);

    clock.set(RIGHT)?;
    site.until_ready(&mut server, PATIENCE).await?;
    let ready = api.once(Method::GET, "/readyz", None).await?;
    assert_eq!(ready.status, StatusCode::OK);
    assert!(server.stop(PATIENCE).await?.success());

    clock.unset()?;
    let waiting = site.start_until_it_says("before this program was built", PATIENCE).await?;
    assert!(waiting.stop(PATIENCE).await?.success(), "a start that waits can be stopped");
    Ok(())
}

#[tokio::test]
async fn a_clock_that_is_not_set_yet_is_not_believed() {
    start_with_an_unset_clock().await.unwrap();
}

/// The date of a time, as messages write it.
fn date(ahead: Duration) -> String {
    format_ms(time(ahead))[..10].to_owned()
}

async fn start_behind_what_was_recorded() -> Result<(), Box<dyn Error>> {
    const WRONG: Duration = Duration::from_secs(40 * 24 * 3_600);
    let mut site = site();
    let clock = WallClock::of(&mut site, WRONG)?;
    let server = site.start(PATIENCE).await?;
    let api = ApiClient::new(site.http.clone(), PATIENCE);
    api.post::<Value>("/v1/devices", &json!({"id": "kept"})).await?;
    let dates = [date(WRONG), date(RIGHT)];
    assert!(server.stop(PATIENCE).await?.success());

    clock.set(RIGHT)?;
    let refused = site.start(PATIENCE).await.expect_err("the recorded time is far ahead");
    let ServerError::Ended { status, log_tail } = refused else { return Err(refused.into()) };
    assert_eq!(status.code(), Some(1), "{log_tail}");
    let said = log_tail.lines().last().unwrap_or_default();
    assert!(dates.iter().all(|date| said.contains(date)) && said.contains("24 h ahead"), "{said}");

    clock.set(WRONG)?;
    let server = site.start(PATIENCE).await?;
    api.get::<Value>("/v1/devices/kept").await?;
    assert!(server.stop(PATIENCE).await?.success());
    Ok(())
}

#[tokio::test]
async fn a_clock_far_behind_what_was_recorded_refuses_the_start() {
    start_behind_what_was_recorded().await.unwrap();
}
