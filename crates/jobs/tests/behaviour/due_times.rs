//! When a job becomes available, in which order, and who is told.

use base::Timestamp;
use jobs::{JobCounts, JobsProgress, NewJobHead, PublishOutcome, RescheduleError};
use records::QueueKey;

use crate::rig::{QUEUE, Rig, id, job, job_at, ms};
use jobs::ReleaseTerms;

const TEN_YEARS_MS: i64 = 10 * 365 * 86_400_000;

#[test]
fn a_job_that_is_due_can_be_leased_at_once() {
    let mut rig = Rig::new();
    assert_eq!(rig.publish(job(1)), PublishOutcome::New);
    assert_eq!(rig.taken_wakes(), [QUEUE]);
    let leased = rig.lease().expect("it is due");
    assert_eq!((leased.reservation.job, leased.attempt, leased.tries), (id(1), 1, 3));
    assert_eq!(rig.lease(), None);
}

#[test]
fn a_job_is_never_early() {
    for delay in [1, 1_000, TEN_YEARS_MS] {
        let mut rig = Rig::new();
        rig.publish(job_at(1, delay));
        assert_eq!(rig.jobs.next_wakeup(), Some(Timestamp(delay)));
        rig.at(delay - 1);
        assert_eq!((rig.lease(), rig.taken_wakes()), (None, vec![]), "before its time, delay {delay}");
        rig.at(delay);
        assert_eq!(rig.taken_wakes(), [QUEUE]);
        assert_eq!(rig.drain(), [id(1)], "at its time, delay {delay}");
        assert_eq!(rig.jobs.next_wakeup(), None);
    }
}

#[test]
fn jobs_go_out_by_due_time_then_by_publishing() {
    let mut rig = Rig::new();
    for (number, at) in [(1, 30), (2, 10), (3, 20), (4, 10), (5, 30)] {
        rig.publish(job_at(number, at));
    }
    rig.at(100);
    // One that was due long ago goes before what was due later.
    rig.publish(job_at(6, 5));
    assert_eq!(rig.drain(), [6, 2, 4, 3, 1, 5].map(id));
}

#[test]
fn queues_do_not_see_each_others_jobs() {
    let mut rig = Rig::new();
    let other = QueueKey(8);
    rig.publish(NewJobHead { queue: other, ..job(1) });
    assert_eq!((rig.lease(), rig.jobs.ready(other), rig.taken_wakes()), (None, 1, vec![other]));
}

#[test]
fn a_queue_is_named_when_it_gets_its_first_ready_job() {
    let mut rig = Rig::new();
    rig.publish(job(1));
    rig.publish(job(2));
    rig.publish(job_at(3, 50));
    assert_eq!(rig.taken_wakes(), [QUEUE], "the second joins a queue that is ready");
    rig.at(60);
    assert_eq!(rig.taken_wakes(), [], "so does the third");
    assert_eq!(rig.drain().len(), 3);
    rig.publish(job(4));
    assert_eq!(rig.taken_wakes(), [QUEUE], "drained, and ready again");
    let reservation = rig.take();
    rig.release(reservation, ReleaseTerms::counted(ms(0))).expect("it holds");
    assert_eq!(rig.taken_wakes(), [QUEUE], "given back to an empty queue");
}

#[test]
fn time_can_be_caught_up_with_in_steps() {
    let mut rig = Rig::new();
    for number in 1..=5 {
        rig.publish(job_at(number, i64::from(number)));
    }
    rig.now = Timestamp(100);
    assert_eq!(rig.advance(2), (vec![], JobsProgress::More));
    assert_eq!(rig.jobs.ready(QUEUE), 2);
    assert_eq!(rig.advance(2), (vec![], JobsProgress::More));
    assert_eq!(rig.advance(2), (vec![], JobsProgress::Done));
    assert_eq!(rig.drain(), [1, 2, 3, 4, 5].map(id));
}

#[test]
fn a_waiting_job_can_be_given_another_time() {
    let mut rig = Rig::new();
    rig.publish(job_at(1, 500));
    rig.publish(job(2));
    assert_eq!(rig.reschedule(id(1), 0), Ok(()));
    assert_eq!(rig.reschedule(id(2), 300), Ok(()));
    assert_eq!(rig.drain(), [id(1)]);
    rig.at(300);
    assert_eq!(rig.jobs.get(id(2)).expect("it waits").run_at, Timestamp(300));
    let held = rig.take();
    assert_eq!(rig.reschedule(id(2), 0), Err(RescheduleError::Reserved));
    assert_eq!(rig.reschedule(id(9), 0), Err(RescheduleError::Unknown));
    assert!(rig.ack(held).is_ok());
}

#[test]
fn a_retry_called_forward_keeps_the_time_the_job_was_first_due() {
    let mut rig = Rig::new();
    rig.publish(job_at(1, 10));
    rig.at(10);
    let held = rig.take();
    rig.release(held, ReleaseTerms::counted(ms(1_000))).expect("it holds");
    rig.at(20);
    rig.taken_wakes();
    assert_eq!(rig.reschedule(id(1), 20), Ok(()));
    assert_eq!(rig.taken_wakes(), [QUEUE]);
    let leased = rig.lease().expect("it is due");
    assert_eq!((leased.run_at, leased.attempt), (Timestamp(10), 2));
}

#[test]
fn jobs_are_counted_where_they_stand() {
    let mut rig = Rig::new();
    for number in 1..=3 {
        rig.publish(job(number));
    }
    rig.publish(job_at(4, 50));
    rig.take();
    assert_eq!(rig.jobs.counts(), JobCounts { scheduled: 1, ready: 2, reserved: 1 });
    assert_eq!(rig.jobs.ready(QUEUE), 2);
}
