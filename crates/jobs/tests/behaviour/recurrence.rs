//! Jobs that come again.

use base::Timestamp;
use jobs::{AckedJob, ConflictPolicy, NewJobHead, PublishOutcome, ReleaseOutcome, ReleaseTerms};
use records::{JobClock, JobTerms, Recurrence, RecurrenceRule};

use crate::rig::{ALIAS, QUEUE, Rig, aliased, id, job, ms};

fn every(number: u8, interval_ms: u64, left: Option<u32>) -> NewJobHead {
    let recurrence =
        Some(Recurrence { rule: RecurrenceRule::Every(interval_ms), left, run: 1, ttl_ms: None });
    NewJobHead { terms: JobTerms { recurrence, ..JobTerms::default() }, ..job(number) }
}

fn next(at: i64) -> AckedJob {
    AckedJob { successor: None, next_run: Some(Timestamp(at)) }
}

#[test]
fn the_next_run_is_made_when_the_present_one_ends_and_counts_from_its_time() {
    let mut rig = Rig::new();
    rig.publish(every(1, 100, None));
    rig.at(30);
    let first = rig.lease().expect("it is due");
    rig.at(60);
    assert_eq!(rig.jobs.counts().scheduled, 0, "no second run beside the first");
    assert_eq!(rig.ack(first.reservation), Ok(next(100)));
    assert_eq!(rig.ack(first.reservation), Err(jobs::Stale));
    rig.at(99);
    assert_eq!(rig.lease(), None);
    rig.at(100);
    let second = rig.lease().expect("it is due");
    assert_eq!((second.reservation.job, second.attempt, second.run_at), (id(1), 1, Timestamp(100)));
    let recurrence = rig.jobs.get(id(1)).and_then(|head| head.terms.recurrence);
    assert_eq!(recurrence.map(|recurrence| recurrence.run), Some(2));
}

#[test]
fn missed_runs_fold_into_one() {
    let mut rig = Rig::new();
    rig.publish(every(1, 100, None));
    let held = rig.take();
    rig.at(555);
    assert_eq!(rig.ack(held), Ok(next(500)));
    let held = rig.take();
    assert_eq!(rig.ack(held), Ok(next(600)));
    assert_eq!(rig.lease(), None);
}

#[test]
fn the_last_of_so_many_runs_ends_the_job() {
    let mut rig = Rig::new();
    rig.publish(every(1, 100, Some(2)));
    let held = rig.take();
    assert_eq!(rig.ack(held), Ok(next(100)));
    rig.at(100);
    let held = rig.take();
    assert_eq!(rig.ack(held), Ok(AckedJob { successor: None, next_run: None }));
    assert!(rig.deleted.contains(&id(1)));
}

#[test]
fn a_run_that_dies_is_told_and_the_schedule_goes_on() {
    let mut rig = Rig::new();
    rig.jobs = std::mem::replace(&mut rig.jobs, jobs::Jobs::new(rig.process, jobs::Numbers::default()))
        .keeping_dead_letters();
    rig.publish(NewJobHead { tries: 1, ..every(1, 100, Some(2)) });
    let held = rig.take();
    let recurs = ReleaseOutcome::Recurs { died: true, next_run: Timestamp(100) };
    assert_eq!(rig.release(held, ReleaseTerms::counted(ms(0))), Ok(recurs));
    assert!(rig.dead.is_empty(), "what died is for the caller to keep, the job lives");
    rig.at(100);
    let held = rig.take();
    assert_eq!(rig.release(held, ReleaseTerms::counted(ms(0))), Ok(ReleaseOutcome::Dead));
    assert!(rig.dead.contains(&id(1)), "its last run leaves the job itself, with its body");
}

#[test]
fn each_run_has_its_own_tries() {
    let mut rig = Rig::new();
    rig.publish(NewJobHead { tries: 2, ..every(1, 100, None) });
    for _ in 0..2 {
        let held = rig.take();
        let released = rig.release(held, ReleaseTerms::counted(ms(0))).expect("it holds");
        assert!(matches!(released, ReleaseOutcome::Waiting { .. }), "{released:?}");
        let held = rig.take();
        rig.ack(held).expect("it holds");
        rig.at(rig.now.0 + 100);
    }
}

