//! SIGKILL under load, several times, on the real program: every acknowledged report and every due notification is
//! accounted for.
//!
//! Locks report over all ways in at once, MQTT through two independent clients and HTTP; one receiver is always well,
//! the other is in another kind of trouble before each kill. The server is killed when a random number of further
//! reports has been acknowledged, and started again on its data. In the end the account of the devices, the receivers
//! and the public API must agree. `FIELDPOST_TEST_SEED` replays a run.

use std::error::Error;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use simulator::account::{Audit, Expected, close};
use simulator::api_client::Api;
use simulator::fleet::{Fleet, Keep, Outcome, Payload, Plan, Way};
use simulator::latency::Latency;
use simulator::random::Random;
use simulator::receiver::{Behaviour, Receiver, Retain};
use simulator::registration::{register_client, register_locks};
use simulator::sent::Sent;
use simulator::server::Site;
use simulator::traffic::{DeviceIds, Dial, Locks, Pace};

const LOCKS: u32 = 60;
/// Each speaks for its own locks.
const LANES_OF_A_WAY: u32 = 4;
const LANES: u32 = 3 * LANES_OF_A_WAY;
/// Of a lane that leaves the server time.
const REPORTS_PER_SECOND: f64 = 250.0;
/// More than a lane can carry, so that its window is always full and the kill finds much under way.
const AS_MUCH_AS_POSSIBLE: f64 = 1e6;
const CHANGE_PER_MILLE: u32 = 150;
const KILLS: u32 = 6;
/// Connections of a way that break: each with every kill, and perhaps a few times while the server is away.
const BREAKS: RangeInclusive<u64> = (KILLS * LANES_OF_A_WAY) as u64..=(4 * KILLS * LANES_OF_A_WAY) as u64;
/// Between two kills so many reports are acknowledged, at least and at most.
const ACKNOWLEDGED_BETWEEN: (u64, u64) = (3_000, 10_000);
const PATIENCE: Duration = Duration::from_secs(60);
/// So many shortfalls are named.
const NAMED_MAX: usize = 30;
const DEFAULT_SEED: u64 = 20_261_121;

/// Ten attempts from 1 s on span 27 s, far longer than the trouble.
const SETTINGS: [(&str, &str); 4] = [
    ("FIELDPOST_NOTIFY__ALLOW_PRIVATE", "true"),
    ("FIELDPOST_NOTIFY__RETRY_BASE", "1s"),
    ("FIELDPOST_NOTIFY__TIMEOUT", "1s"),
    ("FIELDPOST_DURABILITY__SYNC", "always"),
];

/// One fleet per way in, so that what each was answered can be told apart.
struct Fleets {
    fleets: Vec<(Way, Fleet)>,
    dial: Arc<Dial>,
}

impl Fleets {
    fn start(site: &Site, devices: &DeviceIds, seed: u64) -> Self {
        let dial = Dial::new(devices);
        let ways = [
            (Way::Mqtt { in_flight: 32 }, &site.mqtt, REPORTS_PER_SECOND),
            (Way::LeanMqtt { in_flight: 64 }, &site.mqtt, AS_MUCH_AS_POSSIBLE),
            (Way::Http { lines: 64 }, &site.http, REPORTS_PER_SECOND),
        ];
        let mut first = 0;
        let fleets = ways.map(|(way, endpoint, reports_per_second)| {
            let pace = Pace { reports_per_second, change_per_mille: CHANGE_PER_MILLE, seed };
            let lanes = first..first + LANES_OF_A_WAY;
            first = lanes.end;
            let traffic = lanes.map(|lane| Locks::new(devices.lane(lane, LANES), pace, Arc::clone(&dial)));
            let plan = Plan {
                way,
                endpoint: endpoint.clone(),
                devices: devices.clone(),
                payload: Payload::Dated,
                keep: Keep::EveryReport,
            };
            (way, Fleet::start(plan, traffic.collect()))
        });
        Self { fleets: fleets.into(), dial }
    }

    fn acknowledged(&self) -> u64 {
        self.fleets.iter().map(|(_, fleet)| fleet.progress().figures().acknowledged).sum()
    }

