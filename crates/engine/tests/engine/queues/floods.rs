//! Much at once: no input, answer or queue is forgotten because a step is full.

use std::time::Duration;

use crate::queues::rig::{Rig, SECOND, later, orders, want};

#[tokio::test]
async fn a_call_is_answered_in_the_step_in_which_a_flood_comes_due() {
    let rig = Rig::start().await;
    for _ in 0..12 {
        let jobs = (0..1_000).map(|n| later("1", 60 * SECOND + Duration::from_millis(n))).collect();
        rig.queues().publish(&orders(), jobs, None).await.expect("published");
    }
    rig.pass(62 * SECOND);
    let (jobs, hand_over) = rig.queues().consume(&[orders()], want(1)).await.expect("asked");
    hand_over.done();
    assert_eq!(jobs.len(), 1);
}
