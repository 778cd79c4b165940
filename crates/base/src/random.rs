//! Chance as an argument: what is drawn is given, so that a simulated run repeats.

/// A small deterministic generator (SplitMix64): for jitter, simulation and load, never for
/// secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator whose whole future is `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, evenly; `bound` must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0, "there is no number below 0");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True in `of` cases one in the mean `ones` times.
    pub fn chance(&mut self, ones: u64, of: u64) -> bool {
        self.below(of) < ones
    }
}

/// Unguessable bytes from the operating system, for secrets and lineage.
///
/// # Errors
/// When the operating system has no source of randomness.
pub fn unguessable<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_bounds_hold() {
        let draw = |seed| {
            (0..100)
                .map({
                    let mut r = Random::new(seed);
                    move |_| r.below(7)
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!((0..7).all(|n| draw(3).contains(&n)) && draw(3).iter().all(|n| *n < 7));
    }
}
