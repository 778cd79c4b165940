//! A job of the model.

use std::time::Duration;

use base::Timestamp;
use engine::queues::{JobPayload, NewJob};
use records::{JobId, Process};

use crate::harness::calls::CallId;

/// A job that waits or is with a consumer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Job {
    pub(crate) id: JobId,
    pub(crate) payload: JobPayload,
    /// Its place among those of the same time.
    pub(crate) number: u64,
    pub(crate) published_at: Timestamp,
    /// When it is, or was first, due; a moment of the wall clock if `by_wall`.
    pub(crate) run_at: Timestamp,
    pub(crate) by_wall: bool,
    /// When it is available: its time, its retry's, or the end of its lease.
    pub(crate) visible_at: Timestamp,
    pub(crate) attempt: u32,
    pub(crate) tries: u32,
    pub(crate) alias: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) again: Option<Again>,
    pub(crate) stands: Stands,
    pub(crate) next: Option<Box<Next>>,
}

/// Where a job stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stands {
    /// Its time has not come, or nobody has noticed.
    Scheduled,
    /// Its time has come.
    Due,
    /// Its time had come by the wall clock, which has gone back since. It stays due, unless it was
    /// resident at a start, or was to be read: which of these it was, the model does not know. Or
    /// its time has come in a step that did not get to the end of what was due.
    MayBeDue,
    /// Its time had come, and it had expired when a consumer would have got it; that is noticed
    /// soon.
    PassedOver,
    /// With a consumer until `visible_at`.
    Reserved(Lease),
}

/// A lease.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Lease {
    pub(crate) consumer: CallId,
    pub(crate) process: Option<Process>,
    /// The job's place in time before; it is forgotten when the partition is loaded.
    pub(crate) stood_at: Option<Timestamp>,
}

/// How a job comes again.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Again {
    pub(crate) rule: Rule,
    pub(crate) left: Option<u32>,
    pub(crate) run: u64,
}

/// When it does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rule {
    /// So many milliseconds after it was due.
    Every(i64),
    /// At the multiples of so many milliseconds since 1970, by the wall clock: the calendars of the
    /// workload are of that kind.
    Cron(i64),
}

/// The job that takes over when the reserved one ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Next {
    pub(crate) job: Job,
    /// When the job is done, dead or gone; otherwise when its run ends, in whatever way.
    pub(crate) after_job: bool,
}

impl Job {
    /// Whether an attempt was begun.
    pub(crate) fn is_started(&self) -> bool {
        self.attempt > 0
    }

    pub(crate) fn is_reserved(&self) -> bool {
        matches!(self.stands, Stands::Reserved(_))
    }

    pub(crate) fn is_due(&self) -> bool {
        self.stands == Stands::Due
    }

    /// Whether it waits by the wall clock: until its first lease, if it was told a moment.
    pub(crate) fn waits_by_wall(&self) -> bool {
        self.by_wall && !self.is_started()
    }

    /// Whether its time has come by the clock it waits by.
    pub(crate) fn is_time(&self, now: Timestamp, wall: Timestamp) -> bool {
        self.visible_at <= if self.waits_by_wall() { wall } else { now }
    }

    pub(crate) fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// After a start, nothing is due before somebody looks; but what was parked is.
    pub(crate) fn not_due_yet(&mut self, is_parking: bool) {
        let waits_by_wall = self.waits_by_wall();
        match &mut self.stands {
            Stands::Reserved(lease) => lease.stood_at = None,
            stands @ (Stands::Due | Stands::MayBeDue) if is_parking && waits_by_wall => {
                *stands = Stands::MayBeDue;
            }
            stands => *stands = Stands::Scheduled,
        }
    }

    /// Whether it has expired and nobody has noticed.
    pub(crate) fn has_expired_waiting(&self, now: Timestamp) -> bool {
        !self.is_reserved() && self.has_expired(now)
    }

    /// Where jobs are parked, an expired one is gone when that is noticed, and nobody gets it until
    /// then. When the wall clock has gone back, what it says may count or not.
    pub(crate) fn look_again(&mut self, now: Timestamp, wall: Timestamp) {
        if self.is_reserved() {
            return;
        }
        if self.has_expired(now) {
            self.stands = Stands::Scheduled;
        } else if self.is_due() && self.waits_by_wall() && self.visible_at > wall {
            self.stands = Stands::MayBeDue;
        }
    }

    /// Whether there is no run after this one.
    pub(crate) fn is_last_run(&self) -> bool {
        self.again.as_ref().is_none_or(|again| again.left == Some(1))
    }

    /// The order in a queue.
    pub(crate) fn order(&self) -> (Timestamp, u64) {
        (self.visible_at, self.number)
    }

    /// The order in a group.
    pub(crate) fn order_in_group(&self) -> (Timestamp, u64) {
        (self.run_at, self.number)
    }

    /// The job that a call by id or alias means: itself, or its successor as the waiting job it
    /// will be.
    pub(crate) fn meant(&self) -> &Self {
        self.next.as_ref().map_or(self, |next| &next.job)
    }
}

impl Rule {
    /// The rule of a job to be published.
    pub(crate) fn of(job: &NewJob) -> Option<(Self, Option<u32>)> {
        use engine::queues::RecurrenceTerms;
        job.recurs.as_ref().map(|recurs| match recurs {
            RecurrenceTerms::Every { interval, executions } => {
                (Self::Every(interval.as_millis() as i64), *executions)
            }
            RecurrenceTerms::Cron { expression, executions, .. } => {
                (Self::Cron(period_of(expression)), *executions)
            }
        })
    }

    /// When a job that was due at `after` is due next: the latest time that has passed, or the
    /// first to come.
    pub(crate) fn next(self, after: Timestamp, now: Timestamp) -> Timestamp {
        let (period, base) = match self {
            Self::Every(period) => (period, after.0),
            Self::Cron(period) => (period, 0),
        };
        let following = |at: i64| base + ((at - base).div_euclid(period) + 1) * period;
        let coming = following(after.0);
        let latest = following(now.0) - period;
        Timestamp(if coming > now.0 { coming } else { latest.max(coming) })
    }
}

/// The calendars that the workload gives, and what they come down to: all are equal to their
/// multiples, in any time zone.
pub(crate) const CALENDARS: [(&str, i64); 4] =
    [("*/10 * * * * *", 10_000), ("* * * * *", 60_000), ("*/5 * * * *", 300_000), ("0 * * * *", 3_600_000)];

fn period_of(expression: &str) -> i64 {
    let found = CALENDARS.iter().find(|(known, _)| *known == expression);
    found.map(|(_, period)| *period).expect("the workload gives no other calendar")
}
