//! Readings summed up for a chart: a span of time in equal steps, each with the count, the range
//! and the mean of its readings.
//!
//! A pure fold over readings in order of time. How many are read at a time, and from where, is for
//! the caller to say.

use base::Timestamp;
use engine::records::Reading;
use serde_json::value::RawValue;

mod pointer;

pub(crate) use pointer::DataPointer;

/// The steps of a span, and what of a reading is summed up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SummaryBuckets {
    pub from: Timestamp,
    /// Exclusive.
    pub to: Timestamp,
    pub step_ms: i64,
    /// Where in the data it is; none for the data itself.
    pub path: Option<DataPointer>,
}

impl SummaryBuckets {
    /// The span in so many steps; fewer if they were shorter than a millisecond.
    pub(crate) fn new(from: Timestamp, to: Timestamp, points: i64, path: Option<DataPointer>) -> Self {
        let span = to.0.saturating_sub(from.0).max(0);
        let step_ms = (span / points + i64::from(span % points != 0)).max(1);
        Self { from, to, step_ms, path }
    }

    /// The start of the step that a time is in.
    pub(crate) fn start_of(&self, at: Timestamp) -> Timestamp {
        let into = at.0.saturating_sub(self.from.0);
        Timestamp(self.from.0.saturating_add(into - into.rem_euclid(self.step_ms)))
    }

    /// What of a reading is summed up, as JSON; `None` where there is nothing.
    fn picked<'a>(&self, json: &'a str) -> Option<&'a RawValue> {
        match &self.path {
            None => serde_json::from_str(json).ok(),
            Some(path) => path.pick(json),
        }
    }
}

/// The readings of one step.
#[derive(Debug)]
pub(crate) struct SummaryBucket {
    /// When it begins.
    pub from: Timestamp,
    /// Its readings.
    pub count: u64,
    /// Those that changed the device's value.
    pub changed: u64,
    /// Of the numbers among them.
    pub range: Option<NumberRange>,
    /// What the last of them said; `None` where there is nothing.
    pub last: Option<Box<RawValue>>,
}

/// The numbers of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NumberRange {
    pub min: f64,
    pub max: f64,
    sum: f64,
    count: u64,
}

impl NumberRange {
    pub(crate) fn mean(&self) -> f64 {
        // The sum of large numbers may be no number any more, their mean is one.
        (self.sum / self.count as f64).clamp(self.min, self.max)
    }

    fn add(before: Option<Self>, number: f64) -> Self {
        let one = Self { min: number, max: number, sum: number, count: 1 };
        before.map_or(one, |range| Self {
            min: range.min.min(number),
            max: range.max.max(number),
            sum: range.sum + number,
            count: range.count + 1,
        })
    }
}

/// The number that a value stands for, if it does: `true` is 1.
fn number_of(value: &RawValue) -> Option<f64> {
    match value.get() {
        "true" => Some(1.0),
        "false" => Some(0.0),
        text if text.starts_with(|first: char| first == '-' || first.is_ascii_digit()) => {
            serde_json::from_str(text).ok()
        }
        _ => None,
    }
}

/// Sums up readings that come in order of time. SummaryBuckets without any are left out.
#[derive(Debug)]
pub(crate) struct Summary {
    pub steps: SummaryBuckets,
    pub found: Vec<SummaryBucket>,
}

impl Summary {
    pub(crate) fn new(steps: SummaryBuckets) -> Self {
        Self { steps, found: Vec::new() }
    }

    pub(crate) fn add(&mut self, reading: &Reading) {
        let json = reading.value.to_json();
        let picked = self.steps.picked(&json);
        let from = self.steps.start_of(reading.ts);
        if self.found.last().is_none_or(|step| step.from != from) {
            self.found.push(SummaryBucket { from, count: 0, changed: 0, range: None, last: None });
        }
        let Some(step) = self.found.last_mut() else { return };
        step.count += 1;
        step.changed += u64::from(reading.changed);
        if let Some(number) = picked.and_then(number_of) {
            step.range = Some(NumberRange::add(step.range, number));
        }
        step.last = picked.map(ToOwned::to_owned);
    }

