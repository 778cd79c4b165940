//! Refused reports, kept as the contract words it: as they were received, up to a size and an age.
//! The oldest of all partitions go first.

use std::sync::Arc;

use base::{EntityId, PartitionId, Timestamp, WayIn};
use engine::devices::input::RefusedMessage;
use records::{QuarantineKey, Quarantined};

use super::evidence::Evidence;
use super::partition::Partition;
use crate::harness::violation::{Checked, Invariant};

/// What a refused report counts for beside its texts, in bytes.
const BEING_THERE_BYTES: usize = 256;
/// Refused reports that go at once at most, beside as many as came.
const DROPPED_AT_ONCE: usize = 500;

/// A partition's refused reports.
#[derive(Clone, Default)]
pub(crate) struct Quarantine {
    /// Oldest first.
    pub(crate) kept: Vec<Arc<Quarantined>>,
    /// The latest that ever was: no id comes twice.
    latest: Option<QuarantineKey>,
    /// What the other partitions have in this step: when each was refused, where, and what it
    /// counts for.
    pub(crate) elsewhere: Vec<(Timestamp, PartitionId, u64)>,
    /// How many came in this step.
    added: usize,
}

/// What a refused report counts for in the limit, in bytes.
pub(crate) fn cost(report: &Quarantined) -> u32 {
    let topic = report.topic.as_ref().map_or(0, String::len);
    (BEING_THERE_BYTES + topic + report.code.len() + report.detail.len() + report.payload.len()) as u32
}

impl Partition {
    pub(super) fn quarantine(
        &mut self,
        way: WayIn,
        messages: &[RefusedMessage],
        evidence: &mut Evidence,
    ) -> Checked {
        for message in messages {
            let Some(found) = evidence.quarantined.pop_front() else {
                let detail = format!("{message:?} was refused and is not kept");
                return Err(Invariant::ONE_EFFECT_PER_CAUSE.broken(detail));
            };
            let expected = Quarantined {
                id: EntityId { routing: message.routing, ..found.id },
                way,
                topic: message.topic.clone(),
                device: message.device.clone(),
                code: message.problem.code.to_owned(),
                detail: message.problem.detail.clone(),
                payload: message.payload.clone(),
                cut: message.cut,
            };
            Invariant::AS_THE_MODEL.same("refused report", &found, &expected)?;
            self.stamped("a refused report", found.id.at)?;
            let key = QuarantineKey::from(found.id);
            Invariant::ONE_EFFECT_PER_CAUSE.check(self.quarantine.latest < Some(key), || {
                format!("{key:?} of a refused report comes after {:?}", self.quarantine.latest)
            })?;
            self.quarantine.latest = Some(key);
            self.quarantine.kept.push(Arc::new(found));
            self.quarantine.added += 1;
            self.counts.quarantined += 1;
        }
        Ok(())
    }

    pub(super) fn discard(&mut self, id: EntityId) -> Result<(), &'static str> {
        let found = self.quarantine.kept.iter().position(|report| report.id == id);
        let Some(found) = found else {
            self.counts.discards_in_vain += 1;
            return Err("unknown_quarantined");
        };
        self.quarantine.kept.remove(found);
        self.counts.discards += 1;
        Ok(())
    }

    /// The partition's oldest go while they have no room beside what is newer anywhere, or while
    /// they are too old. The newest of all always has room.
    pub(super) fn shrink_quarantine(&mut self) {
        let (keep, at_once) = (&self.settings.keep, DROPPED_AT_ONCE + self.quarantine.added);
        self.quarantine.added = 0;
        for _ in 0..at_once {
            let Some((oldest, others)) = self.quarantine.kept.split_first() else { return };
            let at = oldest.id.at;
            let here = others.iter().map(|report| u64::from(cost(report)));
            let elsewhere = self.quarantine.elsewhere.iter();
            let elsewhere = elsewhere.filter(|(other, partition, _)| (*other, *partition) > (at, self.id));
            let newer = here.chain(elsewhere.map(|(_, _, cost)| *cost)).sum::<u64>();
            if newer > 0 && newer + u64::from(cost(oldest)) > keep.quarantine_bytes_max {
                self.counts.quarantine_overflows += 1;
            } else if at.after(keep.quarantined) <= self.now {
                self.counts.quarantine_expiries += 1;
            } else {
                return;
            }
            self.quarantine.kept.remove(0);
        }
    }

    /// What the partition has, as the others count it.
    pub(crate) fn quarantined(&self) -> impl Iterator<Item = (Timestamp, PartitionId, u64)> {
        self.quarantine.kept.iter().map(|report| (report.id.at, self.id, u64::from(cost(report))))
    }
}
