//! What one step of a partition may do, and what it may leave in memory. The limits of the plan
//! decide, whatever the partition itself asserts.

use base::PartitionId;
use engine::queues::partition::Spent;
use records::{Batch, Op};

use super::{World, index_of};
use crate::harness::violation::{Checked, Invariant};

/// Jobs that come due between two looks at a limit, in the server.
const ADVANCED_AT_A_TIME: usize = 8;
/// Jobs whose groups are followed, besides those that the limit counts: of the last input.
const FOLLOWED_BESIDES: usize = 256;
/// Dead letters of the last queue that a step looks at.
const DEAD_READ_BESIDES: usize = 2_000;
/// What a batch may weigh besides its limit: its last input, and changes that have bounds of their
/// own, such as jobs that leave memory. Inputs are small, and far fewer jobs are there.
const WEIGHT_BESIDES: usize = 1 << 20;

/// What a step did.
pub(super) struct StepDone {
    pub(super) spent: Spent,
    /// What its batch weighs.
    pub(super) weight: usize,
    /// Changes that may have brought a job into memory, or back from whoever had it.
    pub(super) brought: usize,
    /// Jobs in memory that nobody has.
    pub(super) resident: usize,
    /// Of which process it was, and how often its partition was loaded in that.
    pub(super) life: (u64, Option<u32>),
    /// It did not get to the end of what was due.
    pub(super) more: bool,
}

/// What is known of the latest steps of a partition.
#[derive(Clone, Copy, Default)]
pub(super) struct LatestSteps {
    /// Changes that may have brought a job into memory, since all was done that was due.
    brought: usize,
    /// The life in which a step came to the end of what was due.
    rested_in: Option<(u64, Option<u32>)>,
}

/// What a batch weighs, and how many of its changes may have brought a job into memory.
pub(super) fn weighed(batch: &Batch) -> (usize, usize) {
    let brings = |op: &&Op| matches!(op, Op::PutJob(_) | Op::UnparkJob(_));
    (batch.ops.iter().map(Op::weight).sum(), batch.ops.iter().filter(brings).count())
}

impl World {
    /// A step did no more than it may, and left no more in memory.
    pub(super) fn check_step(&mut self, partition: PartitionId, done: &StepDone) -> Checked {
        let (limits, spent) = (self.plan.step_limits(), done.spent);
        let followed_max = limits.read_at_once + limits.swept + FOLLOWED_BESIDES;
        let is_kept = spent.advanced < limits.advanced + ADVANCED_AT_A_TIME
            && spent.read <= limits.read
            && spent.scanned <= limits.scanned
            && spent.read_at_once <= followed_max
            && spent.unblocked <= limits.unblocked
            && spent.dead_read < limits.dead_read + DEAD_READ_BESIDES
            && spent.swept <= limits.swept
            && spent.dropped <= limits.dropped
            && spent.retired <= limits.retired
            && done.weight <= limits.bytes + WEIGHT_BESIDES;
        Invariant::BOUNDED.check(is_kept, || {
            format!("a step weighs {} and did {spent:?}, with these limits: {limits:?}", done.weight)
        })?;
        let is_at_limit = spent.read >= limits.read || spent.advanced >= limits.advanced;
        self.counts.steps_at_a_limit += u64::from(is_at_limit);
        self.check_resident(partition, done)
    }

    /// At rest so many jobs are in memory as the model says. While steps follow one another, there
    /// are those besides that these brought: they leave when the heads of their groups are read.
    fn check_resident(&mut self, partition: PartitionId, done: &StepDone) -> Checked {
        let model = &self.model[index_of(partition)].present;
        let at_rest = model.resident_most(self.plan.resident_max as usize);
        let latest = self.latest.entry(partition).or_default();
        latest.brought = if done.more { latest.brought + done.brought } else { 0 };
        let most = at_rest + latest.brought;
        // What is loaded is what there was when the life before ended, and what workers had then.
        let has_rested = !done.more || latest.rested_in == Some(done.life);
        if !done.more {
            latest.rested_in = Some(done.life);
        }
        Invariant::BOUNDED.check(!has_rested || done.resident <= most, || {
            format!(
                "{} jobs are resident that nobody has, and {most} should be at most, {at_rest} of them at rest",
                done.resident
            )
        })
    }
}
