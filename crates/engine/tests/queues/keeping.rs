//! What is kept, and for how long: answers for repeats, dead letters, and what is left of deleted queues.

use std::sync::Arc;
use std::time::Duration;

use base::{PartitionId, Timestamp};
use engine::queues::{NewJob, Once, Retry};
use engine::records::{AnswerKey, QueueSettings};
use store::Store;

use crate::rig::{Rig, SECOND, job, later, orders, want};

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

async fn fail(rig: &Rig, count: usize) {
    let jobs = (0..count).map(|n| job(&n.to_string())).collect();
    rig.queues().publish(&orders(), jobs, None).await.expect("published");
    for (_, held, _) in rig.consume(count).await {
        rig.queues().release(&orders(), held, Retry::default()).await.expect("it holds");
    }
}

#[tokio::test]
async fn answers_that_are_a_day_old_are_forgotten_however_many_there_are() {
    let rig = Rig::start().await;
    for key in 0..1_500 {
        let once = Some(Once { key: AnswerKey(key), body: 0 });
        rig.queues().publish(&orders(), vec![later("1", 5 * DAY)], once).await.expect("published");
    }
    let kept = |store: &Arc<store::MemoryStore>| {
        let of =
            |view: Box<dyn store::View>| view.answers_before(Timestamp::MAX, 10_000).expect("reads").len();
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
    fail(&rig, 3).await;
    let key = rig.queues().figures(&orders()).await.expect("asked").key.expect("it is there");
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
    fail(&rig, 5).await;
    let settings = QueueSettings { dead_max: Some(2), ..QueueSettings::default() };
    rig.queues().set(&orders(), settings).await.expect("set");
    assert_eq!(rig.counts().await, [0, 0, 0, 2]);
    let left = rig.queues().dead(&orders(), None, 10).await.expect("asked");
    assert_eq!(left.len(), 2);
    fail(&rig, 1).await;
    assert_eq!(rig.counts().await, [0, 0, 0, 2]);
}

#[tokio::test]
async fn dead_letters_go_when_they_are_too_old() {
    let rig = Rig::start().await;
    let hour = 3_600 * SECOND;
    let settings = QueueSettings { dead_max_age_ms: Some(3_600_000), ..QueueSettings::default() };
    rig.queues().set(&orders(), settings).await.expect("set");
    fail(&rig, 1).await;
    rig.pass(hour / 2);
    rig.queues().delete_dead(&orders(), None).await.expect("deleted");
    fail(&rig, 1).await;
    rig.pass(hour / 4);
    fail(&rig, 1).await;
    rig.pass(hour / 4);
    assert_eq!(rig.counts().await, [0, 0, 0, 2]);
    rig.pass(hour / 2);
    // They go at the end of a step.
    rig.counts().await;
    assert_eq!(rig.counts().await, [0, 0, 0, 1]);
    rig.restart().await;
    rig.pass(hour / 4);
    rig.counts().await;
    assert_eq!(rig.counts().await, [0; 4]);
}

#[tokio::test]
async fn a_queue_that_is_deleted_while_consumers_wait_serves_them_when_it_comes_again() {
    let rig = Rig::start().await;
    rig.publish(later("1", DAY)).await;
    let queues = rig.queues();
    let waiting = tokio::spawn(async move {
        let want = engine::queues::Want { wait: 60 * SECOND, ..want(1) };
        let (jobs, hand_over) = queues.consume(&[orders()], want).await.expect("asked");
        hand_over.done();
        jobs.len()
    });
    tokio::task::yield_now().await;
    rig.queues().delete(&orders()).await.expect("deleted");
    rig.publish(NewJob { tries: 2, ..job("2") }).await;
    assert_eq!(waiting.await.expect("ends"), 1);
}
