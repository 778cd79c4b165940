//! `/v1/stats`: how often something happened, by hour or by day, as a chart wants it.

use std::time::Duration;

use axum::extract::State;
use base::{Problem, Timestamp};
use engine::Engine;
use engine::fleet::Selection;
use engine::queries::{Queries, StatsOf, StatsQuery};
use engine::records::{CommandStatus, Metric};
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::openapi::refusals::{OF_A_READ, UNKNOWN_CLIENT, UNKNOWN_DEVICE};
use crate::openapi::{Call, words};
use crate::params::Params;
use crate::shape::StatsShape;

/// Most hours or days in an answer: over a year of hours.
const COUNTS_MAX: usize = 10_000;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// How long the spans are that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Hour,
    Day,
}

base::names! {
    /// Every span.
    pub(crate) By: Hour = "hour", Day = "day"
}

impl By {
    /// What is counted when `from` is not given: a day of hours, thirty days.
    fn usual(self) -> Duration {
        match self {
            Self::Hour => 24 * HOUR,
            Self::Day => 30 * DAY,
        }
    }
}

/// Commands are counted by those given, and by status besides.
pub(crate) const COMMANDS: Metric = Metric::Commands(CommandStatus::Scheduled);

/// What can be counted.
pub(crate) const METRICS: [Metric; 5] =
    [Metric::Reports, Metric::Changes, Metric::Losses, Metric::Deliveries, COMMANDS];

/// The name that the contract uses.
pub(crate) fn name_of(metric: Metric) -> &'static str {
    match metric {
        Metric::Reports => "reports",
        Metric::Changes => "changes",
        Metric::Losses => "losses",
        Metric::Deliveries => "deliveries",
        Metric::Commands(_) => "commands",
    }
}

pub(super) fn routes() -> Routes {
    let call = Call::new("How often something happened, by hour or by UTC day")
        .required_query("metric", words::metric())
        .query("by", words::by())
        .query("device", words::device_id())
        .query("client", words::client_id())
        .labels()
        .selection()
        .span()
        .gives::<StatsShape>(200, "a count for each hour or day")
        .refuses(&[UNKNOWN_CLIENT, UNKNOWN_DEVICE, (422, "too_many_devices")])
        .refuses(OF_A_READ);
    Routes::default().get("/v1/stats", stats, call)
}

async fn stats(State(api): State<ApiState>, params: Params) -> Result<ApiAnswer, Refused> {
    let (query, selection) = query(params, api.engine())?;
    let queries = api.queries();
    let counts = move || {
        let of = selection.map(|selection| queries.stats_of(&selection)).transpose()?;
        counts(&queries, &StatsQuery { of: of.unwrap_or(query.of), ..query })
    };
    let counts = api.shared.lists.run(counts).await?;
    Ok(ApiAnswer::ok(&counts))
}

fn counts(queries: &Queries, query: &StatsQuery) -> Result<StatsShape, Problem> {
    if query.metric != COMMANDS {
        return Ok(queries.stats(query)?.into());
    }
    let by_status = queries.command_stats(query)?;
    let given = by_status.iter().find(|(status, _)| Metric::Commands(*status) == COMMANDS);
    let mut counts = StatsShape::from(given.map(|(_, counts)| counts.clone()).unwrap_or_default());
    for (status, of_status) in by_status {
        counts.add_status(status.as_str(), of_status);
    }
    Ok(counts)
}

/// What is to be counted; where there is a selection, of its devices.
fn query(mut params: Params, engine: &Engine) -> Result<(StatsQuery, Option<Selection>), Problem> {
    let metric = params.word("metric", &METRICS, name_of)?;
    let by = params.word("by", &By::ALL, By::as_str)?.unwrap_or(By::Hour);
    let (of, selection) = (whose(&mut params)?, params.selection(engine)?);
    let (from, to) = params.span()?;
    params.end()?;
    if selection.is_some() && of != StatsOf::All {
        return Err(invalid("device, client and label.KEY do not go with a selection".to_owned()));
    }
    let to = to.unwrap_or(engine.clock().now());
    let from = from.unwrap_or(Timestamp(to.0.saturating_sub(base::time::millis(by.usual()))));
    let metric = metric.ok_or_else(|| {
        let names = METRICS.map(name_of).join(", ");
        invalid(format!("metric has to be there; it must be one of {names}"))
    })?;
    let query = StatsQuery { metric, by_day: by == By::Day, of, from, to };
    if from > to {
        return Err(invalid(format!("from {from} is after to {to}")));
    }
    if query.len() > COUNTS_MAX {
        let detail = format!("from {from} to {to} has {} counts; it may have {COUNTS_MAX}", query.len());
        return Err(invalid(detail));
    }
    Ok((query, selection))
}

fn whose(params: &mut Params) -> Result<StatsOf, Problem> {
    let (device, client) = (params.device("device")?, params.client("client")?);
    let labels = params.labels()?;
    match (device, client, labels.as_slice()) {
        (None, None, []) => Ok(StatsOf::All),
        (Some(device), None, []) => Ok(StatsOf::Device(device)),
        (None, Some(client), []) => Ok(StatsOf::Client(client)),
        (None, None, [(key, value)]) => Ok(StatsOf::Label(key.clone(), value.clone())),
        _ => Err(invalid("of device, client and label.KEY at most one may be there".to_owned())),
    }
}

fn invalid(detail: String) -> Problem {
    Problem::not_allowed("invalid_parameter", detail)
}
