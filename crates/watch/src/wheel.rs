//! A hierarchical timing wheel over the devices that wait in one attended clock.
//!
//! Ten levels of 64 buckets; a bucket of level n spans 64^n ticks, which covers every reading.
//! Devices are linked through themselves, so filing, leaving and taking cost the same however many
//! wait. A bucket comes due at its first tick. Whoever takes a device from it judges the device,
//! and files it again if its time has not come. Filing too early is therefore always right, and
//! that is why a report files nothing.

use records::DeviceSlot;

use crate::device_table::DeviceTable;

const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
const LEVELS: usize = 10;
const BUCKETS: usize = LEVELS * SLOTS;
const NOBODY: u32 = u32::MAX;
/// Bits of a bucket's number, counted over all wheels. All of them set is [`NOWHERE`].
pub(crate) const BUCKET_BITS: u32 = 12;
const NOWHERE: u16 = (1 << BUCKET_BITS) - 1;

const _: () =
    assert!(LEVELS as u32 * SLOT_BITS >= 57, "63 bits of milliseconds are fewer than 57 bits of ticks");

/// Where a device waits: its neighbours in a bucket, and which bucket of which wheel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WheelPlace {
    pub(crate) before: u32,
    pub(crate) after: u32,
    pub(crate) bucket: u16,
}

impl Default for WheelPlace {
    /// Waiting nowhere.
    fn default() -> Self {
        Self { before: NOBODY, after: NOBODY, bucket: NOWHERE }
    }
}

impl WheelPlace {
    /// The number of the wheel in which it waits.
    pub(crate) fn wheel(self) -> Option<usize> {
        (self.bucket != NOWHERE).then(|| usize::from(self.bucket) / BUCKETS)
    }
}

/// One wheel.
#[derive(Debug)]
pub(crate) struct Wheel {
    number: usize,
    /// Every bucket that begins before this tick is empty, but for the one being taken from.
    elapsed: u64,
    heads: Box<[u32; BUCKETS]>,
    /// A bit for each bucket that is not empty, by level.
    occupied: [u64; LEVELS],
}

/// A bucket that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bucket {
    /// The tick at which it comes due.
    pub(crate) tick: u64,
    index: usize,
}

impl Wheel {
    /// An empty wheel at `elapsed`. `number` tells it from the others.
    pub(crate) fn new(number: usize, elapsed: u64) -> Self {
        assert!((number + 1) * BUCKETS <= usize::from(NOWHERE), "a bucket's number fits in BUCKET_BITS");
        Self { number, elapsed, heads: Box::new([NOBODY; BUCKETS]), occupied: [0; LEVELS] }
    }

    /// Files a device, which must wait nowhere, to be taken at `tick` or earlier; a tick that has
    /// passed is due at once.
    pub(crate) fn file(&mut self, devices: &mut DeviceTable, slot: DeviceSlot, tick: u64) {
        let index = self.bucket_of(tick.max(self.elapsed));
        let after = std::mem::replace(&mut self.heads[index], slot.0);
        self.occupied[index / SLOTS] |= 1 << (index % SLOTS);
        if after != NOBODY {
            devices.known_mut(DeviceSlot(after)).before = slot.0;
        }
        let device = devices.known_mut(slot);
        debug_assert_eq!(device.place().wheel(), None, "a device waits in one place");
        device.set_place(WheelPlace {
            before: NOBODY,
            after,
            bucket: (self.number * BUCKETS + index) as u16,
        });
    }

    /// Takes a device that waits in this wheel out of it.
    pub(crate) fn leave(&mut self, devices: &mut DeviceTable, slot: DeviceSlot) {
        let device = devices.known_mut(slot);
        let WheelPlace { before, after, bucket } = device.place();
        device.set_place(WheelPlace::default());
        let index = usize::from(bucket) - self.number * BUCKETS;
        if after != NOBODY {
            devices.known_mut(DeviceSlot(after)).before = before;
        }
        if before != NOBODY {
            devices.known_mut(DeviceSlot(before)).after = after;
            return;
        }
        self.heads[index] = after;
        if after == NOBODY {
            self.occupied[index / SLOTS] &= !(1 << (index % SLOTS));
        }
    }

    /// The bucket that comes due first.
    pub(crate) fn first(&self) -> Option<Bucket> {
        (0..LEVELS).filter_map(|level| self.first_of(level)).min()
    }

