//! Where the effects of partitions of devices go: answers, lanes with due work, stale clients,
//! callers that follow a feed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use base::id::DELIVERY_ID_PREFIX;
use base::{Clock, DeviceId, Incarnation, LogLimit, PartitionId, Timestamp};
use records::Batch;

use super::effect::{DeviceEffect, GivenUp, OutcomeGivenUp};
use super::lanes::{DueLanes, DueWork};
use super::quarantine_budget::QuarantineBudget;
use super::sessions::{PresenceChange, SessionTable};
use super::stale_clients::StaleClients;
use super::stats::AllDeviceStats;
use crate::campaigns::links::PickLinks;
use crate::commands::{COMMAND_ID_PREFIX, Downlink};
use crate::followers::{FollowerUpdate, Followers};
use crate::gathering::Gatherings;
use crate::kernel::machine::MachineContext;
use crate::metrics::BatchMetrics;
use crate::notices::links::NoticeLinks;
use crate::outcomes::{OutcomeLane, receiver_in_log};
use crate::rollouts::DeviceLook;
use crate::rollouts::links::RolloutLinks;
use crate::{ClientDirectory, FleetIndexes};

/// What partitions of devices reach outside.
pub struct DeviceContext {
    clock: Arc<dyn Clock>,
    pub(crate) directory: Arc<ClientDirectory>,
    /// Lanes with due work.
    pub lanes: DueLanes,
    /// Lanes of outcomes with due work.
    pub(crate) outcomes: DueWork<(PartitionId, OutcomeLane)>,
    /// Clients to be told again.
    pub stale: Arc<StaleClients>,
    pub(crate) followers: Arc<Followers>,
    notices: Arc<NoticeLinks>,
    pub(crate) stats: AllDeviceStats,
    /// The devices by their attributes.
    pub(crate) fleet: Arc<FleetIndexes>,
    /// The refused reports.
    pub(super) quarantine: Arc<QuarantineBudget>,
    /// The sessions that the edges have told of.
    pub(crate) sessions: SessionTable,
    /// Polls that have waited, or wait.
    polls: AtomicU64,
    /// Who carries commands to devices.
    downlink: OnceLock<Arc<dyn Downlink>>,
    /// What partitions have to tell rollouts.
    pub(crate) rollouts: Arc<RolloutLinks>,
    /// What tasks and campaigns have for partitions of devices, and these for them.
    pub(super) picks: Arc<PickLinks>,
    /// What is gathered for copies of kind `reports`.
    pub(crate) gatherings: Arc<Gatherings>,
    /// Log lines of notifications that failed for good, by client.
    given_up: LogLimit<Incarnation>,
    /// Log lines of outcomes that were given up, by lane.
    outcomes_given_up: LogLimit<OutcomeLane>,
    metrics: Arc<BatchMetrics>,
}

impl DeviceContext {
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        directory: Arc<ClientDirectory>,
        (stale, rollouts, picks): (Arc<StaleClients>, Arc<RolloutLinks>, Arc<PickLinks>),
        (followers, notices): (Arc<Followers>, Arc<NoticeLinks>),
        metrics: Arc<BatchMetrics>,
        partitions: u16,
    ) -> Self {
        Self {
            clock,
            fleet: Arc::new(FleetIndexes::new(Arc::clone(&directory), partitions)),
            directory,
            lanes: DueLanes::default(),
            outcomes: DueWork::default(),
            stale,
            followers,
            notices,
            stats: AllDeviceStats::default(),
            quarantine: Arc::new(QuarantineBudget::new(partitions)),
            sessions: SessionTable::new(partitions),
            polls: AtomicU64::new(0),
            downlink: OnceLock::new(),
            rollouts,
            picks,
            gatherings: Arc::new(Gatherings::new(partitions)),
            given_up: LogLimit::default(),
            outcomes_given_up: LogLimit::default(),
            metrics,
        }
    }

    /// Has commands carried to devices by this one. There is one: a second is not taken.
    pub fn carry_commands_by(&self, downlink: Arc<dyn Downlink>) {
        let _there_is_one = self.downlink.set(downlink);
    }

    /// Numbers the polls that wait.
    pub(crate) fn next_poll(&self) -> u64 {
        self.polls.fetch_add(1, Ordering::Relaxed)
    }

    /// An edge tells of its sessions: a partition that is loaded again goes on with them.
    pub fn note_presence(&self, partition: PartitionId, change: &PresenceChange) {
        self.sessions.note(partition, change);
    }

    fn log_given_up(&self, given_up: &GivenUp) {
        let Some(left_out) = self.given_up.take(given_up.client, Instant::now()) else { return };
        let client = self.directory.get(given_up.client);
        tracing::warn!(
            delivery = given_up.delivery.to_text(DELIVERY_ID_PREFIX),
            client = client.as_ref().map(|client| client.id.as_str()),
            device = given_up.device.as_ref().map(DeviceId::as_str),
            attempts = given_up.attempts,
            left_out,
            "a notification failed for good"
        );
    }

    fn log_outcome_given_up(&self, given_up: &OutcomeGivenUp) {
        let Some(left_out) = self.outcomes_given_up.take(given_up.lane, Instant::now()) else { return };
        let command = given_up.command.as_ref();
        tracing::warn!(
            command = command.map(|command| command.id.to_text(COMMAND_ID_PREFIX)),
            device = command.map(|command| command.device.as_str()),
            campaign = command.and_then(|command| command.campaign.as_deref()),
            receiver = command.and_then(|command| command.receiver.as_deref()).map(receiver_in_log),
            attempts = given_up.attempts,
            left_out,
            "the outcome of a command failed for good"
        );
    }
}

