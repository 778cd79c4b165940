//! A consumer of several queues: the earlier ones first, and up to its `max` of all of them.

use engine::queues::{ConsumeTerms, QueueName};

use super::rig::{Rig, SECOND, job, later, text, want};

const NAMES: [&str; 4] = ["urgent", "empty", "mail", "slow"];

fn queues() -> Vec<QueueName> {
    NAMES.iter().map(|name| QueueName::new("shop", name).expect("a name")).collect()
}

impl Rig {
    async fn publish_to(&self, place: usize, payloads: &[&str]) {
        let jobs = payloads.iter().map(|text| job(text)).collect();
        self.queues().publish(&queues()[place], jobs, None).await.expect("published");
    }

    /// The place of each job's queue, and what it carries; they reach their consumer.
    async fn consume_all(&self, max: usize) -> Vec<(usize, String)> {
        let (jobs, hand_over) = self.queues().consume(&queues(), want(max)).await.expect("asked");
        hand_over.done();
        jobs.iter().map(|job| (job.queue, text(&job.payload))).collect()
    }
}

fn expected(jobs: &[(usize, &str)]) -> Vec<(usize, String)> {
    jobs.iter().map(|(queue, payload)| (*queue, (*payload).to_owned())).collect()
}

#[tokio::test]
async fn the_next_queue_fills_up_what_those_before_it_have_left() {
    let rig = Rig::start().await;
    rig.publish_to(3, &["7"]).await;
    rig.publish_to(2, &["4", "5", "6"]).await;
    rig.publish_to(0, &["1", "2", "3"]).await;
    assert_eq!(rig.consume_all(2).await, expected(&[(0, "1"), (0, "2")]));
    assert_eq!(rig.consume_all(3).await, expected(&[(0, "3"), (2, "4"), (2, "5")]));
    assert_eq!(rig.consume_all(10).await, expected(&[(2, "6"), (3, "7")]));
    assert_eq!(rig.consume_all(10).await, []);
}

#[tokio::test]
async fn whoever_waits_for_several_queues_is_filled_up_too() {
    let rig = Rig::start().await;
    // Due before the first job comes, and seen once its queue is asked.
    let due_meanwhile = vec![later("3", 50 * SECOND)];
    rig.queues().publish(&queues()[3], due_meanwhile, None).await.expect("published");
    let asking = rig.queues();
    let waiting = tokio::spawn(async move {
        let want = ConsumeTerms { wait: 60 * SECOND, ..want(5) };
        let (jobs, hand_over) = asking.consume(&queues(), want).await.expect("asked");
        hand_over.done();
        jobs.iter().map(|job| (job.queue, text(&job.payload))).collect::<Vec<_>>()
    });
    rig.until_waiting(NAMES.len() as u64).await;
    rig.pass(50 * SECOND);
    rig.publish_to(2, &["1", "2"]).await;
    assert_eq!(waiting.await.expect("ends"), expected(&[(2, "1"), (2, "2"), (3, "3")]));
}

#[tokio::test]
async fn what_does_not_reach_the_consumer_goes_back_to_each_queue() {
    let rig = Rig::start().await;
    rig.publish_to(0, &["1", "2"]).await;
    rig.publish_to(2, &["3"]).await;
    rig.publish_to(3, &["4"]).await;
    let (jobs, mut hand_over) = rig.queues().consume(&queues(), want(10)).await.expect("asked");
    assert_eq!(jobs.len(), 4);
    hand_over.split_first(3).done();
    drop(hand_over);
    assert_eq!(rig.consume_all(10).await, expected(&[(3, "4")]), "the rest is its consumer's");
}

#[tokio::test]
async fn large_jobs_end_an_answer_before_max() {
    let rig = Rig::start().await;
    let large = format!("\"{}\"", "x".repeat((1 << 20) - 2));
    for place in [0, 2] {
        for _ in 0..9 {
            rig.publish_to(place, &[&large]).await;
        }
    }
    let first = rig.consume_all(100).await;
    assert_eq!(first.iter().map(|(queue, _)| *queue).collect::<Vec<_>>(), [0; 8]);
    let second = rig.consume_all(100).await;
    let places: Vec<_> = second.iter().map(|(queue, _)| *queue).collect();
    assert_eq!(places, [[0].as_slice(), &[2; 8]].concat());
}
