//! What a job costs: time for a life cycle, time and memory for waiting ones, beside a growing
//! crowd of waiting jobs.
//!
//! `cargo run --release -p jobs --example life_cycle`. The numbers in the crate's documentation are
//! from here.
#![allow(clippy::print_stdout, reason = "printing the numbers is what it is for")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use base::random::Random;
use base::{PartitionId, Timestamp};
use jobs::{ConflictPolicy, Jobs, JobsProgress, JobsStep, NewJobHead, NoCalendar, Numbers};
use records::{AliasKey, Batch, JobId, JobTerms, LeaseHolder, Process, QueueKey, Reservation};

const CROWDS: [u64; 4] = [1_000, 65_536, 1_000_000, 4_000_000];
const CYCLES: u64 = 1_000_000;
const RESIDENT_MAX: usize = 65_536;
const PARKED: u64 = 2_000_000;
/// Jobs between two looks at the clock.
const ROUND: u64 = 1_000;
const TEN_YEARS_MS: u64 = 315_360_000_000;
const QUEUES: u64 = 64;

fn main() {
    println!(
        "  waiting     bytes       publish for      publish for     lease      ack       life    come due"
    );
    println!(
        "     jobs   per job   later, median   now, median ns       (medians, ns)      cycle   median ns"
    );
    for crowd in CROWDS {
        let mut bench = Bench::new();
        let (fill, bytes) = bench.fill(crowd);
        let [publish, lease, ack] = bench.cycles();
        let cycle = publish + lease + ack;
        let due = bench.come_due();
        println!("{crowd:>9} {bytes:>9} {fill:>16} {publish:>16} {lease:>9} {ack:>8} {cycle:>10} {due:>11}");
    }
    println!("\nwith at most {RESIDENT_MAX} resident, of {PARKED} published for later:");
    let mut bench = Bench::new();
    bench.jobs.set_resident_max(RESIDENT_MAX);
    let (publish, bytes) = bench.fill(PARKED);
    let worst = bench.worst.as_micros();
    println!("{publish} ns a job (median), {worst} us the longest step of eviction, {bytes} bytes a job");
}

/// Times of rounds; the median is what a round takes when the machine does nothing else meanwhile.
#[derive(Default)]
struct Rounds(Vec<u128>);

impl Rounds {
    fn note(&mut self, begun: Instant) {
        self.0.push(begun.elapsed().as_nanos() / u128::from(ROUND));
    }

    fn median(mut self) -> u128 {
        self.0.sort_unstable();
        self.0[self.0.len() / 2]
    }
}

struct Bench {
    jobs: Jobs,
    batch: Batch,
    wakes: Vec<QueueKey>,
    random: Random,
    now: Timestamp,
    /// What making room took at most.
    worst: Duration,
}

impl Bench {
    fn new() -> Self {
        Self {
            jobs: Jobs::new(Process(1), Numbers::default()),
            batch: Batch::new(PartitionId(0)),
            wakes: Vec::new(),
            random: Random::new(1),
            now: Timestamp(1_000_000),
            worst: Duration::ZERO,
        }
    }

    /// Publishes jobs with delays of up to ten years; every fourth has an alias.
    fn fill(&mut self, count: u64) -> (u128, u64) {
        let resident = resident_bytes();
        let mut rounds = Rounds::default();
        for _ in 0..count / ROUND {
            let begun = Instant::now();
            for n in 0..ROUND {
                let delay = self.random.below(TEN_YEARS_MS).cast_signed();
                let number = u128::from(self.jobs.numbers().next_job);
                let alias = n.is_multiple_of(4).then_some(AliasKey(number));
                self.publish(Timestamp(self.now.0 + 1_000_000 + delay), alias);
            }
            let full = Instant::now();
            self.call(|jobs, step| black_box(jobs.evict(step)));
            self.worst = self.worst.max(full.elapsed());
            rounds.note(begun);
            self.forget();
        }
        (rounds.median(), resident_bytes().saturating_sub(resident) / count)
    }

    /// The whole life of jobs that are due at once, spread over the queues.
    fn cycles(&mut self) -> [u128; 3] {
        let mut rounds = [const { Rounds(Vec::new()) }; 3];
        let mut held = Vec::new();
        for _ in 0..CYCLES / ROUND {
            self.now = Timestamp(self.now.0 + 1);
            let begun = Instant::now();
            for _ in 0..ROUND {
                self.publish(self.now, None);
            }
            rounds[0].note(begun);
            self.forget();
            let begun = Instant::now();
            for queue in 0..QUEUES {
                self.lease_all(QueueKey(queue), &mut held);
            }
            rounds[1].note(begun);
            self.forget();
            let begun = Instant::now();
            for reservation in held.drain(..) {
                let acked = self.call(|jobs, step| jobs.ack(reservation, step));
                assert!(acked.is_ok(), "it was just leased");
            }
            rounds[2].note(begun);
            self.forget();
        }
        rounds.map(Rounds::median)
    }

    fn lease_all(&mut self, queue: QueueKey, held: &mut Vec<Reservation>) {
        let (holder, ttr) = (LeaseHolder::Own(Process(1)), Duration::from_mins(2));
        while let Some(leased) = self.call(|jobs, step| jobs.lease(queue, holder, ttr, step)) {
            held.push(leased.reservation);
        }
    }

    /// Moves the clock until all are ready.
    fn come_due(&mut self) -> u128 {
        let (mut rounds, mut passed) = (Rounds::default(), Vec::new());
        self.now = Timestamp::MAX;
        loop {
            let begun = Instant::now();
            let limit = ROUND as usize;
            let progress = self.call(|jobs, step| jobs.advance(limit, &mut passed, step));
            rounds.note(begun);
            self.forget();
            if progress == JobsProgress::Done {
                return rounds.median();
            }
        }
    }

    fn publish(&mut self, run_at: Timestamp, alias: Option<AliasKey>) {
        let number = self.jobs.numbers().next_job;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.random.next_u64().to_be_bytes());
        id[8..].copy_from_slice(&number.to_be_bytes());
        let job = NewJobHead {
            id: JobId(id),
            queue: QueueKey(number % QUEUES),
            run_at,
            tries: 3,
            terms: JobTerms::default(),
            alias,
            on_conflict: ConflictPolicy::Reject,
        };
        black_box(self.call(|jobs, step| jobs.publish(job, step)));
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut Jobs, &mut JobsStep<'_>) -> T) -> T {
        call(&mut self.jobs, &mut JobsStep::new(self.now, &mut NoCalendar, &mut self.batch, &mut self.wakes))
    }

    fn forget(&mut self) {
        black_box(&self.batch);
        self.batch.ops.clear();
        self.wakes.clear();
    }
}

/// Memory of this process that is in use, from `/proc`; 0 where there is none.
fn resident_bytes() -> u64 {
    const PAGE_BYTES: u64 = 4_096;
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * PAGE_BYTES
}
