//! Slots: when a campaign picks, how many devices, and what becomes of slots that were missed.
//!
//! Slots lie on the wall clock, at multiples of their length since the epoch in UTC, shifted by the
//! campaign's phase. `Every` has one slot in each interval. `Over` has 60 slots in each period.
//! Slot `i` of these wants `floor((i + 1) x count / 60) - floor(i x count / 60)` devices. So the
//! sum of a period is exactly `count`. A slot that wants none is passed over.
//!
//! ```text
//!            due_at        + length, at most 1 min        due_at of the next
//!   waits  --|-- begins on time --|-- missed ----------------|-- missed
//!                                     catch_up: begins late      skipped
//!                                     skip: skipped
//! ```

use std::time::Duration;

use base::Timestamp;
use records::{CampaignPace, CampaignRecord, MissedSlots};

/// Slots of a period.
pub const SLOTS_OF_PERIOD: u64 = 60;
/// The least length of a slot.
pub const LENGTH_MIN: Duration = Duration::from_secs(1);
/// The greatest interval, and the longest period.
pub const INTERVAL_MAX: Duration = Duration::from_secs(366 * 86_400);
/// Slots that a campaign missed and skips at once: the newest ones. Older ones are passed over.
pub const SKIPPED_MAX: u64 = 1_000;
/// Who drops out of a slot is replaced for so long at most, if answers need no longer.
const REPLACED_MAX: Duration = Duration::from_secs(60);

/// A slot as it is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Counts lengths since the epoch.
    pub number: u64,
    /// When it is due; on the wall clock.
    pub due_at: Timestamp,
    /// How many devices it wants, at least 1.
    pub wanted: u32,
}

/// What a campaign does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotStep {
    /// It begins this slot now, late if it was missed.
    Begin(Slot),
    /// It skips this slot, which was missed.
    Skip(Slot),
    /// It waits for this slot.
    Wait(Slot),
    /// It has no slot any more.
    Over,
}

/// How the slots of a campaign lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotPlan {
    /// Intervals, or periods.
    pub pace: CampaignPace,
    /// Devices of an interval, or of a period; at least 1.
    pub count: u32,
    /// By how much slots are shifted, in milliseconds.
    pub phase_ms: u64,
    /// No slot before.
    pub from: Option<Timestamp>,
    /// No slot from then on.
    pub until: Option<Timestamp>,
}

/// The interval or the period, in milliseconds.
#[must_use]
pub fn period_ms(pace: CampaignPace) -> u64 {
    match pace {
        CampaignPace::Every(ms) | CampaignPace::Over(ms) => ms,
    }
}

/// The shortest interval or period of that kind, in milliseconds: no slot is shorter than a second.
#[must_use]
pub fn period_min_ms(pace: CampaignPace) -> u64 {
    let length = LENGTH_MIN.as_millis() as u64;
    match pace {
        CampaignPace::Every(_) => length,
        CampaignPace::Over(_) => length * SLOTS_OF_PERIOD,
    }
}

impl SlotPlan {
    /// The plan of a campaign whose terms want so many devices.
    #[must_use]
    pub fn of(campaign: &CampaignRecord, count: u32) -> Self {
        let CampaignRecord { pace, phase_ms, from, until, .. } = *campaign;
        Self { pace, count, phase_ms, from, until }
    }

    /// The slot of this number.
    #[must_use]
    pub fn slot(&self, number: u64) -> Slot {
        Slot { number, due_at: self.due_at(number), wanted: self.wanted(number) }
    }

    /// The number of the newest slot that is due, whether or not it wants devices and lies within
    /// the campaign's time. A campaign that is made, resumed or gets another pace has passed it.
    #[must_use]
    pub fn newest_due(&self, now: Timestamp) -> Option<u64> {
        let ms = u64::try_from(now.0).ok()?.checked_sub(self.phase_ms)?;
        let (slots, period) = self.slots_per_ms();
        // The last n with floor(n x period / slots) <= ms.
        let behind = (u128::from(ms) + 1) * u128::from(slots);
        u64::try_from(behind.div_ceil(u128::from(period)) - 1).ok()
    }

