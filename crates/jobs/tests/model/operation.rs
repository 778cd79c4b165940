//! What may happen, and how often.

use std::time::Duration;

use jobs::{Charge, OnConflict};
use proptest::prelude::*;

/// One thing that happens. Ids and reservations are picked from all that were ever given out, by a number modulo.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Publish { queue: u64, run_in_ms: i64, tries: u32, alias: Option<u128>, on_conflict: OnConflict },
    Lease { queue: u64, own: bool, ttr: Duration },
    Ack { picked: usize },
    Release { picked: usize, delay: Duration, charge: Charge },
    Extend { picked: usize, ttr: Duration },
    Cancel { picked: usize },
    Reschedule { picked: usize, run_in_ms: i64 },
    Pass { ms: i64 },
    Advance { limit: usize },
    Restart { same_process: bool },
}

/// How many queues and aliases there are, and how much more is published than taken.
#[derive(Clone, Copy)]
pub(crate) struct Scope {
    queues: u64,
    aliases: u128,
    without_alias: u32,
    publishing: u32,
}

impl Scope {
    pub(crate) const WIDE: Self = Self { queues: 3, aliases: 4, without_alias: 4, publishing: 6 };
    pub(crate) const ONE_ALIAS: Self = Self { queues: 1, aliases: 1, without_alias: 0, publishing: 6 };
    pub(crate) const CROWD: Self = Self { queues: 2, aliases: 40, without_alias: 20, publishing: 14 };
}

pub(crate) fn operations(scope: Scope) -> impl Strategy<Value = Operation> {
    let picked = 0..1_000_usize;
    prop_oneof![
        scope.publishing => publish(scope),
        6 => (0..scope.queues, any::<bool>(), span(30))
            .prop_map(|(queue, own, ttr)| Operation::Lease { queue, own, ttr }),
        2 => picked.clone().prop_map(|picked| Operation::Ack { picked }),
        3 => (picked.clone(), span(30), charge())
            .prop_map(|(picked, delay, charge)| Operation::Release { picked, delay, charge }),
        1 => (picked.clone(), span(30)).prop_map(|(picked, ttr)| Operation::Extend { picked, ttr }),
        1 => picked.clone().prop_map(|picked| Operation::Cancel { picked }),
        1 => (picked, -20..60_i64)
            .prop_map(|(picked, run_in_ms)| Operation::Reschedule { picked, run_in_ms }),
        2 => (0..25_i64).prop_map(|ms| Operation::Pass { ms }),
        3 => prop_oneof![0..4_usize, Just(usize::MAX)].prop_map(|limit| Operation::Advance { limit }),
        1 => any::<bool>().prop_map(|same_process| Operation::Restart { same_process }),
    ]
}

fn publish(scope: Scope) -> impl Strategy<Value = Operation> {
    let alias = prop_oneof![
        scope.without_alias => Just(None),
        4 => (0..scope.aliases).prop_map(Some),
    ];
    let on_conflict = prop_oneof![
        1 => Just(OnConflict::Reject),
        3 => Just(OnConflict::Keep),
        3 => Just(OnConflict::Replace),
    ];
    // A third is due at once; otherwise within sight, or in ten years.
    let run_in_ms = prop_oneof![4 => Just(0), 4 => -20..60_i64, 1 => Just(315_360_000_000)];
    (0..scope.queues, run_in_ms, 0..4_u32, alias, on_conflict).prop_map(
        |(queue, run_in_ms, tries, alias, on_conflict)| Operation::Publish {
            queue,
            run_in_ms,
            tries,
            alias,
            on_conflict,
        },
    )
}

fn span(ms_max: u64) -> impl Strategy<Value = Duration> {
    (0..ms_max).prop_map(Duration::from_millis)
}

fn charge() -> impl Strategy<Value = Charge> {
    prop_oneof![3 => Just(Charge::Counted), 1 => Just(Charge::NeverLast), 1 => Just(Charge::Uncounted)]
}
