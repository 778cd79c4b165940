//! Dropping what is ready of a queue, and nothing else.

use engine::queues::{ConsumeTerms, NewJob, RecurrenceTerms};
use records::{QueueOrder, QueueSettings};

use super::records;
use super::rig::{Rig, SECOND, job, later, orders, text, want};

/// More than a step drops, and than may be resident.
const MANY: usize = 2_500;

impl Rig {
    async fn publish_ready(&self, count: usize) {
        for jobs in (0..count).collect::<Vec<_>>().chunks(1_000) {
            let jobs = jobs.iter().map(|n| NewJob { group: group_of(*n), ..job(&n.to_string()) }).collect();
            self.queues().publish(&orders(), jobs, None).await.expect("published");
        }
    }
}

/// Every tenth job is one of a group.
fn group_of(n: usize) -> Option<compact_str::CompactString> {
    n.is_multiple_of(10).then(|| format!("g{}", n % 7).into())
}

#[tokio::test]
async fn what_waits_what_is_reserved_and_what_is_dead_stays() {
    let rig = Rig::start().await;
    let settings = QueueSettings { order: QueueOrder::Lifo, ..QueueSettings::default() };
    rig.queues().set(&orders(), settings).await.expect("set");
    rig.fail(1).await;
    rig.publish(NewJob { tries: 2, ..job("\"reserved\"") }).await;
    let (_, held, _) = rig.consume(1).await.remove(0);
    rig.publish(later("\"later\"", 5 * SECOND)).await;
    rig.publish_ready(20).await;
    assert_eq!(rig.counts().await, [1, 20, 1, 1]);
    assert_eq!(rig.queues().drop_ready(&orders()).await, Ok(20));
    assert_eq!(rig.counts().await, [1, 0, 1, 1]);
    rig.restart().await;
    assert_eq!(rig.counts().await, [1, 0, 1, 1]);
    let stats = rig.queues().stats(&orders()).await.expect("asked");
    assert_eq!(stats.settings, settings);
    rig.queues()
        .release(&orders(), held, engine::queues::JobRelease::default())
        .await
        .expect("it still holds");
    rig.pass(5 * SECOND);
    assert_eq!(rig.payloads(10).await, ["\"later\"", "\"reserved\""]);
}

#[tokio::test]
async fn many_are_dropped_and_what_comes_after_the_call_stays() {
    let rig = Rig::start().await;
    rig.publish_ready(MANY).await;
    let (queues, name) = (rig.queues(), orders());
    let (dropped, published) =
        tokio::join!(queues.drop_ready(&name), queues.publish(&name, vec![job("\"after\"")], None));
    assert_eq!(dropped, Ok(MANY as u64));
    published.expect("published");
    assert_eq!(rig.counts().await, [0, 1, 0, 0]);
    assert_eq!(rig.payloads(10).await, ["\"after\""]);
    rig.restart().await;
    assert_eq!(rig.counts().await, [0, 0, 1, 0]);
}

#[tokio::test]
async fn calls_that_come_together_are_all_answered() {
    let rig = Rig::start().await;
    rig.publish_ready(MANY).await;
    let (queues, name) = (rig.queues(), orders());
    let (first, published, second, third) = tokio::join!(
        queues.drop_ready(&name),
        queues.publish(&name, vec![job("1"), later("2", SECOND)], None),
        queues.drop_ready(&name),
        queues.drop_ready(&name),
    );
    published.expect("published");
    for dropped in [first, second, third] {
        dropped.expect("dropped");
    }
    assert_eq!(rig.counts().await, [1, 0, 0, 0], "the second call came after the job");
}

#[tokio::test]
async fn a_queue_that_is_not_there_or_goes_meanwhile_has_nothing_to_drop() {
    let rig = Rig::start().await;
    assert_eq!(rig.queues().drop_ready(&orders()).await, Ok(0));
    rig.publish_ready(MANY).await;
    let (queues, name) = (rig.queues(), orders());
    let (dropped, deleted) = tokio::join!(queues.drop_ready(&name), queues.delete(&name));
    dropped.expect("dropped");
    deleted.expect("deleted");
    assert_eq!(rig.counts().await, [0; 4]);
}

#[tokio::test]
async fn a_schedule_ends_with_its_ready_run() {
    let rig = Rig::start().await;
    let recurs = |seconds| Some(RecurrenceTerms::Every { interval: seconds * SECOND, executions: None });
    rig.publish(NewJob { recurs: recurs(1), ..job("1") }).await;
    rig.publish(NewJob { recurs: recurs(60), ..job("2") }).await;
    rig.pass(SECOND);
    rig.queues().drop_ready(&orders()).await.expect("dropped");
    assert_eq!(rig.counts().await, [1, 0, 0, 0]);
    rig.pass(60 * SECOND);
    assert_eq!(rig.payloads(5).await, ["2"]);
}

#[tokio::test]
async fn whoever_waits_is_given_what_comes_after_it() {
    let rig = Rig::start().await;
    rig.queues().pause(&orders(), true).await.expect("paused");
    rig.publish_ready(20).await;
    let queues = rig.queues();
    let waiting = tokio::spawn(async move {
        let want = ConsumeTerms { wait: 60 * SECOND, ..want(5) };
        let (jobs, hand_over) = queues.consume(&[orders()], want).await.expect("asked");
        hand_over.done();
        jobs.iter().map(|job| text(&job.payload)).collect::<Vec<_>>()
    });
    rig.until_waiting(1).await;
    rig.queues().drop_ready(&orders()).await.expect("dropped");
    rig.queues().pause(&orders(), false).await.expect("goes on");
    rig.publish(job("\"after\"")).await;
    assert_eq!(waiting.await.expect("ends"), ["\"after\""]);
}
