//! Refused reports as they were received: kept up to a size and an age, the oldest go first.
//!
//! What a step adds and discards is taken in at its end, when it can no longer fail: the other
//! partitions go by it.

use std::sync::Arc;

use base::{EntityId, Incarnation, Problem, Timestamp, WayIn};
use records::{Op, QuarantineKey, Quarantined};

use super::{DevicePartition, DeviceStep};
use crate::devices::input::RefusedMessage;
use crate::devices::quarantine_budget::{KeptReports, LOOKED_AT_EVERY, QuarantineBudget};
use crate::kernel::reply::InputFailure;
use crate::settings::RetentionLimits;

/// What distinguishes the ids of refused reports from others.
const CAUSE_REFUSED: u64 = 3;

/// What a partition has in quarantine.
#[derive(Debug)]
pub(super) struct PartitionQuarantine {
    /// It knows what there is.
    budget: Arc<QuarantineBudget>,
    count: usize,
    oldest_at: Option<Timestamp>,
    /// When it was last looked at.
    looked_at: Timestamp,
}

impl PartitionQuarantine {
    /// With what there is once the partition is loaded.
    pub(super) fn new(budget: &Arc<QuarantineBudget>, kept: &KeptReports) -> Self {
        let (count, oldest_at) = (kept.len(), kept.oldest_at());
        Self { budget: Arc::clone(budget), count, oldest_at, looked_at: Timestamp(0) }
    }

    /// How many refused reports it has.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// When the oldest is too old, or others may have taken its room.
    pub(super) fn next_wakeup(&self, keep: &RetentionLimits) -> Option<Timestamp> {
        let oldest_at = self.oldest_at?;
        Some(oldest_at.after(keep.quarantined).min(self.looked_at.after(LOOKED_AT_EVERY)))
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
            step.own.quarantine.added.push((id.into(), report.cost()));
            step.push(Op::PutQuarantined(Box::new(report)));
        }
    }

    pub(super) fn discard(&mut self, id: EntityId, step: &mut DeviceStep<'_>) -> Result<(), InputFailure> {
        let key = QuarantineKey::from(id);
        let is_there =
            self.quarantine.budget.has(self.id, key) && !step.own.quarantine.discarded.contains(&key);
        // Whoever knows the id was told it when it was durable; another id may have the same key.
        let found = step.fetch.view()?.quarantined_one(key)?;
        if found.is_none_or(|found| found.id != id) || !is_there {
            let detail = "there is no refused report of that id; it may have been too old to be kept";
            return Err(Problem::unknown("unknown_quarantined", detail).into());
        }
        step.own.quarantine.discarded.push(key);
        step.push(Op::DeleteQuarantined(key));
        Ok(())
    }

    /// Drops what has no room or is too old. Whether there may be more of it. From here on the step
    /// must not fail.
    pub(super) fn shrink_quarantine(&mut self, step: &mut DeviceStep<'_>) -> bool {
        self.quarantine.looked_at = step.now;
        let changes = std::mem::take(&mut step.own.quarantine);
        if self.quarantine.count == 0 && changes.added.is_empty() {
            return false;
        }
        let (keep, now) = (&self.settings.keep, step.now);
        let is_too_old = |at: Timestamp| at.after(keep.quarantined) <= now;
        let left = self.quarantine.budget.change(self.id, changes, keep.quarantine_bytes_max, is_too_old);
        (self.quarantine.count, self.quarantine.oldest_at) = (left.count, left.oldest_at);
        step.batch.ops.extend(left.dropped.into_iter().map(Op::DeleteQuarantined));
        left.more
    }
}
