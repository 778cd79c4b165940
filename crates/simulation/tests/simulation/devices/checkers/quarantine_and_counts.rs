//! What is kept beside history: refused reports, ids of reports, counts by hour.

use std::collections::{BTreeMap, BTreeSet};

use records::{CountsKey, DeviceSlot, Metric, QuarantineKey, Quarantined};
use store::{Page, View};

use crate::devices::model::partition::Partition;
use crate::devices::model::quarantine;
use crate::harness::feed::both_ways;
use crate::harness::violation::{Checked, Invariant, unreadable};

const METRICS: [Metric; 4] = [Metric::Reports, Metric::Changes, Metric::Losses, Metric::Deliveries];

/// The ids that each device's latest reports had; nothing for a device whose reports have none.
pub(super) fn report_ids(model: &Partition) -> BTreeMap<DeviceSlot, Vec<u64>> {
    let some = model.devices.values().filter(|device| !device.report_ids.is_empty());
    some.map(|device| (device.slot, device.report_ids.iter().map(|known| known.id).collect())).collect()
}

/// What each refused report counts for, oldest first.
pub(super) fn costs(model: &Partition) -> Vec<(QuarantineKey, u32)> {
    let cost = |report: &Quarantined| (QuarantineKey::from(report.id), quarantine::cost(report));
    model.quarantine.kept.iter().map(|report| cost(report)).collect()
}

/// The quarantine as it is read, in both directions and one by one.
pub(super) fn check_quarantine(view: &dyn View, model: &Partition) -> Checked {
    let found = both_ways(|page: Page<QuarantineKey>| {
        let found = view.quarantined(page)?;
        Ok(found.into_iter().map(|report| (QuarantineKey::from(report.id), report)).collect())
    })?;
    let expected: Vec<Quarantined> = model.quarantine.kept.iter().map(|report| (**report).clone()).collect();
    Invariant::AS_THE_MODEL.same("quarantine", &found, &expected)?;
    for report in &expected {
        let key = QuarantineKey::from(report.id);
        let one = view.quarantined_one(key).map_err(unreadable)?;
        Invariant::AS_THE_MODEL.same("refused report by key", &one.as_ref(), &Some(report))?;
        let other = QuarantineKey { number: key.number ^ (1 << 31), ..key };
        let one = view.quarantined_one(other).map_err(unreadable)?;
        Invariant::AS_THE_MODEL.same("no refused report", &one, &None)?;
    }
    Ok(())
}

/// No two refused reports have the same id, whatever partition they are in.
pub(crate) fn check_ids<'a>(partitions: impl Iterator<Item = &'a Partition>) -> Checked {
    let mut seen = BTreeSet::new();
    for report in partitions.flat_map(|partition| &partition.quarantine.kept) {
        let id = (report.id.routing, report.id.at, report.id.number, report.id.tag);
        Invariant::ONE_EFFECT_PER_CAUSE
            .check(seen.insert(id), || format!("{:?} stands for two refused reports", report.id))?;
    }
    Ok(())
}

/// Every hour of every day, of everybody that anything was ever counted for.
pub(super) fn check_counts(view: &dyn View, model: &Partition) -> Checked {
    let (whose, days) = model.counted.places();
    for day in days {
        let listed = CountsKey::start_of(day) >= model.kept.events;
        for of in &whose {
            for metric in METRICS {
                let key = CountsKey { day, of: *of, metric };
                let found = view.counts(key).map_err(unreadable)?.map(|counts| counts.0);
                let expected = model.counted.of_day(*of, metric, day).filter(|_| listed);
                Invariant::AS_THE_MODEL.same(format_args!("counts of {key:?}"), &found, &expected)?;
            }
        }
    }
    Ok(())
}
