//! Aliases: rejected, kept, replaced; and successors.

use base::Timestamp;
use jobs::{AckedJob, NewJobHead, PublishOutcome, ReleaseOutcome, ReleaseTerms, RescheduleError, Stale};
use records::{AliasKey, LeaseHolder, QueueKey};

use crate::rig::{ALIAS, QUEUE, Rig, aliased, id, job, ms};
use jobs::ConflictPolicy::{Keep, Reject, Replace};

fn meant(rig: &Rig) -> Option<u8> {
    rig.jobs.by_alias(QUEUE, ALIAS).map(|head| head.id.0[0])
}

#[test]
fn an_alias_is_unique_within_its_queue() {
    let mut rig = Rig::new();
    assert_eq!(rig.publish(aliased(1, Reject)), PublishOutcome::New);
    assert_eq!(rig.publish(aliased(2, Reject)), PublishOutcome::Conflict(id(1)));
    let elsewhere = NewJobHead { queue: QueueKey(8), ..aliased(3, Reject) };
    assert_eq!(rig.publish(elsewhere), PublishOutcome::New);
    let other = NewJobHead { alias: Some(AliasKey(1)), ..aliased(4, Reject) };
    assert_eq!(rig.publish(other), PublishOutcome::New);
    assert_eq!(rig.jobs.numbers().next_job, 3, "a refused job takes no number");
}

#[test]
fn an_alias_is_free_when_its_job_is_done_dead_or_cancelled() {
    let ends: [fn(&mut Rig); 3] = [
        |rig| {
            let held = rig.take();
            rig.ack(held).expect("it holds");
        },
        |rig| {
            let held = rig.take();
            assert_eq!(rig.release(held, ReleaseTerms::counted(ms(0))), Ok(ReleaseOutcome::Dead));
        },
        |rig| assert!(rig.cancel(id(1)).is_some()),
    ];
    for end in ends {
        let mut rig = Rig::new();
        rig.publish(NewJobHead { tries: 1, ..aliased(1, Reject) });
        assert_eq!(meant(&rig), Some(1));
        end(&mut rig);
        assert_eq!(meant(&rig), None);
        assert_eq!(rig.publish(aliased(2, Reject)), PublishOutcome::New);
    }
}

#[test]
fn a_released_job_still_holds_its_alias() {
    let mut rig = Rig::new();
    rig.publish(aliased(1, Reject));
    let held = rig.take();
    rig.release(held, ReleaseTerms::counted(ms(10))).expect("it holds");
    assert_eq!(rig.publish(aliased(2, Reject)), PublishOutcome::Conflict(id(1)));
}

#[test]
fn replacing_a_waiting_job_keeps_its_id_and_starts_it_anew() {
    let mut rig = Rig::new();
    rig.publish(NewJobHead { run_at: Timestamp(5), ..aliased(1, Replace) });
    rig.at(5);
    let held = rig.take();
    rig.release(held, ReleaseTerms::counted(ms(1_000))).expect("it holds");
    rig.publish(NewJobHead { run_at: Timestamp(20), ..job(2) });
    let newer = NewJobHead { run_at: Timestamp(20), tries: 9, ..aliased(3, Replace) };
    assert_eq!(rig.publish(newer), PublishOutcome::Replaced { job: id(1), dropped: None });
    assert_eq!(rig.jobs.get(id(3)), None);
    rig.at(20);
    assert_eq!(rig.take().job, id(2), "the replaced one has lost its place in line");
    let leased = rig.lease().expect("it is due");
    assert_eq!((leased.reservation.job, leased.attempt, leased.tries), (id(1), 1, 9));
    assert_eq!(leased.run_at, Timestamp(20));
}

#[test]
fn replacing_a_ready_job_with_a_later_one_takes_it_back() {
    let mut rig = Rig::new();
    rig.publish(aliased(1, Replace));
    rig.taken_wakes();
    rig.publish(NewJobHead { run_at: Timestamp(20), ..aliased(2, Replace) });
    assert_eq!((rig.lease(), rig.taken_wakes()), (None, vec![]));
    rig.at(20);
    assert_eq!((rig.taken_wakes(), rig.take().job), (vec![QUEUE], id(1)));
}

