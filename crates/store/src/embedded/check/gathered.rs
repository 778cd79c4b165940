//! What gathered reports say of themselves.

use base::Incarnation;
use records::GatheredReports;

use super::rows::{CheckedPartition, RowCheck};

impl RowCheck<'_, '_> {
    /// The rows of a copy follow one another without a gap: no number is given twice, and none is
    /// lost on its way.
    pub(super) fn gathered(&mut self, within: &CheckedPartition) {
        let mut behind: Option<(Incarnation, u64)> = None;
        self.indexed(within.partition, |_, row: &GatheredReports| {
            let expected = behind.filter(|(gather, _)| *gather == row.gather).map(|(_, next)| next);
            behind = Some((row.gather, row.next()));
            match expected {
                Some(next) if next != row.first => {
                    Err(format!("it begins with number {}, not with {next}", row.first))
                }
                _ => Ok(()),
            }
        });
    }
}
