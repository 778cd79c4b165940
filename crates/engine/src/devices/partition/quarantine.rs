//! Refused reports as they were received: kept up to a size and an age, the oldest go first.

use std::collections::VecDeque;
use std::time::Duration;

use base::{EntityId, Incarnation, Problem, Timestamp, WayIn};
use records::{Op, QuarantineKey, Quarantined};

use super::{DevicePartition, DeviceStep};
use crate::devices::input::RefusedMessage;
use crate::kernel::reply::Stop;

/// What distinguishes the ids of refused reports from others.
const CAUSE_REFUSED: u64 = 3;
/// Refused reports that one step drops for their age at most; what is left goes with the next.
const DROPPED_AT_ONCE: usize = 500;

/// What a partition has in quarantine, by key and cost, oldest first.
#[derive(Debug)]
pub(super) struct Quarantine {
    kept: VecDeque<(QuarantineKey, u32)>,
    bytes: u64,
    bytes_max: u64,
    age_max: Duration,
}

impl Quarantine {
    pub(super) fn new(bytes_max: u64, age_max: Duration) -> Self {
        Self { kept: VecDeque::new(), bytes: 0, bytes_max, age_max }
    }

    /// How many refused reports it has.
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Adds the newest.
    pub(super) fn push(&mut self, key: QuarantineKey, cost: u32) {
        self.kept.push_back((key, cost));
        self.bytes += u64::from(cost);
    }

    fn remove(&mut self, key: QuarantineKey) -> bool {
        let Ok(at) = self.kept.binary_search_by_key(&key, |(key, _)| *key) else { return false };
        if let Some((_, cost)) = self.kept.remove(at) {
            self.bytes -= u64::from(cost);
        }
        true
    }

    /// The oldest, if there is too much, or if it is too old.
    fn pop(&mut self, now: Timestamp) -> Option<QuarantineKey> {
        let too_much = self.bytes > self.bytes_max;
        let (key, cost) = self.kept.pop_front_if(|(key, _)| too_much || key.at.after(self.age_max) <= now)?;
        self.bytes -= u64::from(cost);
        Some(key)
    }

    /// When the oldest is too old.
    pub(super) fn next_wakeup(&self) -> Option<Timestamp> {
        self.kept.front().map(|(key, _)| key.at.after(self.age_max))
    }
}

impl DevicePartition {
    pub(super) fn quarantine(
        &mut self,
        way: WayIn,
        messages: Vec<RefusedMessage>,
        step: &mut DeviceStep<'_>,
    ) {
        for message in messages {
            let number = self.head.next_quarantined;
            self.head.next_quarantined = number.wrapping_add(1);
            let (lineage, at) = (self.lineage, self.head.stamp);
            let nobody = Incarnation(u64::from(self.id.0));
            let id = EntityId::derive(lineage, message.routing, nobody, at, number, &[CAUSE_REFUSED]);
            let report = Quarantined {
                id,
                way,
                topic: message.topic,
                device: message.device,
                code: message.problem.code.to_owned(),
                detail: message.problem.detail,
                payload: message.payload,
                cut: message.cut,
            };
            self.quarantine.push(id.into(), report.cost());
            step.push(Op::PutQuarantined(Box::new(report)));
        }
        self.shrink_quarantine(step);
    }

    pub(super) fn discard(&mut self, id: EntityId, step: &mut DeviceStep<'_>) -> Result<(), Stop> {
        let key = QuarantineKey::from(id);
        // Whoever knows the id was told it when it was durable; another id may have the same key.
        let found = step.fetch.view()?.quarantined_one(key)?;
        if found.is_none_or(|found| found.id != id) || !self.quarantine.remove(key) {
            let detail = "there is no refused report of that id; it may have been too old to be kept";
            return Err(Problem::unknown("unknown_quarantined", detail).into());
        }
        step.push(Op::DeleteQuarantined(key));
        Ok(())
    }

    /// Drops what is too much or too old. Whether there may be more of it.
    pub(super) fn shrink_quarantine(&mut self, step: &mut DeviceStep<'_>) -> bool {
        for _ in 0..DROPPED_AT_ONCE {
            let Some(key) = self.quarantine.pop(step.now) else { return false };
            step.push(Op::DeleteQuarantined(key));
        }
        true
    }
}