#[test]
fn the_newest_replacement_succeeds_a_reserved_job() {
    let mut rig = Rig::new();
    rig.publish(aliased(1, Replace));
    let held = rig.take();
    assert_eq!(rig.publish(aliased(2, Replace)), PublishOutcome::Succeeds { replaced: None });
    assert_eq!(rig.publish(aliased(3, Replace)), PublishOutcome::Succeeds { replaced: Some(id(2)) });
    assert!(rig.deleted.contains(&id(2)), "its body must go");
    assert_eq!(meant(&rig), Some(3));
    assert_eq!(rig.publish(aliased(4, Reject)), PublishOutcome::Conflict(id(3)));
    assert_eq!(rig.publish(aliased(4, Keep)), PublishOutcome::Kept(id(3)));
    assert_eq!(rig.lease(), None, "it does not start beside the reserved one");
    rig.taken_wakes();
    assert_eq!(rig.ack(held), Ok(AckedJob { successor: Some(id(3)), next_run: None }));
    assert_eq!(rig.taken_wakes(), [QUEUE]);
    assert_eq!((rig.take().job, meant(&rig)), (id(3), Some(3)));
}

#[test]
fn a_replaced_run_ends_as_superseded_in_whatever_way_it_fails() {
    let superseded = ReleaseOutcome::Superseded { successor: id(2) };
    for (tries, retry) in [
        (3, ReleaseTerms::counted(ms(500))),
        (1, ReleaseTerms::counted(ms(500))),
        (3, ReleaseTerms::uncounted(ms(500))),
        (3, ReleaseTerms::interrupted(ms(500))),
    ] {
        let mut rig = Rig::new();
        rig.publish(NewJobHead { tries, ..aliased(1, Replace) });
        let held = rig.take();
        rig.publish(aliased(2, Replace));
        assert_eq!(rig.release(held, retry), Ok(superseded), "{retry:?} of {tries}");
        assert_eq!((rig.jobs.get(id(1)), rig.take().job), (None, id(2)));
    }
    let mut rig = Rig::new();
    rig.publish(aliased(1, Replace));
    rig.lease_as(LeaseHolder::Outside, ms(10)).expect("it is due");
    rig.publish(aliased(2, Replace));
    let lapsed: Vec<_> = rig.at(10).iter().map(|lapse| lapse.released).collect();
    assert_eq!(lapsed, [superseded]);
    assert_eq!(rig.take().job, id(2));
}

#[test]
fn a_successor_starts_no_earlier_than_its_own_time() {
    let mut rig = Rig::new();
    rig.publish(aliased(1, Replace));
    let held = rig.take();
    rig.publish(NewJobHead { run_at: Timestamp(40), ..aliased(2, Replace) });
    rig.at(30);
    rig.ack(held).expect("it holds");
    assert_eq!(rig.lease(), None);
    rig.at(40);
    assert_eq!(rig.take().job, id(2));
}

#[test]
fn a_successor_takes_its_place_from_the_end_it_waited_for() {
    let mut rig = Rig::new();
    rig.publish(aliased(1, Replace));
    let held = rig.take();
    rig.publish(aliased(2, Replace));
    rig.at(30);
    rig.publish(NewJobHead { run_at: Timestamp(25), ..job(3) });
    rig.ack(held).expect("it holds");
    let head = rig.jobs.get(id(2)).expect("it has started");
    assert_eq!((head.run_at, head.visible_at), (Timestamp(0), Timestamp(30)));
    assert_eq!(rig.drain(), [id(3), id(2)]);
}

#[test]
fn keep_answers_what_waits_and_stores_one_successor_behind_what_runs() {
    let mut rig = Rig::new();
    rig.publish(aliased(1, Keep));
    assert_eq!(rig.publish(aliased(2, Keep)), PublishOutcome::Kept(id(1)));
    let held = rig.take();
    assert_eq!(rig.publish(aliased(3, Keep)), PublishOutcome::Succeeds { replaced: None });
    assert_eq!(rig.publish(aliased(4, Keep)), PublishOutcome::Kept(id(3)));
    assert_eq!(rig.ack(held), Ok(AckedJob { successor: Some(id(3)), next_run: None }));
    assert_eq!(rig.drain(), [id(3)]);
}

