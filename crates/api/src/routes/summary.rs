//! `/v1/devices/{id}/readings/summary`: a device's readings as a chart wants them, however many
//! there are.

use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use base::{DeviceId, Problem, Timestamp, Value};
use engine::queries::{Queries, cost_of_row};
use engine::{Page, ReadingKey};
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::cursor::{self, SummaryKey};
use crate::openapi::refusals::{OF_A_READ, UNKNOWN_DEVICE};
use crate::openapi::{Call, words};
use crate::params::Params;
use crate::path::DeviceInPath;
use crate::shape::SummaryShape;
use crate::summary::{DataPointer, Summary, SummaryBuckets};

/// What the readings of a call may cost, in small ones: some tens of milliseconds. A large one
/// costs as much as several.
const COST_MAX: usize = 50_000;
/// Of those, read at a time.
const READ_AT_ONCE: usize = 1_000;
/// SummaryBuckets, unless the call says otherwise, and at most.
const POINTS_DEFAULT: i64 = 300;
const POINTS_MAX: i64 = 2_000;
/// The span, unless the call says otherwise: up to now.
const SPAN_DEFAULT: Duration = Duration::from_secs(24 * 3_600);
/// What a reading's data may take, in bytes.
const VALUE_BYTES_MAX: usize = 4 * 1_024;
/// Longest pointer into the data, in bytes.
const PATH_BYTES_MAX: usize = 256;

pub(super) fn routes() -> Routes {
    let summed = Call::new("A device's readings in equal steps of time, with the range of each, for a chart")
        .span()
        .query("points", words::whole(1, POINTS_MAX as u64))
        .query("path", words::text_up_to(PATH_BYTES_MAX))
        .query("cursor", words::cursor())
        .gives::<SummaryShape>(200, "the steps that have readings, oldest first")
        .refuses(&[UNKNOWN_DEVICE, (400, "invalid_cursor")])
        .refuses(OF_A_READ);
    Routes::default().get("/v1/devices/{id}/readings/summary", show, summed)
}

async fn show(
    State(api): State<ApiState>,
    DeviceInPath(device): DeviceInPath,
    params: Params,
) -> Result<Response, Refused> {
    let whose = params.whose();
    let asked = SummaryRequest::read(device, params, api.engine().clock().now())?;
    let queries = api.queries();
    let place = api.shared.lists.enter_as(&whose)?;
    let bytes = READ_AT_ONCE * VALUE_BYTES_MAX + POINTS_MAX as usize * VALUE_BYTES_MAX;
    let held = api.shared.memory_of_pages.take_soon(&whose, bytes).await?;
    let held = held.counted_by(&api.shared.metrics.page_held_bytes);
    let answer = place.run(move || summed(&queries, asked, COST_MAX)).await?;
    Ok(held.until_sent(answer.into_response()))
}

/// What is asked for.
struct SummaryRequest {
    device: DeviceId,
    steps: SummaryBuckets,
    after: Option<ReadingKey>,
    fingerprint: u64,
}

impl SummaryRequest {
    fn read(device: DeviceId, mut params: Params, now: Timestamp) -> Result<Self, Problem> {
        let fingerprint = params.fingerprint();
        let (from, to) = params.span()?;
        let right = format!("a number from 1 to {POINTS_MAX}");
        let points = params.take("points", &right, |text| {
            text.parse().ok().filter(|points| (1..=POINTS_MAX).contains(points))
        })?;
        let right = format!("a JSON pointer such as /temperature, of up to {PATH_BYTES_MAX} bytes");
        let path = params.take("path", &right, |text| {
            let is_pointer = text.starts_with('/') && text.len() <= PATH_BYTES_MAX;
            is_pointer.then(|| text.to_owned())
        })?;
        let cursor = params.take("cursor", "text", |text| Some(text.to_owned()))?;
        params.end()?;
        let points = points.unwrap_or(POINTS_DEFAULT);
        let key = cursor.map(|cursor| cursor::read::<SummaryKey>(fingerprint, &cursor)).transpose()?;
        // A call that goes on has the span of the first one, whatever time it is now.
        let to = key.as_ref().map_or_else(|| to.unwrap_or(now), |key| key.to);
        let from =
            key.as_ref().map_or_else(|| from.unwrap_or_else(|| to.before(SPAN_DEFAULT)), |key| key.from);
        let path = path.as_deref().map(DataPointer::new);
        let steps = SummaryBuckets::new(from, to, points, path);
        Ok(Self { device, steps, after: key.map(|key| key.after), fingerprint })
    }
}

