//! Phases: by how much each campaign is shifted, so that minutes are level.
//!
//! All slots are laid on a wheel of an hour. A campaign without a phase of its own gets the one
//! that meets the emptiest minutes, and within these the emptiest seconds. A campaign whose slots
//! drift over the hour, never twice at the same second, loads all minutes alike and is left out.

use records::CampaignPace;

use crate::slots::{self, SLOTS_OF_PERIOD};

const MINUTES: usize = 60;
const SECONDS: usize = 3_600;
const SECOND_MS: u64 = 1_000;
const HOUR_MS: u64 = 3_600_000;

/// How many devices the campaigns pick at each second of an hour.
#[derive(Clone, Debug)]
pub struct PhaseWheel {
    minutes: [u64; MINUTES],
    seconds: Box<[u64; SECONDS]>,
}

/// Slots that are a fixed time apart and want as many devices each.
struct Series {
    interval_ms: u64,
    offset_ms: u64,
    wanted: u64,
}

impl Default for PhaseWheel {
    fn default() -> Self {
        Self { minutes: [0; MINUTES], seconds: Box::new([0; SECONDS]) }
    }
}

impl PhaseWheel {
    /// A campaign with this phase runs.
    pub fn add(&mut self, pace: CampaignPace, count: u32, phase_ms: u64) {
        self.each_second(pace, count, phase_ms, |load, wanted| *load = load.saturating_add(wanted));
    }

    /// A campaign that was added does not run any more.
    pub fn remove(&mut self, pace: CampaignPace, count: u32, phase_ms: u64) {
        self.each_second(pace, count, phase_ms, |load, wanted| *load = load.saturating_sub(wanted));
    }

    /// The phase of a campaign that comes to those that run, in milliseconds: whole seconds, less
    /// than its interval or period. Looks at a few hundred thousand seconds at most, however many
    /// campaigns there are.
    #[must_use]
    pub fn choose(&self, pace: CampaignPace, count: u32) -> u64 {
        let all_series = all_series(pace, count);
        let Some(first) = all_series.first() else { return 0 };
        let choices = (0..repeats_after(first.interval_ms) / SECOND_MS).map(|second| second * SECOND_MS);
        choices.min_by_key(|phase_ms| self.load(&all_series, *phase_ms)).unwrap_or(0)
    }

    /// The fullest minute that slots with this phase meet, all of these minutes, and the same of
    /// seconds.
    fn load(&self, all_series: &[Series], phase_ms: u64) -> [u64; 4] {
        let mut load = [0_u64; 4];
        for second in all_series.iter().flat_map(|series| series.seconds(phase_ms)) {
            let (minute, second) = (self.minutes[second / 60], self.seconds[second]);
            load[0] = load[0].max(minute);
            load[1] = load[1].saturating_add(minute);
            load[2] = load[2].max(second);
            load[3] = load[3].saturating_add(second);
        }
        load
    }

    fn each_second(&mut self, pace: CampaignPace, count: u32, phase_ms: u64, change: impl Fn(&mut u64, u64)) {
        for series in all_series(pace, count) {
            for second in series.seconds(phase_ms) {
                change(&mut self.seconds[second], series.wanted);
                change(&mut self.minutes[second / 60], series.wanted);
            }
        }
    }
}

impl Series {
    /// The seconds of an hour at which there is a slot.
    fn seconds(&self, phase_ms: u64) -> impl Iterator<Item = usize> + use<> {
        let apart = repeats_after(self.interval_ms);
        let begin = (phase_ms + self.offset_ms) % HOUR_MS;
        (0..HOUR_MS / apart).map(move |slot| ((begin + slot * apart) % HOUR_MS / SECOND_MS) as usize)
    }
}

/// The slots of a campaign; none if they drift.
fn all_series(pace: CampaignPace, count: u32) -> Vec<Series> {
    let period_ms = slots::period_ms(pace);
    let count = u64::from(count);
    let of = |interval_ms: u64, offset_ms: u64, wanted: u64| Series { interval_ms, offset_ms, wanted };
    let all_series: Vec<_> = match pace {
        CampaignPace::Every(ms) => vec![of(ms, 0, count)],
        CampaignPace::Over(ms) if count >= SLOTS_OF_PERIOD && ms % SLOTS_OF_PERIOD == 0 => {
            vec![of(ms / SLOTS_OF_PERIOD, 0, count.div_ceil(SLOTS_OF_PERIOD))]
        }
        CampaignPace::Over(_) if count >= SLOTS_OF_PERIOD => Vec::new(),
        CampaignPace::Over(ms) => {
            // Device n of a period is wanted by the slot in which floor(i x count / 60) reaches it.
            let slot_of = |device: u64| (device * SLOTS_OF_PERIOD).div_ceil(count) - 1;
            (1..=count).map(|device| of(ms, slot_of(device) * ms / SLOTS_OF_PERIOD, 1)).collect()
        }
    };
    let drifts =
        period_ms == 0 || all_series.iter().any(|series| repeats_after(series.interval_ms) < SECOND_MS);
    if drifts { Vec::new() } else { all_series }
}

/// Slots of this interval, laid on the wheel, are so far apart.
fn repeats_after(interval_ms: u64) -> u64 {
    let (mut one, mut other) = (interval_ms, HOUR_MS);
    while one != 0 {
        (one, other) = (other % one, one);
    }
    other
}

#[cfg(test)]
mod tests;
