//! The engine's metrics: counted from batches, so that they say what was written and cost nothing
//! elsewhere.

use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use records::{Batch, Connection, EventKind, Happening, Op};
use store::Store;

use crate::FleetIndexes;
use crate::devices::stats::DeviceStats;
use crate::overview::CounterTotals;
use crate::queues::{JobsByState, JobsCounted, PartitionStats, QueueJobs};

/// Counters of what batches hold.
#[derive(Debug, Default)]
pub(crate) struct BatchMetrics {
    batches: Counter,
    signs: Counter,
    readings: Counter,
    events: Family<KindLabel, Counter>,
    deliveries: Counter,
    progress: Family<StatusLabel, Counter>,
    attempts: Counter,
    commands: Family<StatusLabel, Counter>,
    commands_given: Counter,
    jobs: Family<OutcomeLabel, Counter>,
}

/// What came of something.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OutcomeLabel {
    pub(crate) outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    r#type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabel {
    status: &'static str,
}

impl BatchMetrics {
    /// A batch is written.
    pub(crate) fn batch(&self) {
        self.batches.inc();
    }

    /// A batch of a partition of devices is written.
    pub(crate) fn device_batch(&self, batch: &Batch) {
        self.batch();
        let (mut signs, mut readings) = (0, 0);
        for op in &batch.ops {
            match op {
                Op::Sign(sign) => {
                    signs += 1;
                    readings += u64::from(sign.reading.is_some());
                }
                Op::PutEvent(event) => {
                    self.events.get_or_create(&KindLabel { r#type: event.kind.as_str() }).inc();
                }
                Op::PutDelivery(_) => drop(self.deliveries.inc()),
                Op::PutProgress(_, progress) if progress.status.has_ended() => {
                    self.progress.get_or_create(&StatusLabel { status: progress.status.as_str() }).inc();
                }
                Op::PutAttempt(_) => drop(self.attempts.inc()),
                Op::PutCommand(_) => drop(self.commands_given.inc()),
                Op::PutTimelineEntry(entry) => {
                    if let Happening::Command { status, .. } = entry.what {
                        self.commands.get_or_create(&StatusLabel { status: status.as_str() }).inc();
                    }
                }
                _ => {}
            }
        }
        self.signs.inc_by(signs);
        self.readings.inc_by(readings);
    }

    pub(crate) fn jobs(&self, counted: &JobsCounted) {
        let JobsCounted {
            published,
            leased,
            acked,
            released,
            lapsed,
            expired,
            dead,
            cancelled,
            dead_dropped,
        } = *counted;
        for (outcome, count) in [
            ("published", published),
            ("leased", leased),
            ("acked", acked),
            ("released", released),
            ("lapsed", lapsed),
            ("expired", expired),
            ("dead", dead),
            ("cancelled", cancelled),
            ("dead_dropped", dead_dropped),
        ] {
            if count > 0 {
                self.jobs.get_or_create(&OutcomeLabel { outcome }).inc_by(count);
            }
        }
    }

    /// What was counted since the start.
    pub(crate) fn totals(&self) -> CounterTotals {
        let events = |kind: EventKind| self.events.get_or_create(&KindLabel { r#type: kind.as_str() }).get();
        CounterTotals {
            reports: self.signs.get(),
            changes: events(EventKind::Changed),
            losses: events(EventKind::Lost),
            deliveries: self.deliveries.get(),
            jobs: self.jobs.get_or_create(&OutcomeLabel { outcome: "published" }).get(),
            commands: self.commands_given.get(),
        }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        for (name, help, counter) in [
            ("fieldpost_engine_batches", "Batches committed", &self.batches),
            (
                "fieldpost_engine_signs_of_life",
                "Messages of registered devices, refused ones included",
                &self.signs,
            ),
            ("fieldpost_engine_readings", "Readings stored", &self.readings),
            ("fieldpost_engine_deliveries", "Notifications made", &self.deliveries),
            ("fieldpost_engine_attempts", "Attempts at notifications recorded", &self.attempts),
            ("fieldpost_engine_commands", "Commands given", &self.commands_given),
        ] {
            registry.register(name, help, counter.clone());
        }
        let help = "Jobs of queues, by what became of them";
        registry.register("fieldpost_engine_jobs", help, self.jobs.clone());
        let help = "Commands that moved on, by the status they moved to; each publish counts";
        registry.register("fieldpost_engine_command_steps", help, self.commands.clone());
        registry.register("fieldpost_engine_events", "Events, by type", self.events.clone());
        let help = "Notifications that wait for nothing more, by status";
        registry.register("fieldpost_engine_deliveries_ended", help, self.progress.clone());
    }
}

/// Reads the store's metrics, and how full the inboxes are, when `/metrics` is asked for.
pub(crate) struct EngineCollector {
    pub store: Arc<dyn Store>,
    pub inbox_inputs: Box<dyn Fn() -> usize + Send + Sync>,
    pub stale_clients: Box<dyn Fn() -> usize + Send + Sync>,
    pub queues: Box<dyn Fn() -> PartitionStats + Send + Sync>,
    pub queue_jobs: Box<dyn Fn() -> Vec<QueueJobs> + Send + Sync>,
    pub devices: Box<dyn Fn() -> DeviceStats + Send + Sync>,
    pub fleet: Arc<FleetIndexes>,
}

base::debug_as_name!(EngineCollector);

impl Collector for EngineCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        for metric in self.store.metrics() {
            if metric.counter {
                let counter = ConstCounter::new(metric.value);
                let name = metric.name.trim_end_matches("_total");
                counter.encode(encoder.encode_descriptor(
                    name,
                    metric.help,
                    None,
                    counter.metric_type(),
                )?)?;
            } else {
                let gauge = ConstGauge::new(metric.value);
                gauge.encode(encoder.encode_descriptor(
                    metric.name,
                    metric.help,
                    None,
                    gauge.metric_type(),
                )?)?;
            }
        }
        let PartitionStats { queues, scheduled, ready, reserved, dead, parked, waiting, paused, .. } =
            (self.queues)();
        for (name, help, value) in [
            ("fieldpost_engine_queues", "Queues that have jobs, dead letters or settings", queues),
            ("fieldpost_engine_jobs_scheduled", "Jobs of queues that wait for their time", scheduled),
            ("fieldpost_engine_jobs_ready", "Jobs of queues that can be consumed", ready),
            ("fieldpost_engine_jobs_reserved", "Jobs of queues that consumers have", reserved),
            ("fieldpost_engine_jobs_parked", "Scheduled and ready jobs that are in the store only", parked),
            ("fieldpost_engine_dead_letters", "Dead letters of queues", dead),
            ("fieldpost_engine_queues_paused", "Queues that give no jobs out until they are resumed", paused),
            ("fieldpost_engine_waiting_consumers", "Consumers that wait for jobs", waiting),
        ] {
            let gauge = ConstGauge::new(value as i64);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        for (name, help, value) in [
            ("fieldpost_engine_inbox_inputs", "Inputs that wait for a partition", (self.inbox_inputs)()),
            (
                "fieldpost_engine_stale_clients",
                "Clients with devices whose newest notification has failed for good",
                (self.stale_clients)(),
            ),
            (
                "fieldpost_engine_devices_connected",
                "Devices with a live session of their own",
                self.fleet.connected_len() as usize,
            ),
            (
                "fieldpost_engine_fleet_index_bytes",
                "Memory of the index by which selections find devices",
                self.fleet.bytes(),
            ),
        ] {
            let gauge = ConstGauge::new(value as i64);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        self.encode_devices(&mut encoder)?;
        self.encode_queue_jobs(&mut encoder)
    }
}

impl EngineCollector {
    fn encode_devices(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let DeviceStats { never_seen, online, lost, pending, quarantined } = (self.devices)();
        let by_connection =
            [(Connection::NeverSeen, never_seen), (Connection::Online, online), (Connection::Lost, lost)];
        let (name, help) = ("fieldpost_engine_devices", "Registered devices, by connection");
        let mut devices = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (connection, count) in by_connection {
            let label = [("connection", connection.as_str())];
            ConstGauge::new(count as i64).encode(devices.encode_family(&label)?)?;
        }
        for (name, help, value) in [
            (
                "fieldpost_engine_deliveries_pending",
                "Notifications that wait for an attempt or are under way",
                pending,
            ),
            ("fieldpost_engine_quarantined", "Refused reports that are kept", quarantined),
        ] {
            let gauge = ConstGauge::new(value as i64);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }

    fn encode_queue_jobs(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let (name, help) =
            ("fieldpost_engine_queue_jobs", "Jobs of some queues, and of all others, by state");
        let mut jobs = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for QueueJobs { queue, jobs: of_queue } in (self.queue_jobs)() {
            let JobsByState { scheduled, ready, reserved, dead } = of_queue;
            let by_state =
                [("scheduled", scheduled), ("ready", ready), ("reserved", reserved), ("dead", dead)];
            for (state, count) in by_state {
                let labels = [("queue", queue.as_str()), ("state", state)];
                ConstGauge::new(count as i64).encode(jobs.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use base::{PartitionId, Timestamp};
    use records::{DeliveryKey, DeliveryProgress, DeliveryStatus};

    use super::*;

    /// The lines of a metric, once the batch is counted.
    fn counted(ops: Vec<Op>, name: &str) -> Vec<String> {
        let metrics = BatchMetrics::default();
        metrics.device_batch(&Batch { ops, ..Batch::new(PartitionId(0)) });
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("is text");
        let of_metric = text.lines().filter(|line| line.starts_with(name));
        of_metric.map(|line| line[name.len()..].to_owned()).collect()
    }

    #[test]
    fn only_what_has_ended_counts_as_ended() {
        let progress = |status, next_attempt_at| {
            let key = DeliveryKey { at: Timestamp(1), number: 1 };
            Op::PutProgress(key, DeliveryProgress { status, attempts: 1, next_attempt_at })
        };
        let ops = vec![
            // under way, and waiting for another attempt
            progress(DeliveryStatus::Pending, None),
            progress(DeliveryStatus::Pending, Some(Timestamp(2))),
            progress(DeliveryStatus::Delivered, None),
        ];
        let ended = counted(ops, "fieldpost_engine_deliveries_ended_total");
        assert_eq!(ended, [r#"{status="delivered"} 1"#]);
    }
}
