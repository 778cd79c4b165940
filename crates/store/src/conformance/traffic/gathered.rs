//! Traffic of gathered reports: rows come behind one another and go in the same order.

use std::collections::{BTreeMap, VecDeque};

use base::{Incarnation, Lineage};
use records::{GatheredReport, GatheredReports, Op};

use super::{Traffic, device_id};

/// Copies that reports are gathered for.
const COPIES: u64 = 3;

/// The rows of each copy, by their first and their next number.
pub(super) type Gathered = BTreeMap<u64, VecDeque<(u64, u64)>>;

impl Traffic {
    /// Copies that reports may be gathered for, and one that there is not.
    pub fn gathers() -> impl Iterator<Item = Incarnation> {
        (0..=COPIES).map(Incarnation)
    }

    /// A row behind the others, or the first one goes.
    pub(super) fn change_of_gathered(&mut self, ops: &mut Vec<Op>) {
        let gather = self.below(COPIES);
        let rows = self.gathered.entry(gather).or_default();
        if self.random.below(3) == 0
            && rows.len() > 1
            && let Some((first, _)) = rows.pop_front()
        {
            ops.push(Op::DeleteGatheredReports(Incarnation(gather), first));
            return;
        }
        let first = rows.back().map_or(1, |(_, next)| *next);
        let reports = (0..1 + self.below(3)).filter_map(|_| {
            let device = device_id(self.below(60))?;
            let ts = self.maybe(Self::some_ts);
            Some(GatheredReport { device, ts, value: self.value() })
        });
        let reports: Vec<_> = reports.collect();
        let (gather, received_at) = (Incarnation(gather), self.head.now);
        let row = GatheredReports { gather, first, lineage: Lineage(7), received_at, reports };
        self.gathered.entry(gather.0).or_default().push_back((first, row.next()));
        ops.push(Op::PutGatheredReports(Box::new(row)));
    }
}
