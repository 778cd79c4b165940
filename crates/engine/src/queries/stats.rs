//! Counts of what happened, by hour or UTC day: from the partitions' counts, or of one device from
//! its history.

use std::collections::BTreeMap;

use base::{ClientId, DeviceId, Problem, Timestamp, hash};
use fleet::Selection;
use fleet::selection::{Requirement, SelectionKey, Test};
use records::{
    CommandStatus, CountedOf, CountsKey, DeviceSlot, EventKind, Happening, Metric, TimelineEntryKey,
};
use store::{FeedFilter, Page, View};

use super::{Queries, unreadable};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// Records of a device's history that are read at a time.
const READ_AT_ONCE: usize = 1_000;

/// What is to be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsQuery {
    /// What.
    pub metric: Metric,
    /// By UTC day, in place of by hour.
    pub by_day: bool,
    /// Whose.
    pub of: StatsOf,
    /// From the hour or day of this time on.
    pub from: Timestamp,
    /// Up to the hour or day of this time, which is counted whole unless the time is its start.
    pub to: Timestamp,
}

/// Whose are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatsOf {
    /// Everybody's.
    All,
    /// A device's.
    Device(DeviceId),
    /// Those of a client's devices.
    Client(ClientId),
    /// Those of the devices with a label.
    Label(String, String),
    /// Those of these devices, at most [`COUNTED_DEVICES_MAX`].
    Devices(Vec<DeviceId>),
}

/// Devices whose histories are counted together at most: each is read for itself.
pub const COUNTED_DEVICES_MAX: usize = 100;

impl StatsQuery {
    fn span_ms(&self) -> i64 {
        if self.by_day { DAY_MS } else { HOUR_MS }
    }

    /// The hours or days, with a count of none.
    fn spans(&self) -> BTreeMap<Timestamp, u64> {
        let (from, span) = (self.start_of(self.from), self.span_ms());
        (0..self.len() as i64).map(|n| (Timestamp(from.0 + n * span), 0)).collect()
    }

    /// What is read of a device's history.
    fn history(&self) -> (Timestamp, Timestamp) {
        let to = Timestamp(self.to.0.saturating_add(self.span_ms() - 1));
        (self.start_of(self.from), self.start_of(to))
    }

    fn start_of(&self, at: Timestamp) -> Timestamp {
        let span = self.span_ms();
        Timestamp(at.0.div_euclid(span).saturating_mul(span))
    }

