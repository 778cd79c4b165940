//! What may happen, and how often.

use std::time::Duration;

use jobs::{Charge, ConflictPolicy, QueueRules};
use proptest::prelude::*;
use records::{JobClock, QueueOrder, RecurrenceRule};

/// One thing that happens. Ids and reservations are picked from all that were ever given out, by a
/// number modulo. Times are in units that the world scales.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Publish(Publish),
    Lease { queue: u64, own: bool, ttr: Duration },
    Ack { picked: usize },
    Release { picked: usize, delay: Duration, charge: Charge },
    GiveBack { picked: usize },
    Extend { picked: usize, ttr: Duration },
    Cancel { picked: usize },
    Reschedule { picked: usize, clock: JobClock, run_in: i64 },
    SetRules { queue: u64, rules: QueueRules },
    RemoveQueue { queue: u64 },
    Pass { time: i64 },
    JumpWall { time: i64 },
    Advance { limit: usize },
    Restart { same_process: bool },
}

/// A new job.
#[derive(Clone, Debug)]
pub(crate) struct Publish {
    pub(crate) queue: u64,
    pub(crate) clock: JobClock,
    pub(crate) run_in: i64,
    pub(crate) tries: u32,
    pub(crate) expires_in: Option<i64>,
    pub(crate) group: Option<u64>,
    pub(crate) recurs: Option<Recurs>,
    pub(crate) alias: Option<u128>,
    pub(crate) on_conflict: ConflictPolicy,
}

/// How a job comes again.
#[derive(Clone, Debug)]
pub(crate) struct Recurs {
    pub(crate) rule: RecurrenceRule,
    pub(crate) left: Option<u32>,
    pub(crate) ttl: Option<i64>,
}

/// How many queues and aliases there are, how much more is published than taken, and how much else
/// holds.
#[derive(Clone, Copy)]
pub(crate) struct Scope {
    queues: u64,
    aliases: u128,
    without_alias: u32,
    publishing: u32,
    /// Of 10 jobs, how many are in a group, expire, or come again.
    special: u32,
    ruling: u32,
}

impl Scope {
    pub(crate) const WIDE: Self =
        Self { queues: 3, aliases: 4, without_alias: 4, publishing: 6, special: 3, ruling: 1 };
    pub(crate) const PLAIN: Self = Self { special: 0, ruling: 0, ..Self::WIDE };
    pub(crate) const ONE_ALIAS: Self =
        Self { queues: 1, aliases: 1, without_alias: 0, publishing: 6, special: 2, ruling: 0 };
    pub(crate) const GROUPS: Self =
        Self { queues: 1, aliases: 4, without_alias: 20, publishing: 8, special: 8, ruling: 0 };
    pub(crate) const CROWD: Self =
        Self { queues: 2, aliases: 40, without_alias: 20, publishing: 14, special: 2, ruling: 1 };
}

pub(crate) fn operations(scope: Scope) -> impl Strategy<Value = Operation> {
    prop_oneof![
        scope.publishing => publish(scope).prop_map(Operation::Publish),
        14 => working(scope),
        5 => passing(),
        1 => any::<bool>().prop_map(|same_process| Operation::Restart { same_process }),
        scope.ruling => (0..scope.queues, rules())
            .prop_map(|(queue, rules)| Operation::SetRules { queue, rules }),
    ]
}

fn working(scope: Scope) -> impl Strategy<Value = Operation> {
    let picked = 0..1_000_usize;
    prop_oneof![
        30 => (0..scope.queues, any::<bool>(), span(30))
            .prop_map(|(queue, own, ttr)| Operation::Lease { queue, own, ttr }),
        10 => picked.clone().prop_map(|picked| Operation::Ack { picked }),
        15 => (picked.clone(), span(30), charge())
            .prop_map(|(picked, delay, charge)| Operation::Release { picked, delay, charge }),
        5 => picked.clone().prop_map(|picked| Operation::GiveBack { picked }),
        5 => (picked.clone(), span(30)).prop_map(|(picked, ttr)| Operation::Extend { picked, ttr }),
        5 => picked.clone().prop_map(|picked| Operation::Cancel { picked }),
        5 => (picked, clock(), -20..60_i64)
            .prop_map(|(picked, clock, run_in)| Operation::Reschedule { picked, clock, run_in }),
        1 => (0..scope.queues).prop_map(|queue| Operation::RemoveQueue { queue }),
    ]
}

fn passing() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => (0..25_i64).prop_map(|time| Operation::Pass { time }),
        1 => (-30..60_i64).prop_map(|time| Operation::JumpWall { time }),
        12 => prop_oneof![0..4_usize, Just(usize::MAX)].prop_map(|limit| Operation::Advance { limit }),
    ]
}

fn publish(scope: Scope) -> impl Strategy<Value = Publish> {
    let alias = prop_oneof![
        scope.without_alias => Just(None),
        4 => (0..scope.aliases).prop_map(Some),
    ];
    let on_conflict = prop_oneof![
        1 => Just(ConflictPolicy::Reject),
        3 => Just(ConflictPolicy::Keep),
        3 => Just(ConflictPolicy::Replace),
    ];
    // A third is due at once; otherwise within sight, or in ten years.
    let run_in = prop_oneof![4 => Just(0), 4 => -20..60_i64, 1 => Just(315_360_000)];
    let (plain, special) = (10 - scope.special, scope.special);
    let expires_in = prop_oneof![plain => Just(None), special => (1..60_i64).prop_map(Some)];
    let group = prop_oneof![plain => Just(None), special => (0..2_u64).prop_map(Some)];
    let recurs = prop_oneof![2 * plain => Just(None), special => recurs().prop_map(Some)];
    let job = (0..scope.queues, clock(), run_in, 0..4_u32, alias, on_conflict);
    (job, expires_in, group, recurs).prop_map(
        |((queue, clock, run_in, tries, alias, on_conflict), expires_in, group, recurs)| Publish {
            queue,
            clock,
            run_in,
            tries,
            expires_in,
            group,
            recurs,
            alias,
            on_conflict,
        },
    )
}

fn recurs() -> impl Strategy<Value = Recurs> {
    let rule =
        prop_oneof![2 => (1..40_u64).prop_map(RecurrenceRule::Every), 1 => Just(RecurrenceRule::Calendar)];
    let left = proptest::option::of(1..4_u32);
    let ttl = proptest::option::of(0..40_i64);
    (rule, left, ttl).prop_map(|(rule, left, ttl)| Recurs { rule, left, ttl })
}

fn rules() -> impl Strategy<Value = QueueRules> {
    let order = prop_oneof![1 => Just(QueueOrder::Fifo), 1 => Just(QueueOrder::Lifo)];
    let concurrency = proptest::option::weighted(0.3, 0..3_u32);
    let rate = proptest::option::weighted(0.3, prop_oneof![Just(50.0), Just(300.0), Just(2.5)]);
    (order, proptest::bool::weighted(0.2), concurrency, rate)
        .prop_map(|(order, paused, concurrency, rate)| QueueRules { order, paused, concurrency, rate })
}

fn clock() -> impl Strategy<Value = JobClock> {
    prop_oneof![3 => Just(JobClock::Engine), 1 => Just(JobClock::Wall)]
}

fn span(most: u64) -> impl Strategy<Value = Duration> {
    (0..most).prop_map(Duration::from_millis)
}

fn charge() -> impl Strategy<Value = Charge> {
    prop_oneof![3 => Just(Charge::Counted), 1 => Just(Charge::NeverLast), 1 => Just(Charge::Uncounted)]
}
