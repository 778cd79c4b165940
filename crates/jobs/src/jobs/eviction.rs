//! Makes room: parks what is needed last.

use std::collections::BTreeMap;
use std::time::Duration;

use base::Timestamp;
use records::{Batch, GroupKey, JobClock, JobId, Parking, QueueOrder};

use crate::entry::{Entry, Place};
use crate::jobs::Jobs;
use crate::parked::{FRONT_MAX, Horizon, READ_AHEAD};
use crate::queues::Queue;
use crate::slab::Handle;
use crate::table::Found;

/// Jobs parked at once.
const PARKED_AT_A_TIME: usize = 1_000;
/// What comes due within this time is not worth parking while there is room.
const SOON: Duration = Duration::from_secs(60);

/// A job in the order of its line or clock.
type Placed = ((Timestamp, u64), JobId);

/// How many there were when too few of them could be parked; 0 if that is not so.
#[derive(Default)]
pub(crate) struct EvictionBackoff(usize);

impl EvictionBackoff {
    /// Whether looking for some to park is worth it: there are more than the most, and many more than when none was found.
    fn is_over(&mut self, count: usize, most: usize) -> bool {
        if count <= most {
            self.0 = 0;
        }
        count > most.max(self.0)
    }

    fn note(&mut self, is_active: bool, count: usize) {
        self.0 = if is_active { count + count / 4 } else { 0 };
    }

    pub(crate) fn is_active(&self) -> bool {
        self.0 > 0
    }
}

impl Jobs {
    /// Parks some jobs if too many are resident: if there are more than the most, until a quarter of these is left; and of those
    /// that come due in more than a minute, of which consumers have no use yet, until an eighth is. First those leave whose time
    /// comes last, then the ends of lines. Some stay at the front of each line. Whether there is more to park at once.
    pub fn shrink(&mut self, now: Timestamp, batch: &mut Batch) -> bool {
        let was_stuck = self.parked.backoff.is_active();
        if self.parked.planned.is_empty() && !self.plan(now) {
            // Reading waited for this, and goes on without room.
            return self.parked.backoff.is_active() && !was_stuck;
        }
        let before = self.waiting_in_memory();
        for _ in 0..PARKED_AT_A_TIME {
            let Some((id, parking)) = self.parked.planned.pop() else { break };
            self.park_if_behind(now, id, parking, batch);
        }
        let resident = self.waiting_in_memory();
        if !self.parked.planned.is_empty() {
            return true;
        }
        if resident == before {
            self.parked.backoff.note(true, resident);
            self.parked.scheduled_backoff.note(true, self.counts().scheduled);
        }
        resident > self.parked.resident_max && !(self.parked.backoff.is_active() && was_stuck)
    }

    /// Chooses what leaves: whether anything does.
    fn plan(&mut self, now: Timestamp) -> bool {
        let (resident, most) = (self.waiting_in_memory(), self.parked.resident_max);
        self.parked.planned = if self.parked.backoff.is_over(resident, most) {
            self.plan_all(now, resident - most / 4)
        } else {
            self.plan_far_scheduled(now)
        };
        !self.parked.planned.is_empty()
    }

    /// Parks `excess` jobs, if there are so many that can be; the last of the list leaves first.
    fn plan_all(&mut self, now: Timestamp, excess: usize) -> Vec<(JobId, Parking)> {
        let scheduled = self.plan_scheduled(now, READ_AHEAD, excess);
        let mut planned = match excess - scheduled.len() {
            0 => Vec::new(),
            rest => self.plan_lines(now, rest),
        };
        planned.extend(scheduled);
        self.parked.backoff.note(planned.len() <= excess / 4, self.waiting_in_memory());
        planned
    }

    /// Parks jobs that wait long for their time where those that do are too many among all.
    fn plan_far_scheduled(&mut self, now: Timestamp) -> Vec<(JobId, Parking)> {
        // One at least: as many are read ahead of their time.
        let (scheduled, most) = (self.counts().scheduled, (self.parked.resident_max / 8).max(1));
        if !self.parked.scheduled_backoff.is_over(scheduled, most) {
            return Vec::new();
        }
        // More stay than there are once few have been, and some were read in.
        let excess = scheduled - most / 4 * 3;
        let planned = self.plan_scheduled(now, SOON, excess);
        self.parked.scheduled_backoff.note(planned.len() <= excess / 4, scheduled);
        planned
    }

    /// Draws the horizons in so far that `excess` jobs are behind them, if there are so many that come due later than `ahead`.
    fn plan_scheduled(&mut self, now: Timestamp, ahead: Duration, excess: usize) -> Vec<(JobId, Parking)> {
        let (engine, wall) = (now.after(ahead), self.clocks.read(now).wall.after(ahead));
        let mut scheduled: Vec<(Placed, JobClock)> = Vec::new();
        for (job, entry) in self.table.iter() {
            let soon = if entry.clock == JobClock::Engine { engine } else { wall };
            if entry.place == Place::Timed
                && entry.visible_at > soon
                && self.table.can_be_parked(job)
                && self.outlives_its_wait(job)
                && !self.expires_soon(job, now)
            {
                scheduled.push(((entry.order(), entry.id), entry.clock));
            }
        }
        let kept = scheduled.len().saturating_sub(excess);
        if kept > 0 {
            scheduled.select_nth_unstable_by_key(kept, |((order, _), _)| *order);
        }
        let gone = scheduled.split_off(kept);
        for clock in [JobClock::Engine, JobClock::Wall] {
            let of_clock = gone.iter().filter(|(_, of)| *of == clock);
            if let Some(first) = of_clock.map(|((order, _), _)| *order).min() {
                self.parked.pull_in(clock, first);
            }
        }
        gone.into_iter().map(|((_, id), _)| (id, Parking::Time)).collect()
    }

