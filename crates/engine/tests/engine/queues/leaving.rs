//! Consumers that go away while they wait: their place is free at once.

use engine::queues::{ConsumeTerms, QueueName};

use crate::queues::rig::{Rig, SECOND, job, orders, want};

#[tokio::test]
async fn whoever_goes_away_leaves_its_place_to_others_at_once() {
    let rig = Rig::start().await;
    let other = QueueName::new("shop", "other").expect("a name");
    let wait = |queues: Vec<QueueName>| {
        let all = rig.queues();
        let want = ConsumeTerms { wait: 300 * SECOND, ..want(1) };
        tokio::spawn(async move {
            let (jobs, hand_over) = all.consume(&queues, want).await.expect("asked");
            hand_over.done();
            jobs.len()
        })
    };
    let gone: Vec<_> = (0..3).map(|_| wait(vec![orders()])).collect();
    let gone_of_two = wait(vec![orders(), other.clone()]);
    rig.until_waiting(5).await;
    let stays = wait(vec![orders()]);
    let stays_for_other = wait(vec![other.clone()]);
    rig.until_waiting(7).await;
    for waiter in gone {
        waiter.abort();
    }
    rig.until_waiting(4).await;
    gone_of_two.abort();
    rig.until_waiting(2).await;
    rig.publish(job("1")).await;
    rig.queues().publish(&other, vec![job("2")], None).await.expect("published");
    assert_eq!((stays.await.expect("ends"), stays_for_other.await.expect("ends")), (1, 1));
    rig.until_waiting(0).await;
}
