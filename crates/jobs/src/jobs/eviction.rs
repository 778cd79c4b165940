//! Makes room: parks what is needed last.

use std::collections::BTreeMap;
use std::time::Duration;

use base::Timestamp;
use records::{GroupKey, JobClock, JobId, Parking, QueueOrder};

use crate::entry::{JobEntry, JobPlace};
use crate::jobs::Jobs;
use crate::parked::eviction::{Placed, split_end, split_latest};
use crate::parked::horizon::{Horizon, READ_AHEAD};
use crate::queues::QueueEntry;
use crate::slab::Handle;
use crate::step::JobsStep;
use crate::table::FoundJob;

/// Jobs parked at once.
const PARKED_AT_A_TIME: usize = 1_000;
/// What comes due within this time is not worth parking while there is room.
const SOON: Duration = Duration::from_secs(60);

/// Jobs of each line that may leave.
type Lines = BTreeMap<(Handle<QueueEntry>, Option<GroupKey>), Vec<Placed>>;

impl Jobs {
    /// Parks some jobs if too many are resident: if there are more than the most, until a quarter
    /// of these is left. Of those that come due in more than a minute, no more than an eighth
    /// stays: consumers have no use of them yet. First those leave whose time comes last, then the
    /// ends of lines. Some stay at the front of each line. Whether there is more to park at once.
    pub fn evict(&mut self, step: &mut JobsStep<'_>) -> bool {
        let was_stuck = self.eviction.is_stuck();
        if !self.eviction.is_under_way() && !self.plan(step.now) {
            // Reading waited for this, and goes on without room.
            return self.eviction.is_stuck() && !was_stuck;
        }
        let before = self.table.waiting();
        for _ in 0..PARKED_AT_A_TIME {
            let Some((id, parking)) = self.eviction.next() else { break };
            self.park_if_behind(id, parking, step);
        }
        if self.eviction.is_under_way() {
            return true;
        }
        let resident = self.table.waiting();
        if resident == before {
            self.eviction.found_none(resident, self.counts().scheduled);
        }
        resident > self.limit.max() && !(self.eviction.is_stuck() && was_stuck)
    }

    /// Chooses what leaves: whether anything does.
    fn plan(&mut self, now: Timestamp) -> bool {
        let (resident, max) = (self.table.waiting(), self.limit.max());
        let may_leave = resident > max && self.reads.are_heads_read() && self.eviction.take_awaits_heads();
        let planned = if may_leave || self.eviction.is_due(resident, max) {
            self.plan_all(now, resident - max / 4)
        } else {
            self.plan_far_scheduled(now)
        };
        self.eviction.plan(planned);
        self.eviction.is_under_way()
    }

    /// Chooses `excess` jobs, if there are so many that can be parked; the last of the list leaves
    /// first.
    fn plan_all(&mut self, now: Timestamp, excess: usize) -> Vec<(JobId, Parking)> {
        let scheduled = self.plan_scheduled(now, READ_AHEAD, excess);
        let (mut planned, unled) = match excess - scheduled.len() {
            0 => (Vec::new(), 0),
            rest => self.plan_lines(now, rest),
        };
        planned.extend(scheduled);
        self.eviction.found(planned.len(), excess, self.table.waiting());
        if unled > 0 && !self.reads.are_heads_read() {
            self.eviction.await_heads();
        }
        planned
    }

    /// Chooses jobs that wait long for their time where those that do are too many among all.
    fn plan_far_scheduled(&mut self, now: Timestamp) -> Vec<(JobId, Parking)> {
        let (scheduled, max) = (self.counts().scheduled, self.limit.scheduled_max());
        if !self.eviction.is_due_of_scheduled(scheduled, max) {
            return Vec::new();
        }
        // More stay than there are once few have been, and some were read in.
        let excess = scheduled - max / 4 * 3;
        let planned = self.plan_scheduled(now, SOON, excess);
        self.eviction.found_of_scheduled(planned.len(), excess, scheduled);
        planned
    }

    /// Pulls the horizons in so far that `excess` jobs are behind them, if there are so many that
    /// come due later than `ahead`.
    fn plan_scheduled(&mut self, now: Timestamp, ahead: Duration, excess: usize) -> Vec<(JobId, Parking)> {
        let time = self.clocks.at(now);
        let may_leave = |job, entry: &JobEntry| {
            entry.place == JobPlace::Timed
                && entry.visible_at > time.on(entry.clock_of_wait()).after(ahead)
                && self.table.can_be_parked(job)
                && self.outlives_its_wait(job)
                && !self.expires_soon(job, now)
        };
        let scheduled = self.table.iter().filter(|(job, entry)| may_leave(*job, entry));
        let mut scheduled: Vec<(Placed, JobClock)> =
            scheduled.map(|(_, entry)| ((entry.order(), entry.id), entry.clock_of_wait())).collect();
        let gone = split_latest(&mut scheduled, excess);
        for clock in [JobClock::Engine, JobClock::Wall] {
            let of_clock = gone.iter().filter(|(_, of)| *of == clock);
            if let Some(first) = of_clock.map(|((order, _), _)| *order).min() {
                self.parked.pull_in(clock, first);
            }
        }
        gone.into_iter().map(|((_, id), _)| (id, Parking::Time)).collect()
    }

