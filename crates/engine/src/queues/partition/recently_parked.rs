//! What batches on their way have parked and taken out: views of the store do not show it.

use std::collections::BTreeMap;
use std::ops::Bound;

use base::Timestamp;
use records::{AliasKey, GroupKey, JobId, ParkedJob, ParkedKey, Parking, QueueKey};

use crate::kernel::pending_writes::PendingWrites;

/// A place in a line: `visible_at` and publish number.
pub(super) type Place = (Timestamp, u64);
type Line = (QueueKey, Option<GroupKey>);

/// Parked jobs that were changed lately, by id, by alias, and by line.
#[derive(Debug, Default)]
pub(super) struct RecentlyParked {
    /// Boxed: most of these say that a job is not parked any more.
    jobs: PendingWrites<JobId, Box<ParkedJob>>,
    aliases: PendingWrites<(QueueKey, AliasKey), JobId>,
    lines: BTreeMap<Line, BTreeMap<Place, JobId>>,
}

impl RecentlyParked {
    pub(super) fn park(&mut self, seq: u64, parked: &ParkedJob) {
        let head = &parked.head;
        self.forget_lines(head.id);
        for line in lines_of(&parked.key()) {
            self.lines.entry(line).or_default().insert((head.visible_at, head.number), head.id);
        }
        self.jobs.put(seq, head.id, Some(Box::new(parked.clone())));
        if let Some(alias) = head.alias {
            self.aliases.put(seq, (head.queue, alias), Some(head.id));
        }
    }

    pub(super) fn unpark(&mut self, seq: u64, key: &ParkedKey) {
        self.forget_lines(key.id);
        self.jobs.put(seq, key.id, None);
        if let Some(alias) = key.alias {
            self.aliases.put(seq, (key.queue, alias), None);
        }
    }

    /// Batches up to this one are durable.
    pub(super) fn settle(&mut self, seq: u64) {
        let Self { jobs, lines, .. } = self;
        jobs.settle_with(seq, |parked| forget(lines, parked));
        self.aliases.settle(seq);
    }

    /// What became of a job: that it is parked, or is not any more.
    pub(super) fn get(&self, id: JobId) -> Option<Option<&ParkedJob>> {
        self.jobs.get(&id).map(|parked| parked.map(|parked| &**parked))
    }

    /// Who holds an alias and is parked, or that nobody does any more.
    pub(super) fn holder(&self, queue: QueueKey, alias: AliasKey) -> Option<Option<JobId>> {
        self.aliases.get(&(queue, alias)).map(Option::<&JobId>::copied)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.len() == 0
    }

    /// The jobs that are parked.
    pub(super) fn parked(&self) -> impl Iterator<Item = &ParkedJob> {
        self.jobs.present().map(|parked| &**parked)
    }

    /// The first jobs of a line, in the direction of reading.
    pub(super) fn line(
        &self,
        line: Line,
        after: Option<Place>,
        from_back: bool,
    ) -> impl Iterator<Item = (Place, &ParkedJob)> {
        let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
        let (low, high) = if from_back { (Bound::Unbounded, behind) } else { (behind, Bound::Unbounded) };
        let (forth, back) = match self.lines.get(&line).map(|jobs| jobs.range((low, high))) {
            Some(range) if from_back => (None, Some(range.rev())),
            range => (range, None),
        };
        let ids = forth.into_iter().flatten().chain(back.into_iter().flatten());
        ids.filter_map(|(place, id)| Some((*place, self.get(*id)??)))
    }

    fn forget_lines(&mut self, id: JobId) {
        if let Some(Some(parked)) = self.jobs.get(&id) {
            forget(&mut self.lines, parked);
        }
    }
}

fn forget(lines: &mut BTreeMap<Line, BTreeMap<Place, JobId>>, parked: &ParkedJob) {
    for line in lines_of(&parked.key()) {
        if let Some(jobs) = lines.get_mut(&line) {
            jobs.remove(&(parked.head.visible_at, parked.head.number));
            if jobs.is_empty() {
                lines.remove(&line);
            }
        }
    }
}

fn lines_of(key: &ParkedKey) -> impl Iterator<Item = Line> {
    let queue = key.queue;
    let (of_group, of_queue) = match key.parking {
        Parking::Time => (None, None),
        Parking::Worker => (Some(key.group), None),
        Parking::Head => (Some(key.group), Some(None)),
    };
    of_group.into_iter().chain(of_queue).map(move |group| (queue, group))
}
