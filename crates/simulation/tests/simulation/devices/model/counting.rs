//! Counts by hour, one for each thing that happened and each of those that it counts for.

use std::collections::{BTreeMap, BTreeSet};

use base::{DeviceId, Incarnation, Timestamp, hash};
use records::{CountedOf, Metric};

use super::device::Device;
use super::partition::Partition;

/// Milliseconds of an hour.
const HOUR_MS: i64 = 3_600_000;
/// Hours of a day.
const DAY_HOURS: i64 = 24;

/// How often each thing happened within each hour since 1970.
#[derive(Clone, Default)]
pub(crate) struct Counted {
    by_hour: BTreeMap<(CountedOf, Metric, i64), u32>,
}

impl Counted {
    fn add(&mut self, of: CountedOf, metric: Metric, at: Timestamp) {
        *self.by_hour.entry((of, metric, at.0 / HOUR_MS)).or_default() += 1;
    }

    /// The hours of a UTC day; nothing if nothing happened then.
    pub(crate) fn of_day(
        &self,
        of: CountedOf,
        metric: Metric,
        day: u32,
    ) -> Option<[u32; DAY_HOURS as usize]> {
        let first = i64::from(day) * DAY_HOURS;
        let mut hours = [0; DAY_HOURS as usize];
        let counted = self.by_hour.range((of, metric, first)..(of, metric, first + DAY_HOURS));
        counted.for_each(|((_, _, hour), count)| hours[(hour - first) as usize] = *count);
        hours.iter().any(|count| *count > 0).then_some(hours)
    }

    /// Whose anything was ever counted, and on which days.
    pub(crate) fn places(&self) -> (BTreeSet<CountedOf>, BTreeSet<u32>) {
        let whose = self.by_hour.keys().map(|(of, _, _)| *of).collect();
        let days = self.by_hour.keys().map(|(_, _, hour)| (hour / DAY_HOURS) as u32).collect();
        (whose, days)
    }
}

impl Partition {
    /// Something happened to a device: it counts for all, for each of its labels and for each of
    /// its clients.
    pub(super) fn count(&mut self, id: &DeviceId, metric: Metric, at: Timestamp) {
        let device = &self.devices[id];
        let clients = device.links.iter().map(|client| CountedOf::Client(*client));
        for of in labels(device).chain(clients).collect::<Vec<_>>() {
            self.counted.add(of, metric, at);
        }
    }

    /// A notification was made: of the clients it counts for the one that it is for.
    pub(super) fn count_delivery(&mut self, id: &DeviceId, client: Incarnation, at: Timestamp) {
        let device = &self.devices[id];
        for of in labels(device).chain([CountedOf::Client(client)]).collect::<Vec<_>>() {
            self.counted.add(of, Metric::Deliveries, at);
        }
    }
}

fn labels(device: &Device) -> impl Iterator<Item = CountedOf> {
    let labels = device.labels.iter().map(|(key, value)| CountedOf::Label(hash::label_hash(key, value)));
    labels.chain([CountedOf::All])
}
