//! Jobs that are in the store only, until they are needed.

mod groups;

use base::Timestamp;
use jobs::{NewJobHead, ReadRequest, ReleaseTerms};
use records::{JobClock, JobId, JobTerms, Parking, QueueKey};

use crate::rig::{QUEUE, Rig, id, job, job_at, ms};

/// Well beyond what is read in ahead of its time.
const FAR: i64 = 1_000_000;

fn parked(rig: &Rig) -> Vec<(u8, Parking)> {
    rig.parked.values().map(|parked| (parked.head.id.0[0], parked.parking)).collect()
}

#[test]
fn who_comes_due_last_is_parked_and_whoever_is_published_behind() {
    let mut rig = Rig::new();
    for number in 1..=4 {
        rig.publish(job_at(number, FAR + i64::from(number)));
    }
    rig.evict();
    rig.publish(job_at(5, 2 * FAR));
    let all: Vec<_> = (1..=5).map(|number| (number, Parking::Time)).collect();
    assert_eq!((parked(&rig), rig.jobs.parked(QUEUE)), (all, (5, 0)));
    assert_eq!(rig.jobs.get(id(5)), None, "only the store has it");
    rig.publish(job_at(6, FAR / 2));
    assert!(rig.jobs.get(id(6)).is_some(), "this one is due before");
}

#[test]
fn an_eighth_of_the_room_is_for_jobs_that_wait_for_their_time() {
    let mut rig = Rig::new();
    for number in 1..=9 {
        rig.publish(job_at(number, FAR + i64::from(number)));
    }
    rig.evict_to(72);
    assert_eq!(parked(&rig), [], "an eighth may stay");
    rig.evict_to(64);
    assert_eq!(parked(&rig), [(7, Parking::Time), (8, Parking::Time), (9, Parking::Time)]);
    assert_eq!(rig.read_in(), [], "what stays is enough");
    for number in 101..=160 {
        rig.publish(job(number));
    }
    rig.evict_to(72);
    assert_eq!(parked(&rig).len(), 3, "consumers can take these at once");
}

#[test]
fn jobs_of_one_clock_do_not_make_way_for_those_of_the_other() {
    let mut rig = Rig::new();
    for number in 1..=9 {
        let clock = if number < 9 { JobClock::Engine } else { JobClock::Wall };
        rig.publish(NewJobHead {
            terms: JobTerms { clock, ..JobTerms::default() },
            ..job_at(number, FAR + i64::from(number))
        });
    }
    rig.evict_to(64);
    assert!(parked(&rig).contains(&(9, Parking::Time)));
    assert_eq!(rig.read_in(), [], "none of that clock is in memory, but enough of the other");
}

#[test]
fn a_parked_job_is_read_in_before_its_time_and_comes_due_at_it() {
    let mut rig = Rig::new();
    for number in 1..=3 {
        rig.publish(job_at(number, FAR));
    }
    rig.evict();
    rig.jobs.set_resident_max(2);
    let wakeup = rig.jobs.next_wakeup().expect("something is parked");
    assert!(wakeup < Timestamp(FAR), "there is time to read: {wakeup}");
    rig.at(wakeup.0 + 1);
    let requests = rig.read_in();
    assert!(matches!(requests[..], [ReadRequest::Time { clock: JobClock::Engine, .. }, ..]), "{requests:?}");
    assert_eq!((parked(&rig), rig.lease()), (vec![], None));
    rig.at(FAR);
    assert_eq!(rig.drain(), [id(1), id(2), id(3)]);
}

#[test]
fn the_end_of_a_line_is_parked_and_read_in_when_the_front_is_gone() {
    let mut rig = Rig::new();
    for number in 1..=4 {
        rig.publish(job(number));
    }
    rig.evict();
    rig.publish(job(5));
    let behind: Vec<_> = (2..=5).map(|number| (number, Parking::Worker)).collect();
    assert_eq!((parked(&rig), rig.jobs.parked(QUEUE)), (behind, (0, 4)));
    assert_eq!((rig.take().job, rig.lease()), (id(1), None));
    rig.taken_wakes();
    let requests = rig.read_in();
    assert!(requests.contains(&ReadRequest::Line { queue: QUEUE, group: None }), "{requests:?}");
    assert_eq!((rig.taken_wakes(), rig.take().job), (vec![QUEUE], id(2)), "who was given nothing is told");
}

