//! A lease against what was answered before.

use std::time::Duration;

use base::Timestamp;
use engine::queues::{Consumed, DueTime, NewJob, QueueName, RecurrenceTerms};
use records::JobId;

use super::{Asked, Known};
use crate::harness::calls::CallId;
use crate::harness::violation::{Checked, Invariant};
use crate::queues::meant::LeaseRef;

/// A lease that somebody was told of.
#[derive(Clone, Debug)]
pub(crate) struct KnownLease {
    pub(crate) lease: LeaseRef,
    pub(super) at: Timestamp,
    pub(super) until: Timestamp,
    pub(super) attempt: u32,
    pub(super) run_at: Timestamp,
    alias: Option<String>,
    /// A worker of the process has it: it ends with that.
    is_own: bool,
}

impl KnownLease {
    pub(super) fn of(consumer: CallId, ttr: Duration, is_own: bool, job: &Consumed) -> Self {
        Self {
            lease: LeaseRef { consumer, job: job.id },
            at: job.until.before(ttr),
            until: job.until,
            attempt: job.attempt,
            run_at: job.run_at,
            alias: job.alias.as_ref().map(ToString::to_string),
            is_own,
        }
    }

    /// Whether its holder surely has the job at `at`: nobody asked to end it, and its time is not
    /// over.
    fn surely_holds(&self, asked: &Asked, at: Timestamp) -> bool {
        let is_asked = asked.endings.contains(&self.lease) || asked.extensions.contains(&self.lease);
        !self.is_own && !is_asked && self.at <= at && at < self.until
    }
}

pub(super) fn check_done(asked: &Asked, known: &Known, lease: &KnownLease) -> Checked {
    let comes_again = known.new.as_ref().is_none_or(|new| new.recurs.is_some());
    // One that comes again may have been given any time.
    let is_moved = comes_again && asked.touched.contains(&lease.lease.job);
    let is_done =
        known.acked.is_some_and(|run_at| !comes_again || lease.run_at <= run_at && known.new.is_some());
    Invariant::DONE_STAYS_DONE.check((!is_done || is_moved) && !known.is_cancelled, || {
        format!("{lease:?} is of a job that was acknowledged at {:?} or cancelled", known.acked)
    })
}

pub(super) fn check_one(asked: &Asked, known: &Known, lease: &KnownLease) -> Checked {
    let other = known.leases.iter().find(|other| other.surely_holds(asked, lease.at));
    Invariant::ONE_LEASE.check(other.is_none(), || format!("{lease:?}, while there is {other:?}"))
}

/// Within a run each lease counts one attempt more, unless one before it never reached its
/// consumer.
pub(super) fn check_attempts(asked: &Asked, queue: &QueueName, known: &Known, lease: &KnownLease) -> Checked {
    let begins_anew = lease.alias.is_some() || asked.respawned.contains(queue) || known.new.is_none();
    let of_run = known.leases.iter().filter(|other| other.run_at == lease.run_at);
    let counted = of_run.filter(|other| !asked.given_back.contains(&other.lease));
    let most = counted.map(|other| other.attempt).max().unwrap_or(0);
    let invariant = Invariant::ATTEMPTS_ONLY_GROW;
    invariant.check(begins_anew || asked.touched.contains(&lease.lease.job) || lease.attempt > most, || {
        format!("{lease:?} after {:?}", known.leases)
    })
}

/// Whether its time is one of the wall clock, which is not known here.
fn is_by_wall(new: &NewJob) -> bool {
    matches!(new.due, Some(DueTime::At(_))) || matches!(new.recurs, Some(RecurrenceTerms::Cron { .. }))
}

/// Not before its time; which moment of the wall clock it was is not known here.
pub(super) fn check_time(asked: &Asked, known: &Known, lease: &KnownLease) -> Checked {
    let is_known =
        known.new.as_ref().is_some_and(|new| !is_by_wall(new)) && !asked.touched.contains(&lease.lease.job);
    let promised = known.promised.filter(|_| lease.attempt == 1 && is_known);
    let least = promised.map_or(lease.run_at, |promised| promised.max(lease.run_at));
    Invariant::NEVER_EARLY_HARDLY_LATE.check(!is_known || lease.at >= least, || {
        format!("{lease:?} of a job that is due at {least}: {:?}", known.new)
    })
}

/// The runs of a recurring job are as many as were asked for, and at its times.
pub(super) fn check_runs(asked: &Asked, queue: &QueueName, known: &Known, lease: &KnownLease) -> Checked {
    let job = lease.lease.job;
    let Some(recurs) = known.new.as_ref().and_then(|new| new.recurs.as_ref()) else { return Ok(()) };
    if asked.touched.contains(&job) || lease.alias.is_some() || asked.respawned.contains(queue) {
        return Ok(());
    }
    let (interval, executions) = match recurs {
        RecurrenceTerms::Every { interval, executions } => (interval.as_millis() as i64, *executions),
        RecurrenceTerms::Cron { executions, .. } => (1_000, *executions),
    };
    let mut runs: Vec<Timestamp> = known.leases.iter().map(|known| known.run_at).collect();
    let goes_back = runs.iter().any(|run_at| *run_at > lease.run_at);
    let apart = known.promised.map_or(0, |first| (lease.run_at.0 - first.0).rem_euclid(interval));
    runs.push(lease.run_at);
    runs.sort_unstable();
    runs.dedup();
    let too_many = executions.is_some_and(|most| runs.len() > most as usize);
    let is_first_by_delay = matches!(recurs, RecurrenceTerms::Cron { .. });
    Invariant::RUNS_IN_TURN.check(!goes_back && !too_many && (apart == 0 || is_first_by_delay), || {
        format!("{lease:?}, {apart} ms from its times, is the run of a job that had {runs:?}: {recurs:?}")
    })
}