    /// The first slot behind `passed` that wants devices and lies within the campaign's time.
    #[must_use]
    pub fn next(&self, passed: Option<u64>) -> Option<Slot> {
        let behind = passed.map_or(0, |number| number.saturating_add(1));
        let begin = self.from.and_then(|from| self.newest_due(Timestamp(from.0.saturating_sub(1))));
        let first = begin.map_or(behind, |before| behind.max(before.saturating_add(1)));
        let last = first.saturating_add(SLOTS_OF_PERIOD);
        let slot = (first..last).map(|number| self.slot(number)).find(|slot| slot.wanted > 0)?;
        self.until.is_none_or(|until| slot.due_at < until).then_some(slot)
    }

    /// What a campaign does now that has begun or skipped all slots up to `passed`. After
    /// `Begin` and `Skip` it has passed that slot too, and this is to be asked again.
    #[must_use]
    pub fn step(&self, passed: Option<u64>, missed: MissedSlots, now: Timestamp) -> SlotStep {
        let Some(next) = self.next(passed) else { return SlotStep::Over };
        if next.due_at > now {
            return SlotStep::Wait(next);
        }
        let newest = self.newest_wanting(next, now);
        if next.number < newest.number {
            let told_of = newest.number.saturating_sub(SKIPPED_MAX);
            return SlotStep::Skip(if next.number >= told_of {
                next
            } else {
                self.wanting_from(told_of, newest)
            });
        }
        let is_on_time = now < newest.due_at.after(self.length().min(REPLACED_MAX));
        if is_on_time || missed == MissedSlots::CatchUp {
            SlotStep::Begin(newest)
        } else {
            SlotStep::Skip(newest)
        }
    }

    /// How long a device that drops out of a slot is replaced: the slot's length, at most a minute.
    /// It is at least as long as a device has for its answer.
    #[must_use]
    pub fn replaced_for(&self, answer_timeout: Duration) -> Duration {
        self.length().min(REPLACED_MAX).max(answer_timeout)
    }

    /// How long a slot is, rounded down to milliseconds.
    #[must_use]
    pub fn length(&self) -> Duration {
        let (slots, period) = self.slots_per_ms();
        Duration::from_millis(period / slots)
    }

    /// How many devices a slot wants.
    fn wanted(&self, number: u64) -> u32 {
        let CampaignPace::Over(_) = self.pace else { return self.count };
        let until = |slot: u64| slot * u64::from(self.count) / SLOTS_OF_PERIOD;
        let slot = number % SLOTS_OF_PERIOD;
        (until(slot + 1) - until(slot)) as u32
    }

    fn due_at(&self, number: u64) -> Timestamp {
        let (slots, period) = self.slots_per_ms();
        let ms = u128::from(number) * u128::from(period) / u128::from(slots) + u128::from(self.phase_ms);
        Timestamp(i64::try_from(ms).unwrap_or(i64::MAX))
    }

    /// So many slots in so many milliseconds, at least 1.
    fn slots_per_ms(&self) -> (u64, u64) {
        match self.pace {
            CampaignPace::Every(ms) => (1, ms.max(1)),
            CampaignPace::Over(ms) => (SLOTS_OF_PERIOD, ms.max(SLOTS_OF_PERIOD)),
        }
    }

    /// The newest slot that is due, wants devices and lies within the campaign's time: `next`, or
    /// one behind it.
    fn newest_wanting(&self, next: Slot, now: Timestamp) -> Slot {
        let end = self.until.map_or(now, |until| now.min(Timestamp(until.0.saturating_sub(1))));
        let newest = self.newest_due(end).unwrap_or(next.number);
        let first = newest.saturating_sub(SLOTS_OF_PERIOD).max(next.number);
        let due = (first..=newest).rev().map(|number| self.slot(number));
        due.into_iter().find(|slot| slot.wanted > 0).unwrap_or(next)
    }

    /// The first slot from this number on that wants devices; `newest` is one.
    fn wanting_from(&self, number: u64, newest: Slot) -> Slot {
        (number..newest.number).map(|number| self.slot(number)).find(|slot| slot.wanted > 0).unwrap_or(newest)
    }
}

#[cfg(test)]
mod tests;
