//! Jobs that are worth making until a time only.

use base::Timestamp;
use jobs::{ConflictPolicy, NewJobHead, PublishOutcome, ReleaseOutcome, ReleaseTerms};
use records::{JobTerms, LeaseHolder, Recurrence, RecurrenceRule};

use crate::rig::{LONG, QUEUE, Rig, aliased, id, job, ms};

fn expiring(number: u8, at: i64) -> NewJobHead {
    NewJobHead { terms: JobTerms { expires_at: Some(Timestamp(at)), ..JobTerms::default() }, ..job(number) }
}

#[test]
fn a_waiting_job_expires_unseen_and_its_alias_is_free() {
    let mut rig = Rig::new();
    rig.publish(NewJobHead { terms: expiring(1, 10).terms, ..aliased(1, ConflictPolicy::Reject) });
    assert_eq!(rig.jobs.next_wakeup(), Some(Timestamp(10)));
    rig.at(9);
    assert_eq!((rig.jobs.ready(QUEUE), rig.expired.len()), (1, 0));
    rig.at(10);
    assert_eq!((rig.jobs.ready(QUEUE), rig.expired.split_off(0)), (0, vec![(id(1), None)]));
    assert!(rig.deleted.contains(&id(1)));
    assert_eq!(rig.publish(aliased(2, ConflictPolicy::Reject)), PublishOutcome::New);
    assert_eq!(rig.jobs.next_wakeup(), None);
}

#[test]
fn nobody_is_given_what_has_expired_though_time_was_not_moved_on_yet() {
    let mut rig = Rig::new();
    rig.publish(expiring(1, 10));
    rig.publish(job(2));
    rig.now = Timestamp(10);
    assert_eq!(rig.take().job, id(2));
    assert_eq!(rig.lease(), None);
    rig.at(10);
    assert_eq!(rig.expired, [(id(1), None)]);
}

#[test]
fn a_run_may_outlast_its_time_but_is_not_repeated() {
    let ends: [fn(&mut Rig, records::Reservation); 3] = [
        |rig, held| assert!(rig.ack(held).is_ok()),
        |rig, held| assert_eq!(rig.release(held, ReleaseTerms::counted(ms(0))), Ok(ReleaseOutcome::Expired)),
        |rig, _| drop(rig.at(30)),
    ];
    for end in ends {
        let mut rig = Rig::new();
        rig.publish(expiring(1, 10));
        let held = rig.lease_as(LeaseHolder::Outside, ms(30)).expect("it is due").reservation;
        assert!(rig.at(20).is_empty());
        assert!(rig.jobs.held(rig.now, held).is_some(), "its worker goes on");
        end(&mut rig, held);
        assert_eq!((rig.jobs.get(id(1)), rig.deleted.contains(&id(1))), (None, true));
        assert_eq!(rig.expired, [], "it did not expire waiting");
    }
}

#[test]
fn a_lease_that_runs_out_after_the_end_is_told_as_expired() {
    let mut rig = Rig::new();
    rig.publish(NewJobHead { tries: 1, ..expiring(1, 10) });
    rig.lease_as(LeaseHolder::Outside, ms(30)).expect("it is due");
    let released: Vec<_> = rig.at(30).iter().map(|lapsed| lapsed.released).collect();
    assert_eq!(released, [ReleaseOutcome::Expired], "it is not dead, though it was its last try");
    assert!(rig.dead.is_empty());
}

#[test]
fn a_job_given_back_waits_until_it_expires() {
    let mut rig = Rig::new();
    rig.publish(expiring(1, 50));
    let held = rig.take();
    rig.release(held, ReleaseTerms::counted(ms(100))).expect("it holds");
    rig.at(50);
    assert_eq!(rig.expired, [(id(1), None)]);
}

#[test]
fn a_successor_starts_when_its_predecessor_expires() {
    let mut rig = Rig::new();
    rig.publish(NewJobHead { terms: expiring(1, 50).terms, ..aliased(1, ConflictPolicy::Keep) });
    let held = rig.take();
    rig.publish(aliased(2, ConflictPolicy::Keep));
    rig.release(held, ReleaseTerms::counted(ms(500))).expect("it holds");
    rig.at(50);
    assert_eq!((rig.expired.split_off(0), rig.take().job), (vec![(id(1), None)], id(2)));
}

#[test]
fn who_publishes_under_an_alias_need_not_wait_until_its_expired_holder_is_noticed() {
    let expiring =
        |number, at| NewJobHead { terms: expiring(1, at).terms, ..aliased(number, ConflictPolicy::Keep) };
    let mut rig = Rig::new();
    rig.publish(expiring(1, 50));
    rig.now = Timestamp(49);
    assert_eq!((rig.expire_holder(), rig.publish(expiring(2, 60))), (None, PublishOutcome::Kept(id(1))));
    rig.now = Timestamp(50);
    assert_eq!((rig.expire_holder(), rig.expire_holder()), (Some(id(1)), None));
    assert_eq!(rig.publish(expiring(3, 60)), PublishOutcome::New);
    assert!(rig.deleted.contains(&id(1)));
}

#[test]
fn nor_until_an_expired_successor_is() {
    let with = |number, at, recurrence| NewJobHead {
        terms: JobTerms { recurrence, ..expiring(1, at).terms },
        ..aliased(number, ConflictPolicy::Keep)
    };
    let mut rig = Rig::new();
    rig.publish(aliased(1, ConflictPolicy::Keep));
    let held = rig.take();
    rig.publish(with(2, 50, None));
    rig.now = Timestamp(50);
    assert_eq!((rig.expire_holder(), rig.jobs.get(id(2))), (Some(id(2)), None));
    let again = |left| Some(Recurrence { rule: RecurrenceRule::Every(100), left, run: 1, ttl_ms: Some(10) });
    assert_eq!(rig.publish(with(3, 60, again(Some(1)))), PublishOutcome::Succeeds { replaced: None });
    rig.now = Timestamp(60);
    assert_eq!(rig.expire_holder(), Some(id(3)), "it was its last run");
    rig.publish(with(4, 70, again(None)));
    rig.now = Timestamp(70);
    assert_eq!((rig.expire_holder(), rig.publish(with(5, 90, None))), (None, PublishOutcome::Kept(id(4))));
    assert!(rig.ack(held).is_ok_and(|acked| acked.successor == Some(id(4))));
}

#[test]
fn a_restart_forgets_no_expiry() {
    let mut rig = Rig::new();
    rig.publish(expiring(1, 50));
    rig.publish(expiring(2, 20));
    rig.lease_as(LeaseHolder::Own(rig.process), LONG).expect("one is due");
    rig.now = Timestamp(30);
    rig.restart(records::Process(2));
    rig.at(30);
    rig.at(50);
    let mut expired: Vec<_> = rig.expired.iter().map(|(job, _)| *job).collect();
    expired.sort_unstable();
    assert_eq!(expired, [id(1), id(2)]);
}