#[test]
fn a_retry_waits_behind_what_is_parked_before_it() {
    let mut rig = Rig::new();
    for number in 1..=3 {
        rig.publish(job(number));
    }
    rig.evict();
    let held = rig.take();
    rig.at(10);
    rig.release(held, ReleaseTerms::counted(ms(0))).expect("it holds");
    assert_eq!((rig.jobs.ready(QUEUE), rig.lease()), (0, None), "others come first");
    assert!(parked(&rig).contains(&(1, Parking::Worker)), "{:?}", parked(&rig));
    assert_eq!(drained(&mut rig), [id(2), id(3), id(1)]);
}

#[test]
fn retries_wait_in_the_store_by_the_engine_clock_and_their_attempts_count_on() {
    let mut rig = Rig::new();
    rig.see_wall(50);
    let terms = JobTerms { clock: JobClock::Wall, ..JobTerms::default() };
    for number in 1..=3 {
        rig.publish(NewJobHead { terms, ..job_at(number, 40) });
    }
    for _ in 1..=3 {
        let held = rig.take();
        rig.release(held, ReleaseTerms::counted(ms(FAR as u64))).expect("it holds");
    }
    rig.evict();
    assert_eq!(parked(&rig), [1, 2, 3].map(|number| (number, Parking::Time)));
    rig.evict_to(64);
    rig.see_wall(2 * FAR);
    rig.at(FAR - 1);
    rig.read_in();
    assert_eq!((parked(&rig), rig.lease()), (vec![], None), "the wall clock does not count any more");
    rig.at(FAR);
    assert_eq!(rig.lease().map(|leased| leased.attempt), Some(2));
    assert_eq!(rig.drain(), [id(2), id(3)]);
}

/// Leases and acknowledges all there is, in turn with what is read in for it.
fn drained(rig: &mut Rig) -> Vec<JobId> {
    let mut order = rig.drain();
    while !rig.read_in().is_empty() || rig.jobs.ready(QUEUE) > 0 {
        order.extend(rig.drain());
    }
    order
}

#[test]
fn nobody_is_leased_a_job_before_those_are_read_whose_time_came_before() {
    let mut rig = Rig::new();
    for number in 1..=3 {
        rig.publish(job_at(number, FAR));
    }
    rig.evict();
    rig.at(FAR + 10);
    rig.publish(job_at(4, FAR + 10));
    assert_eq!((rig.jobs.peek(QUEUE), rig.lease(), rig.taken_wakes()), (None, None, vec![]));
    rig.read_in();
    assert_eq!(rig.taken_wakes(), [QUEUE]);
    assert_eq!(drained(&mut rig), [1, 2, 3, 4].map(id));
}

#[test]
fn what_was_published_late_with_a_time_before_all_others_goes_first_whatever_is_read() {
    let mut rig = Rig::new();
    for number in 1..=3 {
        rig.publish(job_at(number, FAR));
    }
    rig.evict();
    rig.at(FAR + 10);
    rig.publish(job_at(4, 0));
    assert_eq!(rig.drain(), [id(4)]);
}

#[test]
fn what_is_parked_is_not_wanted_at_the_same_moment() {
    // Each is due, or expires, as soon as may be for it to be parked.
    let soon = Timestamp(1_001);
    let expires = JobTerms { expires_at: Some(soon), ..JobTerms::default() };
    let jobs = [NewJobHead { terms: expires, ..job(1) }, NewJobHead { run_at: soon, ..job(1) }];
    for first in jobs {
        let mut rig = Rig::new();
        for number in 1..=3 {
            rig.publish(NewJobHead { id: id(number), ..first });
        }
        rig.evict();
        assert_ne!(parked(&rig), []);
        assert_eq!(
            rig.jobs.next_read(rig.now).filter(|request| matches!(request, ReadRequest::Time { .. })),
            None
        );
        let wakeup = rig.jobs.next_wakeup();
        assert!(wakeup.is_some_and(|wakeup| wakeup > rig.now), "{wakeup:?}");
        rig.at(1);
        assert!(rig.read_in().iter().any(|request| matches!(request, ReadRequest::Time { .. })));
    }
}

#[test]
fn a_call_about_a_parked_job_makes_it_resident_wherever_it_is() {
    let mut rig = Rig::new();
    for number in 1..=3 {
        rig.publish(job_at(number, FAR));
    }
    rig.evict();
    rig.unpark(id(3));
    assert_eq!(rig.reschedule(id(3), 5), Ok(()));
    rig.at(5);
    assert_eq!(rig.drain(), [id(3)]);
    assert_eq!(rig.jobs.parked(QUEUE), (2, 0));
}

