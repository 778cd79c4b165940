//! Workers: each job is done once, kept for as long as that takes, and tried again when it fails.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fieldpost_client::{Failure, NewJob, Want, WorkerEvent};
use tokio::sync::Notify;

use crate::client::rig::{Rig, Running, counts};

/// Of a job that is to be kept, also on a machine that is busy with other tests.
const TTR: Duration = Duration::from_secs(9);
/// Of jobs that have many tries, and are to come back soon when an answer was lost.
const SHORT_TTR: Duration = Duration::from_millis(900);

fn numbers(count: u64) -> Vec<NewJob> {
    (0..count).map(|number| NewJob::json(&number).expect("a number")).collect()
}

/// How often each number was worked on.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<BTreeMap<u64, u32>>>);

impl Seen {
    fn count(&self, number: u64) -> u32 {
        let mut seen = self.0.lock().expect("nobody panics with it");
        let times = seen.entry(number).or_default();
        *times += 1;
        *times
    }

    fn all(&self) -> BTreeMap<u64, u32> {
        self.0.lock().expect("nobody panics with it").clone()
    }
}

#[tokio::test]
async fn every_job_is_done_once_and_then_the_worker_ends() {
    let rig = Rig::start().await;
    let queue = rig.queue();
    queue.publish_many(&numbers(500)).await.expect("durable");
    let seen = Seen::default();
    let handlers = seen.clone();
    let running = Running::start(queue.worker().concurrency(32).until_empty(), move |job, _| {
        let times = handlers.count(job.payload.as_u64().expect("a number"));
        async move { if times == 1 { Ok(()) } else { Err(Failure::new("twice")) } }
    });
    let told = running.ended().await;
    assert_eq!(told.iter().filter(|event| matches!(event, WorkerEvent::Done { .. })).count(), 500);
    assert_eq!(seen.all(), (0..500).map(|number| (number, 1)).collect());
    assert_eq!(counts(&queue.overview().await.expect("figures")), [0; 4]);
}

#[tokio::test]
async fn a_job_stays_with_its_worker_far_beyond_its_ttr() {
    let rig = Rig::start().await;
    let queue = rig.queue();
    queue.publish_many(&numbers(1)).await.expect("durable");
    let finish = Arc::new(Notify::new());
    let signal = Arc::clone(&finish);
    let running = Running::start(queue.worker().ttr(TTR), move |_, _| {
        let signal = Arc::clone(&signal);
        async move {
            signal.notified().await;
            Ok(())
        }
    });
    running.until("begun", 1, |event| matches!(event, WorkerEvent::Begun { .. })).await;
    // Without the second extension it would come within this wait too.
    let others = queue.consume(Want::one().wait(TTR * 3 / 2)).await.expect("an answer");
    assert!(others.is_empty(), "{others:?}");
    finish.notify_one();
    running.until_done(1).await;
    running.stop().await;
    assert_eq!(counts(&queue.overview().await.expect("figures")), [0; 4]);
}

#[tokio::test]
async fn a_handler_is_told_that_its_job_was_cancelled() {
    let rig = Rig::start().await;
    let queue = rig.queue();
    let published = queue.publish_many(&numbers(1)).await.expect("durable");
    let running = Running::start(queue.worker().ttr(TTR), |_, lost| async move {
        lost.cancelled().await;
        Ok(())
    });
    running.until("begun", 1, |event| matches!(event, WorkerEvent::Begun { .. })).await;
    queue.cancel(&published[0].id).await.expect("cancelled");
    running.until("lost", 1, |event| matches!(event, WorkerEvent::Lost { .. })).await;
    let told = running.stop().await;
    assert!(!told.iter().any(|event| matches!(event, WorkerEvent::Done { .. })), "{told:?}");
}

#[tokio::test]
async fn a_job_that_fails_is_tried_again_until_it_is_done_or_dead() {
    let rig = Rig::start().await;
    let queue = rig.queue();
    let jobs: Vec<_> = numbers(2).into_iter().map(|job| job.tries(3)).collect();
    queue.publish_many(&jobs).await.expect("durable");
    let seen = Seen::default();
    let handlers = seen.clone();
    let worker = queue.worker().retry_delay(|_| Duration::from_millis(1));
    let running = Running::start(worker, move |job, _| {
        let number = job.payload.as_u64().expect("a number");
        let times = handlers.count(number);
        assert_eq!(times, job.attempt);
        async move {
            match (number, times) {
                (0, 2) => Ok(()),
                (0, _) => panic!("no ink"),
                _ => Err("no paper".into()),
            }
        }
    });
    running.until_done(1).await;
    let is_dead = |event: &WorkerEvent| matches!(event, WorkerEvent::Failed { again_in: None, .. });
    running.until("dead", 1, is_dead).await;
    running.stop().await;
    assert_eq!(seen.all(), BTreeMap::from([(0, 2), (1, 3)]));
    let dead = queue.dead(None).await.expect("a page").items;
    assert_eq!((dead.len(), dead[0].attempt, dead[0].error.as_deref()), (1, 3, Some("no paper")));
}

#[tokio::test]
async fn a_worker_goes_on_when_the_server_is_killed_and_comes_back() {
    let mut rig = Rig::start().await;
    let queue = rig.queue();
    let jobs: Vec<_> = numbers(200).into_iter().map(|job| job.tries(10)).collect();
    queue.publish_many(&jobs).await.expect("durable");
    let seen = Seen::default();
    let handlers = seen.clone();
    let half = Arc::new(Notify::new());
    let signal = Arc::clone(&half);
    let running = Running::start(queue.worker().ttr(SHORT_TTR).concurrency(4), move |job, _| {
        let number = job.payload.as_u64().expect("a number");
        handlers.count(number);
        if number == 100 {
            signal.notify_one();
        }
        async { Ok(()) }
    });
    half.notified().await;
    rig.kill().await;
    running.until("away", 1, |event| matches!(event, WorkerEvent::Away { .. })).await;
    rig.start_again().await;
    let mut counted = counts(&queue.overview().await.expect("figures"));
    while counted != [0; 4] {
        counted = counts(&queue.overview().await.expect("figures"));
    }
    let told = running.stop().await;
    let done: Vec<_> = told
        .iter()
        .filter_map(|event| if let WorkerEvent::Done { job } = event { Some(&job.id) } else { None })
        .collect();
    assert_eq!(seen.all().len(), 200, "all were worked on");
    assert_eq!(
        done.iter().collect::<std::collections::BTreeSet<_>>().len(),
        done.len(),
        "what is done stays done"
    );
}
