//! Traffic of what is kept beside devices and their history, and of what is kept no longer.

use base::{Incarnation, Timestamp};
use records::{
    CountedOf, CountsKey, HourlyCounts, KeptFrom, Metric, Op, QuarantineKey, Quarantined, ReportIds,
};

use super::{CLIENTS, DAY_MS, Traffic};

/// Labels that devices may have.
const SITES: u64 = 5;
const METRICS: [Metric; 4] = [Metric::Reports, Metric::Changes, Metric::Losses, Metric::Deliveries];

impl Traffic {
    /// Labels that some devices may have, and one that none has.
    pub fn some_labels() -> impl Iterator<Item = (&'static str, String)> {
        (0..=SITES).map(|site| ("site", site.to_string())).chain([("floor", "Этаж 1".to_owned())])
    }

    /// Refused reports that are there, and some that are not.
    pub fn quarantined(&self) -> impl Iterator<Item = QuarantineKey> + '_ {
        let next = QuarantineKey { at: self.head.now, number: self.head.next_quarantined };
        self.quarantined.iter().copied().chain([next])
    }

    /// Every key that counts may have.
    pub fn counts(&self) -> impl Iterator<Item = CountsKey> {
        let (start, end) = self.times();
        let [start, end] = [start, end].map(|at| CountsKey::day_and_hour(at).0);
        let keys = move |of| {
            let of_day = move |day| {
                METRICS.into_iter().map(move |metric| CountsKey { day, of: counted_of(of), metric })
            };
            (start..=end).flat_map(of_day)
        };
        (0..=CLIENTS + SITES).flat_map(keys)
    }

    /// From when on what is kept.
    pub fn kept_from(&self) -> KeptFrom {
        self.head.kept_from
    }

    /// Now and then less is kept.
    pub(super) fn move_kept_from(&mut self) {
        if self.below(25) > 0 {
            return;
        }
        let now = self.head.now.0;
        let mut ago = |ms: i64| Timestamp(now - self.random.below(ms as u64) as i64);
        let moved =
            KeptFrom { readings: ago(2 * DAY_MS), events: ago(3_600_000), deliveries: ago(3_600_000) };
        let kept = &mut self.head.kept_from;
        kept.readings = kept.readings.max(moved.readings);
        kept.events = kept.events.max(moved.events);
        kept.deliveries = kept.deliveries.max(moved.deliveries);
    }

    pub(super) fn labels(&mut self) -> Vec<(String, String)> {
        let floor = self.maybe(|_| ("floor".to_owned(), "Этаж 1".to_owned()));
        let site = ("site".to_owned(), self.below(SITES).to_string());
        floor.into_iter().chain([site]).collect()
    }

    pub(super) fn put_report_ids(&mut self, ops: &mut Vec<Op>) {
        let Some(device) = self.pick(&self.devices.clone()) else { return };
        let ids: ReportIds = (0..self.below(10)).map(|_| self.random.next_u64()).collect();
        ops.push(Op::PutReportIds(device.slot, Box::new(ids)));
    }

    pub(super) fn put_counts(&mut self, ops: &mut Vec<Op>) {
        let (today, _) = CountsKey::day_and_hour(self.head.now);
        let day = today - 1 + self.below(3) as u32;
        let of = counted_of(self.below(1 + CLIENTS + SITES));
        let metric = METRICS[self.below(4) as usize];
        let mut counts = HourlyCounts::default();
        for _ in 0..self.below(5) {
            counts.add(self.below(24) as usize, self.random.next_u64() as u32);
        }
        ops.push(Op::PutCounts(CountsKey { day, of, metric }, Box::new(counts)));
    }

    pub(super) fn put_quarantined(&mut self, ops: &mut Vec<Op>) {
        let Some(device) = self.pick(&self.devices.clone()) else { return };
        let number = self.head.next_quarantined;
        self.head.next_quarantined = number.wrapping_add(1);
        let id = self.entity(&device, number);
        self.quarantined.push(id.into());
        ops.push(Op::PutQuarantined(Box::new(Quarantined {
            id,
            way: self.way(),
            topic: self.maybe(|_| "dev/lock/нет/state".to_owned()),
            device: self.maybe(|_| device.id),
            code: "unreadable".to_owned(),
            detail: "it is not JSON".to_owned(),
            payload: (0..self.below(300)).map(|byte| byte as u8).collect(),
            cut: self.below(2) == 0,
        })));
    }

    pub(super) fn delete_quarantined(&mut self, ops: &mut Vec<Op>) {
        let gone = self.forget(|traffic| &mut traffic.quarantined);
        ops.extend(gone.map(Op::DeleteQuarantined));
    }
}

/// All, a client, or a label.
fn counted_of(number: u64) -> CountedOf {
    match number {
        0 => CountedOf::All,
        client if client <= CLIENTS => CountedOf::Client(Incarnation(client)),
        label => CountedOf::Label(base::hash::label_hash("site", &label.to_string())),
    }
}
