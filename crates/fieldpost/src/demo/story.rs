//! What happens, in order: a receiver goes down, locks fall silent, the server is killed, and all
//! of it ends well.
//!
//! Between two events the figures are shown once a second. Where the story waits for something it
//! waits for the receivers to be told, not for time to pass.

use std::time::{Duration, Instant};

use simulator::account::{Audit, Expected, close};
use simulator::fleet::{FleetOutcome, ReportingFleet};
use simulator::grouped::grouped;
use simulator::receiver::{Behaviour, ConnectionStatus, Ledger};
use simulator::server::RunningServer;
use simulator::traffic::DeviceIds;

use super::Failure;
use super::played::Played;
use super::screen::DemoScreen;
use super::stage::{
    ACME, CONNECTIONS, HURRIED, HURRIED_INTERVAL, LOCKS, REPORTS_PER_SECOND, START_PATIENCE, Stage, ZENITH,
};
use super::summary::{self, Extras};
use super::{probes, terminal};

/// How long anything that is awaited may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// After the server is back, so long is not calm: locks connect again and repeat what was not
/// acknowledged.
const RECOVERY: Duration = Duration::from_secs(2);
/// Reports that went out so long before the kill may wait for their acknowledgement beyond it.
const BEFORE_KILL: Duration = Duration::from_millis(500);

/// Plays it all.
pub(super) async fn play(screen: &mut DemoScreen) -> Result<Played, Failure> {
    screen.line(
        "The main job, seen from outside: locks report, two applications are told, and things break.\n",
    )?;
    let (stage, server) = Stage::set().await?;
    let (http, mqtt) = (stage.site.http.address().await, stage.site.mqtt.address().await);
    screen.event("server", &format!("up: HTTP at {http}, MQTT at {mqtt}; it answers once it has synced"))?;
    screen.event("console", &format!("see the fleet at {}", stage.console().await))?;
    screen.event(
        "registry",
        &format!("{LOCKS} locks, two clients: {ACME} and {ZENITH} are told about all of them"),
    )?;
    let fleet = stage.start_locks();
    screen.event(
        "locks",
        &format!("report {REPORTS_PER_SECOND} times a second over {CONNECTIONS} MQTT connections, QoS 1"),
    )?;
    let mut story = Story { screen, stage, fleet, disturbed: Vec::new() };
    story.pass(Duration::from_secs(4)).await?;
    story.zenith_goes_down().await?;
    story.pass(Duration::from_secs(2)).await?;
    story.hurried_locks_fall_silent().await?;
    let server = story.server_is_killed(server).await?;
    story.pass(Duration::from_secs(5)).await?;
    story.zenith_comes_back().await?;
    story.pass(Duration::from_secs(3)).await?;
    story.hurried_locks_return().await?;
    story.pass(Duration::from_secs(4)).await?;
    story.end(server).await
}

struct Story<'a> {
    screen: &'a mut DemoScreen,
    stage: Stage,
    fleet: ReportingFleet,
    disturbed: Vec<std::ops::Range<Instant>>,
}

