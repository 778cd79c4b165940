//! The ids that a device's latest reports carried, so that a repeat is known.

use base::limits::REPORT_IDS_KEPT;

use crate::weight::weighs;

/// Hashes of the newest ids of a device's reports, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportIds {
    hashes: [u64; REPORT_IDS_KEPT],
    len: u8,
}

weighs!(ReportIds: |ids| size_of_val(ids.as_slice()));

impl ReportIds {
    /// Whether a report of that id is among them.
    #[must_use]
    pub fn contains(&self, id: u64) -> bool {
        self.as_slice().contains(&id)
    }

    /// Adds the newest; the oldest goes when there are too many.
    pub fn push(&mut self, id: u64) {
        if usize::from(self.len) == REPORT_IDS_KEPT {
            self.hashes.rotate_left(1);
            self.len -= 1;
        }
        self.hashes[usize::from(self.len)] = id;
        self.len += 1;
    }

    /// All of them, oldest first.
    #[must_use]
    pub fn as_slice(&self) -> &[u64] {
        &self.hashes[..usize::from(self.len)]
    }
}

impl FromIterator<u64> for ReportIds {
    fn from_iter<I: IntoIterator<Item = u64>>(ids: I) -> Self {
        let mut all = Self::default();
        ids.into_iter().for_each(|id| all.push(id));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept_in_order() {
        let ids: ReportIds = (1..=10).collect();
        assert_eq!(ids.as_slice(), [3, 4, 5, 6, 7, 8, 9, 10]);
        assert!(ids.contains(3) && !ids.contains(2) && !ReportIds::default().contains(0));
    }
}
