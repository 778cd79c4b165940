//! Lives of a process with queues: what the model makes of its start, and what goes with it.

use std::sync::Arc;

use base::{Clock, PartitionId, Timestamp};
use records::Process;
use store::StoreError;

use super::World;
use super::server::Server;
use crate::devices::model::track::{Past, Track};
use crate::devices::world::server::waiting_in;
use crate::harness::lives::Life;
use crate::harness::machine::Machine;
use crate::harness::store_spy::StoreSpy;
use crate::harness::violation::{Checked, Invariant};
use crate::queues::checkers::contents;

impl Life for World {
    type Server = Server;

    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn machine_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }

    fn is_up(&self) -> bool {
        self.server.is_some()
    }

    fn load(
        &mut self,
        spy: &Arc<StoreSpy>,
        clock: Arc<dyn Clock>,
        process: Process,
    ) -> Result<Server, StoreError> {
        Server::start(spy, clock, &self.plan.machine.settings, process, self.plan.resident_max)
    }

    fn started(&mut self, server: Server) -> Checked {
        self.machine.trace.note(format_args!(
            "process {} starts at {}",
            self.machine.processes,
            self.now().0
        ));
        let loaded = server.spy.take_loaded();
        self.server = Some(server);
        self.closing = false;
        let now = self.now();
        for (partition, head) in loaded {
            self.load_model(partition, head.seq, now)?;
        }
        // An opening makes durable what it finds.
        self.all_synced();
        for partition in self.partitions() {
            self.audit_at_start(partition)?;
        }
        if self.machine.plan.weights.audit > 0 && self.machine.random.chance(1, 3) {
            // What a start shows must be durable, whatever the life before it has left unsynced.
            self.audit_after_a_crash()?;
        }
        Ok(())
    }

    /// Nobody can hold against the server what the power has taken.
    fn power_failed(&mut self) {
        for index in 0..self.model.len() {
            let track = &mut self.model[index];
            track.power_failed();
            let (partition, kept) = (PartitionId::of_queues(index as u16), track.surely_kept());
            self.history.forget_after(partition, kept);
            self.forget_leases_after(partition, kept);
        }
    }

    fn synced(&mut self) {
        self.model.iter_mut().for_each(Track::synced);
    }

    fn bury(&mut self) {
        self.server = None;
        self.closing = false;
        for call in std::mem::take(&mut self.calls) {
            self.unanswered(call.then);
        }
        self.expectations.clear();
        self.several.clear();
        self.hung_up.clear();
    }

    fn step_partition(&mut self, partition: PartitionId, count: usize) -> Checked {
        self.step_queues(partition, count)
    }

    fn drain_inputs(&mut self) -> Checked<bool> {
        let Some(server) = &self.server else { return Ok(false) };
        let waiting = server.ports().find(|port| !port.dead && port.runner.may_step() && port.has_input());
        let Some(partition) = waiting.map(|port| port.runner.id()) else { return Ok(false) };
        self.step_partition(partition, usize::MAX)?;
        Ok(true)
    }

    fn close(&mut self) {
        self.closing = true;
        if let Some(server) = &mut self.server {
            server.doors.iter_mut().for_each(|door| door.port.runner.close());
        }
    }

    fn living(&self) -> Vec<PartitionId> {
        let ports = self.server.iter().flat_map(Server::ports);
        ports.filter(|port| !port.dead).map(|port| port.runner.id()).collect()
    }

    fn is_settled_or_dead(&self) -> bool {
        self.server.as_ref().is_none_or(Server::is_settled_or_dead)
    }

    /// A clean stop sends every consumer home.
    fn check_stopped(&self) -> Checked {
        let broken = self.server.as_ref().is_some_and(Server::is_broken);
        let waiting = self.calls.iter().map(|call| call.id).collect::<Vec<_>>();
        Invariant::Bounded
            .check(broken || waiting.is_empty(), || format!("after a clean stop, calls {waiting:?} wait"))
    }

    fn outcomes_waiting(&self) -> usize {
        self.server.as_ref().map_or(0, |server| waiting_in(&server.outcomes))
    }

    fn tell_outcome(&mut self, index: usize) -> Checked {
        self.tell_of_batch(index)
    }

    fn audit_after_a_crash(&mut self) -> Checked {
        let store = self.machine.storage.after_a_crash().map_err(|error| {
            let detail = format!("after a crash at this moment the store refuses to open: {error}");
            Invariant::DurableBeforeAcknowledged.broken(detail)
        })?;
        self.machine.counts.audits += 1;
        for (id, track) in self.partitions().zip(&self.model) {
            contents::check(&*store, id, track, Past::LossOfPower)?;
        }
        Ok(())
    }
}

impl World {
    fn audit_at_start(&mut self, partition: PartitionId) -> Checked {
        if self.machine.plan.weights.audit == 0 { Ok(()) } else { self.audit(partition) }
    }

    /// The model of a partition goes back to what was loaded.
    pub(super) fn load_model(&mut self, partition: PartitionId, seq: u64, now: Timestamp) -> Checked {
        let track = &mut self.model[usize::from(partition.queues_index().unwrap_or_default())];
        track.back_to(seq)?;
        track.present.loaded(now, self.machine.clock.wall(), Process(self.machine.processes));
        Ok(())
    }
}
