//! Figures of tasks, slots and picks.

use std::sync::atomic::AtomicI64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use records::PickOutcome;

use crate::metrics::OutcomeLabel;

/// What a step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CampaignsCounted {
    /// Tasks that go on, slots included.
    pub running: u64,
    /// Picks that have not ended.
    pub open_picks: u64,
    /// Picks that wait for the rate.
    pub picks_waiting: u64,
    /// Devices that are set aside for being mute.
    pub benched: u64,
    /// Devices that were picked.
    pub picked: u64,
    /// Picks that ended, by outcome.
    pub ended: [u64; PickOutcome::ALL.len()],
    /// Slots that began.
    pub slots_begun: u64,
    /// Slots that were skipped.
    pub slots_skipped: u64,
    /// Ends of tasks that could not be told.
    pub ends_given_up: u64,
}

/// The figures of tasks and campaigns.
#[derive(Debug)]
pub(crate) struct CampaignMetrics {
    running: Gauge<i64, AtomicI64>,
    open_picks: Gauge<i64, AtomicI64>,
    picks_waiting: Gauge<i64, AtomicI64>,
    benched: Gauge<i64, AtomicI64>,
    picked: Counter,
    ended: Family<OutcomeLabel, Counter>,
    slots_begun: Counter,
    slots_skipped: Counter,
    ends_given_up: Counter,
    search_seconds: Histogram,
    searches_failed: Counter,
}

impl Default for CampaignMetrics {
    fn default() -> Self {
        Self {
            running: Gauge::default(),
            open_picks: Gauge::default(),
            picks_waiting: Gauge::default(),
            benched: Gauge::default(),
            picked: Counter::default(),
            ended: Family::default(),
            slots_begun: Counter::default(),
            slots_skipped: Counter::default(),
            ends_given_up: Counter::default(),
            search_seconds: Histogram::new(exponential_buckets(0.000_1, 4.0, 9)),
            searches_failed: Counter::default(),
        }
    }
}

impl CampaignMetrics {
    pub(super) fn add(&self, counted: &CampaignsCounted) {
        let gauge = |gauge: &Gauge<i64, AtomicI64>, value: u64| {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        gauge(&self.running, counted.running);
        gauge(&self.open_picks, counted.open_picks);
        gauge(&self.picks_waiting, counted.picks_waiting);
        gauge(&self.benched, counted.benched);
        self.picked.inc_by(counted.picked);
        for (outcome, ended) in
            PickOutcome::ALL.into_iter().zip(counted.ended).filter(|(_, ended)| *ended > 0)
        {
            let outcome = outcome.reason().unwrap_or(outcome.as_str());
            self.ended.get_or_create(&OutcomeLabel { outcome }).inc_by(ended);
        }
        self.slots_begun.inc_by(counted.slots_begun);
        self.slots_skipped.inc_by(counted.slots_skipped);
        self.ends_given_up.inc_by(counted.ends_given_up);
    }

    pub(super) fn searched(&self, took: Duration) {
        self.search_seconds.observe(took.as_secs_f64());
    }

    pub(super) fn search_failed(&self) {
        self.searches_failed.inc();
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        let mut gauge = |name: &str, help: &str, gauge: &Gauge<i64, AtomicI64>| {
            registry.register(name, help, gauge.clone());
        };
        gauge("fieldpost_tasks_running", "Tasks and slots of campaigns that go on", &self.running);
        gauge("fieldpost_picks_open", "Picks that have not ended", &self.open_picks);
        gauge("fieldpost_picks_waiting", "Picks that wait for the rate of campaigns", &self.picks_waiting);
        gauge("fieldpost_devices_benched", "Devices that are set aside for being mute", &self.benched);
        let mut counter = |name: &str, help: &str, counter: &Counter| {
            registry.register(name, help, counter.clone());
        };
        counter("fieldpost_picks", "Devices picked, replacements included", &self.picked);
        counter("fieldpost_campaign_slots_begun", "Slots of campaigns that began", &self.slots_begun);
        counter(
            "fieldpost_campaign_slots_skipped",
            "Slots of campaigns that were missed",
            &self.slots_skipped,
        );
        counter(
            "fieldpost_task_ends_given_up",
            "Ends of tasks that their receivers did not take",
            &self.ends_given_up,
        );
        counter(
            "fieldpost_pick_searches_failed",
            "Searches for the devices of a task that failed",
            &self.searches_failed,
        );
        let help = "Picks that ended, by what came of them";
        registry.register("fieldpost_picks_ended", help, self.ended.clone());
        let help = "Time that looking for the devices of a task takes";
        registry.register("fieldpost_pick_search_seconds", help, self.search_seconds.clone());
    }
}