impl Story<'_> {
    async fn zenith_goes_down(&mut self) -> Result<(), Failure> {
        self.stage.zenith.behave(Behaviour::Down).await;
        self.screen.event(
            ZENITH,
            "goes down: it refuses connections, its notifications wait and newer replace older",
        )?;
        Ok(())
    }

    async fn hurried_locks_fall_silent(&mut self) -> Result<(), Failure> {
        let count = HURRIED.len();
        self.stage.dial.silence(HURRIED, true);
        let what = format!("{count} fall silent; they are due every {HURRIED_INTERVAL:?}");
        self.screen.event("locks", &what)?;
        let devices = self.stage.devices.clone();
        let all_lost = |ledger: &Ledger| are_told(ledger, &devices, ConnectionStatus::Lost);
        let Self { screen, stage, fleet, .. } = self;
        showing(screen, stage, fleet, stage.acme.until(PATIENCE, all_lost)).await??;
        self.screen.event(ACME, &format!("has been told that all {count} are lost"))?;
        Ok(())
    }

    async fn server_is_killed(&mut self, server: RunningServer) -> Result<RunningServer, Failure> {
        let killed = Instant::now();
        let answered = self.fleet.progress().stats().acknowledged;
        server.kill().await?;
        self.screen.event("server", &format!("SIGKILL, with {} reports acknowledged", grouped(answered)))?;
        let server = self.stage.site.start(START_PATIENCE).await?;
        let back = killed.elapsed();
        self.screen.event(
            "server",
            &format!("started again on its data, ready {} ms after the kill", back.as_millis()),
        )?;
        if !self.fleet.until(PATIENCE, |stats| stats.acknowledged > answered).await {
            return Err("no report was acknowledged after the restart".into());
        }
        self.screen.event("locks", "are connected again and repeat what was not acknowledged")?;
        let from = killed.checked_sub(BEFORE_KILL).unwrap_or(killed);
        self.disturbed.push(from..Instant::now() + RECOVERY);
        Ok(server)
    }

    async fn zenith_comes_back(&mut self) -> Result<(), Failure> {
        self.stage.zenith.behave(Behaviour::Up).await;
        self.screen.event(ZENITH, "is back")?;
        let devices = self.stage.devices.clone();
        let all_lost = |ledger: &Ledger| are_told(ledger, &devices, ConnectionStatus::Lost);
        let Self { screen, stage, fleet, .. } = self;
        showing(screen, stage, fleet, stage.zenith.until(PATIENCE, all_lost)).await??;
        self.screen.event(
            ZENITH,
            "has been told of the lost locks after all: one notification each, with the present picture",
        )?;
        Ok(())
    }

    async fn hurried_locks_return(&mut self) -> Result<(), Failure> {
        self.stage.dial.silence(HURRIED, false);
        self.screen.event("locks", &format!("the {} silent ones report again", HURRIED.len()))?;
        let devices = self.stage.devices.clone();
        let all_back = |ledger: &Ledger| are_told(ledger, &devices, ConnectionStatus::Online);
        let Self { screen, stage, fleet, .. } = self;
        let both = async {
            stage.acme.until(PATIENCE, all_back).await.and(stage.zenith.until(PATIENCE, all_back).await)
        };
        showing(screen, stage, fleet, both).await??;
        self.screen.event("clients", "have both been told that they are restored")?;
        Ok(())
    }

    /// Lets everything come to rest and makes up the account.
    async fn end(self, server: RunningServer) -> Result<Played, Failure> {
        let Self { screen, mut stage, fleet, disturbed } = self;
        stage.calm_the_hurried().await?;
        stage.dial.finish();
        screen.event(
            "locks",
            "have said everything; waiting for the last acknowledgements and notifications",
        )?;
        let outcome = fleet.finish(PATIENCE).await;
        let expected =
            Expected { losses: HURRIED.map(|lock| (lock, 1)).collect(), disturbed, ..Expected::default() };
        let clients = [(ACME, &stage.acme), (ZENITH, &stage.zenith)];
        let audit = close(&stage.api, &outcome.sent, &clients, &expected, PATIENCE).await?;
        screen.line("\nAnd commands, which wait for their device and are sent until it answers.\n")?;
        let told = terminal::play(screen, &stage).await?;
        screen.line("\nAnd tasks, which ask some devices of many, those first that had least.\n")?;
        let probes = probes::play(screen, &stage).await?;
        screen.event("account", "what devices and receivers remember is held against the public API\n")?;
        let is_complete = conclude(screen, &mut stage, &audit, &outcome, &Extras { told, probes })?;
        Ok(Played { stage, server, is_complete })
    }

    /// Shows the figures for so long.
    async fn pass(&mut self, time: Duration) -> Result<(), Failure> {
        let Self { screen, stage, fleet, .. } = self;
        showing(screen, stage, fleet, tokio::time::sleep(time)).await
    }
}

/// Shows the table and the verdict; what is missing keeps the data for a look.
fn conclude(
    screen: &mut DemoScreen,
    stage: &mut Stage,
    audit: &Audit,
    outcome: &FleetOutcome,
    extras: &Extras,
) -> Result<bool, Failure> {
    for line in summary::table(audit, ACME, extras) {
        screen.line(&line)?;
    }
    let mut missing = summary::missing(audit, outcome);
    missing.extend(extras.told.missing.iter().chain(&extras.probes.missing).cloned());
    if missing.is_empty() {
        screen.line(
            "\nEvery acknowledged report, every due notification, every command and every pick is accounted for.",
        )?;
        return Ok(true);
    }
    for line in &missing {
        screen.line(line)?;
    }
    screen.line(&format!("Data and log are kept in {}", stage.site.keep().display()))?;
    Ok(false)
}

/// Whether the newest word on each hurried lock is that it is so.
fn are_told(ledger: &Ledger, devices: &DeviceIds, connection: ConnectionStatus) -> bool {
    let is_so = |lock| {
        ledger.latest(&devices.id(lock)).is_some_and(|latest| latest.notification.connection == connection)
    };
    HURRIED.into_iter().all(is_so)
}

/// Does `what` while the figures are shown once a second.
async fn showing<T>(
    screen: &mut DemoScreen,
    stage: &Stage,
    fleet: &ReportingFleet,
    what: impl Future<Output = T>,
) -> Result<T, Failure> {
    let show = async {
        let second = Duration::from_secs(1);
        let mut each_second = tokio::time::interval_at(tokio::time::Instant::now() + second, second);
        loop {
            each_second.tick().await;
            if let Err(error) = screen.stats(&live(stage, fleet)) {
                return error;
            }
        }
    };
    tokio::select! {
        done = what => Ok(done),
        error = show => Err(error.into()),
    }
}

fn live(stage: &Stage, fleet: &ReportingFleet) -> String {
    let stats = fleet.progress().stats();
    let (acme, zenith) = (stage.acme.counts().taken, stage.zenith.counts().taken);
    format!(
        "sent {}  acknowledged {}  told: {ACME} {}, {ZENITH} {}",
        grouped(stats.sent),
        grouped(stats.acknowledged),
        grouped(acme),
        grouped(zenith)
    )
}
