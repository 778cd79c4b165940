//! Devices of which reports were refused lately. The quarantine has no index by device: as many of
//! the newest refused reports count as a page may look at.

use std::collections::BTreeSet;
use std::ops::Bound;

use base::{DeviceId, Problem, Timestamp};
use store::Page;

use super::{BoundedPage, DeviceDetails, DeviceFilter, Queries, cost_of_row, unreadable};

/// Refused reports that are read at a time: each may have a large payload.
const REPORTS_PER_READ: usize = 128;

/// The devices of the newest refused reports.
pub(super) struct RefusedDevices {
    ids: BTreeSet<DeviceId>,
    rows: u64,
    cost: usize,
}

impl RefusedDevices {
    pub(super) fn contains(&self, id: &DeviceId) -> bool {
        self.ids.contains(id)
    }
}

impl Queries {
    /// The devices of as many of the newest refused reports as a page may look at.
    pub(super) fn refused_devices(&self) -> Result<RefusedDevices, Problem> {
        let mut refused = RefusedDevices { ids: BTreeSet::new(), rows: 0, cost: 0 };
        let (from, to, limit) = (Timestamp(i64::MIN), Timestamp::MAX, REPORTS_PER_READ);
        let mut after = None;
        while refused.cost < self.cost_max {
            let reports = self.quarantine(Page { from, to, ascending: false, after, limit })?;
            let has_ended = reports.len() < limit;
            for (key, report) in reports {
                after = Some(key);
                refused.rows += 1;
                refused.cost += cost_of_row(report.payload.len());
                refused.ids.extend(report.device);
            }
            if has_ended {
                break;
            }
        }
        Ok(refused)
    }

    /// Those of them that match a filter, in order of id.
    pub(super) fn devices_refused(
        &self,
        refused: &RefusedDevices,
        filter: &DeviceFilter,
        after: Option<&DeviceId>,
        limit: usize,
    ) -> Result<BoundedPage<DeviceDetails, DeviceId>, Problem> {
        let mut found = Vec::new();
        let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
        for id in refused.ids.range((behind, Bound::Unbounded)) {
            if found.len() == limit {
                break;
            }
            let partition = self.partition_of(id);
            let view = self.view(partition)?;
            let Some(profile) = view.device(id).map_err(unreadable)? else { continue };
            if self.suits(filter, (partition, &*view), &profile)? {
                found.push(self.with_state(partition, &*view, profile)?);
            }
        }
        Ok(BoundedPage { found, next: None, looked_at: Some(refused.rows), cost: refused.cost })
    }
}
