//! Which rows may be in the tables: a Bloom filter for each partition, asked before a row is taken for new.
//!
//! "No" is certain, "perhaps" is wrong about one time in two hundred, and costs a deletion written for nothing. Only
//! tables whose rows mostly come and go are in it. Rows that leave the tables stay in the filter, so it is made anew
//! when more went in than it has room for.

use base::hash::derived;

use super::tables::Table;

/// Bits for each key: with [`PROBES`] probes about one wrong "perhaps" in two hundred.
const BITS_PER_KEY: usize = 12;
const PROBES: u64 = 6;
/// Room that every filter has, in keys.
const KEYS_MIN: usize = 4_096;
/// A new filter has room for this many times what is there.
const GROWTH: usize = 2;

/// What may be in the tables of one partition.
#[derive(Debug)]
pub(super) struct Presence {
    bits: Vec<u64>,
    keys: usize,
    keys_max: usize,
}

impl Presence {
    /// An empty filter with room for `keys` and as many again.
    pub(super) fn for_keys(keys: usize) -> Self {
        let keys_max = (keys * GROWTH).max(KEYS_MIN);
        Self { bits: vec![0; (keys_max * BITS_PER_KEY).div_ceil(64)], keys: 0, keys_max }
    }

    pub(super) fn insert(&mut self, table: Table, key: &[u8]) {
        for bit in self.probes(table, key) {
            self.bits[bit / 64] |= 1 << (bit % 64);
        }
        self.keys += 1;
    }

    /// Whether the row may be there; never wrong when it says no.
    pub(super) fn may_hold(&self, table: Table, key: &[u8]) -> bool {
        self.keys > 0 && self.probes(table, key).all(|bit| self.bits[bit / 64] >> (bit % 64) & 1 == 1)
    }

    /// Whether more went in than it has room for.
    pub(super) fn is_overfull(&self) -> bool {
        self.keys > self.keys_max
    }

    fn probes(&self, table: Table, key: &[u8]) -> impl Iterator<Item = usize> + use<> {
        let hash = derived(seed(table), key);
        // two halves of one hash stand for any number of them
        let (start, step) = (hash, hash.rotate_left(32) | 1);
        let bits = self.bits.len() as u64 * 64;
        (0..PROBES).map(move |n| {
            let mixed = start.wrapping_add(step.wrapping_mul(n));
            ((u128::from(mixed) * u128::from(bits)) >> 64) as usize
        })
    }
}

/// A job's head and body come and go together, and only heads are read at a start.
fn seed(table: Table) -> u64 {
    match table {
        Table::JobBodies => Table::JobHeads as u64,
        table => table as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_in_is_held_and_little_else() {
        let mut presence = Presence::for_keys(10_000);
        let keys = |from: u64| (from..from + 20_000).map(u64::to_be_bytes);
        assert!(!presence.may_hold(Table::Pairs, b"x"));
        keys(0).for_each(|key| presence.insert(Table::Pairs, &key));
        assert!(keys(0).all(|key| presence.may_hold(Table::Pairs, &key)));
        let wrong = keys(1 << 40).filter(|key| presence.may_hold(Table::Pairs, key)).count();
        assert!(wrong < 20_000 / 100, "{wrong}");
        assert!(!presence.is_overfull());
        presence.insert(Table::Pairs, b"one more");
        assert!(presence.is_overfull());
    }

    #[test]
    fn a_body_is_held_where_its_job_is() {
        let mut presence = Presence::for_keys(1);
        presence.insert(Table::JobHeads, b"job");
        assert!(presence.may_hold(Table::JobBodies, b"job") && !presence.may_hold(Table::Pairs, b"job"));
    }
}
