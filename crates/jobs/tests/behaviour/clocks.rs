//! Jobs that are due by the wall clock, which may jump.

use base::Timestamp;
use jobs::{NewJobHead, ReleaseTerms};
use records::{JobClock, JobTerms};

use crate::rig::{QUEUE, Rig, id, job, job_at, ms};

fn by_wall(number: u8, run_at: i64) -> NewJobHead {
    let terms = JobTerms { clock: JobClock::Wall, ..JobTerms::default() };
    NewJobHead { run_at: Timestamp(run_at), terms, ..job(number) }
}

#[test]
fn a_job_is_due_by_the_clock_that_it_is_on() {
    let mut rig = Rig::new();
    rig.see_wall(5_000);
    rig.publish(by_wall(1, 5_100));
    rig.publish(job_at(2, 200));
    assert_eq!(rig.at(0).len(), 0);
    assert_eq!(rig.jobs.next_wakeup(), Some(Timestamp(100)));
    rig.see_wall(5_099);
    rig.at(150);
    assert_eq!(rig.lease(), None, "the wall clock has fallen behind");
    rig.see_wall(5_100);
    rig.at(151);
    assert_eq!(rig.drain(), [id(1)]);
    rig.at(200);
    assert_eq!(rig.drain(), [id(2)]);
}

#[test]
fn what_is_ready_stays_ready_when_the_wall_clock_goes_back() {
    let mut rig = Rig::new();
    rig.see_wall(100);
    rig.publish(by_wall(1, 100));
    rig.publish(by_wall(2, 101));
    rig.see_wall(50);
    rig.at(10);
    assert_eq!(rig.drain(), [id(1)]);
    rig.see_wall(101);
    rig.at(11);
    assert_eq!(rig.drain(), [id(2)]);
}

#[test]
fn from_its_first_lease_on_a_job_is_on_the_engine_clock() {
    let mut rig = Rig::new();
    rig.see_wall(1_000);
    rig.publish(by_wall(1, 1_000));
    let held = rig.take();
    rig.release(held, ReleaseTerms::counted(ms(50))).expect("it holds");
    rig.see_wall(0);
    rig.at(49);
    assert_eq!(rig.lease(), None);
    rig.at(50);
    assert_eq!(rig.lease().map(|leased| leased.run_at), Some(Timestamp(1_000)));
}

#[test]
fn a_first_attempt_that_is_taken_back_waits_by_the_wall_clock_again() {
    let mut rig = Rig::new();
    rig.see_wall(1_000);
    rig.publish(by_wall(1, 1_000));
    let held = rig.take();
    rig.release(held, ReleaseTerms::uncounted(ms(50))).expect("it holds");
    assert_eq!(rig.jobs.get(id(1)).map(|head| head.visible_at), Some(Timestamp(1_050)));
    rig.see_wall(1_050);
    rig.at(50);
    assert_eq!((rig.jobs.ready(QUEUE), rig.drain()), (1, vec![id(1)]));
}