    /// Leaves the last step to whoever goes on, and says where that is; `None` if there is no step
    /// before it.
    pub(crate) fn give_back_last(&mut self) -> Option<Timestamp> {
        if self.found.len() < 2 {
            return None;
        }
        self.found.pop().map(|step| step.from)
    }
}

#[cfg(test)]
mod tests {
    use base::Value;

    use super::*;

    fn reading(ts: i64, value: Value, changed: bool) -> Reading {
        Reading { number: 1, ts: Timestamp(ts), value, changed }
    }

    fn last_of(step: &SummaryBucket) -> String {
        step.last.as_ref().map_or("null", |last| last.get()).to_owned()
    }

    fn number(value: f64) -> Value {
        Value::number(value).expect("finite")
    }

    #[test]
    fn a_span_has_as_many_steps_as_were_asked_for_or_fewer() {
        for (from, to, points, expect) in [
            (0, 1_000, 10, 100),
            (0, 1_001, 10, 101),
            (0, 5, 10, 1),
            (5, 5, 10, 1),
            (9, 5, 10, 1),
            (i64::MIN, i64::MAX, 1, i64::MAX),
        ] {
            let steps = SummaryBuckets::new(Timestamp(from), Timestamp(to), points, None);
            assert_eq!(steps.step_ms, expect, "{from} {to} {points}");
        }
        let steps = SummaryBuckets::new(Timestamp(-50), Timestamp(50), 10, None);
        for (at, expect) in [(-50, -50), (-41, -50), (-40, -40), (49, 40)] {
            assert_eq!(steps.start_of(Timestamp(at)), Timestamp(expect), "{at}");
        }
    }

    #[test]
    fn a_step_has_count_range_and_last_and_an_empty_one_is_left_out() {
        let mut summary = Summary::new(SummaryBuckets::new(Timestamp(0), Timestamp(100), 10, None));
        for (ts, value, changed) in [
            (1, number(4.0), true),
            (2, number(-2.0), true),
            (9, Value::from_canonical("\"off\""), true),
            (31, Value::from_canonical("true"), true),
            (32, Value::from_canonical("true"), false),
        ] {
            summary.add(&reading(ts, value, changed));
        }
        let told: Vec<_> = summary
            .found
            .iter()
            .map(|step| {
                let range = step.range.map(|range| (range.min, range.max, range.mean()));
                (step.from.0, step.count, step.changed, range, last_of(step))
            })
            .collect();
        assert_eq!(
            told,
            [
                (0, 3, 3, Some((-2.0, 4.0, 1.0)), "\"off\"".to_owned()),
                (30, 2, 1, Some((1.0, 1.0, 1.0)), "true".to_owned()),
            ]
        );
        assert_eq!(summary.give_back_last(), Some(Timestamp(30)));
        assert_eq!(summary.give_back_last(), None, "a call gets on");
    }

    #[test]
    fn a_pointer_picks_a_part_of_the_data() {
        let data = Value::from_canonical(r#"{"air":{"temperature":21.5},"list":[7]}"#);
        for (path, min, last) in [
            ("/air/temperature", Some(21.5), "21.5"),
            ("/list/0", Some(7.0), "7"),
            ("/list", None, "[7]"),
            ("/none", None, "null"),
        ] {
            let steps = SummaryBuckets::new(Timestamp(0), Timestamp(10), 1, Some(DataPointer::new(path)));
            let mut summary = Summary::new(steps);
            summary.add(&reading(1, data.clone(), true));
            let step = &summary.found[0];
            assert_eq!((step.range.map(|range| range.min), last_of(step)), (min, last.to_owned()), "{path}");
        }
    }

    #[test]
    fn the_mean_of_large_numbers_is_among_them() {
        let range =
            [f64::MAX, f64::MAX].into_iter().fold(None, |range, next| Some(NumberRange::add(range, next)));
        assert_eq!(range.expect("two").mean(), f64::MAX);
    }
}