    /// Takes a device from a bucket that has come due.
    pub(crate) fn take(&mut self, devices: &mut DeviceTable, bucket: Bucket) -> DeviceSlot {
        self.elapsed = self.elapsed.max(bucket.tick);
        let slot = DeviceSlot(self.heads[bucket.index]);
        self.leave(devices, slot);
        slot
    }

    /// Nothing is due up to `tick`: from now on devices are filed as seen from there, and so need
    /// not be filed again so often.
    pub(crate) fn pass(&mut self, tick: u64) {
        self.elapsed = self.elapsed.max(tick);
    }

    /// The finest bucket whose level still tells `tick` from now.
    fn bucket_of(&self, tick: u64) -> usize {
        let differing_bits = u64::BITS - (self.elapsed ^ tick).leading_zeros();
        let level = (differing_bits.saturating_sub(1) / SLOT_BITS) as usize;
        level * SLOTS + slot_at(tick, level)
    }

    /// Buckets before the present one are empty: what is filed differs from now upwards in its
    /// level's bits only.
    fn first_of(&self, level: usize) -> Option<Bucket> {
        let present = slot_at(self.elapsed, level);
        let ahead = self.occupied[level] & (u64::MAX << present);
        if ahead == 0 {
            return None;
        }
        let slot = ahead.trailing_zeros() as usize;
        let shift = level as u32 * SLOT_BITS;
        let above = self.elapsed >> shift >> SLOT_BITS;
        let tick = (above << SLOT_BITS | slot as u64) << shift;
        Some(Bucket { tick, index: level * SLOTS + slot })
    }
}

fn slot_at(tick: u64, level: usize) -> usize {
    (tick >> (level as u32 * SLOT_BITS)) as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use base::random::Random;

    /// Takes everything that is due at `now`, filing early ones again as the caller of a wheel
    /// must.
    fn take_due(
        wheel: &mut Wheel,
        devices: &mut DeviceTable,
        now: u64,
        due: &mut BTreeMap<u32, u64>,
    ) -> Vec<u32> {
        let mut taken = Vec::new();
        while let Some(bucket) = wheel.first().filter(|bucket| bucket.tick <= now) {
            let slot = wheel.take(devices, bucket);
            let tick = due[&slot.0];
            if tick <= now {
                due.remove(&slot.0);
                taken.push(slot.0);
            } else {
                wheel.file(devices, slot, tick);
            }
        }
        wheel.pass(now);
        taken.sort_unstable();
        taken
    }

    #[test]
    fn everybody_is_taken_when_due_and_nobody_earlier() {
        const DEVICES: u32 = 300;
        let mut random = Random::new(7);
        let mut devices = DeviceTable::of(0..DEVICES);
        let mut now = 1_000_003;
        let mut wheel = Wheel::new(3, now);
        let mut due = BTreeMap::new();
        for _ in 0..20_000 {
            let slot = random.below(u64::from(DEVICES)) as u32;
            let span = 1_u64 << random.below(40);
            if due.remove(&slot).is_some() {
                wheel.leave(&mut devices, DeviceSlot(slot));
            }
            if random.chance(9, 10) {
                let tick = (now + random.below(span)).saturating_sub(2);
                wheel.file(&mut devices, DeviceSlot(slot), tick);
                due.insert(slot, tick);
            }
            if random.chance(1, 5) {
                let span = 1 << random.below(30);
                now += random.below(span);
                let expect: Vec<_> =
                    due.iter().filter(|(_, tick)| **tick <= now).map(|(slot, _)| *slot).collect();
                assert_eq!(take_due(&mut wheel, &mut devices, now, &mut due), expect, "at {now}");
            }
        }
        let waiting: Vec<_> = due.keys().copied().collect();
        assert_eq!(take_due(&mut wheel, &mut devices, u64::MAX >> 7, &mut due), waiting);
        assert_eq!(wheel.first(), None);
    }

    #[test]
    fn the_first_bucket_is_never_later_than_the_first_device() {
        let mut devices = DeviceTable::of([0]);
        for exponent in 0..57 {
            for elapsed in [0, 1, 63, 64, 12_345_678] {
                let mut wheel = Wheel::new(0, elapsed);
                let tick = elapsed + (1 << exponent);
                wheel.file(&mut devices, DeviceSlot(0), tick);
                let first = wheel.first().expect("one waits");
                assert!(first.tick > elapsed && first.tick <= tick, "{elapsed} {tick} {first:?}");
                assert_eq!(wheel.take(&mut devices, first), DeviceSlot(0));
                assert_eq!(wheel.first(), None);
            }
        }
    }
}
