//! The rate: commands are handed out evenly, a fixed time apart.

use base::Timestamp;
use records::{Rollout, RolloutState};

use crate::HandOutAllowance;

/// Commands missed during at most this delay are handed out afterwards. After a longer delay they
/// are not, so that a pause is not followed by a burst.
const MADE_UP_US: u64 = 1_000_000;
/// What may be handed out at once without a rate.
const WITHOUT_RATE: u64 = u64::MAX;
const MINUTE_US: u64 = 60_000_000;

/// How many commands the rate allows now.
pub(crate) fn allowance(rollout: &Rollout, state: &RolloutState, now: Timestamp) -> HandOutAllowance {
    let Some(interval_us) = interval_us(rollout) else { return HandOutAllowance::Now(WITHOUT_RATE) };
    let (now_us, next_us) = (micros(now), next_us(state, now));
    if next_us > now_us {
        return HandOutAllowance::At(Timestamp(next_us.div_ceil(1_000).cast_signed()));
    }
    HandOutAllowance::Now((now_us - next_us) / interval_us + 1)
}

/// One is handed out now.
pub(crate) fn spend(rollout: &Rollout, state: &mut RolloutState, now: Timestamp) {
    if let Some(interval_us) = interval_us(rollout) {
        state.next_us = next_us(state, now) + interval_us;
    }
}

fn next_us(state: &RolloutState, now: Timestamp) -> u64 {
    let now_us = micros(now);
    if now_us.saturating_sub(state.next_us) > MADE_UP_US { now_us } else { state.next_us }
}

fn interval_us(rollout: &Rollout) -> Option<u64> {
    rollout.rate.map(|rate| (MINUTE_US / u64::from(rate.max(1))).max(1))
}

fn micros(at: Timestamp) -> u64 {
    at.0.max(0).cast_unsigned().saturating_mul(1_000)
}