    /// How many spans the answer has.
    #[must_use]
    pub fn len(&self) -> usize {
        let (from, to) = (self.start_of(self.from), self.to);
        let ms = to.0.saturating_sub(from.0).max(0);
        usize::try_from(ms.unsigned_abs().div_ceil(self.span_ms().unsigned_abs())).unwrap_or(usize::MAX)
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How many commands of a status there were, by the beginning of each span.
pub type CountsOfStatus = (CommandStatus, Vec<(Timestamp, u64)>);

impl Queries {
    /// Whose counts are those of a selection. Where it asks for one label alone, they are the
    /// label's. Otherwise they are those of each device that it means now.
    ///
    /// # Errors
    /// 422 `too_many_devices` beyond [`COUNTED_DEVICES_MAX`].
    pub fn stats_of(&self, selection: &Selection) -> Result<StatsOf, Problem> {
        if selection.requirements().is_empty() {
            return Ok(StatsOf::All);
        }
        if let [Requirement { key: SelectionKey::Label(key), test: Test::In(values) }] =
            selection.requirements()
            && let (1, Some(value)) = (values.len(), values.first())
        {
            return Ok(StatsOf::Label(key.to_string(), value.to_string()));
        }
        let fleet = self.engine.fleet();
        let found = fleet.evaluate(selection);
        if found.len() > COUNTED_DEVICES_MAX as u64 {
            let detail = format!(
                "the selection means {} devices; what happened to more than {COUNTED_DEVICES_MAX} is counted \
                 by one label alone, or by client=",
                found.len()
            );
            return Err(Problem::not_allowed("too_many_devices", detail));
        }
        Ok(StatsOf::Devices(fleet.device_ids(&found).into_iter().map(|(id, _)| id).collect()))
    }

    /// The count of each hour or day, oldest first, those without any too. The caller bounds
    /// [`StatsQuery::len`].
    ///
    /// # Errors
    /// 404 for an unknown device or client; see [`Queries::device`].
    pub fn stats(&self, query: &StatsQuery) -> Result<Vec<(Timestamp, u64)>, Problem> {
        let from = query.start_of(query.from);
        let mut counts = query.spans();
        let mut add = |at: Timestamp, count: u64| {
            if let Some(total) = counts.get_mut(&query.start_of(at)) {
                *total += count;
            }
        };
        let of = match &query.of {
            StatsOf::Device(device) => {
                self.count_device(query, device, &mut add)?;
                return Ok(counts.into_iter().collect());
            }
            StatsOf::Devices(devices) => {
                for device in devices {
                    match self.count_device(query, device, &mut add) {
                        Err(gone) if gone.status == 404 => {}
                        counted => counted?,
                    }
                }
                return Ok(counts.into_iter().collect());
            }
            StatsOf::All => CountedOf::All,
            StatsOf::Client(client) => CountedOf::Client(self.known_client(client)?),
            StatsOf::Label(key, value) => CountedOf::Label(hash::label_hash(key, value)),
        };
        let days = CountsKey::day_and_hour(from).0..=CountsKey::day_and_hour(query.to).0;
        for partition in self.partitions() {
            let view = self.view(partition)?;
            for day in days.clone() {
                let key = CountsKey { day, of, metric: query.metric };
                let Some(found) = view.counts(key).map_err(unreadable)? else { continue };
                for (hour, count) in (0..).zip(found.0) {
                    add(Timestamp(CountsKey::start_of(day).0 + hour * HOUR_MS), u64::from(count));
                }
            }
        }
        Ok(counts.into_iter().collect())
    }

    /// [`Queries::stats`] of commands, for every status that they came to, whatever metric `query`
    /// has. A device's history is read once for all of them.
    ///
    /// # Errors
    /// See [`Queries::stats`].
    pub fn command_stats(&self, query: &StatsQuery) -> Result<Vec<CountsOfStatus>, Problem> {
        let StatsOf::Device(device) = &query.of else {
            let of = |status| {
                let query = StatsQuery { metric: Metric::Commands(status), ..query.clone() };
                Ok((status, self.stats(&query)?))
            };
            return CommandStatus::ALL.into_iter().map(of).collect();
        };
        let (view, profile) = self.known_device(device)?;
        let mut counts = CommandStatus::ALL.map(|status| (status, query.spans()));
        each_step(&*view, profile.slot, query.history(), &mut |came_to, at| {
            let spans = counts.iter_mut().find(|(status, _)| *status == came_to);
            if let Some(count) = spans.and_then(|(_, spans)| spans.get_mut(&query.start_of(at))) {
                *count += 1;
            }
        })?;
        Ok(counts.map(|(status, spans)| (status, spans.into_iter().collect())).into())
    }

    fn count_device(
        &self,
        query: &StatsQuery,
        device: &DeviceId,
        add: &mut dyn FnMut(Timestamp, u64),
    ) -> Result<(), Problem> {
        let (view, profile) = self.known_device(device)?;
        let whose = FeedFilter { device: Some(profile.slot), client: None };
        let span = query.history();
        match query.metric {
            Metric::Reports => {
                let each = &mut |at| add(at, 1);
                view.reading_times(profile.slot, span.0, span.1, each).map_err(unreadable)
            }
            Metric::Changes => each_event(&*view, whose, EventKind::Changed, span, add),
            Metric::Losses => each_event(&*view, whose, EventKind::Lost, span, add),
            Metric::Commands(wanted) => {
                let each = &mut |status, at| add(at, u64::from(status == wanted));
                each_step(&*view, profile.slot, span, each)
            }
            Metric::Deliveries => each(span, add, |page| {
                let deliveries = view.deliveries(whose, page, &|_| true).map_err(unreadable)?;
                Ok(deliveries.iter().map(|delivery| (delivery.id.at, delivery.id.into())).collect())
            }),
        }
    }
}

fn each_event(
    view: &dyn View,
    whose: FeedFilter,
    kind: EventKind,
    span: (Timestamp, Timestamp),
    add: &mut dyn FnMut(Timestamp, u64),
) -> Result<(), Problem> {
    each(span, add, |page| {
        let events = view.events(whose, page, &|event| event.kind == kind).map_err(unreadable)?;
        Ok(events.iter().map(|event| (event.id.at, event.id.into())).collect())
    })
}

/// Every status that a command of a device came to, and when.
fn each_step(
    view: &dyn View,
    slot: DeviceSlot,
    (from, to): (Timestamp, Timestamp),
    each: &mut dyn FnMut(CommandStatus, Timestamp),
) -> Result<(), Problem> {
    let mut after = None;
    loop {
        let page = Page { from, to, ascending: true, after, limit: READ_AT_ONCE };
        let entries = view.timeline(slot, page).map_err(unreadable)?;
        for entry in &entries {
            if let Happening::Command { status, .. } = &entry.what {
                each(*status, entry.at);
            }
        }
        if entries.len() < READ_AT_ONCE {
            return Ok(());
        }
        after = entries.last().map(TimelineEntryKey::from);
    }
}

/// Counts one for each record of a feed, page by page.
fn each<K: Copy>(
    (from, to): (Timestamp, Timestamp),
    add: &mut dyn FnMut(Timestamp, u64),
    read: impl Fn(Page<K>) -> Result<Vec<(Timestamp, K)>, Problem>,
) -> Result<(), Problem> {
    let mut after = None;
    loop {
        let page = read(Page { from, to, ascending: true, after, limit: READ_AT_ONCE })?;
        page.iter().for_each(|(at, _)| add(*at, 1));
        if page.len() < READ_AT_ONCE {
            return Ok(());
        }
        after = page.last().map(|(_, key)| *key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_that_is_begun_is_counted_whole() {
        let query = |from, to, by_day| StatsQuery {
            metric: Metric::Reports,
            by_day,
            of: StatsOf::All,
            from: Timestamp(from),
            to: Timestamp(to),
        };
        for (from, to, by_day, expect) in [
            (0, HOUR_MS, false, 1),
            (1, HOUR_MS, false, 1),
            (1, HOUR_MS + 1, false, 2),
            (HOUR_MS - 1, HOUR_MS + 1, false, 2),
            (5, 5, false, 1),
            (0, 0, false, 0),
            (HOUR_MS, DAY_MS + HOUR_MS, true, 2),
            (9, 3, true, 1),
            (DAY_MS, 3, true, 0),
        ] {
            assert_eq!(query(from, to, by_day).len(), expect, "{from}..{to}");
        }
    }
}
