//! A worker's jobs: how they are taken, kept, acknowledged and given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fieldpost_client::{CancellationToken, Error, Failure, Job, Worker};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::stage::{Asked, PATIENCE, Reply, Stage, WorkerEvents, all_acked, jobs, refused};

/// Long enough for a machine that is busy with other tests to keep a reservation.
const TTR: Duration = Duration::from_secs(9);
/// Soon over.
const SHORT_TTR: Duration = Duration::from_millis(60);

/// What a server does that has these jobs and then no more; `other` is what it says to anything but
/// a question for jobs.
fn having(
    all: &'static [&str],
    other: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
) -> impl Fn(&Asked) -> Reply + Send + Sync + 'static {
    move |asked| match (asked.verb(), asked.before) {
        ("consume", 0) => {
            let all: Vec<_> = all.iter().map(|id| (*id, json!(id))).collect();
            Reply::Answer(200, jobs(&all))
        }
        ("consume", _) => Reply::Wait,
        _ => other(asked),
    }
}

/// A server that agrees to everything.
fn agreeable(asked: &Asked) -> Reply {
    match asked.verb() {
        "ack" => all_acked(asked),
        _ => Reply::Answer(204, String::new()),
    }
}

/// A worker that runs until its signal.
pub(crate) struct Running {
    pub(crate) events: WorkerEvents,
    stop: Arc<Notify>,
    task: JoinHandle<Result<(), Error>>,
}

impl Running {
    pub(crate) fn start<F>(
        worker: Worker<Value>,
        handler: impl Fn(Job<Value>, CancellationToken) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let (worker, events) = WorkerEvents::by(worker);
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(worker.run_until(async move { stopped.notified().await }, handler));
        Self { events, stop, task }
    }

    pub(crate) fn say_stop(&self) {
        self.stop.notify_one();
    }

    pub(crate) async fn ended(self) -> Result<(), Error> {
        timeout(PATIENCE, self.task).await.expect("it ends in time").expect("it does not panic")
    }

    pub(crate) async fn stop(self) {
        self.say_stop();
        self.ended().await.expect("a good end");
    }
}

pub(crate) fn worker(stage: &Stage) -> Worker<Value> {
    stage.client().queue("shop", "mail").worker().ttr(TTR)
}

#[tokio::test]
async fn a_reservation_is_extended_each_third_of_its_ttr_until_the_job_is_acknowledged() {
    let stage = Stage::new(having(&["a"], agreeable)).await;
    let finish = Arc::new(Notify::new());
    let signal = Arc::clone(&finish);
    let running = Running::start(worker(&stage), move |_, _| {
        let signal = Arc::clone(&signal);
        async move {
            signal.notified().await;
            Ok(())
        }
    });
    stage.until("extend", 2).await;
    finish.notify_one();
    running.events.until("done a").await;
    running.stop().await;
    let extended = &stage.asked_to("extend")[0];
    assert_eq!(extended.path, "/v1/queues/shop/mail/jobs/a/extend");
    assert_eq!(extended.json(), json!({ "reservation": "r-a", "ttr": "9000ms" }));
    let acked = stage.asked_to("ack");
    assert_eq!((acked.len(), acked[0].json()), (1, json!({ "reservations": ["r-a"] })));
}

/// The handler ends well, once it is told that all is lost; whatever it says then does not count.
async fn check_lost(other: impl Fn(&Asked) -> Reply + Send + Sync + 'static) {
    let stage = Stage::new(having(&["a"], other)).await;
    let running = Running::start(worker(&stage).ttr(SHORT_TTR), |_, lost| async move {
        lost.cancelled().await;
        Ok(())
    });
    running.events.until("lost a").await;
    let events = running.events.clone();
    running.stop().await;
    assert!(!events.all().contains(&"done a".to_owned()), "{:?}", events.all());
    assert!(stage.asked_to("ack").is_empty() && stage.asked_to("release").is_empty());
}

#[tokio::test]
async fn a_job_that_somebody_cancelled_is_lost_at_once() {
    check_lost(|asked| match asked.before {
        0 => Reply::Answer(204, String::new()),
        _ => refused(409, "stale_reservation"),
    })
    .await;
}

#[tokio::test]
async fn a_reservation_that_could_not_be_kept_for_its_ttr_is_lost() {
    check_lost(|_| Reply::Break).await;
    check_lost(|_| Reply::Wait).await;
    check_lost(|_| refused(403, "forbidden")).await;
}

#[tokio::test]
async fn an_extension_that_gets_through_late_keeps_the_job() {
    let stage = Stage::new(having(&["a"], |asked| match (asked.verb(), asked.before) {
        ("extend", 0) => refused(503, "store_failed"),
        _ => agreeable(asked),
    }))
    .await;
    let finish = Arc::new(Notify::new());
    let signal = Arc::clone(&finish);
    let running = Running::start(worker(&stage), move |_, lost| {
        let signal = Arc::clone(&signal);
        async move {
            signal.notified().await;
            if lost.is_cancelled() { Err(Failure::new("lost")) } else { Ok(()) }
        }
    });
    stage.until("extend", 2).await;
    finish.notify_one();
    running.events.until("done a").await;
    running.stop().await;
}

