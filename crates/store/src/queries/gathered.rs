//! Accepted reports on their way to the streams of copies, of a partition of devices.

use base::Incarnation;
use records::GatheredReports;

use crate::codec::key;
use crate::key_range::KeyRange;
use crate::port::{StoreError, View};

impl dyn View + '_ {
    /// The gathered reports of one copy from the row `from` on, in order of their numbers, until
    /// they are `reports_max` or more. Rows in front of `from` are not walked, nor those gone.
    ///
    /// # Errors
    /// When the data cannot be read; the same for every query.
    pub fn gathered_reports(
        &self,
        (gather, from): (Incarnation, u64),
        reports_max: usize,
    ) -> Result<Vec<GatheredReports>, StoreError> {
        let (mut all, mut reports) = (Vec::new(), 0);
        let rows = KeyRange::of(&key::incarnation(gather)).from(key::gathered(gather, from));
        for row in self.records::<GatheredReports>(rows, true)? {
            let row = row?;
            reports += row.reports.len();
            all.push(row);
            if reports >= reports_max {
                break;
            }
        }
        Ok(all)
    }

    /// Shows every row of gathered reports, by copy and in order of their numbers.
    pub fn each_gathered(&self, show: &mut dyn FnMut(&GatheredReports)) -> Result<(), StoreError> {
        for row in self.records::<GatheredReports>(KeyRange::all(), true)? {
            show(&row?);
        }
        Ok(())
    }
}
