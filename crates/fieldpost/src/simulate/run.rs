//! A fleet at work: started, watched until it ends, and called to account.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use simulator::fleet::{FleetProgress, Plan, ReportRecording, ReportingFleet};
use simulator::registration::ImportTotals;
use simulator::traffic::{PacedTraffic, Timetable};
use tokio::time::MissedTickBehavior;

use super::account::Account;
use super::commands::Commanding;
use super::flags::SimulationPlan;
use super::screen::ProgressScreen;
use super::signals::InterruptSignals;

/// Connections have so long to be made before the timetable starts without the rest.
const CONNECTING_MAX: Duration = Duration::from_secs(10);

/// Between two looks whether the timetable has started, which does not announce itself.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// See the module.
#[derive(Debug)]
pub(super) struct SimulationRun {
    fleet: ReportingFleet,
    progress: Arc<FleetProgress>,
    commanding: Option<Commanding>,
    timetable: Arc<Timetable>,
    begun: Instant,
    behind: Duration,
    /// After an interruption: until when answers are awaited.
    stop_by: Option<Instant>,
}

impl SimulationRun {
    /// Sees that the server is there and lets everybody connect.
    pub(super) async fn start(plan: &SimulationPlan) -> io::Result<Self> {
        let endpoint = plan.address.reach(plan.access.clone(), plan.ca.as_deref()).await?;
        let commanding = match &plan.commands {
            Some(commands) => Some(Commanding::start(commands, plan, &endpoint, CONNECTING_MAX).await?),
            None => None,
        };
        let lanes = plan.connections;
        let timetable = Arc::new(Timetable::new(plan.reports_per_second, plan.end, lanes));
        let traffic =
            |lane| PacedTraffic::new(&plan.devices, plan.profile, Arc::clone(&timetable), lane, lanes);
        let fleet_plan = Plan {
            way: plan.way,
            endpoint,
            devices: plan.devices.clone(),
            payload: plan.payload,
            keep: ReportRecording::Counts,
        };
        let fleet = ReportingFleet::start(fleet_plan, (0..lanes).map(traffic).collect());
        let progress = fleet.progress();
        Ok(Self {
            fleet,
            progress,
            commanding,
            timetable,
            begun: Instant::now(),
            behind: Duration::ZERO,
            stop_by: None,
        })
    }

    /// Shows how far it is until all is said and answered, or patience is over.
    pub(super) async fn watch(
        &mut self,
        plan: &SimulationPlan,
        screen: &mut ProgressScreen,
        signals: &mut InterruptSignals,
    ) -> io::Result<()> {
        let refresh = screen.refresh();
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + refresh, refresh);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            let are_commands_to_come = self.begin_commands(plan);
            let deadline = self.deadline(plan);
            tokio::select! {
                biased;
                () = signals.next() => {
                    if self.stop_by.is_some() {
                        return Ok(());
                    }
                    self.timetable.finish();
                    self.stop_by = Some(Instant::now() + plan.patience);
                    screen.line("interrupted; waiting for the answers that are on their way")?;
                }
                () = self.fleet.drained() => return Ok(()),
                () = reached(deadline) => {
                    if self.timetable.started().is_some() || self.stop_by.is_some() {
                        return Ok(());
                    }
                    self.timetable.start();
                }
                () = tokio::time::sleep(LOOK_EVERY), if are_commands_to_come => {}
                _ = ticks.tick() => self.show(plan, screen)?,
            }
        }
    }

    /// Commands are sent from when reports are; whether that is still to come.
    fn begin_commands(&mut self, plan: &SimulationPlan) -> bool {
        let is_started = self.timetable.started().is_some();
        let Some(commanding) = self.commanding.as_mut().filter(|commanding| !commanding.has_begun()) else {
            return false;
        };
        if is_started {
            commanding.begin(plan);
        }
        !is_started
    }

    /// Until when the present state of things may last.
    fn deadline(&self, plan: &SimulationPlan) -> Option<Instant> {
        let end = match self.timetable.started() {
            None => Some(self.begun + CONNECTING_MAX),
            Some(start) => plan.end.after.and_then(|time| start.checked_add(time + plan.patience)),
        };
        self.stop_by.or(end)
    }

    fn show(&mut self, plan: &SimulationPlan, screen: &mut ProgressScreen) -> io::Result<()> {
        let elapsed = self.elapsed();
        let behind = self.look_behind();
        let by_time = plan.end.after.map(|time| elapsed.as_secs_f64() / time.as_secs_f64());
        let sent = self.progress.stats().sent as f64;
        let by_reports = plan.end.reports.map(|all| sent / all as f64);
        let share = by_time.into_iter().chain(by_reports).reduce(f64::max);
        let commands = self.commanding.as_ref().map(Commanding::counts);
        screen.stats(elapsed, share, &self.progress, behind, commands)
    }

    /// How far reports were behind their time since the last look.
    fn look_behind(&mut self) -> Duration {
        let behind = self.timetable.take_behind();
        self.behind = self.behind.max(behind);
        behind
    }

    fn elapsed(&self) -> Duration {
        self.timetable.started().map_or(Duration::ZERO, |start| start.elapsed())
    }

    /// Ends it, with what is there.
    pub(super) async fn account(mut self, plan: &SimulationPlan, imported: Option<ImportTotals>) -> Account {
        self.look_behind();
        let elapsed = self.elapsed();
        let outcome = self.fleet.finish(Duration::ZERO).await;
        let commands = match self.commanding {
            Some(commanding) => Some(commanding.finish(plan.patience).await),
            None => None,
        };
        Account {
            way: plan.way,
            seed: plan.profile.seed,
            devices: plan.devices.count(),
            connections: plan.connections,
            elapsed,
            stats: outcome.stats,
            unanswered: outcome.unanswered,
            latencies: self.progress.latencies(),
            behind: self.behind,
            refusals: self.progress.refusals(),
            troubles: self.progress.troubles(),
            imported,
            was_interrupted: self.stop_by.is_some(),
            commands,
        }
    }
}

async fn reached(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => pending().await,
    }
}
