//! Leases: one at a time, fenced, extended, lapsed; and what an attempt costs.

use base::Timestamp;
use jobs::{AckedJob, Lapsed, ReleaseOutcome, ReleaseTerms, Stale};
use records::{LeaseHolder, Process, Reservation};

use crate::rig::{QUEUE, Rig, id, job, job_at, ms};

const OWN: LeaseHolder = LeaseHolder::Own(Process(1));

#[test]
fn a_job_that_is_done_is_gone() {
    let mut rig = Rig::new();
    rig.publish(job(1));
    let held = rig.take();
    assert_eq!(rig.ack(held), Ok(AckedJob { successor: None, next_run: None }));
    assert_eq!((rig.jobs.get(id(1)), rig.stored.len(), rig.jobs.next_wakeup()), (None, 0, None));
    assert!(rig.deleted.contains(&id(1)));
    assert_eq!(rig.ack(held), Err(Stale));
}

#[test]
fn a_stale_reservation_changes_nothing() {
    let mut rig = Rig::new();
    rig.publish(job(1));
    let old = rig.take();
    rig.release(old, ReleaseTerms::counted(ms(0))).expect("it holds");
    let new = rig.take();
    let before = rig.stored.clone();
    let unknown = Reservation { job: id(9), lease: new.lease };
    for stale in [old, unknown, Reservation { lease: new.lease + 1, ..new }] {
        assert_eq!(rig.ack(stale), Err(Stale));
        assert_eq!(rig.release(stale, ReleaseTerms::counted(ms(0))), Err(Stale));
        assert_eq!(rig.extend(stale, ms(1)), Err(Stale));
        assert_eq!(rig.jobs.held(rig.now, stale), None);
    }
    assert_eq!(rig.stored, before);
    assert_eq!(rig.jobs.held(rig.now, new).map(|head| head.id), Some(id(1)));
    assert!(rig.ack(new).is_ok());
}

#[test]
fn a_reservation_ends_with_its_ttr_though_nobody_noticed_yet() {
    let mut rig = Rig::new();
    rig.publish(job(1));
    let held = rig.lease_as(LeaseHolder::Outside, ms(10)).expect("it is due").reservation;
    rig.now = Timestamp(9);
    assert!(rig.jobs.held(rig.now, held).is_some());
    rig.now = Timestamp(10);
    assert_eq!((rig.ack(held), rig.jobs.held(rig.now, held)), (Err(Stale), None));
}

#[test]
fn a_lease_that_ran_out_counts_and_is_told() {
    let mut rig = Rig::new();
    rig.publish(job(1));
    rig.lease_as(LeaseHolder::Outside, ms(10)).expect("it is due");
    rig.taken_wakes();
    let lapsed = rig.at(25);
    let released = ReleaseOutcome::Waiting { until: Timestamp(10) };
    let (holder, alias, group) = (LeaseHolder::Outside, None, None);
    let expect = Lapsed { job: id(1), queue: QUEUE, alias, attempt: 1, tries: 3, group, holder, released };
    assert_eq!(lapsed, [expect]);
    assert_eq!(rig.taken_wakes(), [QUEUE]);
    assert_eq!(rig.lease().expect("it is back").attempt, 2);
}

#[test]
fn an_extended_lease_lasts_from_now() {
    let mut rig = Rig::new();
    rig.publish(job(1));
    let held = rig.lease_as(LeaseHolder::Outside, ms(10)).expect("it is due").reservation;
    rig.at(9);
    assert_eq!(rig.extend(held, ms(10)), Ok(Timestamp(19)));
    assert_eq!((rig.at(18), rig.jobs.next_wakeup()), (vec![], Some(Timestamp(19))));
    assert!(rig.ack(held).is_ok());
}

#[test]
fn a_released_job_comes_back_after_its_delay() {
    let mut rig = Rig::new();
    rig.publish(job(1));
    let held = rig.take();
    let until = Timestamp(30);
    assert_eq!(rig.release(held, ReleaseTerms::counted(ms(30))), Ok(ReleaseOutcome::Waiting { until }));
    rig.at(29);
    assert_eq!(rig.lease(), None);
    rig.at(30);
    assert_eq!(rig.lease().expect("it is due").attempt, 2);
}

#[test]
fn the_last_try_makes_a_job_dead() {
    let mut rig = Rig::new();
    rig.publish(job(1));
    for attempt in 1..=3 {
        let leased = rig.lease().expect("it has tries left");
        assert_eq!(leased.attempt, attempt);
        let released = rig.release(leased.reservation, ReleaseTerms::counted(ms(0)));
        let expect =
            if attempt < 3 { ReleaseOutcome::Waiting { until: rig.now } } else { ReleaseOutcome::Dead };
        assert_eq!(released, Ok(expect));
    }
    assert_eq!((rig.jobs.get(id(1)), rig.stored.len()), (None, 0));
}

