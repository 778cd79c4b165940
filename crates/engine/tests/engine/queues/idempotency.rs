//! Calls and jobs that come again are answered with what the first made.

use std::time::Duration;

use engine::queues::{ConflictPolicy, IdempotencyKey, NewJob, QueueName};
use engine::records::{AnswerKey, QueueSettings};

use super::rig::{Rig, SECOND, job, orders};

#[tokio::test]
async fn the_newest_call_of_a_source_is_known_for_months() {
    const DAY: Duration = Duration::from_secs(24 * 3_600);
    let rig = Rig::start().await;
    let publish = async |key, body, source: u128| {
        let once = Some(IdempotencyKey { key: AnswerKey(key), body });
        let queues = rig.queues();
        queues
            .publish_from(&orders(), vec![job("1")], once, Some(AnswerKey(source)))
            .await
            .expect("published")
    };
    let before = publish(1, 6, 100).await;
    let newest = publish(2, 6, 100).await;
    let other = publish(2_000, 6, 200).await;
    rig.pass(80 * DAY);
    assert_eq!(publish(2, 6, 100).await, newest, "its key is forgotten, and its source is not");
    assert_eq!(publish(2_000, 6, 200).await, other);
    assert_ne!(publish(2, 7, 100).await, newest, "another body is another call");
    assert_ne!(publish(1, 6, 100).await, before, "only the newest is known");
    let newest = publish(3, 6, 100).await;
    rig.pass(90 * DAY);
    assert_ne!(publish(3, 6, 100).await, newest);
}

#[tokio::test]
async fn the_newest_call_of_a_source_is_known_after_a_restart() {
    let rig = Rig::start().await;
    let once = |key| Some(IdempotencyKey { key: AnswerKey(key), body: 6 });
    let source = Some(AnswerKey(100));
    rig.queues().publish_from(&orders(), vec![job("1")], once(1), source).await.expect("published");
    let newest =
        rig.queues().publish_from(&orders(), vec![job("2")], once(2), source).await.expect("published");
    rig.restart().await;
    rig.pass(30 * 24 * 3_600 * SECOND);
    let again =
        rig.queues().publish_from(&orders(), vec![job("2")], once(2), source).await.expect("repeated");
    assert_eq!((again, rig.counts().await), (newest, [0, 2, 0, 0]));
}

#[tokio::test]
async fn a_job_whose_key_is_known_is_not_published_again_in_whatever_call() {
    let rig = Rig::start().await;
    let keyed = |text: &str, key: &str| NewJob { idempotency_key: Some(key.into()), ..job(text) };
    let publish = async |jobs: Vec<NewJob>| {
        let published = rig.queues().publish(&orders(), jobs, None).await.expect("published");
        published.into_iter().map(|job| job.id).collect::<Vec<_>>()
    };
    let first = publish(vec![keyed("1", "a"), keyed("2", "b"), keyed("never", "a")]).await;
    assert_eq!((first[0], rig.payloads(9).await), (first[2], vec!["1".to_owned(), "2".to_owned()]));
    rig.restart().await;
    let again = publish(vec![job("3"), keyed("other", "b"), keyed("4", "c")]).await;
    assert_eq!((again[1], rig.payloads(9).await), (first[1], vec!["3".to_owned(), "4".to_owned()]));
    assert_eq!(publish(vec![keyed("1", "a")]).await, [first[0]], "of a call of its own");
    let elsewhere = QueueName::new("shop", "other").expect("a name");
    let there = rig.queues().publish(&elsewhere, vec![keyed("1", "a")], None).await.expect("published");
    assert_ne!(there[0].id, first[0], "a key belongs to its queue");
    rig.pass(24 * 3_600 * SECOND);
    assert_ne!(publish(vec![keyed("5", "a")]).await, [first[0]]);
    assert_eq!(rig.payloads(9).await, ["5"], "it was forgotten");
}

#[tokio::test]
async fn a_job_that_was_published_needs_no_room_and_no_alias_again() {
    let rig = Rig::start().await;
    let settings = QueueSettings { jobs_max: Some(1), ..QueueSettings::default() };
    rig.queues().set(&orders(), settings).await.expect("set");
    let named = |key: &str| NewJob {
        idempotency_key: Some(key.into()),
        alias: Some("x".into()),
        on_conflict: ConflictPolicy::Reject,
        ..job("1")
    };
    let first = rig.queues().publish(&orders(), vec![named("a")], None).await.expect("published");
    let again = rig.queues().publish(&orders(), vec![named("a"), named("a")], None).await.expect("known");
    assert_eq!(again, [first[0], first[0]]);
    let other = rig.queues().publish(&orders(), vec![named("a"), named("b")], None).await;
    let refused = other.expect_err("one is new");
    assert!(refused.code == "alias_taken" && refused.detail.contains("job 2"), "{refused}");
    // What is refused is not known.
    assert_eq!(rig.payloads(1).await, ["1"]);
    let key = NewJob { idempotency_key: Some("".into()), ..job("1") };
    let refused = rig.queues().publish(&orders(), vec![key], None).await.expect_err("no key");
    assert_eq!(refused.code, "invalid_name");
}
