//! What is stored comes back: waiting jobs and leases outside as they were, our own leases cut off.

use base::Timestamp;
use jobs::{AckedJob, ConflictPolicy, LoadOutcome, NewJobHead, ReleaseOutcome, ReleaseTerms, Stale};
use records::{LeaseHolder, Process};

use crate::rig::{LONG, QUEUE, Rig, aliased, id, job, job_at, ms};

const OWN: LeaseHolder = LeaseHolder::Own(Process(1));
const NEXT: Process = Process(2);

#[test]
fn waiting_jobs_are_told_by_the_first_advance() {
    let mut rig = Rig::new();
    rig.publish(job_at(1, 10));
    rig.publish(job(2));
    assert_eq!(rig.restart(NEXT), [LoadOutcome::Kept, LoadOutcome::Kept]);
    assert_eq!((rig.lease(), rig.taken_wakes()), (None, vec![]));
    rig.at(5);
    assert_eq!(rig.taken_wakes(), [QUEUE]);
    assert_eq!(rig.drain(), [id(2)]);
    rig.at(10);
    assert_eq!(rig.drain(), [id(1)]);
}

#[test]
fn a_lease_outside_survives() {
    let mut rig = Rig::new();
    rig.publish(job(1));
    let held = rig.take();
    assert_eq!(rig.restart(NEXT), [LoadOutcome::Kept]);
    rig.at(5);
    assert_eq!(rig.lease(), None);
    assert_eq!(rig.ack(held), Ok(AckedJob { successor: None, next_run: None }));
}

#[test]
fn our_own_lease_is_cut_and_counts_but_not_as_the_last() {
    let mut rig = Rig::new();
    rig.publish(NewJobHead { tries: 1, ..job(1) });
    let held = rig.lease_as(OWN, LONG).expect("it is due").reservation;
    rig.now = Timestamp(5);
    let released = ReleaseOutcome::Waiting { until: Timestamp(5) };
    assert_eq!(rig.restart(NEXT), [LoadOutcome::Interrupted { job: id(1), attempt: 1, released }]);
    rig.at(5);
    assert_eq!(rig.ack(held), Err(Stale));
    let leased = rig.lease().expect("it is back at once");
    assert_eq!(leased.attempt, 2);
    assert_eq!(rig.release(leased.reservation, ReleaseTerms::counted(ms(0))), Ok(ReleaseOutcome::Dead));
}

#[test]
fn our_own_lease_holds_when_its_process_loads_again() {
    let mut rig = Rig::new();
    rig.publish(job(1));
    let held = rig.lease_as(OWN, LONG).expect("it is due").reservation;
    assert_eq!(rig.restart(Process(1)), [LoadOutcome::Kept]);
    assert!(rig.ack(held).is_ok());
}

#[test]
fn a_cut_run_makes_way_for_its_replacement_but_not_for_a_kept_successor() {
    let cases = [
        (ConflictPolicy::Replace, ReleaseOutcome::Superseded { successor: id(2) }, id(2)),
        (ConflictPolicy::Keep, ReleaseOutcome::Waiting { until: Timestamp(0) }, id(1)),
    ];
    for (on_conflict, released, first) in cases {
        let mut rig = Rig::new();
        rig.publish(aliased(1, on_conflict));
        rig.lease_as(OWN, LONG).expect("it is due");
        rig.publish(aliased(2, on_conflict));
        assert_eq!(rig.restart(NEXT), [LoadOutcome::Interrupted { job: id(1), attempt: 1, released }]);
        rig.at(0);
        assert_eq!((rig.taken_wakes(), rig.take().job), (vec![QUEUE], first));
    }
}

#[test]
fn what_a_successor_waits_for_survives() {
    for on_conflict in [ConflictPolicy::Keep, ConflictPolicy::Replace] {
        let mut rig = Rig::new();
        rig.publish(aliased(1, on_conflict));
        let held = rig.take();
        rig.publish(NewJobHead { tries: 9, ..aliased(2, on_conflict) });
        rig.restart(NEXT);
        let released = rig.release(held, ReleaseTerms::counted(ms(0))).expect("it holds");
        let superseded = matches!(released, ReleaseOutcome::Superseded { .. });
        assert_eq!(superseded, on_conflict == ConflictPolicy::Replace);
        assert_eq!(rig.jobs.get(id(2)).expect("it is known").tries, 9);
    }
}
