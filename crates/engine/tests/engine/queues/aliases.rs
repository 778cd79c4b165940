//! Aliases: who holds one, what counts against a queue's limit, and what a job shows that waits for
//! another's end.

use base::Timestamp;
use engine::queues::{ConflictPolicy, DueTime, JobRef, JobState, NewJob};
use engine::records::{JobId, QueueOrder, QueueSettings};

use crate::queues::rig::{Rig, SECOND, job, orders, text};

fn named(alias: &str, payload: &str, on_conflict: ConflictPolicy) -> NewJob {
    NewJob { alias: Some(alias.into()), on_conflict, ..job(payload) }
}

async fn seen(rig: &Rig, job: JobId) -> (JobState, String) {
    let seen = rig.queues().job(&orders(), JobRef::Id(job)).await.expect("it is there");
    (seen.state, text(&seen.payload))
}

#[tokio::test]
async fn a_kept_job_whose_ttl_has_ended_is_kept_no_longer() {
    let rig = Rig::start().await;
    rig.publish(named("a", "1", ConflictPolicy::Keep)).await;
    rig.consume(1).await;
    let kept = |payload| NewJob { ttl: Some(2 * SECOND), ..named("a", payload, ConflictPolicy::Keep) };
    let second = rig.publish(kept("2")).await;
    rig.pass(SECOND);
    assert_eq!(rig.publish(kept("3")).await, second);
    rig.pass(SECOND);
    let found = rig.queues().job(&orders(), JobRef::Alias("a".into())).await.expect("the one before it");
    assert_eq!((found.state, text(&found.payload)), (JobState::Reserved, "1".to_owned()));
    let fourth = rig.publish(kept("4")).await;
    assert_ne!(fourth, second);
    assert_eq!(seen(&rig, fourth).await.1, "4");
    let gone = rig.queues().job(&orders(), JobRef::Id(second)).await;
    assert_eq!(gone.expect_err("it has expired").code, "unknown_job");
}

#[tokio::test]
async fn nor_is_one_that_many_others_expire_before() {
    let rig = Rig::start().await;
    for _ in 0..12 {
        let jobs = (0..1_000).map(|_| NewJob { ttl: Some(60 * SECOND), ..job("1") }).collect();
        rig.queues().publish(&orders(), jobs, None).await.expect("published");
    }
    let kept = || NewJob { ttl: Some(61 * SECOND), ..named("a", "2", ConflictPolicy::Keep) };
    let first = rig.publish(kept()).await;
    rig.pass(62 * SECOND);
    assert_ne!(rig.publish(kept()).await, first);
}

#[tokio::test]
async fn what_adds_no_job_needs_no_room() {
    let rig = Rig::start().await;
    let settings = QueueSettings { jobs_max: Some(2), ..QueueSettings::default() };
    rig.queues().set(&orders(), settings).await.expect("set");
    let publish = async |jobs: Vec<NewJob>| {
        let published = rig.queues().publish(&orders(), jobs, None).await;
        published.map(|jobs| jobs.len()).map_err(|refused| refused.code)
    };
    let both = [named("a", "1", ConflictPolicy::Reject), named("b", "2", ConflictPolicy::Reject)];
    assert_eq!(publish(both.into()).await, Ok(2));
    let again = [named("a", "3", ConflictPolicy::Keep), named("b", "4", ConflictPolicy::Replace)];
    assert_eq!(publish(again.into()).await, Ok(2), "both are there");
    let and_one = [named("a", "5", ConflictPolicy::Keep), job("6")];
    assert_eq!(publish(and_one.into()).await, Err("queue_full"));
    rig.consume(2).await;
    let successors = [named("a", "7", ConflictPolicy::Keep), named("b", "8", ConflictPolicy::Replace)];
    assert_eq!(publish(successors.into()).await, Ok(2));
    assert_eq!(rig.counts().await, [0, 0, 2, 0]);
    let fewer = QueueSettings { jobs_max: Some(1), ..QueueSettings::default() };
    rig.queues().set(&orders(), fewer).await.expect("set");
    assert_eq!(publish(vec![named("a", "9", ConflictPolicy::Replace)]).await, Ok(1));
    assert_eq!(publish(vec![named("c", "9", ConflictPolicy::Replace)]).await, Err("queue_full"));
}

#[tokio::test]
async fn a_job_that_waits_for_another_to_end_is_scheduled_whatever_its_time() {
    let rig = Rig::start().await;
    rig.publish(named("a", "1", ConflictPolicy::Reject)).await;
    let (_, held, _) = rig.consume(1).await.remove(0);
    let successor = rig.publish(named("a", "2", ConflictPolicy::Replace)).await;
    assert_eq!(seen(&rig, successor).await, (JobState::Scheduled, "2".to_owned()));
    let by_alias = rig.queues().job(&orders(), JobRef::Alias("a".into())).await.expect("it is meant");
    assert_eq!((by_alias.id, by_alias.state), (successor, JobState::Scheduled));
    rig.queues().ack(&orders(), vec![held]).await.expect("asked");
    assert_eq!(seen(&rig, successor).await.0, JobState::Ready);
}

#[tokio::test]
async fn nobody_waited_for_a_job_before_it_was_published() {
    let rig = Rig::start().await;
    rig.publish(NewJob { due: Some(DueTime::At(Timestamp(-1_000))), ..job("1") }).await;
    rig.pass(3 * SECOND);
    let oldest = async || rig.queues().stats(&orders()).await.expect("asked").oldest_ready;
    assert_eq!(oldest().await, Some(3 * SECOND));
    rig.publish(NewJob { due: Some(DueTime::At(Timestamp(-2_000))), ..job("2") }).await;
    assert_eq!(oldest().await, Some(3 * SECOND), "the other one waits still");
    let lifo = QueueSettings { order: QueueOrder::Lifo, ..QueueSettings::default() };
    rig.queues().set(&orders(), lifo).await.expect("set");
    rig.publish(job("3")).await;
    assert_eq!(oldest().await, Some(3 * SECOND), "whoever goes first");
}
