//! Groups of which jobs are in the store only.

use jobs::{NewJobHead, QueueRules, ReadRequest, ReleaseTerms};
use records::{GroupKey, JobClock, JobTerms, Parking, Process, QueueKey, QueueOrder};

use super::{FAR, drained, parked};
use crate::rig::{QUEUE, Rig, id, job, job_at, ms};

#[test]
fn a_job_of_a_group_that_was_tried_stays_in_memory_and_goes_first() {
    let mut rig = Rig::new();
    let terms = JobTerms { group: Some(GroupKey(4)), ..JobTerms::default() };
    for number in 1..=3 {
        rig.publish(NewJobHead { terms, ..job(number) });
    }
    let held = rig.take();
    rig.release(held, ReleaseTerms::counted(ms(FAR as u64))).expect("it holds");
    rig.evict();
    assert_eq!(parked(&rig), [2, 3].map(|number| (number, Parking::Worker)));
    rig.at(FAR);
    assert_eq!(drained(&mut rig), [1, 2, 3].map(id));
}

#[test]
fn a_group_waits_for_those_of_it_whose_time_came_before_also_where_the_newest_goes_first() {
    let mut rig = Rig::new();
    rig.rule(QueueRules { order: QueueOrder::Lifo, ..QueueRules::default() });
    let terms = JobTerms { group: Some(GroupKey(4)), ..JobTerms::default() };
    for number in 1..=2 {
        rig.publish(NewJobHead { terms, ..job_at(number, FAR) });
    }
    rig.evict();
    rig.at(FAR + 10);
    rig.publish(NewJobHead { terms, ..job_at(3, FAR + 10) });
    assert_eq!(rig.lease(), None);
    assert_eq!(drained(&mut rig), [1, 2, 3].map(id));
}

#[test]
fn nobody_goes_before_the_first_of_a_group_because_that_is_parked() {
    let mut rig = Rig::new();
    let terms = JobTerms { group: Some(GroupKey(4)), ..JobTerms::default() };
    for number in 1..=3 {
        rig.publish(NewJobHead { terms, ..job(number) });
    }
    rig.publish(job(4));
    rig.evict();
    assert_eq!(parked(&rig), [2, 3, 4].map(|number| (number, Parking::Worker)));
    assert_eq!(rig.drain(), [id(1)]);
    rig.read_in();
    assert_eq!(rig.taken_wakes().last(), Some(&QUEUE), "it can be leased again");
    assert_eq!(drained(&mut rig), [2, 3, 4].map(id));
}

#[test]
fn a_group_keeps_its_active_job_and_asks_for_those_behind() {
    let mut rig = Rig::new();
    let terms = JobTerms { group: Some(GroupKey(4)), ..JobTerms::default() };
    for number in 1..=4 {
        rig.publish(NewJobHead { terms, ..job(number) });
    }
    rig.evict();
    assert_eq!(parked(&rig), [2, 3, 4].map(|number| (number, Parking::Worker)));
    let mut order = rig.drain();
    while !rig.read_in().is_empty() {
        order.extend(rig.drain());
    }
    assert_eq!(order, [1, 2, 3, 4].map(id));
}

#[test]
fn a_group_leaves_memory_with_its_head_which_leads_back_to_it_in_the_order_of_the_queue() {
    let mut rig = Rig::new();
    let of = |group| JobTerms { group: Some(GroupKey(group)), ..JobTerms::default() };
    for number in 1..=9 {
        rig.publish(NewJobHead { terms: of(u64::from(number) % 3), ..job(number) });
    }
    rig.evict();
    let heads = [(2, Parking::Head), (3, Parking::Head)];
    assert_eq!(rig.stored.len(), 1, "the first of the queue");
    assert!(heads.iter().all(|head| parked(&rig).contains(head)), "{:?}", parked(&rig));
    rig.restart(Process(2));
    rig.at(1);
    let mut order = Vec::new();
    while rig.jobs.has_parked() || rig.jobs.ready(QUEUE) > 0 {
        rig.read_in();
        order.extend(rig.drain());
        rig.evict();
        assert!(rig.stored.len() <= 2, "{:?}", rig.stored);
    }
    assert_eq!(order, (1..=9).map(id).collect::<Vec<_>>());
}

#[test]
fn a_late_job_of_a_group_goes_before_its_head_that_is_parked() {
    let mut rig = Rig::new();
    let terms = JobTerms { group: Some(GroupKey(4)), ..JobTerms::default() };
    rig.at(50);
    rig.publish(job_at(1, 10));
    for number in 2..=4 {
        rig.publish(NewJobHead { terms, ..job_at(number, 40) });
    }
    rig.evict();
    assert!(parked(&rig).contains(&(2, Parking::Head)), "{:?}", parked(&rig));
    rig.publish(NewJobHead { terms, ..job_at(5, 20) });
    assert_eq!(drained(&mut rig), [1, 5, 2, 3, 4].map(id));
}