#[tokio::test]
async fn what_fails_is_given_back_with_the_error_and_a_delay() {
    let stage = Stage::new(having(&["fails", "waits", "panics", "speaks"], agreeable)).await;
    let slow = worker(&stage)
        .ttr(Duration::from_secs(60))
        .retry_delay(|attempt| Duration::from_secs(u64::from(attempt)));
    let running = Running::start(slow, |job, _| async move {
        match job.payload.as_str() {
            Some("fails") => Err("no paper".into()),
            Some("waits") => Err(Failure::new("no ink").after(Duration::from_secs(90))),
            Some("panics") => panic!("no printer"),
            other => panic!("{other:?}"),
        }
    });
    stage.until("release", 4).await;
    running.stop().await;
    let mut released: Vec<_> = stage
        .asked_to("release")
        .iter()
        .map(|asked| (asked.json()["delay"].clone(), asked.json()["error"].clone()))
        .collect();
    released.sort_by_key(|(_, error)| error.to_string());
    assert_eq!(
        released,
        [
            (json!("90000ms"), json!("no ink")),
            (json!("1000ms"), json!("no paper")),
            (json!("1000ms"), json!("the handler panicked: Some(\"speaks\")")),
            (json!("1000ms"), json!("the handler panicked: no printer")),
        ]
        .map(|(delay, error)| (delay, error))
    );
    assert!(stage.asked_to("ack").is_empty());
}

#[tokio::test]
async fn a_payload_of_another_shape_is_given_back_unseen() {
    let stage = Stage::new(having(&["a"], agreeable)).await;
    let numbers: Worker<u32> = stage.client().queue("shop", "mail").worker();
    let (numbers, events) = WorkerEvents::by(numbers);
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    let task = tokio::spawn(numbers.run_until(async move { stopped.notified().await }, move |_, _| {
        count.fetch_add(1, Ordering::Relaxed);
        async { Ok(()) }
    }));
    stage.until("release", 1).await;
    stop.notify_one();
    task.await.expect("it does not panic").expect("a good end");
    let is_told = |text: &String| text.starts_with("failed a: the payload has another shape: ");
    assert!(events.all().iter().any(is_told), "{:?}", events.all());
    assert_eq!(seen.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn acknowledgements_that_come_while_one_is_under_way_go_together() {
    let gate = Arc::new(Notify::new());
    let first = Arc::clone(&gate);
    let stage = Stage::new(having(&["a", "b", "c", "d"], move |asked| match (asked.verb(), asked.before) {
        ("ack", 0) => Reply::Gate(Arc::clone(&first), 200, json!({ "acked": 1, "stale": [] }).to_string()),
        _ => agreeable(asked),
    }))
    .await;
    let begin = Arc::new(Notify::new());
    let (others, ended) = (Arc::clone(&begin), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&ended);
    let all = Arc::new(Notify::new());
    let last = Arc::clone(&all);
    let running = Running::start(worker(&stage).ttr(Duration::from_secs(60)), move |job, _| {
        let (others, count, last) = (Arc::clone(&others), Arc::clone(&count), Arc::clone(&last));
        async move {
            if job.payload != "a" {
                others.notified().await;
                if count.fetch_add(1, Ordering::Relaxed) == 2 {
                    last.notify_one();
                }
            }
            Ok(())
        }
    });
    stage.until("ack", 1).await;
    begin.notify_waiters();
    all.notified().await;
    // All handlers have ended; their acknowledgements are handed in before anything else runs on
    // this one thread.
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    gate.notify_one();
    for job in ["a", "b", "c", "d"] {
        running.events.until(&format!("done {job}")).await;
    }
    running.stop().await;
    let sizes =
        stage.asked_to("ack").into_iter().map(|asked| asked.json()["reservations"].as_array().map(Vec::len));
    assert_eq!(sizes.collect::<Vec<_>>(), [Some(1), Some(3)]);
}

#[tokio::test]
async fn an_acknowledgement_that_got_through_unseen_is_one() {
    let stage = Stage::new(having(&["a"], |asked| match (asked.verb(), asked.before) {
        ("ack", 0) => Reply::Break,
        ("ack", _) => Reply::Answer(200, json!({ "acked": 0, "stale": ["r-a"] }).to_string()),
        _ => agreeable(asked),
    }))
    .await;
    let running = Running::start(worker(&stage).ttr(Duration::from_secs(60)), |_, _| async { Ok(()) });
    running.events.until("done a").await;
    running.stop().await;
}

#[tokio::test]
async fn a_stale_acknowledgement_is_told_as_lost() {
    let stage = Stage::new(having(&["a"], |_| {
        Reply::Answer(200, json!({ "acked": 0, "stale": ["r-a"] }).to_string())
    }))
    .await;
    let running = Running::start(worker(&stage).ttr(Duration::from_secs(60)), |_, _| async { Ok(()) });
    running.events.until("lost a").await;
    running.stop().await;
}

#[tokio::test]
async fn no_more_jobs_are_asked_for_than_there_are_free_slots() {
    let stage = Stage::new(having(&["a", "b"], agreeable)).await;
    let finish = Arc::new(Notify::new());
    let signal = Arc::clone(&finish);
    let running = Running::start(worker(&stage).ttr(Duration::from_secs(60)).concurrency(3), move |_, _| {
        let signal = Arc::clone(&signal);
        async move {
            signal.notified().await;
            Ok(())
        }
    });
    stage.until("consume", 2).await;
    let asked: Vec<_> = stage.asked_to("consume").iter().map(|asked| asked.json()["max"].clone()).collect();
    assert_eq!(asked, [json!(3), json!(1)]);
    finish.notify_waiters();
    running.stop().await;
}
