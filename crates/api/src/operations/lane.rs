//! Rows that have their turn one after the other.
//!
//! Refused reports of one device share a lane, so that they are handed in again in the order in
//! which they came. Every other row has a lane of its own.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base::id::QUARANTINE_ID_PREFIX;
use base::{DeviceId, EntityId, Problem};
use engine::records::{OperationAction, OperationError};

use super::OperationPlan;
use super::act::{RowOutcome, act, refusal};
use crate::ApiState;

/// Times that a row is tried where that is not possible now: about a minute. Then it is refused.
pub(super) const TRIES_MAX: u32 = 60;

/// Rows, and what the first one waits for.
#[derive(Debug, Default)]
pub(super) struct RowLane {
    rows: VecDeque<Box<str>>,
    tries: u32,
    waits_for: Option<OperationError>,
}

/// The lanes of some rows, in their order.
pub(super) async fn of_rows(api: &ApiState, plan: &OperationPlan, rows: &[Box<str>]) -> Vec<RowLane> {
    if plan.action != OperationAction::ReplayQuarantined {
        return rows.iter().map(|row| RowLane::of(row.clone())).collect();
    }
    // Where it is not known whose they are, one order holds for all.
    let devices = devices_of(api, rows).await.unwrap_or_else(|_| vec![None; rows.len()]);
    let mut lanes: BTreeMap<Option<DeviceId>, RowLane> = BTreeMap::new();
    for (row, device) in rows.iter().zip(devices) {
        lanes.entry(device).or_default().rows.push_back(row.clone());
    }
    lanes.into_values().collect()
}

/// The devices that refused reports are of, as far as that is known.
async fn devices_of(api: &ApiState, rows: &[Box<str>]) -> Result<Vec<Option<DeviceId>>, Problem> {
    let (queries, rows) = (api.queries(), rows.to_vec());
    let look = move || {
        let device = |row: &str| match EntityId::from_text(QUARANTINE_ID_PREFIX, row) {
            Some(id) => Ok(queries.quarantined(id)?.and_then(|report| report.device)),
            None => Ok(None),
        };
        rows.iter().map(|row| device(row)).collect()
    };
    api.shared.lookups.run(look).await
}

impl RowLane {
    fn of(row: Box<str>) -> Self {
        Self { rows: [row].into(), ..Self::default() }
    }

    /// Whether all its rows had their turn.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Why its first row could not have its turn yet.
    pub(super) fn waits_for(&self) -> Option<&OperationError> {
        self.waits_for.as_ref()
    }

    /// Does the action to each row, up to one that cannot be done now; what became of them.
    pub(super) async fn run(
        &mut self,
        api: &ApiState,
        plan: &Arc<OperationPlan>,
        of: EntityId,
    ) -> Vec<RowOutcome> {
        let mut outcomes = Vec::new();
        while let Some(row) = self.rows.front() {
            let outcome = match act(api, plan, of, row).await {
                Ok(outcome) => outcome,
                Err(problem) => {
                    self.tries += 1;
                    let error = refusal(&problem, row);
                    if self.tries < TRIES_MAX {
                        self.waits_for = Some(error);
                        return outcomes;
                    }
                    RowOutcome::Refused(error)
                }
            };
            outcomes.push(outcome);
            (self.tries, self.waits_for) = (0, None);
            self.rows.pop_front();
        }
        outcomes
    }
}
