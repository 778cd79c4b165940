//! Where simulated devices are: labels of a fleet as there are in the field.
//!
//! Sizes are skewed: the first country, province, city or operator has most devices, the n-th about
//! an n-th of that (Zipf's law). A device's place follows from the seed and its number alone. Codes
//! look like those of the field: `CN_520000_522200_1`.

use crate::random::SeededRandom;

/// Countries, the one with most devices first.
const COUNTRIES: [&str; 8] = ["CN", "IN", "BR", "ID", "DE", "MX", "KE", "NO"];
/// Provinces of a country.
const PROVINCES: u64 = 30;
/// Cities of a province.
const CITIES: u64 = 20;
/// Operators, of which each country has all.
const OPERATORS: u64 = 4;
/// What the first of many weighs against the others: divided by the rank, it stays a whole number.
const FIRST_WEIGHT: u64 = 1_000_000;
/// So that places are drawn apart from whatever else depends on the seed.
const SALT: u64 = 0x91ac_e5f0_11ed_c0de;

/// The places of a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FleetPlaces {
    seed: u64,
}

/// Where a device is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FleetPlace {
    /// Such as `CN`.
    pub country: &'static str,
    /// Such as `520000`.
    pub province: String,
    /// Such as `522200`; begins like its province.
    pub city: String,
    /// `1` to `4`.
    pub operator: String,
}

impl FleetPlaces {
    /// FleetPlaces that depend on `seed` alone.
    #[must_use]
    pub const fn seeded(seed: u64) -> Self {
        Self { seed }
    }

    /// Where device `index` is.
    #[must_use]
    pub fn of(&self, index: u32) -> FleetPlace {
        let mut random = SeededRandom::part(self.seed ^ SALT, index.into());
        let country = COUNTRIES[ranked(&mut random, COUNTRIES.len() as u64) as usize];
        // Codes of provinces are two digits and zeros, those of cities four.
        let province = 10 + ranked(&mut random, PROVINCES);
        let city = 1 + ranked(&mut random, CITIES);
        let operator = 1 + ranked(&mut random, OPERATORS);
        FleetPlace {
            country,
            province: format!("{province}0000"),
            city: format!("{province}{city:02}00"),
            operator: operator.to_string(),
        }
    }
}

impl FleetPlace {
    /// The labels that say so, in the order in which a server's `[fleet] place` has them.
    #[must_use]
    pub fn labels(&self) -> [(&'static str, &str); 4] {
        [
            ("country", self.country),
            ("province", &self.province),
            ("city", &self.city),
            ("operator", &self.operator),
        ]
    }

    /// The same in one word.
    #[must_use]
    pub fn code(&self) -> String {
        self.labels().map(|(_, value)| value).join("_")
    }
}

/// A rank below `count`: the first as often as twice the second, thrice the third ..
fn ranked(random: &mut SeededRandom, count: u64) -> u64 {
    let weight = |rank: u64| FIRST_WEIGHT / (rank + 1);
    let mut drawn = random.below((0..count).map(weight).sum());
    for rank in 0..count {
        match drawn.checked_sub(weight(rank)) {
            Some(rest) => drawn = rest,
            None => return rank,
        }
    }
    unreachable!("what is drawn lies below the sum of all weights")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_place_follows_from_the_seed_and_the_number_alone() {
        let (first, other) = (FleetPlaces::seeded(7), FleetPlaces::seeded(8));
        assert_eq!(first.of(3), FleetPlaces::seeded(7).of(3));
        assert!((0..100).any(|index| first.of(index) != other.of(index)));
        let place = first.of(3);
        assert_eq!(place.code().split('_').count(), 4);
        assert!(place.city.starts_with(&place.province[..2]) && place.city.len() == 6, "{place:?}");
    }

    #[test]
    fn the_first_has_most_and_the_nth_an_nth_of_that() {
        let places = FleetPlaces::seeded(1);
        let mut counts = BTreeMap::<_, u32>::new();
        for index in 0..30_000 {
            *counts.entry(places.of(index).operator).or_default() += 1;
        }
        let of = |operator: &str| f64::from(counts[operator]);
        for (operator, rank) in [("2", 2.0), ("3", 3.0), ("4", 4.0)] {
            let ratio = of("1") / of(operator);
            assert!((ratio - rank).abs() < rank / 10.0, "{operator}: {ratio}");
        }
    }
}