#[test]
fn a_kept_successor_lets_retries_come_first() {
    let mut rig = Rig::new();
    rig.publish(NewJobHead { tries: 2, ..aliased(1, Keep) });
    let held = rig.take();
    rig.publish(aliased(2, Keep));
    assert_eq!(rig.publish(aliased(3, Keep)), PublishOutcome::Kept(id(2)));
    rig.release(held, ReleaseTerms::counted(ms(0))).expect("it holds");
    let retried = rig.take();
    assert_eq!(retried.job, id(1));
    assert_eq!(rig.publish(aliased(3, Keep)), PublishOutcome::Kept(id(2)));
    assert_eq!(rig.lease(), None);
    assert_eq!(rig.release(retried, ReleaseTerms::counted(ms(0))), Ok(ReleaseOutcome::Dead));
    assert_eq!(rig.drain(), [id(2)]);
}

#[test]
fn keep_answers_a_job_that_waits_again_and_not_its_successor() {
    for delay in [ms(0), ms(500)] {
        let mut rig = Rig::new();
        rig.publish(NewJobHead { tries: 3, ..aliased(1, Keep) });
        let held = rig.take();
        assert_eq!(rig.publish(aliased(2, Keep)), PublishOutcome::Succeeds { replaced: None });
        rig.release(held, ReleaseTerms::counted(delay)).expect("it holds");
        assert_eq!(rig.publish(aliased(3, Keep)), PublishOutcome::Kept(id(1)), "{delay:?}");
        assert_eq!(rig.publish(aliased(3, Reject)), PublishOutcome::Conflict(id(2)));
        assert_eq!((rig.jobs.get(id(3)), meant(&rig)), (None, Some(2)));
        rig.at(500);
        assert_eq!(rig.drain(), [id(1), id(2)]);
    }
}

#[test]
fn a_replacement_takes_the_place_of_a_kept_successor() {
    let mut rig = Rig::new();
    rig.publish(aliased(1, Keep));
    let held = rig.take();
    rig.publish(aliased(2, Keep));
    assert_eq!(rig.publish(aliased(3, Replace)), PublishOutcome::Succeeds { replaced: Some(id(2)) });
    let released = rig.release(held, ReleaseTerms::counted(ms(0)));
    assert_eq!(released, Ok(ReleaseOutcome::Superseded { successor: id(3) }));
}

#[test]
fn a_replacement_of_a_waiting_job_drops_its_kept_successor() {
    let mut rig = Rig::new();
    rig.publish(aliased(1, Keep));
    let held = rig.take();
    rig.publish(aliased(2, Keep));
    rig.release(held, ReleaseTerms::counted(ms(500))).expect("it holds");
    let published = rig.publish(aliased(3, Replace));
    assert_eq!(published, PublishOutcome::Replaced { job: id(1), dropped: Some(id(2)) });
    assert!(rig.deleted.contains(&id(2)));
    assert_eq!(rig.drain(), [id(1)]);
    assert_eq!(meant(&rig), None);
}

#[test]
fn a_successor_can_be_seen_moved_and_cancelled() {
    let mut rig = Rig::new();
    rig.publish(aliased(1, Replace));
    let held = rig.take();
    rig.publish(NewJobHead { run_at: Timestamp(5), ..aliased(2, Replace) });
    assert_eq!(rig.jobs.get(id(2)).expect("it is known").run_at, Timestamp(5));
    assert_eq!(rig.reschedule(id(2), 50), Ok(()));
    assert_eq!(rig.reschedule(id(1), 50), Err(RescheduleError::Reserved));
    assert_eq!(rig.cancel(id(2)).expect("it is known").run_at, Timestamp(50));
    assert_eq!((rig.jobs.get(id(2)), meant(&rig)), (None, Some(1)));
    assert!(rig.deleted.contains(&id(2)));
    assert_eq!(rig.ack(held), Ok(AckedJob { successor: None, next_run: None }));
}

#[test]
fn cancelling_a_reserved_job_starts_its_successor() {
    for on_conflict in [Keep, Replace] {
        let mut rig = Rig::new();
        rig.publish(aliased(1, on_conflict));
        let held = rig.take();
        rig.publish(aliased(2, on_conflict));
        assert!(rig.cancel(id(1)).is_some());
        assert_eq!((rig.ack(held), rig.take().job), (Err(Stale), id(2)));
    }
}