impl MachineContext for DeviceContext {
    type Effect = DeviceEffect;
    type Update = FollowerUpdate;

    const HAS_FEEDS: bool = true;

    fn release(&self, effect: DeviceEffect) {
        use DeviceEffect as E;
        match effect {
            E::Accepted(part) => part.finish(),
            E::Device(reply, answer) => reply.send(answer.map(|device| *device)),
            E::Imported(reply, outcomes) => reply.send(outcomes),
            E::Written(reply, answer) => reply.send(answer),
            E::Done(reply, answer) => reply.send(answer),
            E::Kept(reply) => reply.send(()),
            E::Swept(reply, more) => reply.send(more),
            E::Body(reply, body) => reply.send(body),
            E::Leased(reply, due) => reply.send(due),
            E::LanesDue(partition, clients) => {
                self.lanes.mark(clients.into_iter().map(|client| (partition, client)));
            }
            E::Stale(partition, client, is) => self.stale.set(partition, client, is, self.clock.now()),
            E::StaleGoOn(partition, client) => self.stale.go_on(partition, client),
            E::Reached(client) => self.stale.reached(client),
            E::GivenUp(given_up) => self.log_given_up(&given_up),
            E::Resent(reply, next) => reply.send(next),
            E::CommandPublished(command) => {
                // Without anybody to carry it, it goes out again after its `ack_timeout`.
                if let Some(downlink) = self.downlink.get() {
                    downlink.publish(*command);
                }
            }
            E::Command(reply, answer) => reply.send(answer),
            E::Polled(reply, answer) => reply.send(answer),
            E::DesiredSet(reply, answer) => reply.send(answer),
            E::OutcomesDue(partition, lanes) => {
                self.outcomes.mark(lanes.into_iter().map(|lane| (partition, lane)));
            }
            E::OutcomesLeased(reply, due) => reply.send(due),
            E::OutcomeGivenUp(given_up) => self.log_outcome_given_up(&given_up),
            E::RolloutReports(reply, reports) => reply.send(reports),
            E::RolloutMoved(moved) => self.rollouts.moved(*moved),
            E::AskAgain => {
                self.rollouts.ask_again();
                self.picks.ask_again();
            }
            E::PickReports(reply, reports) => reply.send(reports),
            E::PickMoved(moved) => self.picks.moved(*moved),
            E::PickResultDropped => self.picks.result_dropped(),
            E::Came(place) => self.picks.came(place),
            E::WentAway(place) => self.picks.went_away(place),
            E::Answered(place) => self.picks.answered(place, &self.fleet),
            E::Gone(place) => self.picks.gone(place),
            E::Gathered(partition, backlog, added) => self.gatherings.set_backlog(partition, backlog, added),
            E::DeviceChanged(device) => self.rollouts.look_at(&device, DeviceLook::Changed),
            E::DevicePolls(device) => self.rollouts.look_at(&device, DeviceLook::Came),
            E::Indexed(partition, changes) => self.fleet.apply(partition, &changes),
            E::Lost(lost) => self.notices.lost(self.clock.now(), lost),
            E::StatsChanged(partition, stats) => self.stats.set(partition, stats),
        }
    }

    fn batch_made(&self, partition: PartitionId, batch: &Batch) -> Option<FollowerUpdate> {
        self.metrics.device_batch(batch);
        self.followers.update_of(partition, batch)
    }

    fn batch_durable(&self, stamp: Timestamp, update: Option<&FollowerUpdate>) {
        self.followers.tell(stamp, update);
    }
}

base::debug_as_name!(DeviceContext);
