//! What is kept, and for how long: answers for repeats, dead letters, and what is left of deleted
//! queues.

use std::sync::Arc;
use std::time::Duration;

use base::{PartitionId, Timestamp};
use engine::queues::{Dead, IdempotencyKey, NewJob};
use engine::records::{AnswerKey, QueueSettings};
use store::Store;

use crate::queues::rig::{Rig, SECOND, job, later, orders, want};

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Waits until something is so, for as long as the partitions may need for it.
async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(10 * SECOND, waiting).await.expect("it becomes so");
}

fn views(store: &Arc<store::MemoryStore>) -> Vec<Box<dyn store::View>> {
    let ids = (0..store.partitions()).map(PartitionId::of_queues);
    ids.map(|id| store.view(id).expect("opens")).collect()
}

#[tokio::test]
async fn answers_that_are_a_day_old_are_forgotten_however_many_there_are() {
    let rig = Rig::start().await;
    for key in 0..1_500 {
        let once = Some(IdempotencyKey { key: AnswerKey(key), body: 0 });
        rig.queues().publish(&orders(), vec![later("1", 5 * DAY)], once).await.expect("published");
    }
    let kept = |store: &Arc<store::MemoryStore>| {
        let of = |view: Box<dyn store::View>| {
            view.answers_given(None, Timestamp::MAX, 10_000).expect("reads").len()
        };
        views(store).into_iter().map(of).sum::<usize>()
    };
    assert_eq!(kept(&rig.store), 1_500);
    rig.pass(DAY);
    assert_eq!(rig.counts().await, [1_500, 0, 0, 0]);
    until(|| kept(&rig.store) == 0).await;
}

#[tokio::test]
async fn a_deleted_queue_is_swept_to_its_end_though_nothing_else_happens() {
    let rig = Rig::start().await;
    rig.fail(3).await;
    let key = rig.queues().stats(&orders()).await.expect("asked").key.expect("it is there");
    rig.queues().delete(&orders()).await.expect("deleted");
    let dead = || {
        let of = |view: Box<dyn store::View>| view.dead(key, None, true, 10).expect("reads").len();
        views(&rig.store).into_iter().map(of).sum::<usize>()
    };
    until(|| dead() == 0).await;
}

#[tokio::test]
async fn fewer_dead_letters_are_kept_as_soon_as_fewer_may_be() {
    let rig = Rig::start().await;
    rig.fail(5).await;
    let settings = QueueSettings { dead_max: Some(2), ..QueueSettings::default() };
    rig.queues().set(&orders(), settings).await.expect("set");
    assert_eq!(rig.counts().await, [0, 0, 0, 2]);
    let left = rig.queues().dead(&orders(), None, 10).await.expect("asked");
    assert_eq!(left.len(), 2);
    rig.fail(1).await;
    assert_eq!(rig.counts().await, [0, 0, 0, 2]);
}

#[tokio::test]
async fn dead_letters_go_when_they_are_too_old() {
    let rig = Rig::start().await;
    let hour = 3_600 * SECOND;
    let settings = QueueSettings { dead_max_age_ms: Some(3_600_000), ..QueueSettings::default() };
    rig.queues().set(&orders(), settings).await.expect("set");
    rig.fail(1).await;
    rig.pass(hour / 2);
    rig.queues().delete_dead(&orders(), None).await.expect("deleted");
    rig.fail(1).await;
    rig.pass(hour / 4);
    rig.fail(1).await;
    rig.pass(hour / 4);
    assert_eq!(rig.counts().await, [0, 0, 0, 2]);
    rig.pass(hour / 2);
    assert_eq!(rig.counts().await, [0, 0, 0, 1], "whoever asks finds none that is too old");
    rig.restart().await;
    rig.pass(hour / 4);
    assert_eq!(rig.queues().respawn(&orders(), Dead::Oldest(9), None).await.expect("asked"), 0);
    assert_eq!(rig.counts().await, [0; 4]);
}

#[tokio::test]
async fn a_queue_that_is_deleted_while_consumers_wait_serves_them_when_it_comes_again() {
    let rig = Rig::start().await;
    rig.publish(later("1", DAY)).await;
    let queues = rig.queues();
    let waiting = tokio::spawn(async move {
        let want = engine::queues::ConsumeTerms { wait: 60 * SECOND, ..want(1) };
        let (jobs, hand_over) = queues.consume(&[orders()], want).await.expect("asked");
        hand_over.done();
        jobs.len()
    });
    tokio::task::yield_now().await;
    rig.queues().delete(&orders()).await.expect("deleted");
    rig.publish(NewJob { tries: 2, ..job("2") }).await;
    assert_eq!(waiting.await.expect("ends"), 1);
}

#[tokio::test]
async fn as_many_dead_jobs_are_tried_again_as_their_queue_has_room_for() {
    let rig = Rig::start().await;
    rig.fail(4).await;
    rig.queues()
        .set(&orders(), QueueSettings { jobs_max: Some(2), ..QueueSettings::default() })
        .await
        .expect("set");
    let respawn = async |which| {
        let respawned = rig.queues().respawn(&orders(), which, None).await;
        respawned.map_err(|refused| refused.code)
    };
    let ids: Vec<_> = rig.queues().dead(&orders(), None, 9).await.expect("asked");
    let ids: Vec<_> = ids.iter().map(|view| view.dead.id).collect();
    assert_eq!(respawn(Dead::Oldest(1)).await, Ok(1));
    assert_eq!(respawn(Dead::Ids(vec![ids[3], ids[1], ids[2]])).await, Ok(1), "those named first");
    assert_eq!(rig.counts().await, [0, 2, 0, 2]);
    assert_eq!(respawn(Dead::Oldest(9)).await, Err("queue_full"));
    assert_eq!(respawn(Dead::Ids(vec![ids[0]])).await, Ok(0), "it is not dead");
    assert_eq!(rig.payloads(2).await, ["0", "3"]);
    assert_eq!(respawn(Dead::Oldest(9)).await, Err("queue_full"), "reserved ones count");
    rig.pass(60 * SECOND);
    assert_eq!((rig.counts().await, respawn(Dead::Oldest(9)).await), ([0, 0, 0, 4], Ok(2)));
}
