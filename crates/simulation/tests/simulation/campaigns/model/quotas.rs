//! How many picks tokens and devices have had in an hour.

use std::collections::BTreeMap;
use std::rc::Rc;

use base::{Incarnation, Timestamp};
use records::{DevicePlace, Pick, TaskRecord};

use super::Model;
use crate::harness::violation::{Checked, Invariant};

const HOUR_MS: i64 = 3_600_000;
/// A device's hour goes by minutes: a pick counts at least so long.
const DEVICE_HOUR_MS: i64 = HOUR_MS - 60_000;

/// Picks of the present hour.
#[derive(Clone, Default)]
pub(super) struct QuotaUse {
    /// Of each token, the hour with its picks in it.
    tokens: BTreeMap<Box<str>, (i64, u64)>,
    /// When each device was picked in about the last hour.
    devices: BTreeMap<DevicePlace, Rc<Vec<Timestamp>>>,
}

impl Model {
    /// Whether the token of a task is not among those that there are.
    pub(super) fn is_of_gone_token(&self, task: &TaskRecord) -> bool {
        let tokens = &self.rules.quotas.token_picks_per_hour;
        let token = self.terms.get(&task.terms).and_then(|terms| terms.token.as_ref());
        !tokens.is_empty() && token.is_some_and(|token| !tokens.contains_key(token))
    }

    /// A new pick is one that its token and its device may still have.
    pub(super) fn check_quotas(&mut self, pick: &Pick, terms: Incarnation) -> Checked {
        let token = self.terms.get(&terms).and_then(|terms| terms.token.clone());
        if let Some(token) = token {
            self.check_token(token, pick)?;
        }
        let Some(most) = self.rules.quotas.device_picks_per_hour else { return Ok(()) };
        let since = Timestamp(pick.picked_at.0 - DEVICE_HOUR_MS);
        let picked = Rc::make_mut(self.quotas.devices.entry(pick.place).or_default());
        picked.retain(|at| *at > since);
        picked.push(pick.picked_at);
        let count = picked.len() as u64;
        self.counts.device_quotas_full += u64::from(count == u64::from(most));
        let holds = count <= u64::from(most);
        Invariant::QUOTAS_HOLD.check(holds, || format!("{count} picks of {most} in an hour: {pick:?}"))
    }

    fn check_token(&mut self, token: Box<str>, pick: &Pick) -> Checked {
        let tokens = &self.rules.quotas.token_picks_per_hour;
        if tokens.is_empty() {
            return Ok(());
        }
        let Some(most) = tokens.get(&token).copied() else {
            return Err(Invariant::QUOTAS_HOLD.broken(format!("{token} is not configured: {pick:?}")));
        };
        let Some(most) = most.map(u64::from) else { return Ok(()) };
        let hour = pick.picked_at.0 / HOUR_MS;
        let used = self.quotas.tokens.entry(token).or_insert((hour, 0));
        if used.0 != hour {
            *used = (hour, 0);
        }
        used.1 += 1;
        let count = used.1;
        self.counts.token_quotas_full += u64::from(count == most);
        Invariant::QUOTAS_HOLD.check(count <= most, || format!("{count} of {most} in an hour: {pick:?}"))
    }
}
