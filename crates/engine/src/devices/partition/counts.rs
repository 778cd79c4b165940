//! Counts by hour: of everything, of each client's devices, and of the devices with each label.
//!
//! Devices with the same clients and labels are a group. A step counts by group, and at its end
//! spreads each group's counts over the day's records of its members. So a report costs one
//! increment, however many labels there are. Groups also say whom a device is linked to, so that
//! no device keeps a list of its own.

use base::{Incarnation, Timestamp, hash};
use records::{CountedOf, CountsKey, DeviceProfile, HourlyCounts, Metric, Op};
use store::StoreError;

use super::{DevicePartition, DeviceStep};
use crate::devices::effect::DeviceEffect;
use crate::kernel::hashed::HashMap;
use crate::notices::LostDevices;

/// Days' counts that are kept at hand; more than a day needs unless labels are as many as devices.
const AT_HAND_MAX: usize = 16_384;

/// The place of a group among [`DeviceGroups`].
pub(super) type Group = u32;

/// Groups of devices by their labels and clients: only those that some device is in.
#[derive(Debug, Default)]
pub(super) struct DeviceGroups {
    by_members: HashMap<Box<[CountedOf]>, Group>,
    groups: Vec<GroupMembers>,
    unused: Vec<Group>,
}

#[derive(Debug, Default)]
struct GroupMembers {
    of: Box<[CountedOf]>,
    devices: u32,
}

impl DeviceGroups {
    /// The group of a device with this profile, which is in it from now on.
    pub(super) fn enter(&mut self, profile: &DeviceProfile) -> Group {
        let labels = profile.labels.iter().map(|(key, value)| CountedOf::Label(hash::label_hash(key, value)));
        let clients = profile.clients.iter().map(|client| CountedOf::Client(*client));
        let mut members: Vec<CountedOf> = labels.chain(clients).collect();
        members.sort_unstable();
        let group = match self.by_members.get(&*members) {
            Some(group) => *group,
            None => self.add(members.into_boxed_slice()),
        };
        self.groups[group as usize].devices += 1;
        group
    }

    fn add(&mut self, of: Box<[CountedOf]>) -> Group {
        let group = self.unused.pop().unwrap_or_else(|| {
            self.groups.push(GroupMembers::default());
            (self.groups.len() - 1) as Group
        });
        self.by_members.insert(of.clone(), group);
        self.groups[group as usize].of = of;
        group
    }

    /// A device is no longer in it.
    pub(super) fn leave(&mut self, group: Group) {
        let members = &mut self.groups[group as usize];
        members.devices -= 1;
        if members.devices == 0 {
            self.by_members.remove(&members.of);
            members.of = Box::default();
            self.unused.push(group);
        }
    }

    /// The clients that the group's devices are linked to, in order of incarnation.
    pub(super) fn clients(&self, group: Group) -> impl Iterator<Item = Incarnation> {
        self.members(group).iter().filter_map(|of| match of {
            CountedOf::Client(client) => Some(*client),
            CountedOf::All | CountedOf::Label(_) => None,
        })
    }

    /// Whether the group's devices are linked to this client.
    pub(super) fn are_linked(&self, group: Group, client: Incarnation) -> bool {
        self.members(group).binary_search(&CountedOf::Client(client)).is_ok()
    }

    /// Sorted, as [`Self::are_linked`] searches.
    fn members(&self, group: Group) -> &[CountedOf] {
        &self.groups[group as usize].of
    }
}

/// What one step counted.
#[derive(Debug, Default)]
pub(super) struct StepCounts {
    counts: HashMap<HourCount, u32>,
    /// The one that was counted last: the next is mostly the same.
    last: Option<(HourCount, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct HourCount {
    group: Group,
    /// Of a group's clients only this one: whom a notification is for.
    only: Option<Incarnation>,
    metric: Metric,
    day: u32,
    hour: u8,
}

impl StepCounts {
    /// Something happened to a device of the group.
    pub(super) fn add(&mut self, group: Group, metric: Metric, at: Timestamp) {
        self.count(group, None, metric, at);
    }

    /// A notification was made for a client.
    pub(super) fn add_delivery(&mut self, group: Group, client: Incarnation, at: Timestamp) {
        self.count(group, Some(client), Metric::Deliveries, at);
    }

    fn count(&mut self, group: Group, only: Option<Incarnation>, metric: Metric, at: Timestamp) {
        let (day, hour) = CountsKey::day_and_hour(at);
        let count = HourCount { group, only, metric, day, hour: hour as u8 };
        match &mut self.last {
            Some((last, number)) if *last == count => *number += 1,
            last => {
                if let Some((before, number)) = last.replace((count, 1)) {
                    *self.counts.entry(before).or_default() += number;
                }
            }
        }
    }

    fn take(&mut self) -> HashMap<HourCount, u32> {
        if let Some((last, number)) = self.last.take() {
            *self.counts.entry(last).or_default() += number;
        }
        std::mem::take(&mut self.counts)
    }
}

impl DevicePartition {
    /// Adds what the step counted so far to the days' records. Also before a device leaves its
    /// group.
    pub(super) fn write_counts(&mut self, step: &mut DeviceStep<'_>) -> Result<(), StoreError> {
        let counted = step.own.counted.take();
        if counted.is_empty() {
            return Ok(());
        }
        let mut days: HashMap<CountsKey, HourlyCounts> = HashMap::default();
        for (HourCount { group, only, metric, day, hour }, number) in counted {
            let counts = |of: &CountedOf| match (of, only) {
                (CountedOf::Client(client), Some(only)) => *client == only,
                _ => true,
            };
            let members = self.groups.members(group).iter().filter(|of| counts(of));
            for of in members.copied().chain([CountedOf::All]) {
                let key = CountsKey { day, of, metric };
                days.entry(key).or_default().add(usize::from(hour), number);
            }
        }
        for (key, more) in days {
            let mut counts = self.counts(key, step)?;
            for (hour, more) in more.0.into_iter().enumerate() {
                counts.add(hour, more);
            }
            self.counts_at_hand.insert(key, counts);
            self.pending.counts.put(step.seq, key, Some(counts));
            step.push(Op::PutCounts(key, Box::new(counts)));
        }
        if self.counts_at_hand.len() > AT_HAND_MAX {
            self.counts_at_hand.clear();
        }
        Ok(())
    }

    /// Devices that were lost and have labels, by these.
    pub(super) fn tell_lost(&mut self, step: &mut DeviceStep<'_>) {
        if step.own.lost.is_empty() {
            return;
        }
        let lost = std::mem::take(&mut step.own.lost).into_iter().map(|(group, (count, example))| {
            let label = |of: &CountedOf| match of {
                CountedOf::Label(label) => Some(*label),
                CountedOf::All | CountedOf::Client(_) => None,
            };
            let labels = self.groups.members(group).iter().filter_map(label).collect();
            LostDevices { labels, count, example }
        });
        let lost = lost.collect();
        step.emit(DeviceEffect::Lost(lost));
    }

    fn counts(&self, key: CountsKey, step: &DeviceStep<'_>) -> Result<HourlyCounts, StoreError> {
        if let Some(counts) = self.counts_at_hand.get(&key) {
            return Ok(*counts);
        }
        let counts = self.pending.counts.get_or_read(&key, || step.fetch.view()?.counts(key))?;
        Ok(counts.unwrap_or_default())
    }
}
