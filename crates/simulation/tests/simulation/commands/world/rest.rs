//! The end of a run: all devices are there and answer, and every command that may end ends.

use super::World;
use crate::harness::violation::{Checked, Invariant};
use crate::harness::workload::{Rest, Workload};

/// Rounds of waiting: more than any command takes.
const ROUNDS_MAX: u64 = 5_000;

impl World {
    pub(super) fn end_all(&mut self) -> Checked<Rest> {
        let absent: Vec<usize> = (0..self.fleet.devices.len())
            .filter(|index| !self.fleet.devices[*index].is_settled)
            .filter(|_| self.has_room())
            .collect();
        if !absent.is_empty() {
            absent.into_iter().for_each(|index| self.settle_down(index));
            return Ok(Rest::Asked);
        }
        if self.has_room() && self.resume_all() {
            return Ok(Rest::Asked);
        }
        let open = self.model.iter().flat_map(|track| track.present.commands.values());
        let open: Vec<_> = open.filter(|known| !known.state.status.has_ended()).collect();
        if open.is_empty() && self.fleet.sayings.is_empty() && self.open_rollouts().is_empty() {
            return Ok(Rest::Found);
        }
        self.rounds += 1;
        Invariant::NEVER_EARLY_HARDLY_LATE.check(self.rounds <= ROUNDS_MAX, || {
            format!("commands never end: {open:?}; rollouts never end: {:?}", self.open_rollouts())
        })?;
        Ok(Rest::Waits(self.ms_to_next(&self.machine).unwrap_or(1_000).clamp(1, 60_000)))
    }

    /// Everything that was accepted has ended, as every caller that waited was told.
    pub(super) fn check_ended(&self) -> Checked {
        for id in self.history.all_accepted() {
            let state = &self.known(id)?.state;
            Invariant::DURABLE_BEFORE_ACKNOWLEDGED
                .check(state.status.has_ended(), || format!("{id:?} has no end: {state:?}"))?;
        }
        self.check_rollouts()?;
        let waiting: Vec<_> = self.calls.waiting.iter().map(|call| call.id).collect();
        Invariant::BOUNDED.check(waiting.is_empty(), || format!("calls {waiting:?} are never answered"))
    }
}
