//! An engine over a store in memory and a clock that the test moves, and short words for jobs.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::locks::locked;
use base::{Clock, Lineage, Timestamp};
use engine::queues::{ConsumeTerms, DueTime, JobPayload, JobRelease, NewJob, QueueCalls, QueueName};
use engine::{Engine, EngineSettings, records};
use prometheus_client::registry::Registry;
use store::MemoryStore;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const NOON: i64 = 1_795_219_200_000;

/// Engine and wall clock, apart by what the test says.
pub(crate) struct TestClock {
    pub(crate) now: AtomicI64,
    pub(crate) wall: AtomicI64,
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::SeqCst))
    }

    fn wall(&self) -> Timestamp {
        Timestamp(self.wall.load(Ordering::SeqCst))
    }
}

pub(crate) struct Rig {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) clock: Arc<TestClock>,
    engine: Mutex<Engine>,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        let clock = Arc::new(TestClock { now: AtomicI64::new(NOON), wall: AtomicI64::new(NOON) });
        let store = Arc::new(MemoryStore::new(Lineage(7), 2));
        let engine = Mutex::new(open(&store, &clock).await);
        Self { store, clock, engine }
    }

    pub(crate) fn queues(&self) -> QueueCalls {
        locked(&self.engine).queues()
    }

    /// Moves both clocks on. What then comes due is noticed by the next call.
    pub(crate) fn pass(&self, span: Duration) {
        let ms = span.as_millis() as i64;
        self.clock.now.fetch_add(ms, Ordering::SeqCst);
        self.clock.wall.fetch_add(ms, Ordering::SeqCst);
    }

    /// Puts the wall clock forward; the engine clock stands.
    pub(crate) fn step_wall(&self, by: Duration) {
        self.clock.wall.fetch_add(by.as_millis() as i64, Ordering::SeqCst);
        locked(&self.engine).clocks_stepped();
    }

    pub(crate) async fn restart(&self) {
        let old = locked(&self.engine).clone();
        old.stop().await;
        let engine = open(&self.store, &self.clock).await;
        *locked(&self.engine) = engine;
    }

    pub(crate) async fn publish(&self, job: NewJob) -> records::JobId {
        self.queues().publish(&orders(), vec![job], None).await.expect("published")[0].id
    }

    /// Payloads and attempts of what is leased now for ten seconds.
    pub(crate) async fn consume(&self, max: usize) -> Vec<(String, engine::queues::ReservationToken, u32)> {
        let (jobs, hand_over) = self.queues().consume(&[orders()], want(max)).await.expect("asked");
        hand_over.done();
        jobs.into_iter().map(|job| (text(&job.payload), job.reservation, job.attempt)).collect()
    }

    pub(crate) async fn payloads(&self, max: usize) -> Vec<String> {
        self.consume(max).await.into_iter().map(|(payload, ..)| payload).collect()
    }

    /// Publishes jobs that are dead at once.
    pub(crate) async fn fail(&self, count: usize) {
        let jobs = (0..count).map(|n| job(&n.to_string())).collect();
        self.queues().publish(&orders(), jobs, None).await.expect("published");
        for (_, held, _) in self.consume(count).await {
            self.queues().release(&orders(), held, JobRelease::default()).await.expect("it holds");
        }
    }

    /// Waits until so many consumers wait.
    pub(crate) async fn until_waiting(&self, count: u64) {
        self.until_shown(&[&format!("fieldpost_engine_waiting_consumers {count}")]).await;
    }

    /// Waits until metrics have these lines, all at a time.
    pub(crate) async fn until_shown(&self, lines: &[&str]) {
        let mut registry = Registry::default();
        locked(&self.engine).register_metrics(&mut registry);
        let waiting = async {
            loop {
                let mut text = String::new();
                prometheus_client::encoding::text::encode(&mut text, &registry).expect("a String takes all");
                if lines.iter().all(|line| text.lines().any(|shown| shown == *line)) {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(10 * SECOND, waiting).await.expect("it becomes so");
    }

    /// Scheduled, ready, reserved, dead.
    pub(crate) async fn counts(&self) -> [u64; 4] {
        let stats = self.queues().stats(&orders()).await.expect("asked");
        [stats.scheduled, stats.ready, stats.reserved, stats.dead]
    }
}

async fn open(store: &Arc<MemoryStore>, clock: &Arc<TestClock>) -> Engine {
    let store = Arc::clone(store) as Arc<dyn engine::Store>;
    let settings = EngineSettings { jobs_resident_max: 1_024, ..EngineSettings::for_tests() };
    Engine::start(settings, store, Arc::clone(clock) as Arc<dyn Clock>).await.expect("loads")
}

pub(crate) fn orders() -> QueueName {
    QueueName::new("shop", "orders").expect("a name")
}

pub(crate) fn job(text: &str) -> NewJob {
    NewJob::new(JobPayload::Json(Arc::from(text)))
}

pub(crate) fn later(text: &str, delay: Duration) -> NewJob {
    NewJob { due: Some(DueTime::After(delay)), ..job(text) }
}

pub(crate) fn want(max: usize) -> ConsumeTerms {
    ConsumeTerms { max, ttr: 10 * SECOND, wait: Duration::ZERO, process: None }
}

pub(crate) fn text(payload: &JobPayload) -> String {
    match payload {
        JobPayload::Json(text) => text.to_string(),
        JobPayload::Bytes(bytes) => format!("{bytes:?}"),
    }
}
