//! Jobs of a group: one at a time, in the order of when they were first due.

use base::Timestamp;
use jobs::{ConflictPolicy, NewJobHead, ReleaseTerms};
use records::{GroupKey, JobTerms, LeaseHolder, Process};

use crate::rig::{LONG, QUEUE, Rig, aliased, id, job, ms};

fn grouped(number: u8, run_at: i64) -> NewJobHead {
    let terms = JobTerms { group: Some(GroupKey(1)), ..JobTerms::default() };
    NewJobHead { run_at: Timestamp(run_at), terms, ..job(number) }
}

#[test]
fn one_runs_at_a_time_and_others_pass() {
    let mut rig = Rig::new();
    for number in 1..=3 {
        rig.publish(grouped(number, 0));
    }
    rig.publish(NewJobHead { run_at: Timestamp(0), ..job(4) });
    assert_eq!(
        (rig.jobs.ready(QUEUE), rig.jobs.counts_of(QUEUE).ready),
        (2, 4),
        "those behind are ready, too"
    );
    let held = rig.take();
    assert_eq!((held.job, rig.take().job, rig.lease()), (id(1), id(4), None));
    rig.taken_wakes();
    rig.ack(held).expect("it holds");
    assert_eq!((rig.taken_wakes(), rig.take().job, rig.lease()), (vec![QUEUE], id(2), None));
}

#[test]
fn a_job_that_is_not_due_does_not_block_later_ones() {
    let mut rig = Rig::new();
    rig.publish(grouped(1, 100));
    rig.publish(grouped(2, 0));
    assert_eq!(rig.drain(), [id(2)]);
    rig.at(100);
    assert_eq!(rig.drain(), [id(1)]);
}

#[test]
fn one_that_was_due_earlier_goes_first_until_another_is_leased() {
    let mut rig = Rig::new();
    rig.publish(grouped(1, 0));
    rig.publish(grouped(2, -10));
    assert_eq!(rig.jobs.peek(QUEUE).map(|head| head.id), Some(id(2)), "the first gives way");
    let held = rig.take();
    rig.publish(grouped(3, -20));
    assert_eq!((held.job, rig.lease()), (id(2), None), "a started one does not");
    rig.ack(held).expect("it holds");
    assert_eq!(rig.drain(), [id(3), id(1)]);
}

#[test]
fn a_started_job_that_waits_for_its_retry_blocks_its_group() {
    let mut rig = Rig::new();
    rig.publish(grouped(1, 0));
    rig.publish(grouped(2, 0));
    let held = rig.take();
    rig.release(held, ReleaseTerms::counted(ms(50))).expect("it holds");
    rig.at(49);
    assert_eq!(rig.lease(), None);
    rig.at(50);
    assert_eq!(rig.drain(), [id(1), id(2)]);
}

#[test]
fn a_first_attempt_that_is_taken_back_does_not_block() {
    let mut rig = Rig::new();
    rig.publish(grouped(1, 0));
    rig.publish(grouped(2, 0));
    let held = rig.take();
    rig.release(held, ReleaseTerms::uncounted(ms(50))).expect("it holds");
    assert_eq!(rig.take().job, id(2), "the first is not due and was never started");
}

#[test]
fn done_dead_expired_and_cancelled_free_the_group() {
    let ends: [fn(&mut Rig); 4] = [
        |rig| {
            let held = rig.take();
            rig.ack(held).expect("it holds");
        },
        |rig| {
            let held = rig.take();
            rig.release(held, ReleaseTerms::counted(ms(0))).expect("it holds");
        },
        |rig| drop(rig.at(10)),
        |rig| assert!(rig.cancel(id(1)).is_some()),
    ];
    for end in ends {
        let mut rig = Rig::new();
        let terms = JobTerms { expires_at: Some(Timestamp(10)), ..grouped(1, 0).terms };
        rig.publish(NewJobHead { tries: 1, terms, ..grouped(1, 0) });
        rig.publish(grouped(2, 0));
        end(&mut rig);
        assert_eq!((rig.jobs.get(id(1)), rig.drain()), (None, vec![id(2)]));
    }
}

#[test]
fn a_restart_knows_who_was_started() {
    for (process, first) in [(Process(1), None), (Process(2), Some(id(1)))] {
        let mut rig = Rig::new();
        rig.publish(grouped(1, 0));
        rig.lease_as(LeaseHolder::Own(Process(1)), LONG).expect("it is due");
        rig.publish(grouped(2, -5));
        rig.restart(process);
        rig.at(5);
        assert_eq!(rig.lease().map(|leased| leased.reservation.job), first);
    }
}

#[test]
fn a_replacement_starts_anew_and_may_change_groups() {
    let mut rig = Rig::new();
    rig.publish(NewJobHead { terms: grouped(1, 0).terms, ..aliased(1, ConflictPolicy::Replace) });
    let held = rig.take();
    rig.release(held, ReleaseTerms::counted(ms(500))).expect("it holds");
    rig.publish(grouped(2, 0));
    assert_eq!(rig.lease(), None);
    rig.publish(aliased(3, ConflictPolicy::Replace));
    assert_eq!(rig.drain(), [id(2), id(1)]);
}