/// Reads as many readings as cost so much and sums them up.
fn summed(queries: &Queries, asked: SummaryRequest, cost_max: usize) -> Result<ApiAnswer, Problem> {
    let SummaryRequest { device, steps, mut after, fingerprint } = asked;
    let (from, to) = (steps.from, steps.to);
    let mut summary = Summary::new(steps);
    let (mut looked_at, mut cost) = (0, 0);
    let complete = loop {
        if cost >= cost_max {
            break false;
        }
        // No more than there is a budget for, were they as large as may be.
        let limit = ((cost_max - cost) / cost_of_row(VALUE_BYTES_MAX)).clamp(1, READ_AT_ONCE);
        let page = Page { from, to, ascending: true, after, limit };
        let read = queries.readings(&device, page)?;
        looked_at += read.len();
        for reading in &read {
            cost += cost_of(&reading.value);
            summary.add(reading);
        }
        after = read.last().map(|last| ReadingKey { ts: last.ts, number: last.number }).or(after);
        if read.len() < limit {
            break true;
        }
    };
    let next = after.filter(|_| !complete).map(|after| {
        // A step is in one answer, unless it has more readings than a call reads.
        let before = |at: Timestamp| ReadingKey { ts: Timestamp(at.0 - 1), number: u32::MAX };
        let after = summary.give_back_last().map_or(after, before);
        cursor::write(fingerprint, &SummaryKey { from, to, after })
    });
    Ok(ApiAnswer::ok(&SummaryShape::of(&summary, looked_at as u64, next)))
}

fn cost_of(value: &Value) -> usize {
    match value {
        Value::Number(_) => cost_of_row(0),
        Value::Text(text) => cost_of_row(text.len()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base::{Lineage, SystemClock, WayIn};
    use engine::{Engine, EngineSettings, Report, ReportContent, Slice};
    use serde_json::Value as Json;
    use store::MemoryStore;

    use super::*;

    async fn engine(readings: i64) -> Engine {
        engine_with(readings, |ts| Value::number(ts as f64).expect("finite")).await
    }

    async fn engine_with(readings: i64, value: impl Fn(i64) -> Value) -> Engine {
        let (store, clock) = (MemoryStore::new(Lineage(1), 2), SystemClock::start(Timestamp(0)));
        let engine = Engine::start(EngineSettings::for_tests(), Arc::new(store), Arc::new(clock))
            .await
            .expect("it loads");
        let intake = engine.intake(WayIn::Http);
        intake.attend(true).await;
        let device = engine::NewDevice {
            id: "d1".to_owned(),
            kind: Some("sensor".to_owned()),
            ..engine::NewDevice::default()
        };
        engine.create_device(device).await.expect("registered");
        let report = |ts: i64| {
            let content = ReportContent::Value { value: value(ts), ts: Some(Timestamp(ts)) };
            Report { device: DeviceId::new("d1").expect("an id"), kind: None, content, id: None }
        };
        let pending = intake.submit(Slice::from_iter((0..readings).map(report))).await.expect("accepting");
        pending.durable().await.expect("durable");
        engine
    }

    fn asked(points: i64, to: i64, after: Option<ReadingKey>) -> SummaryRequest {
        let device = DeviceId::new("d1").expect("an id");
        let steps = SummaryBuckets::new(Timestamp(0), Timestamp(to), points, None);
        SummaryRequest { device, steps, after, fingerprint: 7 }
    }

    #[tokio::test]
    async fn a_call_that_goes_on_gives_each_step_once() {
        let engine = engine(100).await;
        let (mut counts, mut after, mut calls) = (Vec::new(), None, 0);
        loop {
            let answer = summed(&engine.queries(), asked(10, 100, after), 25).expect("readable");
            let json: Json = serde_json::from_slice(&answer.body).expect("JSON");
            let items = json["items"].as_array().expect("items");
            counts.extend(items.iter().map(|item| (item["count"].clone(), item["min"].clone())));
            calls += 1;
            assert!(json["looked_at"].as_u64().expect("a number") <= 25, "{json}");
            let Some(next) = json["next_cursor"].as_str() else {
                assert_eq!(json["complete"], true);
                break;
            };
            assert_eq!(json["complete"], false);
            after = Some(cursor::read::<SummaryKey>(7, next).expect("a cursor").after);
        }
        let expect: Vec<_> =
            (0..10).map(|step| (Json::from(10), Json::from(f64::from(step) * 10.0))).collect();
        assert_eq!(counts, expect);
        assert_eq!(calls, 5);
    }

    #[tokio::test]
    async fn a_step_with_more_readings_than_a_call_reads_comes_in_parts() {
        let engine = engine(60).await;
        let (mut counts, mut after) = (Vec::new(), None);
        loop {
            let answer = summed(&engine.queries(), asked(1, 100, after), 25).expect("readable");
            let json: Json = serde_json::from_slice(&answer.body).expect("JSON");
            counts.push(json["items"][0]["count"].clone());
            match json["next_cursor"].as_str() {
                Some(next) => after = Some(cursor::read::<SummaryKey>(7, next).expect("a cursor").after),
                None => break,
            }
        }
        assert_eq!(counts, [25, 25, 10]);
    }

    #[tokio::test]
    async fn large_readings_cost_as_much_as_several_small_ones() {
        let text = format!("\"{}\"", "x".repeat(3 * 1_024));
        let large = engine_with(60, |_| Value::from_canonical(&text)).await;
        // One costs 4, and one may be over the budget.
        for (engine, expect) in [(large, 25 / 4 + 1), (engine(60).await, 25)] {
            let answer = summed(&engine.queries(), asked(1, 100, None), 25).expect("readable");
            let json: Json = serde_json::from_slice(&answer.body).expect("JSON");
            assert_eq!(json["looked_at"], expect, "{json}");
        }
    }
}
