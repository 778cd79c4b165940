//! Instructions of the steps of a job's life, beside a crowd of jobs that wait.
//!
//! `make bench-counts` holds these against `benches/counts`. Counts, not times: they are the same
//! on a busy machine.
#![allow(missing_docs, reason = "the harness makes items of its own")]

use std::hint::black_box;
use std::time::Duration;

use base::{PartitionId, Timestamp};
use gungraun::{library_benchmark, library_benchmark_group, main};
use jobs::{ConflictPolicy, Jobs, JobsStep, NewJobHead, NoCalendar, Numbers};
use records::{AliasKey, Batch, JobId, JobTerms, LeaseHolder, Process, QueueKey, Reservation};

const CROWD: u64 = 10_000;
const JOBS: u64 = 64;
const NOW: Timestamp = Timestamp(1_795_219_200_000);
const QUEUE: QueueKey = QueueKey(7);
const HOLDER: LeaseHolder = LeaseHolder::Own(Process(1));

struct Scene {
    jobs: Jobs,
    calendar: NoCalendar,
    batch: Batch,
    wakes: Vec<QueueKey>,
    held: Vec<Reservation>,
}

/// A crowd that is due later.
fn crowd() -> Scene {
    let jobs = Jobs::new(Process(1), Numbers::default());
    let batch = Batch::new(PartitionId(0));
    let mut scene = Scene { jobs, calendar: NoCalendar, batch, wakes: Vec::new(), held: Vec::new() };
    for number in 0..CROWD {
        publish(&mut scene, number, Timestamp(NOW.0 + 1_000_000 + (number * 7_919 % CROWD).cast_signed()));
    }
    forget(scene)
}

/// And some that are due.
fn due() -> Scene {
    let mut scene = crowd();
    for number in 0..JOBS {
        publish(&mut scene, CROWD + number, NOW);
    }
    forget(scene)
}

/// And those leased.
fn leased() -> Scene {
    let mut scene = due();
    lease(&mut scene);
    forget(scene)
}

fn forget(mut scene: Scene) -> Scene {
    scene.batch.ops.clear();
    scene.wakes.clear();
    scene
}

fn publish(scene: &mut Scene, number: u64, run_at: Timestamp) {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    let alias = Some(AliasKey(number.into()));
    let job = NewJobHead {
        id: JobId(id),
        queue: QUEUE,
        run_at,
        tries: 10,
        terms: JobTerms::default(),
        alias,
        on_conflict: ConflictPolicy::Replace,
    };
    let step = &mut JobsStep::new(NOW, &mut scene.calendar, &mut scene.batch, &mut scene.wakes);
    black_box(scene.jobs.publish(job, step));
}

fn lease(scene: &mut Scene) {
    let ttr = Duration::from_secs(40);
    let step = &mut JobsStep::new(NOW, &mut scene.calendar, &mut scene.batch, &mut scene.wakes);
    while let Some(leased) = scene.jobs.lease(QUEUE, HOLDER, ttr, step) {
        scene.held.push(leased.reservation);
    }
}

#[library_benchmark]
#[bench::due_now(setup = crowd)]
fn publish_64(mut scene: Scene) -> Scene {
    for number in 0..JOBS {
        publish(&mut scene, black_box(CROWD + number), NOW);
    }
    scene
}

#[library_benchmark]
#[bench::all_due(setup = due)]
fn lease_64(mut scene: Scene) -> Scene {
    lease(black_box(&mut scene));
    scene
}

#[library_benchmark]
#[bench::all_leased(setup = leased)]
fn done_64(mut scene: Scene) -> Scene {
    let Scene { jobs, calendar, batch, wakes, held } = &mut scene;
    let step = &mut JobsStep::new(NOW, calendar, batch, wakes);
    for reservation in held.drain(..) {
        let acked = jobs.ack(black_box(reservation), step);
        assert!(acked.is_ok(), "it was just leased");
    }
    scene
}

library_benchmark_group!(name = life, benchmarks = [publish_64, lease_64, done_64]);
main!(library_benchmark_groups = life);