/// Jobs of a group run one at a time, and jobs of an alias too.
pub(super) fn check_together(
    asked: &Asked,
    (known, lease): (&Known, &KnownLease),
    (other, theirs): (JobId, &Known),
) -> Checked {
    let Some(held) = theirs.leases.iter().find(|held| held.surely_holds(asked, lease.at)) else {
        return Ok(());
    };
    if asked.touched.contains(&other) {
        return Ok(());
    }
    let is_touched = held.alias.as_ref().is_some_and(|alias| asked.touched_aliases.contains(alias));
    let same_alias = lease.alias.is_some() && lease.alias == held.alias && !is_touched;
    Invariant::ALIAS_IS_UNIQUE
        .check(!same_alias, || format!("{lease:?} has the alias of {other:?}: {held:?}"))?;
    let group = |known: &Known| known.new.as_ref().and_then(|new| new.group.clone());
    let same_group = group(known).is_some() && group(known) == group(theirs);
    Invariant::GROUP_ORDER.check(!same_group, || format!("{lease:?} is of the group of {other:?}: {held:?}"))
}

/// The first lease of a job comes after the first lease of every job of its group that was due
/// before it.
///
/// Only jobs whose place is certain are compared. They come once, at a time of the engine clock, do
/// not expire, and nobody asked to change them. A job that may have used up its tries on leases
/// that nobody saw is left out too.
pub(super) fn check_group_order(
    asked: &Asked,
    queue: &QueueName,
    (known, lease): (&Known, &KnownLease),
    (other, theirs): (JobId, &Known),
) -> Checked {
    let is_untouched = |job: JobId| !asked.touched.contains(&job) && !asked.forgotten.contains(&job);
    let is_new = |job: JobId, known: &Known| {
        known.leases.is_empty() && known.acked.is_none() && !known.is_cancelled && is_untouched(job)
    };
    if asked.respawned.contains(queue) || !is_new(lease.lease.job, known) || !is_new(other, theirs) {
        return Ok(());
    }
    let certain = |known: &Known| {
        let new = known.new.as_ref()?;
        let is_certain = new.recurs.is_none() && new.ttl.is_none() && !is_by_wall(new);
        Some((new.group.clone().filter(|_| is_certain)?, known.promised?, new.tries))
    };
    let (Some((group, due, _)), Some((their_group, their_due, tries))) = (certain(known), certain(theirs))
    else {
        return Ok(());
    };
    let unseen = asked.unseen_leases.get(queue).copied().unwrap_or(0);
    let is_overtaken = group == their_group && their_due < due && unseen < tries;
    Invariant::GROUP_ORDER.check(!is_overtaken, || {
        format!("{lease:?}, due at {due}, is leased before {other:?} of its group, due at {their_due}")
    })
}

#[cfg(test)]
mod tests {
    use engine::queues::{ConflictPolicy, JobPayload};

    use super::*;

    const FIRST: JobId = JobId([1; 16]);
    const SECOND: JobId = JobId([2; 16]);

    /// A job that is given out and was never leased.
    fn known(due: i64, group: &str) -> Known {
        let new = NewJob {
            payload: JobPayload::Json("1".into()),
            due: None,
            ttl: None,
            tries: 2,
            alias: None,
            on_conflict: ConflictPolicy::Reject,
            group: Some(group.into()),
            recurs: None,
            idempotency_key: None,
            attributes: Vec::new(),
        };
        Known { new: Some(new), is_given: true, promised: Some(Timestamp(due)), ..Known::default() }
    }

    fn lease_of(job: JobId) -> KnownLease {
        let at = Timestamp(10);
        let lease = LeaseRef { consumer: 1, job };
        KnownLease { lease, at, until: Timestamp(20), attempt: 1, run_at: at, alias: None, is_own: false }
    }

    #[test]
    fn a_job_that_overtakes_another_of_its_group_is_found() {
        let queue = QueueName::new("shop", "mail").expect("a name");
        let check = |asked: &Asked, second: &Known, first: &Known| {
            check_group_order(asked, &queue, (second, &lease_of(SECOND)), (FIRST, first)).is_ok()
        };
        let (nothing, first, second) = (Asked::default(), known(1, "g"), known(2, "g"));
        assert!(!check(&nothing, &second, &first), "it was due later");
        assert!(check(&nothing, &known(1, "g"), &first), "they were due at once");
        assert!(check(&nothing, &second, &known(1, "h")), "they are of two groups");
        let leased = Known { leases: vec![lease_of(FIRST)], ..known(1, "g") };
        assert!(check(&nothing, &second, &leased), "the other had its turn");
        let mut unseen = Asked::default();
        unseen.unseen_leases.insert(queue.clone(), 2);
        assert!(check(&unseen, &second, &first), "the other may have died of leases that nobody saw");
    }
}
