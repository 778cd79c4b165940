//! What a queue allows: its order, a pause, how many at a time, how many a second.

use base::Timestamp;
use jobs::{NewJobHead, QueueRules, ReleaseTerms};
use records::{GroupKey, JobClock, JobId, JobTerms, QueueOrder};

use crate::rig::{QUEUE, Rig, id, job, job_at, ms};

fn lifo() -> QueueRules {
    QueueRules { order: QueueOrder::Lifo, ..QueueRules::default() }
}

#[test]
fn the_newest_goes_first_where_that_is_the_order() {
    let mut rig = Rig::new();
    rig.publish(job(1));
    rig.publish(job_at(2, -5));
    rig.rule(lifo());
    rig.publish(job(3));
    rig.publish(job_at(4, 10));
    rig.at(10);
    assert_eq!(rig.jobs.peek(QUEUE).map(|head| head.id), Some(id(4)));
    assert_eq!(rig.take().job, id(4));
    rig.rule(QueueRules::default());
    assert_eq!(rig.drain(), [id(2), id(1), id(3)], "and no longer");
}

#[test]
fn a_group_keeps_its_order_where_the_newest_goes_first() {
    let mut rig = Rig::new();
    rig.rule(lifo());
    let terms = JobTerms { group: Some(GroupKey(1)), ..JobTerms::default() };
    for number in 1..=2 {
        rig.publish(NewJobHead { terms, ..job(number) });
    }
    rig.publish(job(3));
    assert_eq!(rig.drain(), [id(3), id(1), id(2)]);
}

#[test]
fn a_paused_queue_gives_nothing_and_is_named_when_resumed() {
    let mut rig = Rig::new();
    rig.rule(QueueRules { paused: true, ..QueueRules::default() });
    rig.publish(job(1));
    assert_eq!((rig.taken_wakes(), rig.lease(), rig.jobs.counts_of(QUEUE).ready), (vec![], None, 1));
    rig.rule(QueueRules::default());
    assert_eq!((rig.taken_wakes(), rig.drain()), (vec![QUEUE], vec![id(1)]));
}

#[test]
fn no_more_are_reserved_at_a_time_than_allowed_and_an_end_names_the_queue() {
    let mut rig = Rig::new();
    rig.rule(QueueRules { concurrency: Some(2), ..QueueRules::default() });
    for number in 1..=5 {
        rig.publish(job(number));
    }
    let (first, second) = (rig.take(), rig.take());
    assert_eq!((rig.lease(), rig.taken_wakes()), (None, vec![QUEUE]));
    rig.ack(first).expect("it holds");
    assert_eq!((rig.taken_wakes(), rig.take().job, rig.lease()), (vec![QUEUE], id(3), None));
    rig.release(second, ReleaseTerms::counted(ms(100))).expect("it holds");
    assert_eq!((rig.taken_wakes(), rig.take().job, rig.lease()), (vec![QUEUE], id(4), None));
    rig.rule(QueueRules { concurrency: Some(3), ..QueueRules::default() });
    assert_eq!((rig.taken_wakes(), rig.take().job), (vec![QUEUE], id(5)));
}

#[test]
fn leases_come_no_faster_than_the_rate_and_the_queue_is_named_when_one_may() {
    let mut rig = Rig::new();
    rig.rule(QueueRules { rate: Some(2.0), ..QueueRules::default() });
    for number in 1..=4 {
        rig.publish(job(number));
    }
    rig.taken_wakes();
    assert_eq!((rig.take().job, rig.take().job, rig.lease()), (id(1), id(2), None), "a second's worth");
    assert_eq!(rig.jobs.next_wakeup().map(|at| at.min(Timestamp(600))), Some(Timestamp(500)));
    rig.at(499);
    assert_eq!((rig.taken_wakes(), rig.lease()), (vec![], None));
    rig.at(500);
    assert_eq!((rig.taken_wakes(), rig.take().job, rig.lease()), (vec![QUEUE], id(3), None));
    rig.at(1_000);
    assert_eq!((rig.taken_wakes(), rig.take().job), (vec![QUEUE], id(4)));
}

#[test]
fn a_lease_that_reached_nobody_leaves_the_rate_as_it_was() {
    let mut rig = Rig::new();
    rig.rule(QueueRules { rate: Some(2.0), ..QueueRules::default() });
    for number in 1..=3 {
        rig.publish(job(number));
    }
    rig.take();
    let lost = rig.take();
    assert_eq!((rig.lease(), rig.taken_wakes()), (None, vec![QUEUE]), "a second's worth");
    rig.give_back(lost).expect("it holds");
    assert_eq!((rig.taken_wakes(), rig.take().job, rig.lease()), (vec![QUEUE], id(2), None));
}

#[test]
fn counts_tell_where_the_jobs_of_a_queue_stand() {
    let mut rig = Rig::new();
    rig.publish(job_at(1, -7));
    rig.publish(job(2));
    rig.publish(job_at(3, 50));
    let counts = rig.jobs.counts_of(QUEUE);
    assert_eq!((counts.scheduled, counts.ready, counts.reserved), (1, 2, 0));
    rig.take();
    let counts = rig.jobs.counts_of(QUEUE);
    assert_eq!((counts.scheduled, counts.ready, counts.reserved), (1, 1, 1));
}

#[test]
fn the_oldest_is_told_of_whatever_goes_first() {
    for order in [QueueOrder::Fifo, QueueOrder::Lifo] {
        let mut rig = Rig::new();
        rig.see_wall(1_000);
        rig.rule(QueueRules { order, ..QueueRules::default() });
        assert_eq!(rig.jobs.ready_since(QUEUE, |_, at| at), None);
        for (number, run_at) in [(1, 20), (2, 10), (3, 30), (4, 90)] {
            rig.publish(job_at(number, run_at));
        }
        let by_wall = JobTerms { clock: JobClock::Wall, ..JobTerms::default() };
        rig.publish(NewJobHead { terms: by_wall, ..job_at(5, 1_015) });
        rig.see_wall(1_050);
        rig.at(50);
        assert_eq!(rig.jobs.ready_since(QUEUE, |_, at| at), Some(Timestamp(10)), "{order:?}");
        // Two of them came late, one of these by the wall clock.
        let since = |job, at: Timestamp| if job == id(2) { Timestamp(40) } else { at };
        assert_eq!(rig.jobs.ready_since(QUEUE, since), Some(Timestamp(15)), "{order:?}");
        let since = |job, at: Timestamp| if job == id(1) { at } else { Timestamp(40) };
        assert_eq!(rig.jobs.ready_since(QUEUE, since), Some(Timestamp(20)), "{order:?}");
    }
}

#[test]
fn the_first_is_looked_at_however_many_came_in_another_order() {
    let mut rig = Rig::new();
    rig.publish(job_at(0, -90_000));
    for number in 0..1_100_u16 {
        let mut bytes = [1; 16];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        rig.publish(NewJobHead { id: JobId(bytes), ..job_at(1, -10_000 - 10 * i64::from(number)) });
    }
    // The others were published lately, whenever they were to be due.
    let since = |job, _| Timestamp(if job == id(0) { -500 } else { 0 });
    assert_eq!(rig.jobs.ready_since(QUEUE, since), Some(Timestamp(-500)));
}
