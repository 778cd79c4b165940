//! `fieldpost stats`: counts over time, each with a bar. Commands are counted by status too.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::api::{ApiPath, ServerApi};
use super::device::Label;
use super::failure::CommandFailure;
use super::feed::SpanFlags;
use super::screen::Screen;
use super::table::{Cell, TextTable, grouped};
use super::when::to_second;

/// The longest bar.
const BAR_CHARS_MAX: u64 = 40;
/// In a terminal that has no room for this beside the rest, bars stand in lines of their own.
const BAR_CHARS_MIN: u64 = 8;
/// What stands on the line of a bar besides its count.
const BESIDE_CHARS: usize = "2026-11-21 00:00:00Z".len() + 2 * "  ".len();

/// Count something over time.
#[derive(Args, Debug)]
pub struct Stats {
    /// What is counted.
    #[arg(value_enum, value_name = "METRIC")]
    metric: MetricChoice,
    /// How long each count is.
    #[arg(long, value_enum, value_name = "SPAN", default_value_t = Interval::Hour)]
    by: Interval,
    /// Only of this device.
    #[arg(long, group = "of")]
    device: Option<String>,
    /// Only of this client.
    #[arg(long, group = "of")]
    client: Option<String>,
    /// Only of devices with this label.
    #[arg(long, group = "of", value_name = "KEY=VALUE")]
    label: Option<Label>,
    #[command(flatten)]
    span: SpanFlags,
}

/// What is counted.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum MetricChoice {
    /// Reports that were accepted.
    Reports,
    /// Reports that changed a device's value.
    Changes,
    /// Devices that fell silent.
    Losses,
    /// Notifications that were made, whatever became of them.
    Deliveries,
    /// Commands that were sent, and what became of commands meanwhile.
    Commands,
}

/// How long each count is.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Interval {
    Hour,
    Day,
}

#[derive(Deserialize)]
struct CountsPage {
    items: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct StatsCount {
    from: String,
    count: u64,
    /// Commands that came to each status.
    #[serde(default)]
    by_status: BTreeMap<String, u64>,
}

impl Stats {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let answer = api.get(&self.path())?;
        let CountsPage { items } = api.read(&answer)?;
        if screen.is_for_programs() {
            return items.iter().try_for_each(|item| screen.write_line(item.get()));
        }
        let counts = items.iter().map(|item| api.read(item)).collect::<Result<Vec<StatsCount>, _>>()?;
        let is_of_commands = matches!(self.metric, MetricChoice::Commands);
        let width = screen.width();
        screen.tell(&if is_of_commands { statuses(&counts, width) } else { bars(&counts, width) })
    }

    fn path(&self) -> ApiPath {
        let metric = match self.metric {
            MetricChoice::Reports => "reports",
            MetricChoice::Changes => "changes",
            MetricChoice::Losses => "losses",
            MetricChoice::Deliveries => "deliveries",
            MetricChoice::Commands => "commands",
        };
        let by = match self.by {
            Interval::Hour => "hour",
            Interval::Day => "day",
        };
        let path = ApiPath::of(&["stats"])
            .with("metric", metric)
            .with("by", by)
            .with_maybe("device", self.device.as_ref())
            .with_maybe("client", self.client.as_ref());
        let path = self.label.iter().fold(path, |path, label| label.narrow(path));
        self.span.of(path)
    }
}

/// A row for each count, its bar in proportion to the largest.
fn bars(counts: &[StatsCount], width: Option<usize>) -> String {
    let largest = counts.iter().map(|count| count.count).max().unwrap_or(0).max(1);
    let beside = BESIDE_CHARS + grouped(largest).len().max("COUNT".len());
    let room = width.map_or(BAR_CHARS_MAX, |width| width.saturating_sub(beside) as u64);
    let longest = room.clamp(BAR_CHARS_MIN, BAR_CHARS_MAX);
    let row = |StatsCount { from, count, .. }: &StatsCount| {
        let length = count.saturating_mul(longest).div_ceil(largest) as usize;
        vec![Cell::text(&to_second(from)), Cell::number(*count), Cell::text(&"█".repeat(length))]
    };
    let rows: Vec<_> = counts.iter().map(row).collect();
    TextTable::new(&["FROM", "COUNT", ""]).within(width).lines(&rows)
}

/// A row for each count of commands: how many were sent, and how many came to each other status.
fn statuses(counts: &[StatsCount], width: Option<usize>) -> String {
    const STATUSES: [&str; 6] = ["published", "acknowledged", "failed", "expired", "superseded", "cancelled"];
    const HEADINGS: [&str; 8] =
        ["FROM", "SENT", "PUBLISHED", "ACKNOWLEDGED", "FAILED", "EXPIRED", "SUPERSEDED", "CANCELLED"];
    let row = |StatsCount { from, count, by_status }: &StatsCount| {
        let of = |status| Cell::number(by_status.get(status).copied().unwrap_or_default());
        let sent = [Cell::text(&to_second(from)), Cell::number(*count)];
        sent.into_iter().chain(STATUSES.map(of)).collect::<Vec<_>>()
    };
    let rows: Vec<_> = counts.iter().map(row).collect();
    TextTable::new(&HEADINGS).within(width).lines(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_in_proportion_and_only_nothing_has_none() {
        let from = || "2026-11-21T00:00:00.000Z".to_owned();
        let count = |count| StatsCount { from: from(), count, by_status: BTreeMap::new() };
        let lines = bars(&[count(0), count(1), count(400), count(800)], None);
        let lengths: Vec<_> = lines.lines().skip(1).map(|line| line.matches('█').count()).collect();
        assert_eq!(lengths, [0, 1, 20, 40]);
        let narrow = bars(&[count(0), count(1), count(400), count(800)], Some(60));
        let lengths: Vec<_> = narrow.lines().skip(1).map(|line| line.matches('█').count()).collect();
        assert_eq!(lengths, [0, 1, 16, 31]);
        assert_eq!(bars(&[], None), "");
    }
}