    /// Waits until `more` reports have been acknowledged beyond those so far.
    async fn until_acknowledged(&self, more: u64) {
        let goal = self.acknowledged() + more;
        let reached = self.fleets[0].1.until(PATIENCE, |_| self.acknowledged() >= goal).await;
        assert!(reached, "{} reports were acknowledged, {goal} are awaited", self.acknowledged());
    }

    /// Lets all traffic end and be answered; what the fleets did together.
    async fn finish(self, devices: &DeviceIds) -> Outcome {
        self.dial.finish();
        let mut all = Outcome {
            figures: Default::default(),
            unanswered: 0,
            latency: Latency::default(),
            sent: Sent::nothing(devices.clone()),
        };
        for (way, fleet) in self.fleets {
            let outcome = fleet.finish(PATIENCE).await;
            let figures = outcome.figures;
            eprintln!("{way:?}: {figures:?}");
            assert_eq!((outcome.unanswered, figures.refused, figures.disordered), (0, 0, 0), "{way:?}");
            assert!(figures.acknowledged > 0 && BREAKS.contains(&figures.broken), "{way:?}: {figures:?}");
            all.figures.acknowledged += figures.acknowledged;
            all.sent.merge(outcome.sent);
        }
        all
    }
}

/// The trouble of the second receiver before kill `kill`.
fn trouble(kill: u32) -> Behaviour {
    match kill % 4 {
        0 => Behaviour::Hanging,
        1 => Behaviour::Down,
        2 => Behaviour::Failing(503),
        _ => Behaviour::Up,
    }
}

fn seed() -> u64 {
    std::env::var("FIELDPOST_TEST_SEED")
        .map_or(DEFAULT_SEED, |seed| seed.parse().expect("the seed is a number"))
}

fn tell(audit: &Audit) {
    eprintln!(
        "{} reports, {} changes; {} notifications: {} delivered, {} superseded, {} retried",
        audit.reports_sent,
        audit.changes,
        audit.notifications_due,
        audit.delivered,
        audit.superseded,
        audit.retried
    );
}

/// Loads the server, kills it again and again, lets things come to rest, and makes up the account.
async fn kill_under_load(site: &Site, seed: u64) -> Result<Audit, Box<dyn Error>> {
    let mut random = Random::seeded(seed);
    let mut server = site.start(PATIENCE).await?;
    let api = Api::new(site.http.clone(), PATIENCE);
    let (well, mut troubled) = (Receiver::open(Retain::Everything)?, Receiver::open(Retain::Everything)?);
    register_client(&api, "well", &well).await?;
    register_client(&api, "troubled", &troubled).await?;
    let devices = DeviceIds::new("lock", LOCKS);
    register_locks(&api, &devices, 0..LOCKS, None, &["well", "troubled"]).await?;

    let fleets = Fleets::start(site, &devices, seed);
    let (at_least, at_most) = ACKNOWLEDGED_BETWEEN;
    for kill in 0..KILLS {
        fleets.until_acknowledged(at_least).await;
        troubled.behave(trouble(kill)).await;
        fleets.until_acknowledged(random.below(at_most - at_least)).await;
        server.kill().await?;
        server = site.start(PATIENCE).await?;
    }
    fleets.until_acknowledged(at_least).await;
    troubled.behave(Behaviour::Up).await;
    let outcome = fleets.finish(&devices).await;

    let clients = [("well", &well), ("troubled", &troubled)];
    let audit = close(&api, &outcome.sent, &clients, &Expected::default(), PATIENCE).await?;
    tell(&audit);
    assert_eq!(audit.reports_acknowledged, outcome.figures.acknowledged);
    let stopped = server.stop(PATIENCE).await?;
    if stopped.success() { Ok(audit) } else { Err(format!("the server ended with {stopped}").into()) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_or_due_is_lost_when_the_server_is_killed() {
    let seed = seed();
    eprintln!("FIELDPOST_TEST_SEED={seed}");
    let site = Site::new(Path::new(env!("CARGO_BIN_EXE_fieldpost")), &SETTINGS).unwrap();
    let audit = kill_under_load(&site, seed).await.unwrap();
    let named: Vec<String> = audit.shortfalls.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    assert!(named.is_empty(), "{} things are missing:\n  {}", audit.shortfalls.len(), named.join("\n  "));
}