#[test]
fn each_run_expires_by_its_own_due_time() {
    let mut rig = Rig::new();
    let job = every(1, 100, None);
    let recurrence = job.terms.recurrence.map(|recurrence| Recurrence { ttl_ms: Some(30), ..recurrence });
    let terms = JobTerms { recurrence, expires_at: Some(Timestamp(30)), ..job.terms };
    rig.publish(NewJobHead { terms, ..job });
    rig.at(30);
    assert_eq!(rig.expired.split_off(0), [(id(1), Some(Timestamp(100)))]);
    rig.at(110);
    assert_eq!(rig.jobs.ready(QUEUE), 1);
    rig.at(130);
    assert_eq!(rig.expired, [(id(1), Some(Timestamp(200)))]);
}

#[test]
fn a_calendar_says_when_by_the_wall_clock() {
    let mut rig = Rig::new();
    let recurrence = Some(Recurrence { rule: RecurrenceRule::Calendar, left: None, run: 1, ttl_ms: None });
    let terms = JobTerms { clock: JobClock::Wall, recurrence, ..JobTerms::default() };
    rig.see_wall(650);
    rig.publish(NewJobHead { run_at: Timestamp(600), terms, ..job(1) });
    let held = rig.take();
    assert_eq!(rig.ack(held), Ok(next(700)));
    assert_eq!(rig.jobs.next_wakeup(), Some(Timestamp(50)), "the wall clock is 650 ahead");
    rig.see_wall(950);
    rig.at(50);
    let held = rig.take();
    assert_eq!(rig.ack(held), Ok(next(900)), "the latest that was missed");
    let held = rig.take();
    assert_eq!(rig.ack(held), Ok(next(1_000)));
    rig.see_wall(1_000);
    rig.at(60);
    let held = rig.take();
    assert_eq!(rig.ack(held), Ok(AckedJob { successor: None, next_run: None }), "the calendar has ended");
}

#[test]
fn a_kept_successor_waits_for_the_end_of_the_schedule() {
    let mut rig = Rig::new();
    rig.publish(NewJobHead { terms: every(1, 100, Some(2)).terms, ..aliased(1, ConflictPolicy::Keep) });
    let held = rig.take();
    assert_eq!(rig.publish(aliased(2, ConflictPolicy::Keep)), PublishOutcome::Succeeds { replaced: None });
    assert_eq!(rig.ack(held), Ok(next(100)));
    rig.at(100);
    let held = rig.take();
    assert_eq!(held.job, id(1));
    assert_eq!(rig.ack(held), Ok(AckedJob { successor: Some(id(2)), next_run: None }));
}

#[test]
fn a_replacement_takes_over_when_the_run_ends_and_a_cancel_ends_the_schedule() {
    let mut rig = Rig::new();
    rig.publish(NewJobHead { terms: every(1, 100, None).terms, ..aliased(1, ConflictPolicy::Replace) });
    let held = rig.take();
    rig.publish(NewJobHead { terms: every(2, 100, None).terms, ..aliased(2, ConflictPolicy::Replace) });
    assert_eq!(rig.ack(held), Ok(AckedJob { successor: Some(id(2)), next_run: None }));
    assert!(rig.cancel(id(2)).is_some());
    rig.at(500);
    assert_eq!((rig.lease(), rig.jobs.by_alias(QUEUE, ALIAS)), (None, None));
}

#[test]
fn a_recurring_successor_takes_its_ttl_along_to_another_time() {
    let mut rig = Rig::new();
    rig.publish(aliased(1, ConflictPolicy::Reject));
    let held = rig.take();
    let recurrence =
        Some(Recurrence { rule: RecurrenceRule::Every(100), left: None, run: 1, ttl_ms: Some(10) });
    let terms = JobTerms { recurrence, expires_at: Some(Timestamp(10)), ..JobTerms::default() };
    let next = NewJobHead { terms, ..aliased(2, ConflictPolicy::Keep) };
    assert_eq!(rig.publish(next), PublishOutcome::Succeeds { replaced: None });
    assert_eq!(rig.reschedule(id(2), 50), Ok(()));
    rig.at(40);
    assert_eq!(rig.ack(held).map(|acked| acked.successor), Ok(Some(id(2))));
    rig.at(55);
    let leased = rig.lease().expect("it is due, and worth doing");
    assert_eq!((leased.run_at, leased.expires_at), (Timestamp(50), Some(Timestamp(60))));
}