#[test]
fn when_the_head_of_a_group_is_gone_the_next_one_leads_to_what_is_parked() {
    let mut rig = Rig::new();
    let terms = JobTerms { group: Some(GroupKey(4)), ..JobTerms::default() };
    rig.publish(job(1));
    for number in 2..=4 {
        rig.publish(NewJobHead { terms, ..job(number) });
    }
    rig.evict();
    rig.unpark(id(2));
    assert!(rig.cancel(id(2)).is_some());
    assert_eq!(
        rig.jobs.next_urgent_read(),
        Some(ReadRequest::Line { queue: QUEUE, group: Some(GroupKey(4)) })
    );
    rig.read_in();
    assert_eq!(rig.jobs.next_urgent_read(), None);
    assert_eq!(drained(&mut rig), [1, 3, 4].map(id));
}

#[test]
fn lines_are_read_no_further_than_there_is_room() {
    let mut rig = Rig::new();
    for group in 0..10 {
        let terms = JobTerms { group: Some(GroupKey(group)), ..JobTerms::default() };
        for number in 0..20 {
            rig.publish(NewJobHead { terms, ..job(1 + 20 * group as u8 + number) });
        }
    }
    rig.evict_to(16);
    rig.restart(Process(2));
    rig.jobs.set_resident_max(16);
    rig.at(1);
    let mut done = 0;
    while done < 200 {
        rig.read_in();
        done += rig.drain().len();
        rig.evict_to(16);
        assert!(rig.stored.len() <= 20, "{} are resident", rig.stored.len());
    }
}

#[test]
fn a_group_is_known_after_a_start_by_jobs_that_the_wall_clock_has_left_behind() {
    let mut rig = Rig::new();
    rig.see_wall(50);
    rig.at(100);
    let by = |clock| JobTerms { group: Some(GroupKey(4)), clock, ..JobTerms::default() };
    for number in 1..=2 {
        rig.publish(NewJobHead { terms: by(JobClock::Wall), ..job_at(number, 50) });
    }
    for number in 3..=4 {
        rig.publish(NewJobHead { terms: by(JobClock::Engine), ..job_at(number, 60) });
    }
    rig.evict();
    assert_eq!(parked(&rig), [2, 3, 4].map(|number| (number, Parking::Worker)));
    rig.restart(Process(2));
    rig.see_wall(10);
    rig.read_in();
    rig.at(100);
    assert_eq!(drained(&mut rig), [2, 3, 4].map(id), "the others do not wait for the wall clock");
    rig.see_wall(50);
    rig.at(101);
    assert_eq!(rig.drain(), [id(1)]);
}

#[test]
fn a_group_that_waited_for_what_was_parked_goes_on_as_soon_as_nothing_is() {
    let mut rig = Rig::new();
    let terms = JobTerms { group: Some(GroupKey(4)), ..JobTerms::default() };
    rig.publish(NewJobHead { terms, ..job_at(1, FAR) });
    rig.publish(job_at(2, FAR));
    rig.publish(job_at(3, 2 * FAR));
    rig.evict();
    rig.unpark(id(1));
    rig.unpark(id(2));
    rig.at(FAR + 10);
    assert_eq!(rig.lease(), None, "what is parked may go before");
    rig.unpark(id(3));
    assert_eq!(rig.drain(), [1, 2].map(id));
}

#[test]
fn groups_that_need_not_wait_are_left_for_later_if_there_are_too_many_and_only_their_queue_waits() {
    let mut rig = Rig::new();
    for number in 1..=3 {
        rig.publish(job_at(number, FAR));
    }
    rig.evict();
    rig.jobs.set_resident_max(16);
    rig.at(FAR + 10);
    for number in 4..=6 {
        let terms = JobTerms { group: Some(GroupKey(number.into())), ..JobTerms::default() };
        rig.publish(NewJobHead { terms, ..job_at(number, FAR + 10) });
    }
    rig.jobs.set_unblocked_max(2);
    rig.read_in();
    let first = rig.jobs.peek(QUEUE).map(|head| head.id);
    assert_eq!((rig.jobs.unblocked(), first), (2, Some(id(1))), "what is known is shown");
    assert!(rig.jobs.has_lines_to_unblock_of(QUEUE) && !rig.jobs.has_lines_to_unblock_of(QueueKey(8)));
    rig.jobs.set_unblocked_max(9);
    rig.at(FAR + 10);
    assert!(!rig.jobs.has_lines_to_unblock());
    assert_eq!(drained(&mut rig), [1, 2, 3, 4, 5, 6].map(id));
}

#[test]
fn a_queue_is_named_when_its_group_need_not_be_read_any_more() {
    let mut rig = Rig::new();
    let terms = JobTerms { group: Some(GroupKey(4)), ..JobTerms::default() };
    for number in 1..=3 {
        rig.publish(NewJobHead { terms, ..job(number) });
    }
    rig.evict();
    let held = rig.take();
    assert_eq!(rig.lease(), None);
    rig.ack(held).expect("it holds");
    assert!(rig.jobs.next_urgent_read().is_some(), "nothing leads to what is parked");
    rig.taken_wakes();
    rig.publish(NewJobHead { terms, ..job_at(4, -10) });
    assert_eq!(rig.taken_wakes(), [QUEUE], "who was given nothing is told");
    assert_eq!(drained(&mut rig), [4, 2, 3].map(id));
}
