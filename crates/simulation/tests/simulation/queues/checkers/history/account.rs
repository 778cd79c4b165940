//! The account at the end: what was published and answered is done, dead, or was cancelled by
//! somebody.

use std::collections::BTreeSet;

use records::JobId;

use super::History;
use crate::harness::violation::{Checked, Invariant};

impl History {
    /// `dead` is what the lists of dead letters show, once nothing waits any more.
    pub(crate) fn is_settled(&self, dead: &BTreeSet<JobId>) -> Checked {
        for (id, known) in &self.known {
            let (Some(new), Some(queue)) = (&known.new, &known.queue) else { continue };
            let somebody_may_have = self.asked.touched.contains(id)
                || self.asked.deleted.contains(queue)
                || self.asked.endings.iter().any(|lease| lease.job == *id);
            let may_have_died = new.ttl.is_some()
                || self.asked.respawned.contains(queue)
                || self.asked.dead_deleted.contains(queue);
            let is_there = known.acked.is_some() || dead.contains(id);
            Invariant::DURABLE_BEFORE_ACKNOWLEDGED
                .check(is_there || somebody_may_have || may_have_died || new.recurs.is_some(), || {
                    format!("{id:?} of {queue} was published and answered, and is nowhere: {new:?}")
                })?;
        }
        Ok(())
    }
}
