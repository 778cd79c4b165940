//! Repeatable randomness: the same seed gives the same run.
//!
//! SplitMix64, a few lines that never change, so that a printed seed still means the same run years
//! later. Not for anything that must be hard to guess.

use std::str::FromStr;
use std::time::Duration;

/// How often something happens, from never to always, in steps of a millionth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Probability {
    per_million: u32,
}

impl Probability {
    /// It does not happen.
    pub const NEVER: Self = Self { per_million: 0 };
    /// It happens each time.
    pub const ALWAYS: Self = Self { per_million: 1_000_000 };

    /// In how many of a million cases.
    #[must_use]
    pub const fn per_million(self) -> u32 {
        self.per_million
    }

    /// `share` of 1, if it lies between 0 and 1.
    #[must_use]
    pub fn new(share: f64) -> Option<Self> {
        (0.0..=1.0).contains(&share).then(|| Self { per_million: (share * 1e6).round() as u32 })
    }
}

/// Why a text is no probability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a number from 0 to 1, such as 0.05")]
pub struct NotAProbability;

impl FromStr for Probability {
    type Err = NotAProbability;

    fn from_str(text: &str) -> Result<Self, NotAProbability> {
        text.parse().ok().and_then(Self::new).ok_or(NotAProbability)
    }
}

/// A seeded sequence of numbers.
#[derive(Debug, Clone)]
pub struct SeededRandom {
    state: u64,
}

impl SeededRandom {
    /// A sequence that depends on `seed` alone.
    #[must_use]
    pub const fn seeded(seed: u64) -> Self {
        Self { state: seed }
    }

    /// An independent sequence for part `index` of the run.
    #[must_use]
    pub fn part(seed: u64, index: u64) -> Self {
        let mut mixer = Self::seeded(seed ^ index.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        Self::seeded(mixer.next_u64())
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True in `per_mille` of 1,000 cases.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1000) < u64::from(per_mille)
    }

    /// Whether something happens that does so with this probability.
    pub fn happens(&mut self, probability: Probability) -> bool {
        self.below(1_000_000) < u64::from(probability.per_million)
    }

    /// A duration from `from` up to, not including, `to` (in whole microseconds).
    pub fn duration(&mut self, from: Duration, to: Duration) -> Duration {
        let span_us = to.saturating_sub(from).as_micros() as u64;
        from + Duration::from_micros(self.below(span_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_sequence() {
        let draw = |seed| {
            let mut random = SeededRandom::seeded(seed);
            [random.next_u64(), random.next_u64(), random.next_u64()]
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn bounds_are_kept() {
        let mut random = SeededRandom::seeded(1);
        assert!((0..1000).all(|_| random.below(10) < 10));
        assert_eq!(random.below(0), 0);
        let (from, to) = (Duration::from_millis(5), Duration::from_millis(6));
        assert!((0..1000).all(|_| (from..to).contains(&random.duration(from, to))));
    }

    #[test]
    fn a_probability_is_a_share_of_one() {
        assert_eq!("0.05".parse(), Ok(Probability { per_million: 50_000 }));
        assert_eq!(["0", "1"].map(str::parse), [Ok(Probability::NEVER), Ok(Probability::ALWAYS)]);
        for text in ["1.01", "-0.1", "NaN", "often", ""] {
            assert_eq!(text.parse::<Probability>(), Err(NotAProbability), "{text}");
        }
        let mut random = SeededRandom::seeded(5);
        assert!(
            (0..1000).all(|_| random.happens(Probability::ALWAYS) && !random.happens(Probability::NEVER))
        );
    }

    #[test]
    fn a_chance_comes_about_as_often_as_it_says() {
        let mut random = SeededRandom::seeded(3);
        let hits = (0..10_000).filter(|_| random.chance(250)).count();
        assert!((2_300..2_700).contains(&hits), "{hits}");
    }
}
