//! Jobs that are in the store only, until they are needed.

use base::Timestamp;
use jobs::{NewJob, Retry, Want};
use records::{GroupKey, JobClock, Parking, Terms};

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
    rig.shrink();
    rig.publish(job_at(5, 2 * FAR));
    let all: Vec<_> = (1..=5).map(|number| (number, Parking::Time)).collect();
    assert_eq!((parked(&rig), rig.jobs.parked(QUEUE)), (all, (5, 0)));
    assert_eq!(rig.jobs.get(id(5)), None, "only the store has it");
    rig.publish(job_at(6, FAR / 2));
    assert!(rig.jobs.get(id(6)).is_some(), "this one is due before");
}

#[test]
fn a_parked_job_is_read_in_before_its_time_and_comes_due_at_it() {
    let mut rig = Rig::new();
    for number in 1..=3 {
        rig.publish(job_at(number, FAR));
    }
    rig.shrink();
    rig.jobs.set_resident_max(2);
    let wakeup = rig.jobs.next_wakeup().expect("something is parked");
    assert!(wakeup < Timestamp(FAR), "there is time to read: {wakeup}");
    rig.at(wakeup.0 + 1);
    let wants = rig.read_in();
    assert!(matches!(wants[..], [Want::Time { clock: JobClock::Engine, .. }, ..]), "{wants:?}");
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
    rig.shrink();
    rig.publish(job(5));
    let behind: Vec<_> = (2..=5).map(|number| (number, Parking::Worker)).collect();
    assert_eq!((parked(&rig), rig.jobs.parked(QUEUE)), (behind, (0, 4)));
    assert_eq!((rig.take().job, rig.lease()), (id(1), None));
    rig.taken_wakes();
    let wants = rig.read_in();
    assert!(wants.contains(&Want::Line { queue: QUEUE, group: None }), "{wants:?}");
    assert_eq!((rig.taken_wakes(), rig.take().job), (vec![QUEUE], id(2)), "who was given nothing is told");
}

#[test]
fn a_retry_waits_behind_what_is_parked_before_it() {
    let mut rig = Rig::new();
    for number in 1..=3 {
        rig.publish(job(number));
    }
    rig.shrink();
    let held = rig.take();
    rig.at(10);
    rig.release(held, Retry::counted(ms(0))).expect("it holds");
    assert_eq!((rig.jobs.ready(QUEUE), rig.lease()), (0, None), "it was not parked, but others come first");
    let mut order = Vec::new();
    while !rig.read_in().is_empty() || rig.jobs.ready(QUEUE) > 0 {
        order.extend(rig.drain());
    }
    assert_eq!(order, [id(2), id(3), id(1)]);
}

#[test]
fn a_group_keeps_its_active_job_and_asks_for_those_behind() {
    let mut rig = Rig::new();
    let terms = Terms { group: Some(GroupKey(4)), ..Terms::default() };
    for number in 1..=4 {
        rig.publish(NewJob { terms, ..job(number) });
    }
    rig.shrink();
    assert_eq!(parked(&rig), [(3, Parking::Worker), (4, Parking::Worker)]);
    let mut order = rig.drain();
    while !rig.read_in().is_empty() {
        order.extend(rig.drain());
    }
    assert_eq!(order, [1, 2, 3, 4].map(id));
}

#[test]
fn a_call_about_a_parked_job_makes_it_resident_wherever_it_is() {
    let mut rig = Rig::new();
    for number in 1..=3 {
        rig.publish(job_at(number, FAR));
    }
    rig.shrink();
    rig.unpark(id(3));
    assert_eq!(rig.reschedule(id(3), 5), Ok(()));
    rig.at(5);
    assert_eq!(rig.drain(), [id(3)]);
    assert_eq!(rig.jobs.parked(QUEUE), (2, 0));
}

#[test]
fn a_job_that_expires_in_its_line_is_found_in_time() {
    let mut rig = Rig::new();
    let terms = Terms { expires_at: Some(Timestamp(FAR)), ..Terms::default() };
    for number in 1..=3 {
        rig.publish(NewJob { terms, ..job(number) });
    }
    rig.shrink();
    assert_eq!(parked(&rig).len(), 2);
    let wakeup = rig.jobs.next_wakeup().expect("something is parked");
    assert!(wakeup < Timestamp(FAR), "it is looked for before it expires: {wakeup}");
}

#[test]
fn the_wall_clock_is_watched_for_jobs_that_are_parked_too() {
    let mut rig = Rig::new();
    let terms = Terms { clock: JobClock::Wall, ..Terms::default() };
    rig.publish(NewJob { terms, ..job_at(1, FAR) });
    rig.publish(NewJob { terms, ..job_at(2, FAR + 1) });
    rig.shrink();
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
    rig.shrink();
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
