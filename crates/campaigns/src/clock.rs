//! The virtual clock of fair picks: what a pick costs a device, and how fast that is forgiven.
//!
//! The clock reads `V`, in millionths of a pick. It advances by one pick in `punishment` minutes.
//! A device that is picked has reached `max(V, reached) + 1`. Its weight is
//! `1 - constant x punishment x max(0, reached - V)`: a new punishment changes every weight and
//! never their order. The clock never goes back, and a new punishment does not make it jump.

use std::time::Duration;

use base::Timestamp;
use records::{PickClock, PickMinute};

/// A pick, in the unit of the clock.
pub const PICK: u64 = 1_000_000;
/// By how much a pick lowers a weight when punishment is 1; also what a weight recovers in a
/// minute.
pub const WEIGHT_CONSTANT: f64 = 0.001;
/// Minutes whose tasks count for punishment.
const MINUTES: u64 = 60;
const MINUTE_MS: u64 = 60_000;
/// The least punishment, in thousandths.
const PUNISHMENT_MILLI_MIN: u64 = 1_000;
/// The greatest, in thousandths: a billion devices of which one was picked in an hour. Products of
/// two of them fit in 128 bits.
const PUNISHMENT_MILLI_MAX: u64 = 100_000_000_000_000;
/// Progress in a millisecond, where a millionth of a pick takes `punishment_milli x MINUTE_MS`.
const PROGRESS_OF_MS: u128 = PICK as u128 * 1_000;
/// Punishment is computed anew at least this often.
const COMPUTED_EVERY: Duration = Duration::from_secs(60);

/// The figures behind punishment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FairnessStats {
    /// Devices that are connected.
    pub connected: u64,
    /// Devices that a task picked, on average of the last hour.
    pub avg_picked: f64,
    /// Tasks that began in a minute, on average of the last hour; slots included.
    pub avg_tasks: f64,
    /// `connected / (avg_picked x avg_tasks)`, at least 1; 1 while the last hour has no pick.
    pub punishment: f64,
}

/// The virtual clock. Whoever stores picks stores its [`PickClock`] in the same batch: after a
/// start, the clock must not read less than it did at a pick.
#[derive(Clone, Debug)]
pub struct VirtualClock {
    record: PickClock,
    /// When punishment was computed last; `None` after a start.
    computed_at: Option<Timestamp>,
    has_changed: bool,
}

impl VirtualClock {
    /// The clock as it was stored, or one that begins now. That is stored with the first pick: who
    /// never asks for one has nothing written. The picks of tokens in it are not the clock's.
    #[must_use]
    pub fn new(stored: Option<PickClock>, now: Timestamp) -> Self {
        let mut record = stored.unwrap_or(PickClock { at: now, ..PickClock::default() });
        record.punishment_milli = record.punishment_milli.clamp(PUNISHMENT_MILLI_MIN, PUNISHMENT_MILLI_MAX);
        Self { record, computed_at: None, has_changed: false }
    }

    /// What the clock reads, in millionths of a pick.
    #[must_use]
    pub fn reads(&self, now: Timestamp) -> u64 {
        self.record.reached.saturating_add(self.advance(now).0)
    }

    /// A task began.
    pub fn task_began(&mut self, now: Timestamp) {
        let minute = self.minute(now);
        minute.tasks = minute.tasks.saturating_add(1);
        self.has_changed = true;
    }

    /// A task picked so many devices, replacements included.
    pub fn picked(&mut self, devices: u32, now: Timestamp) {
        let minute = self.minute(now);
        minute.picked = minute.picked.saturating_add(devices);
        self.has_changed = true;
    }

    /// When punishment is to be computed anew at the latest; at once after a start.
    #[must_use]
    pub fn due_at(&self, now: Timestamp) -> Timestamp {
        self.computed_at.map_or(now, |at| at.after(COMPUTED_EVERY))
    }

    /// Computes punishment anew. The clock goes on at the new pace from what it reads now.
    pub fn compute(&mut self, connected: u64, now: Timestamp) {
        let punishment_milli = self.punishment_milli(connected, now);
        self.computed_at = Some(now);
        if punishment_milli == self.record.punishment_milli {
            return;
        }
        let (advance, unused) = self.advance(now);
        self.record.reached = self.record.reached.saturating_add(advance);
        self.record.at = now.before(Duration::from_millis(time_for(unused, punishment_milli)));
        self.record.punishment_milli = punishment_milli;
        self.has_changed = true;
    }