#[test]
fn what_an_attempt_costs_is_for_the_caller_to_say() {
    // (how the attempt ends, tries, what becomes of the job, the number of the attempt that
    // follows)
    let cases = [
        (ReleaseTerms::counted(ms(0)), 2, true, Some(2)),
        (ReleaseTerms::counted(ms(0)), 1, false, None),
        (ReleaseTerms::interrupted(ms(0)), 1, true, Some(2)),
        (ReleaseTerms::uncounted(ms(0)), 1, true, Some(1)),
    ];
    for (retry, tries, waits, next) in cases {
        let mut rig = Rig::new();
        rig.publish(jobs::NewJobHead { tries, ..job(1) });
        let held = rig.take();
        let released = rig.release(held, retry).expect("it holds");
        assert_eq!(matches!(released, ReleaseOutcome::Waiting { .. }), waits, "{retry:?} of {tries}");
        assert_eq!(rig.lease().map(|leased| leased.attempt), next, "{retry:?} of {tries}");
    }
}

#[test]
fn an_attempt_that_makes_up_for_an_interrupted_one_is_the_last() {
    let mut rig = Rig::new();
    rig.publish(jobs::NewJobHead { tries: 1, ..job(1) });
    let held = rig.take();
    rig.release(held, ReleaseTerms::interrupted(ms(0))).expect("it holds");
    let leased = rig.lease().expect("it is repeated");
    assert_eq!((leased.attempt, leased.tries), (2, 1));
    assert_eq!(rig.release(leased.reservation, ReleaseTerms::counted(ms(0))), Ok(ReleaseOutcome::Dead));
}

#[test]
fn a_lapse_takes_the_last_try_of_a_consumer_outside_but_not_of_a_worker_of_our_own() {
    for (holder, dies) in [(LeaseHolder::Outside, true), (OWN, false)] {
        let mut rig = Rig::new();
        rig.publish(jobs::NewJobHead { tries: 1, ..job(1) });
        rig.lease_as(holder, ms(10)).expect("it is due");
        let released: Vec<_> = rig.at(10).iter().map(|lapse| lapse.released).collect();
        let until = Timestamp(10);
        assert_eq!(released, [if dies { ReleaseOutcome::Dead } else { ReleaseOutcome::Waiting { until } }]);
        assert_eq!(rig.jobs.get(id(1)).is_none(), dies);
    }
}

#[test]
fn a_lease_that_reached_nobody_leaves_the_job_at_its_place() {
    let mut rig = Rig::new();
    for (number, run_at) in [(1, -5), (2, -5), (3, 0)] {
        rig.publish(job_at(number, run_at));
    }
    rig.at(100);
    let lost = rig.take();
    rig.at(110);
    assert_eq!(rig.give_back(lost), Ok(ReleaseOutcome::Waiting { until: Timestamp(110) }));
    assert_eq!((rig.ack(lost), rig.give_back(lost)), (Err(Stale), Err(Stale)));
    let again = rig.lease().expect("it is ready");
    assert_eq!((again.reservation.job, again.attempt), (id(1), 1));
    // A retry keeps the place of that retry.
    rig.release(again.reservation, ReleaseTerms::counted(ms(0))).expect("it holds");
    let lost = [rig.take(), rig.take(), rig.take()];
    assert_eq!(lost.map(|held| held.job), [id(2), id(3), id(1)]);
    for held in lost {
        rig.give_back(held).expect("it holds");
    }
    assert_eq!(
        (rig.jobs.get(id(1)).map(|head| head.attempt), rig.drain()),
        (Some(1), vec![id(2), id(3), id(1)])
    );
}

#[test]
fn a_lease_of_before_a_restart_that_reached_nobody_leaves_the_job_ready_from_then_on() {
    let mut rig = Rig::new();
    rig.publish(job_at(1, -5));
    rig.publish(job_at(2, -1));
    let lost = rig.take();
    rig.restart(Process(2));
    rig.at(1);
    rig.give_back(lost).expect("it still holds");
    assert_eq!(rig.drain(), [id(2), id(1)]);
}

#[test]
fn cancelling_fences_the_worker() {
    let mut rig = Rig::new();
    rig.publish(job(1));
    rig.publish(job(2));
    let held = rig.take();
    assert_eq!(rig.cancel(id(1)).map(|head| head.attempt), Some(1));
    assert_eq!(rig.ack(held), Err(Stale));
    assert_eq!(rig.cancel(id(2)).map(|head| head.attempt), Some(0));
    assert_eq!((rig.lease(), rig.jobs.next_wakeup(), rig.cancel(id(2))), (None, None, None));
}
