//! What may happen, and how often.

use proptest::prelude::*;

/// One thing that happens. Commands are picked from all that were ever given, by a number modulo.
/// Times are in milliseconds.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Send(Send),
    Open {
        device: usize,
    },
    Close {
        device: usize,
    },
    SetPace {
        device: usize,
        pace: (u32, u64),
    },
    ForgetIdle {
        device: usize,
    },
    Poll {
        device: usize,
    },
    Answer {
        picked: usize,
        foreign: bool,
        ok: bool,
        result: Option<u8>,
    },
    Progress {
        picked: usize,
        foreign: bool,
        progress: u8,
    },
    Cancel {
        picked: usize,
    },
    Retry {
        picked: usize,
    },
    /// A device is deleted, and another takes its number among the devices here.
    Replace {
        device: usize,
    },
    /// Time passes, and the rules are asked when they want to be.
    Pass {
        time: i64,
    },
    /// Time passes unnoticed.
    Skip {
        time: i64,
    },
    /// They are asked, for so many commands at a time.
    Advance {
        max: usize,
    },
    /// There is room for outcomes, or none any more.
    ToggleRoom,
    Restart,
}

/// A new command.
#[derive(Clone, Debug)]
pub(crate) struct Send {
    pub(crate) device: usize,
    pub(crate) priority: i8,
    pub(crate) not_before: Option<i64>,
    pub(crate) ttl: Option<u64>,
    pub(crate) ack_timeout: u64,
    pub(crate) run_timeout: u64,
    pub(crate) attempts_max: u32,
    pub(crate) key: Option<u8>,
    pub(crate) payload_bytes: usize,
    /// Whether somebody is to be told how it ends.
    pub(crate) is_told: bool,
}

/// Which devices there are, and what of their commands is special.
#[derive(Clone, Copy)]
pub(crate) struct Scope {
    pub(crate) devices: usize,
    /// Of ten commands, how many have a key, wait for a time, or expire.
    pub(crate) special: u32,
    /// How often commands are given, where 20 other things happen.
    pub(crate) sending: u32,
}

pub(crate) fn operations(scope: Scope) -> impl Strategy<Value = Operation> {
    let device = 0..scope.devices;
    prop_oneof![
        scope.sending => send(scope).prop_map(Operation::Send),
        5 => device.clone().prop_map(|device| Operation::Open { device }),
        2 => device.clone().prop_map(|device| Operation::Close { device }),
        1 => device.clone().prop_map(|device| Operation::ForgetIdle { device }),
        2 => (device.clone(), pace()).prop_map(|(device, pace)| Operation::SetPace { device, pace }),
        2 => device.prop_map(|device| Operation::Poll { device }),
        8 => said(),
        3 => by_hand(scope),
        6 => passing(),
        1 => Just(Operation::ToggleRoom),
        1 => Just(Operation::Restart),
    ]
}

/// How many may be unanswered at a time, and the gap, of each device.
pub(crate) fn paces(scope: Scope) -> impl Strategy<Value = Vec<(u32, u64)>> {
    proptest::collection::vec(pace(), scope.devices)
}

fn pace() -> impl Strategy<Value = (u32, u64)> {
    let gap = prop_oneof![2 => Just(0), 1 => 1..12_u64];
    (1..4_u32, gap)
}

fn send(scope: Scope) -> impl Strategy<Value = Send> {
    let (plain, special) = (10 - scope.special, scope.special);
    let priority = prop_oneof![3 => Just(0), 2 => -2..3_i8, 1 => Just(-100), 1 => Just(100)];
    let not_before = prop_oneof![plain => Just(None), special => (-5..30_i64).prop_map(Some)];
    let ttl = prop_oneof![plain => Just(None), special => (0..40_u64).prop_map(Some)];
    let key = prop_oneof![plain => Just(None), special => (0..2_u8).prop_map(Some)];
    let terms = (1..15_u64, 1..25_u64, 1..4_u32);
    // Large ones are not kept in memory.
    let payload_bytes = prop_oneof![9 => Just(1), 1 => Just(1 << 12)];
    let is_told = prop::bool::weighted(0.3);
    (0..scope.devices, priority, not_before, ttl, terms, (key, payload_bytes, is_told)).prop_map(
        |(
            device,
            priority,
            not_before,
            ttl,
            (ack_timeout, run_timeout, attempts_max),
            (key, payload_bytes, is_told),
        )| Send {
            device,
            priority,
            not_before,
            ttl,
            ack_timeout,
            run_timeout,
            attempts_max,
            key,
            payload_bytes,
            is_told,
        },
    )
}

fn said() -> impl Strategy<Value = Operation> {
    let (picked, foreign) = (0..1_000_usize, prop::bool::weighted(0.05));
    let result = prop_oneof![1 => Just(None), 1 => (0..3_u8).prop_map(Some)];
    prop_oneof![
        3 => (picked.clone(), foreign, any::<bool>(), result)
            .prop_map(|(picked, foreign, ok, result)| Operation::Answer { picked, foreign, ok, result }),
        1 => (picked, foreign, 0..3_u8)
            .prop_map(|(picked, foreign, progress)| Operation::Progress { picked, foreign, progress }),
    ]
}

fn by_hand(scope: Scope) -> impl Strategy<Value = Operation> {
    let picked = 0..1_000_usize;
    prop_oneof![
        10 => picked.clone().prop_map(|picked| Operation::Cancel { picked }),
        15 => picked.prop_map(|picked| Operation::Retry { picked }),
        1 => (0..scope.devices).prop_map(|device| Operation::Replace { device }),
    ]
}

fn passing() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => (1..25_i64).prop_map(|time| Operation::Pass { time }),
        2 => (1..25_i64).prop_map(|time| Operation::Skip { time }),
        2 => (1..5_usize).prop_map(|max| Operation::Advance { max }),
    ]
}
