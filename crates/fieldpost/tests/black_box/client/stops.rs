//! Workers that end while jobs come: nothing is taken that nobody works on.

use std::time::Duration;

use fieldpost_client::{NewJob, WorkerEvent};

use tokio::time::timeout;

use crate::client::rig::{PATIENCE, Rig, Running, counts};

const ROUNDS: u32 = 40;

/// Each job has one try, and no reservation ends during the test: one that was taken and not worked
/// on would be missed.
#[tokio::test]
async fn a_job_that_comes_while_a_worker_stops_is_done_or_was_never_taken() {
    let rig = Rig::start().await;
    let queue = rig.queue();
    let mut done = 0;
    for round in 0..ROUNDS {
        let running = Running::start(queue.worker().ttr(Duration::from_secs(600)), |_, _| async { Ok(()) });
        let job = NewJob::json(&round).expect("a number");
        let published = if round % 2 == 0 {
            let (published, ()) = tokio::join!(queue.publish(job), async { running.say_stop() });
            published
        } else {
            let published = queue.publish(job).await;
            running.say_stop();
            published
        };
        published.expect("durable");
        let told = running.ended().await;
        done += told.iter().filter(|event| matches!(event, WorkerEvent::Done { .. })).count() as u64;
        let left = [0, u64::from(round) + 1 - done, 0, 0];
        // What the server takes back it takes back a moment after it has seen that the worker hung
        // up.
        let settled = async { while counts(&queue.overview().await.expect("figures")) != left {} };
        let in_time = timeout(PATIENCE, settled).await;
        assert!(in_time.is_ok(), "round {round}: {:?}, {told:?}", queue.overview().await);
    }
}

#[tokio::test]
async fn a_job_whose_handler_takes_too_long_is_given_back() {
    let rig = Rig::start().await;
    let queue = rig.queue();
    queue.publish(NewJob::json(&1).expect("a number").tries(2)).await.expect("durable");
    let worker = queue.worker().stop_limit(Duration::ZERO).retry_delay(|_| Duration::ZERO);
    let running = Running::start(worker, |_, _| std::future::pending());
    running.until("begun", 1, |event| matches!(event, WorkerEvent::Begun { .. })).await;
    running.stop().await;
    assert_eq!(counts(&queue.overview().await.expect("figures")), [0, 1, 0, 0]);
}
