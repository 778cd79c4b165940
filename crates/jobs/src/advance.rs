//! Time moves on: jobs become available, and leases run out.

use base::Timestamp;
use records::{AliasKey, Batch, Holder, JobId, QueueKey};

use crate::entry::Entry;
use crate::jobs::{Jobs, Turn};
use crate::run::{Charge, Released};
use crate::slab::Handle;

/// A lease that ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lapsed {
    /// The job.
    pub job: JobId,
    /// Its queue.
    pub queue: QueueKey,
    /// Its alias.
    pub alias: Option<AliasKey>,
    /// The attempt that ended.
    pub attempt: u32,
    /// Who held it.
    pub holder: Holder,
    /// What became of the job.
    pub released: Released,
}

/// Whether all that is due has been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing is due before [`Jobs::next_wakeup`].
    Done,
    /// More is due already.
    More,
}

impl Jobs {
    /// Makes jobs available whose time has come, and ends leases that ran out, `limit` of them, the oldest first.
    pub fn advance(
        &mut self,
        now: Timestamp,
        limit: usize,
        batch: &mut Batch,
        wakes: &mut Vec<QueueKey>,
        lapsed: &mut Vec<Lapsed>,
    ) -> Progress {
        let mut turn = Turn { now, batch, wakes: Some(wakes) };
        for _ in 0..limit {
            let Some(job) = self.due(now) else { return Progress::Done };
            if self.table.entries[job].lease.is_some() {
                lapsed.extend(self.lapse(job, &mut turn));
            } else {
                self.schedule.remove(&mut self.table.entries, job);
                self.file(job, &mut turn);
            }
        }
        if self.due(now).is_some() { Progress::More } else { Progress::Done }
    }

    fn due(&self, now: Timestamp) -> Option<Handle<Entry>> {
        self.schedule.next(&self.table.entries).filter(|(_, at)| *at <= now).map(|(job, _)| job)
    }

    /// Ends a run whose time is over. The job is available from that time on, not from when it was noticed.
    fn lapse(&mut self, job: Handle<Entry>, turn: &mut Turn<'_>) -> Option<Lapsed> {
        let holder = self.table.lease(job)?.holder;
        let charge = match holder {
            Holder::Own(_) => Charge::NeverLast,
            Holder::Outside => Charge::Counted,
        };
        let alias = self.table.claim(job).map(|claim| claim.alias);
        let Entry { id, queue, attempt, visible_at, .. } = self.table.entries[job];
        let released = self.end_run(job, visible_at, charge, turn);
        Some(Lapsed { job: id, queue, alias, attempt, holder, released })
    }
}
