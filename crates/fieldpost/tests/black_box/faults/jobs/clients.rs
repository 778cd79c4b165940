//! Who publishes, and who consumes: each repeats a request until it is answered, through as many
//! deaths of the server as it takes.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use simulator::endpoint::Endpoint;
use simulator::random::SeededRandom;

use super::wire::Caller;
use super::{QUEUES, Run};

const IN_A_CALL_MAX: u64 = 20;
/// Publishers wait while so many jobs are not done.
const OPEN_MAX: u64 = super::FAR + 2_000;
/// Far more than a job is given out in a run.
const TRIES: u32 = 1_000;
/// Longer than the test.
const LONG_TTR: &str = "1h";
const SHORT_TTR: &str = "300ms";
const WAIT: &str = "200ms";
/// A consumer keeps so many reservations at most before it acknowledges them.
const KEPT_MAX: usize = 30;

/// A client with a connection of its own.
pub(super) struct Client {
    caller: Caller,
    run: Arc<Run>,
    random: SeededRandom,
    kept: Vec<ReservedJob>,
}

/// A job that a consumer has.
struct ReservedJob {
    number: u64,
    queue: String,
    id: String,
    reservation: String,
    /// The start of the server that gave it out.
    life: u32,
}

impl Client {
    pub(super) fn new(endpoint: &Endpoint, run: &Arc<Run>, random: SeededRandom) -> Self {
        Self { caller: Caller::new(endpoint.clone()), run: Arc::clone(run), random, kept: Vec::new() }
    }

    fn is_over(&self) -> bool {
        *self.run.stop.borrow()
    }

    fn life(&self) -> u32 {
        *self.run.life.borrow()
    }

    /// Publishes jobs with the numbers from `first` on. A repeat of a call has its key, and so
    /// publishes nothing twice.
    pub(super) async fn publish(mut self, first: u64) {
        let mut next = first;
        loop {
            self.until_wanted().await;
            if self.is_over() {
                return;
            }
            let numbers = next..next + 1 + self.random.below(IN_A_CALL_MAX);
            next = numbers.end;
            let body = json!({"jobs": self.jobs(numbers.clone())});
            self.run.ledger.sent(numbers.clone());
            let queue = QUEUES[self.random.below(QUEUES.len() as u64) as usize];
            let path = format!("/v1/queues/crash/{queue}/jobs");
            let answer = self.caller.keyed(&format!("from-{}", numbers.start), &path, &body).await;
            assert_eq!(answer.status, 201, "{answer:?}");
            self.run.ledger.published(numbers, &answer.body);
        }
    }

    /// Waits until the run is over, or fewer jobs are open than may be. Once consumers have
    /// stopped, nobody ends those that are.
    async fn until_wanted(&self) {
        let mut stop = self.run.stop.subscribe();
        tokio::select! {
            _ = stop.wait_for(|is_over| *is_over) => (),
            () = self.run.ledger.until_fewer_than(OPEN_MAX) => (),
        }
    }

    fn jobs(&mut self, numbers: Range<u64>) -> Vec<Value> {
        let delays = ["0s", "0s", "20ms", "300ms"];
        let job = |number| {
            let delay = delays[self.random.below(delays.len() as u64) as usize];
            json!({"payload": number, "delay": delay, "tries": TRIES})
        };
        numbers.map(job).collect()
    }

    /// Consumes, and has every job that it keeps end in some way.
    pub(super) async fn consume(mut self) {
        while !self.is_over() {
            let keeps = !self.random.chance(150);
            self.take(keeps).await;
            if self.kept.len() > KEPT_MAX || self.random.chance(200) {
                self.ack_kept().await;
            }
        }
        self.ack_kept().await;
    }

    /// Takes some jobs of all queues: to end them at once or later, or to leave them to the end of
    /// their time.
    async fn take(&mut self, keeps: bool) {
        let ttr = if keeps { LONG_TTR } else { SHORT_TTR };
        let body = json!({"max": 1 + self.random.below(8), "ttr": ttr, "wait": WAIT});
        let path = format!("/v1/queues/crash/{}/consume", QUEUES.join(","));
        let (asked, life) = (Instant::now(), self.life());
        // A call that is not answered is not repeated: what it was given stays reserved, for an
        // hour perhaps.
        let Some(answer) = self.caller.once(&path, &body).await else { return };
        assert_eq!(answer.status, 200, "{answer:?}");
        for job in answer.body["jobs"].as_array().expect("jobs") {
            let number = self.run.ledger.came(job, asked, keeps);
            if keeps {
                let text = |key: &str| job[key].as_str().expect("text").to_owned();
                let [queue, id, reservation] = ["queue", "id", "reservation"].map(text);
                self.end(ReservedJob { number, queue, id, reservation, life }).await;
            }
        }
    }

    async fn end(&mut self, job: ReservedJob) {
        match self.random.below(10) {
            0 => {
                self.run.ledger.given_back(job.number);
                let body = json!({"reservation": job.reservation, "delay": "10ms", "error": "again"});
                self.tell(&job, "release", &body).await;
            }
            1..=4 => {
                let body = json!({"reservation": job.reservation});
                self.tell(&job, "ack", &body).await;
                self.done(&job);
            }
            _ => self.kept.push(job),
        }
    }

    /// Says what becomes of a job. That its reservation is stale can only be because an earlier try
    /// was heard.
    async fn tell(&mut self, job: &ReservedJob, what: &str, body: &Value) {
        let path = format!("/v1/queues/crash/{}/jobs/{}/{what}", job.queue, job.id);
        let answer = self.caller.until_answered(&path, body).await;
        let is_heard = answer.status == 204 || (answer.status == 409 && answer.tries > 1);
        assert!(is_heard, "{what} of {}, given out in life {}: {answer:?}", job.number, job.life);
    }

    /// Acknowledges all that it keeps, those of a queue together.
    async fn ack_kept(&mut self) {
        for queue in QUEUES {
            let (jobs, others): (Vec<ReservedJob>, _) =
                std::mem::take(&mut self.kept).into_iter().partition(|job| job.queue == queue);
            self.kept = others;
            if jobs.is_empty() {
                continue;
            }
            let reservations: Vec<&str> = jobs.iter().map(|job| job.reservation.as_str()).collect();
            let path = format!("/v1/queues/crash/{queue}/ack");
            let answer = self.caller.until_answered(&path, &json!({"reservations": reservations})).await;
            let stale = answer.body["stale"].as_array().expect("a list").len();
            let acked = answer.body["acked"].as_u64().expect("a number") as usize;
            assert_eq!((answer.status, acked + stale), (200, jobs.len()), "{answer:?}");
            // A call is one step of its partition: an earlier try was heard as a whole or not at
            // all.
            assert!(stale == 0 || (answer.tries > 1 && acked == 0), "{answer:?}");
            jobs.iter().for_each(|job| self.done(job));
        }
    }

    fn done(&self, job: &ReservedJob) {
        self.run.ledger.done(job.number);
        if job.life < self.life() {
            self.run.ledger.done_across_a_kill();
        }
    }
}