    /// Draws the horizons of lines in, so that few stay of each.
    fn plan_lines(&mut self, now: Timestamp, excess: usize) -> Vec<(JobId, Parking)> {
        let mut lines: BTreeMap<(Handle<Queue>, Option<GroupKey>), Vec<Placed>> = BTreeMap::new();
        for (job, entry) in self.table.iter() {
            let line = match entry.place {
                Place::Ready => None,
                Place::Behind => self.table.group(job),
                Place::Nowhere | Place::Timed => continue,
            };
            if self.can_wait_in_line(job) && self.table.can_be_parked(job) && !self.expires_soon(job, now) {
                lines.entry((entry.queue, line)).or_default().push((entry.order(), entry.id));
            }
        }
        let (front, front_of_group) = self.fronts(lines.keys().map(|(_, group)| *group));
        self.parked.front = front;
        let (mut planned, mut heads) = (Vec::new(), Vec::new());
        // A group's head may leave when the others have.
        let (of_queues, of_groups): (Vec<_>, Vec<_>) =
            lines.into_iter().partition(|((_, group), _)| group.is_none());
        for ((queue, group), mut line) in of_groups.into_iter().chain(of_queues) {
            let order = if group.is_some() { QueueOrder::Fifo } else { self.queues[queue].order() };
            line.sort_unstable_by_key(|(order, _)| *order);
            if order == QueueOrder::Lifo {
                line.reverse();
            }
            let room = excess - planned.len() - heads.len();
            let front = if group.is_some() { front_of_group } else { front };
            let kept = front.max(line.len().saturating_sub(room));
            if line.len() <= kept {
                continue;
            }
            let to = match kept.checked_sub(1).map(|last| line[last].0) {
                Some((at, number)) => Horizon { at, number },
                None => Horizon::just_before(line[0].0.0, line[0].0.1),
            };
            self.pull_line_in(queue, group, to, order);
            let gone = line.drain(kept..).map(|(_, id)| (id, self.parking_in_line(id)));
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
        heads
    }

    /// Whether a job whose time has come may leave memory, as far as its group goes: what is parked of a group comes behind one
    /// that is known to go first.
    fn can_wait_in_line(&self, job: Handle<Entry>) -> bool {
        let queue = self.table[job].queue;
        self.table.group(job).is_none_or(|group| self.groups.has_active(queue, group))
    }

    /// Whether a job is the first of its group, and all others of that are parked behind it.
    fn leads_alone(&self, job: Handle<Entry>) -> bool {
        let entry = &self.table[job];
        let Some(group) = self.table.group(job) else { return false };
        let line = self.line(entry.queue, Some(group));
        self.groups.is_alone(entry.queue, group, job)
            && line.is_none_or(|line| !line.is_before(entry.order_in_group(), QueueOrder::Fifo))
    }

    fn parking_in_line(&self, id: JobId) -> Parking {
        match self.table.find(id) {
            Some(Found::Job(job)) if self.table[job].place == Place::Ready => {
                if self.table.group(job).is_some() { Parking::Head } else { Parking::Worker }
            }
            _ => Parking::Worker,
        }
    }

    /// How many stay at the front of each queue's line, and of each group's. Where there are too many groups, only
    /// their heads stay.
    fn fronts(&self, lines: impl Iterator<Item = Option<GroupKey>>) -> (usize, usize) {
        let (mut of_queues, mut of_groups) = (0, 0);
        for group in lines {
            *(if group.is_some() { &mut of_groups } else { &mut of_queues }) += 1;
        }
        let share = |lines: usize| (self.parked.resident_max / 4 / lines.max(1)).clamp(1, FRONT_MAX);
        if of_groups > self.parked.resident_max / 8 {
            return (share(of_queues), 0);
        }
        let front = share(of_queues + of_groups);
        (front, front)
    }

    /// Has a line be resident no further than to this place.
    fn pull_line_in(
        &mut self,
        queue: Handle<Queue>,
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
    fn park_if_behind(&mut self, now: Timestamp, id: JobId, parking: Parking, batch: &mut Batch) {
        let Some(Found::Job(job)) = self.table.find(id) else { return };
        let Entry { place, .. } = self.table[job];
        let group = self.table.group(job);
        let is_behind = self.table.can_be_parked(job)
            && !self.expires_soon(job, now)
            && match (parking, place) {
                (Parking::Time, Place::Timed) => self.is_behind_time(job) && self.outlives_its_wait(job),
                (Parking::Worker, Place::Ready) => group.is_none() && self.is_behind_planned_line(job, None),
                (Parking::Head, Place::Ready) => {
                    self.leads_alone(job) && self.is_behind_planned_line(job, None)
                }
                (Parking::Worker, Place::Behind) => {
                    self.can_wait_in_line(job) && self.is_behind_planned_line(job, group)
                }
                _ => false,
            };
        if is_behind {
            self.displace(job);
            self.park(job, parking, batch);
        }
    }

    /// Whether a line is drawn in so far that the job is behind; also where nothing of it is parked yet.
    fn is_behind_planned_line(&self, job: Handle<Entry>, group: Option<GroupKey>) -> bool {
        let entry = &self.table[job];
        let queue = &self.queues[entry.queue];
        let (line, order) = match group {
            Some(group) => {
                let epoch = queue.parked().map(|parked| parked.epoch);
                let line = self.groups.line(entry.queue, group).flatten();
                (line.filter(|line| Some(line.epoch) == epoch).map(|line| line.to), QueueOrder::Fifo)
            }
            None => (queue.parked().and_then(|parked| parked.line), queue.order()),
        };
        line.is_some_and(|line| line.is_before(entry.order(), order))
    }
}
