//! Workers do what the workers of their queue are told.

use std::sync::Arc;
use std::time::Duration;

use fieldpost_client::{ControlState, NewJob, QueueControl, WorkerEvent};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::client::rig::{PATIENCE, Rig, Running, counts};

fn job(number: u64) -> NewJob {
    NewJob::json(&number).expect("a number")
}

fn tells(state: Option<ControlState>) -> impl Fn(&WorkerEvent) -> bool {
    move |event| matches!(event, WorkerEvent::Control { control } if control.as_ref().map(|control| control.state) == state)
}

#[tokio::test]
async fn a_drained_worker_takes_nothing_until_it_may_and_a_stopped_one_ends() {
    let rig = Rig::start().await;
    let queue = rig.queue();
    let running = Running::start(queue.worker(), |_, _| async { Ok(()) });
    queue.publish(job(1)).await.expect("durable");
    running.until_done(1).await;

    let drain = QueueControl::new(ControlState::Drain).data(json!({"why": "night"}));
    queue.set_control(&drain).await.expect("durable");
    running.until("told to drain", 1, tells(Some(ControlState::Drain))).await;
    assert_eq!(queue.control().await.expect("an answer"), Some(drain));
    queue.publish(job(2)).await.expect("durable");
    let taken = timeout(Duration::from_millis(2_500), running.until_done(2));
    assert!(taken.await.is_err(), "a job was taken");
    assert_eq!(counts(&queue.overview().await.expect("figures")), [0, 1, 0, 0]);

    queue.delete_control().await.expect("durable");
    running.until("told nothing any more", 1, tells(None)).await;
    running.until_done(2).await;
    queue.set_control(&QueueControl::new(ControlState::Stop)).await.expect("durable");
    let told = running.ended().await;
    assert!(matches!(told.last(), Some(WorkerEvent::Stopping { running: 0 })), "{told:?}");
}

#[tokio::test]
async fn a_worker_has_no_more_jobs_at_a_time_than_it_is_told() {
    let rig = Rig::start().await;
    let queue = rig.queue();
    let two = QueueControl::new(ControlState::Run).max_in_flight(2);
    queue.set_control(&two).await.expect("durable");
    let jobs: Vec<_> = (0..6).map(job).collect();
    let finish = Arc::new(Semaphore::new(0));
    let permits = Arc::clone(&finish);
    let running = Running::start(queue.worker().concurrency(6), move |_, _| {
        let permits = Arc::clone(&permits);
        async move {
            permits.acquire().await?.forget();
            Ok(())
        }
    });
    running.until("told its bound", 1, tells(Some(ControlState::Run))).await;
    queue.publish_many(&jobs).await.expect("durable");
    running.until("begun", 2, |event| matches!(event, WorkerEvent::Begun { .. })).await;
    assert_eq!(counts(&queue.overview().await.expect("figures")), [0, 4, 2, 0]);
    // It hears of it although all of its slots are taken.
    queue.set_control(&QueueControl::new(ControlState::Run)).await.expect("durable");
    running.until("begun", 6, |event| matches!(event, WorkerEvent::Begun { .. })).await;
    finish.add_permits(6);
    running.until_done(6).await;
    timeout(PATIENCE, running.stop()).await.expect("in time");
}