#[test]
fn a_job_that_expires_in_its_line_is_found_in_time() {
    let mut rig = Rig::new();
    let terms = JobTerms { expires_at: Some(Timestamp(FAR)), ..JobTerms::default() };
    for number in 1..=3 {
        rig.publish(NewJobHead { terms, ..job(number) });
    }
    rig.evict();
    assert_eq!(parked(&rig).len(), 2);
    let wakeup = rig.jobs.next_wakeup().expect("something is parked");
    assert!(wakeup < Timestamp(FAR), "it is looked for before it expires: {wakeup}");
}

#[test]
fn the_wall_clock_is_watched_for_jobs_that_are_parked_too() {
    let mut rig = Rig::new();
    let terms = JobTerms { clock: JobClock::Wall, ..JobTerms::default() };
    rig.publish(NewJobHead { terms, ..job_at(1, FAR) });
    rig.publish(NewJobHead { terms, ..job_at(2, FAR + 1) });
    rig.evict();
    let resident: Vec<_> = rig.stored.keys().copied().collect();
    for id in resident {
        assert!(rig.cancel(id).is_some());
    }
    assert_eq!((rig.jobs.counts().scheduled, rig.parked.is_empty()), (0, false));
    assert!(rig.jobs.wait_on_wall());
}

#[test]
fn with_no_job_parked_there_are_no_horizons() {
    let mut rig = Rig::new();
    for number in 1..=3 {
        rig.publish(job_at(number, FAR));
    }
    rig.evict();
    for number in 1..=3 {
        rig.unpark(id(number));
        assert!(rig.cancel(id(number)).is_some());
    }
    let mut changed = Vec::new();
    rig.jobs.take_changed_counts(&mut changed);
    assert_eq!(changed, [(QUEUE, 0, 0)]);
    assert_eq!((rig.jobs.has_parked(), rig.jobs.next_wakeup()), (false, None));
    rig.publish(job_at(4, 2 * FAR));
    assert!(rig.jobs.get(id(4)).is_some());
}

#[test]
fn a_queue_waits_for_its_own_parked_jobs_to_be_read_and_for_no_others() {
    let mut rig = Rig::new();
    rig.publish(job_at(1, 2 * FAR));
    rig.publish(job_at(2, 3 * FAR));
    for number in 3..=5 {
        rig.publish(NewJobHead { queue: QueueKey(8), ..job_at(number, FAR) });
    }
    rig.evict();
    assert_eq!(rig.jobs.parked(QUEUE), (2, 0));
    rig.at(FAR + 10);
    rig.publish(job_at(6, FAR + 10));
    assert_eq!(rig.drain(), [id(6)], "its own are due much later");
    rig.at(2 * FAR + 10);
    rig.publish(job_at(7, 2 * FAR + 10));
    assert_eq!(rig.lease(), None, "one of its own has come due");
    rig.jobs.set_resident_max(16);
    rig.read_in();
    assert_eq!(drained(&mut rig), [1, 7].map(id));
}

#[test]
fn the_first_of_a_queue_is_unsettled_by_what_is_due_before_it_and_by_nothing_else() {
    let mut rig = Rig::new();
    let other = QueueKey(8);
    for number in 1..=3 {
        rig.publish(NewJobHead { queue: other, ..job_at(number, 10) });
    }
    rig.publish(job_at(4, FAR));
    rig.publish(job_at(5, 0));
    rig.now = Timestamp(20);
    assert!(rig.jobs.is_first_unsettled(other, rig.now), "nothing of it is ready yet");
    rig.publish(job_at(6, 20));
    assert_eq!(rig.drain(), [5, 6].map(id));
    assert!(!rig.jobs.is_first_unsettled(QUEUE, rig.now), "its own is due much later");
    rig.publish(NewJobHead { queue: other, ..job_at(7, 5) });
    assert!(!rig.jobs.is_first_unsettled(other, rig.now), "one is ready that goes before");
    rig.publish(job_at(8, 20));
    rig.publish(job_at(9, 25));
    rig.now = Timestamp(30);
    assert!(!rig.jobs.is_first_unsettled(QUEUE, rig.now), "the first goes before what is due");
    assert_eq!(rig.drain(), [id(8)]);
    assert!(rig.jobs.is_first_unsettled(QUEUE, rig.now));
    rig.at(30);
    assert!(!rig.jobs.is_first_unsettled(QUEUE, rig.now) && !rig.jobs.is_first_unsettled(other, rig.now));
}
