//! Which keys of a partition.

use std::ops::Bound;

use base::PartitionId;

use crate::codec::key::{self, TableKey};

/// Keys between two bounds, without the partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    pub(crate) low: Bound<TableKey>,
    pub(crate) high: Bound<TableKey>,
}

impl KeyRange {
    /// Every key.
    pub(crate) fn all() -> Self {
        Self { low: Bound::Unbounded, high: Bound::Unbounded }
    }

    /// Keys that begin with `prefix`.
    pub(crate) fn of(prefix: &[u8]) -> Self {
        let high = successor(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        Self { low: Bound::Included(TableKey::from_slice(prefix)), high }
    }

    /// Those from `first` on.
    pub(crate) fn from(self, first: TableKey) -> Self {
        Self { low: Bound::Included(first), ..self }
    }

    /// Those behind `last`.
    pub(crate) fn after(self, last: Option<TableKey>) -> Self {
        Self { low: last.map_or(self.low, Bound::Excluded), ..self }
    }

    /// Those before `first`.
    pub(crate) fn before(self, first: Option<TableKey>) -> Self {
        Self { high: first.map_or(self.high, Bound::Excluded), ..self }
    }

    /// Whether no key can be in it; such a range must not be asked of an ordered map.
    pub(crate) fn is_empty(&self) -> bool {
        match (&self.low, &self.high) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(low), Bound::Included(high)) => low > high,
            (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => {
                low >= high
            }
        }
    }

    /// The bounds in a table, where every key begins with its partition.
    pub(crate) fn in_partition(&self, partition: PartitionId) -> (Bound<TableKey>, Bound<TableKey>) {
        let whole = |key: &TableKey| key::in_partition(partition, key);
        let low = match &self.low {
            Bound::Unbounded => Bound::Included(key::in_partition(partition, &[])),
            bound => bound.as_ref().map(whole),
        };
        let high = match &self.high {
            Bound::Unbounded => {
                let next = partition.0.checked_add(1).map(PartitionId);
                next.map_or(Bound::Unbounded, |next| Bound::Excluded(key::in_partition(next, &[])))
            }
            bound => bound.as_ref().map(whole),
        };
        (low, high)
    }
}

/// The first key behind all that begin with `prefix`.
fn successor(prefix: &[u8]) -> Option<TableKey> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut key = TableKey::from_slice(&prefix[..=last]);
    key[last] += 1;
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next() {
        for (prefix, high) in
            [(&b"ab"[..], Some(&b"ac"[..])), (b"a\xff", Some(b"b")), (b"\xff\xff", None), (b"", None)]
        {
            let expect = high.map_or(Bound::Unbounded, |high| Bound::Excluded(TableKey::from_slice(high)));
            assert_eq!(KeyRange::of(prefix).high, expect);
        }
    }

    #[test]
    fn the_last_partition_has_no_end() {
        let (low, high) = KeyRange::all().in_partition(PartitionId::REGISTRY);
        let bound = |bytes: [u8; 2]| TableKey::from_slice(&bytes);
        assert_eq!((low, high), (Bound::Included(bound([0xff, 0xff])), Bound::Unbounded));
        let (_, high) = KeyRange::all().in_partition(PartitionId(255));
        assert_eq!(high, Bound::Excluded(bound([1, 0])));
    }

    #[test]
    fn an_empty_range_is_known() {
        let range = |low: &[u8], high: &[u8]| KeyRange {
            low: Bound::Excluded(TableKey::from_slice(low)),
            high: Bound::Excluded(TableKey::from_slice(high)),
        };
        assert!(range(b"b", b"a").is_empty() && range(b"a", b"a").is_empty());
        assert!(!range(b"a", b"b").is_empty() && !KeyRange::all().is_empty());
    }
}
