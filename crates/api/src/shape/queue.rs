//! A queue in requests and answers: its figures and its settings.

use std::time::Duration;

use base::Problem;
use base::limits::EXACT_NUMBER_MAX;
use engine::queues::{QueueRates, QueueStats, RATES};
use engine::records::{QueueOrder, QueueSettings};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::Schema;

use super::new_job::one_of;
use super::text::{Time, of_millis};
use crate::fields::{ObjectFields, count, positive, some_duration, whole, whole_within};
use crate::openapi::words;
use crate::row::{Cells, CsvRow};

/// The words for which ready job is first.
const ORDERS: [(&str, QueueOrder); 2] = [("fifo", QueueOrder::Fifo), ("lifo", QueueOrder::Lifo)];

/// A queue and how much is in it.
#[derive(Serialize, ToSchema)]
#[schema(as = Queue)]
pub(crate) struct QueueShape<'a> {
    #[schema(schema_with = words::queue_name)]
    namespace: &'a str,
    #[schema(schema_with = words::queue_name)]
    queue: &'a str,
    /// Jobs that wait for their time.
    scheduled: u64,
    /// Jobs that wait for a consumer.
    ready: u64,
    /// Jobs that consumers hold.
    reserved: u64,
    /// Dead letters.
    dead: u64,
    /// For how long the oldest ready job has been ready; null without one.
    #[schema(required)]
    oldest_ready_ms: Option<u64>,
    /// Since when that job has been ready; null without one.
    #[schema(required)]
    oldest_ready_at: Option<Time>,
    rates: QueueRatesShape,
    /// Nothing is given out until it is resumed.
    paused: bool,
    settings: QueueSettingsShape,
}

/// How fast jobs go through a queue: jobs a second, over about the last minute.
#[derive(Serialize, ToSchema)]
#[schema(as = QueueRates)]
pub(crate) struct QueueRatesShape {
    published: f64,
    /// Given to consumers.
    consumed: f64,
    acked: f64,
}

impl From<&QueueRates> for QueueRatesShape {
    fn from(rates: &QueueRates) -> Self {
        let rounded = |rate: f64| (rate * 100.0).round() / 100.0;
        let QueueRates { published, consumed, acked } = *rates;
        Self { published: rounded(published), consumed: rounded(consumed), acked: rounded(acked) }
    }
}

/// What a queue is set to.
#[derive(Serialize, ToSchema)]
#[schema(as = QueueSettings)]
pub(crate) struct QueueSettingsShape {
    #[schema(schema_with = words::queue_order)]
    order: &'static str,
    /// Most jobs that are reserved at a time.
    #[schema(required)]
    concurrency: Option<u32>,
    /// Most jobs that are given out in a second.
    #[schema(required)]
    rate: Option<f64>,
    /// Most jobs, dead letters not counted.
    #[schema(required)]
    jobs_max: Option<u64>,
    /// Most dead letters; the oldest make room.
    #[schema(required)]
    dead_max: Option<u64>,
    /// How long a dead letter is kept.
    #[schema(schema_with = words::duration_or_null, required)]
    dead_max_age: Option<String>,
}

impl From<&QueueSettings> for QueueSettingsShape {
    fn from(settings: &QueueSettings) -> Self {
        let order = ORDERS.iter().find(|(_, order)| *order == settings.order);
        Self {
            order: order.map_or("", |(word, _)| word),
            concurrency: settings.concurrency,
            rate: settings.rate,
            jobs_max: settings.jobs_max,
            dead_max: settings.dead_max,
            dead_max_age: settings.dead_max_age_ms.map(of_millis),
        }
    }
}

/// The schema of settings in a request.
pub(crate) fn queue_settings_schema() -> Schema {
    words::body(&[
        ("order?", words::queue_order()),
        ("concurrency?", words::whole(1, u64::from(u32::MAX))),
        ("rate?", words::positive()),
        ("jobs_max?", words::whole(1, EXACT_NUMBER_MAX)),
        ("dead_max?", words::whole(0, EXACT_NUMBER_MAX)),
        ("dead_max_age?", words::duration()),
    ])
}

/// The settings that a body asks for; what it leaves out is as if it had never been set.
pub(crate) fn queue_settings(body: &str) -> Result<QueueSettings, Problem> {
    let known = ["order", "concurrency", "rate", "jobs_max", "dead_max", "dead_max_age"];
    let fields = ObjectFields::read(body, &known)?;
    Ok(QueueSettings {
        order: fields.optional("order", order)?.unwrap_or_default(),
        concurrency: fields.optional("concurrency", count)?,
        rate: fields.optional("rate", |name, json| positive(name, json, &RATES))?,
        jobs_max: fields.optional("jobs_max", at_least_1)?,
        dead_max: fields.optional("dead_max", whole)?,
        dead_max_age_ms: fields.optional("dead_max_age", some_duration)?.map(millis),
    })
}

fn order(name: &str, json: &str) -> Result<QueueOrder, Problem> {
    one_of(name, json, &ORDERS)
}

fn at_least_1(name: &str, json: &str) -> Result<u64, Problem> {
    whole_within(name, json, &(1..=EXACT_NUMBER_MAX))
}

impl<'a> From<&'a QueueStats> for QueueShape<'a> {
    fn from(stats: &'a QueueStats) -> Self {
        Self {
            namespace: stats.name.namespace(),
            queue: stats.name.queue(),
            scheduled: stats.scheduled,
            ready: stats.ready,
            reserved: stats.reserved,
            dead: stats.dead,
            oldest_ready_ms: stats.oldest_ready.map(millis),
            oldest_ready_at: stats.oldest_ready_at.map(Time),
            rates: (&stats.rates).into(),
            paused: stats.paused,
            settings: (&stats.settings).into(),
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

impl CsvRow for QueueShape<'_> {
    const COLUMNS: &'static [&'static str] = &[
        "namespace",
        "queue",
        "scheduled",
        "ready",
        "reserved",
        "dead",
        "oldest_ready_ms",
        "paused",
        "order",
        "concurrency",
        "rate",
        "jobs_max",
        "dead_max",
        "dead_max_age",
        "oldest_ready_at",
        "published_per_s",
        "consumed_per_s",
        "acked_per_s",
    ];

    fn write(&self, cells: &mut Cells<'_>) {
        let settings = &self.settings;
        cells.text(self.namespace).text(self.queue).shown(self.scheduled).shown(self.ready);
        cells.shown(self.reserved).shown(self.dead).shown_or_empty(self.oldest_ready_ms).shown(self.paused);
        cells.text(settings.order).shown_or_empty(settings.concurrency).shown_or_empty(settings.rate);
        cells.shown_or_empty(settings.jobs_max).shown_or_empty(settings.dead_max);
        cells.shown_or_empty(settings.dead_max_age.as_deref()).shown_or_empty(self.oldest_ready_at);
        let QueueRatesShape { published, consumed, acked } = self.rates;
        cells.shown(published).shown(consumed).shown(acked);
    }
}