    /// The record to be stored, if it has changed since this was asked last.
    pub fn take_change(&mut self) -> Option<PickClock> {
        std::mem::take(&mut self.has_changed).then(|| self.record.clone())
    }

    /// Punishment in thousandths, as it is in force.
    #[must_use]
    pub fn punishment_in_force_milli(&self) -> u64 {
        self.record.punishment_milli
    }

    /// The figures behind punishment; `punishment` is what is in force.
    #[must_use]
    pub fn fairness(&self, connected: u64, now: Timestamp) -> FairnessStats {
        let (tasks, picked) = self.last_hour(now);
        FairnessStats {
            connected,
            avg_picked: picked as f64 / tasks.max(1) as f64,
            avg_tasks: tasks as f64 / MINUTES as f64,
            punishment: self.record.punishment_milli as f64 / 1_000.0,
        }
    }

    /// The weight of a device that has reached so much; of one that was never picked, 0. At most 1,
    /// and below 0 for a device that was picked often.
    #[must_use]
    pub fn weight(&self, reached: u64, now: Timestamp) -> f64 {
        let ahead = reached.saturating_sub(self.reads(now));
        let drop = u128::from(ahead) * u128::from(self.record.punishment_milli);
        1.0 - WEIGHT_CONSTANT * (drop as f64 / (PICK * 1_000) as f64)
    }

    /// How far the clock advanced since it was set, and what is left below a millionth.
    fn advance(&self, now: Timestamp) -> (u64, Unused) {
        let elapsed_ms = now.since(self.record.at).as_millis();
        let per_millionth = u128::from(self.record.punishment_milli) * u128::from(MINUTE_MS);
        let progress = elapsed_ms * PROGRESS_OF_MS;
        let advance = u64::try_from(progress / per_millionth).unwrap_or(u64::MAX);
        (advance, Unused { progress: progress % per_millionth, per_millionth })
    }

    fn punishment_milli(&self, connected: u64, now: Timestamp) -> u64 {
        // avg_picked x avg_tasks = picked / tasks x tasks / 60.
        let (_, picked) = self.last_hour(now);
        let scaled = u128::from(connected) * u128::from(MINUTES) * 1_000;
        let milli = scaled.checked_div(u128::from(picked)).unwrap_or(0);
        u64::try_from(milli).unwrap_or(u64::MAX).clamp(PUNISHMENT_MILLI_MIN, PUNISHMENT_MILLI_MAX)
    }

    /// Tasks and picks of the last hour.
    fn last_hour(&self, now: Timestamp) -> (u64, u64) {
        let now = minute_of(now);
        let counted = self.record.minutes.iter().filter(|one| one.minute + MINUTES > now);
        counted.fold((0, 0), |(tasks, picked), one| {
            (tasks + u64::from(one.tasks), picked + u64::from(one.picked))
        })
    }

    /// The counts of the present minute. Minutes older than an hour are dropped, so that the record
    /// has at most 60.
    fn minute(&mut self, now: Timestamp) -> &mut PickMinute {
        let minute = minute_of(now);
        let minutes = &mut self.record.minutes;
        if minutes.last().is_none_or(|last| last.minute < minute) {
            minutes.retain(|one| one.minute + MINUTES > minute);
            minutes.push(PickMinute { minute, ..PickMinute::default() });
        }
        minutes.last_mut().expect("one was pushed where there was none")
    }
}

/// Progress towards the next millionth of a pick.
#[derive(Clone, Copy)]
struct Unused {
    progress: u128,
    per_millionth: u128,
}

/// How many milliseconds the same part of a millionth takes under another punishment. Rounded down,
/// so that the clock does not jump.
fn time_for(unused: Unused, punishment_milli: u64) -> u64 {
    let per_millionth = u128::from(punishment_milli) * u128::from(MINUTE_MS);
    let ms = unused.progress * per_millionth / (unused.per_millionth * PROGRESS_OF_MS);
    u64::try_from(ms).unwrap_or(u64::MAX)
}

fn minute_of(at: Timestamp) -> u64 {
    at.0.max(0).cast_unsigned() / MINUTE_MS
}

#[cfg(test)]
mod tests;