    /// Pulls the horizons of lines in, so that few stay of each. Also how many jobs could leave if
    /// the head of their group were read.
    fn plan_lines(&mut self, now: Timestamp, excess: usize) -> (Vec<(JobId, Parking)>, usize) {
        let (lines, unled) = self.lines_that_may_leave(now);
        let groups = lines.keys().filter(|(_, group)| group.is_some()).count();
        let (front, front_of_group) = self.limit.share_fronts(lines.len() - groups, groups);
        let (mut planned, mut heads) = (Vec::new(), Vec::new());
        // A group's head may leave when the others have.
        let (of_queues, of_groups): (Vec<_>, Vec<_>) =
            lines.into_iter().partition(|((_, group), _)| group.is_none());
        for ((queue, group), mut line) in of_groups.into_iter().chain(of_queues) {
            let order = self.order_of(queue, group);
            let front = if group.is_some() { front_of_group } else { front };
            let gone = split_end(&mut line, order, front, excess - planned.len() - heads.len());
            let Some((first_gone, _)) = gone.first() else { continue };
            let to = match line.last() {
                Some(((at, number), _)) => Horizon { at: *at, number: *number },
                None => Horizon::just_before(first_gone.0, first_gone.1),
            };
            self.pull_line_in(queue, group, to, order);
            let gone = gone.into_iter().map(|(_, id)| (id, self.parking_in_line(id)));
            if group.is_some() {
                planned.extend(gone);
            } else {
                heads.extend(gone);
            }
            if planned.len() + heads.len() == excess {
                break;
            }
        }
        // The last of the list leaves first.
        heads.append(&mut planned);
        (heads, unled)
    }

    fn lines_that_may_leave(&self, now: Timestamp) -> (Lines, usize) {
        let (mut lines, mut unled) = (Lines::new(), 0);
        for (job, entry) in self.table.iter() {
            let line = match entry.place {
                JobPlace::Ready => None,
                JobPlace::Behind => self.table.group(job),
                JobPlace::Nowhere | JobPlace::Timed => continue,
            };
            if !self.table.can_be_parked(job) || self.expires_soon(job, now) {
                continue;
            }
            if self.can_wait_in_line(job) {
                lines.entry((entry.queue, line)).or_default().push((entry.order(), entry.id));
            } else {
                unled += 1;
            }
        }
        (lines, unled)
    }

    /// Whether a job whose time has come may leave memory, as far as its group goes. What is parked
    /// of a group comes behind a job that is known to go first.
    fn can_wait_in_line(&self, job: Handle<JobEntry>) -> bool {
        let queue = self.table[job].queue;
        self.table.group(job).is_none_or(|group| self.groups.has_active(queue, group))
    }

    /// Whether a job is the first of its group, and all others of that are parked behind it.
    fn leads_alone(&self, job: Handle<JobEntry>) -> bool {
        let entry = &self.table[job];
        let Some(group) = self.table.group(job) else { return false };
        let line = self.line(entry.queue, Some(group));
        self.groups.is_alone(entry.queue, group, job)
            && line.is_none_or(|line| !line.is_before(entry.order_in_group(), QueueOrder::Fifo))
    }

    fn parking_in_line(&self, id: JobId) -> Parking {
        match self.table.find(id) {
            Some(FoundJob::Job(job)) if self.table[job].place == JobPlace::Ready => {
                if self.table.group(job).is_some() { Parking::Head } else { Parking::Worker }
            }
            _ => Parking::Worker,
        }
    }

    /// Has a line be resident no further than to this place.
    fn pull_line_in(
        &mut self,
        queue: Handle<QueueEntry>,
        group: Option<GroupKey>,
        to: Horizon,
        order: QueueOrder,
    ) {
        let before = self.line(queue, group);
        let is_nearer = before.is_none_or(|before| to.is_before((before.at, before.number), order));
        if is_nearer {
            self.set_line(queue, group, Some(to));
        }
    }

    /// Parks a job if it can still be, and a horizon is still before it.
    fn park_if_behind(&mut self, id: JobId, parking: Parking, step: &mut JobsStep<'_>) {
        let Some(FoundJob::Job(job)) = self.table.find(id) else { return };
        let JobEntry { place, .. } = self.table[job];
        let group = self.table.group(job);
        let is_behind = self.table.can_be_parked(job)
            && !self.expires_soon(job, step.now)
            && match (parking, place) {
                (Parking::Time, JobPlace::Timed) => self.is_behind_time(job) && self.outlives_its_wait(job),
                (Parking::Worker, JobPlace::Ready) => {
                    group.is_none() && self.is_behind_planned_line(job, None)
                }
                (Parking::Head, JobPlace::Ready) => {
                    self.leads_alone(job) && self.is_behind_planned_line(job, None)
                }
                (Parking::Worker, JobPlace::Behind) => {
                    self.can_wait_in_line(job) && self.is_behind_planned_line(job, group)
                }
                _ => false,
            };
        if is_behind {
            self.displace(job);
            self.park(job, parking, step.batch);
        }
    }

    /// Whether a line is drawn in so far that the job is behind; also where nothing of it is parked
    /// yet.
    fn is_behind_planned_line(&self, job: Handle<JobEntry>, group: Option<GroupKey>) -> bool {
        let entry = &self.table[job];
        let Some(parked) = self.queues[entry.queue].parked() else { return false };
        let line = match group {
            Some(group) => {
                let line = self.groups.line(entry.queue, group).flatten();
                line.filter(|line| line.epoch == parked.epoch()).map(|line| line.to)
            }
            None => parked.planned_line(),
        };
        line.is_some_and(|line| line.is_before(entry.order(), self.order_of(entry.queue, group)))
    }
}
