//! Lives of a process with devices and clients: what it is loaded with, what the model makes of its
//! start, and what goes with it.

use std::sync::Arc;

use base::{Clock, Incarnation, PartitionId, WayIn};
use engine::Settings;
use engine::devices::input::Input;
use engine::kernel::reply::Reply;
use engine::settings::{Picture, Retry};
use notify::lanes::{IN_FLIGHT_MAX, Limits};
use records::Process;
use store::StoreError;

use super::World;
use super::calls::{Then, Waiting};
use super::server::{Server, waiting_in};
use crate::devices::checkers::contents;
use crate::devices::meant::Meant;
use crate::devices::model::track::{Past, Track};
use crate::devices::plan;
use crate::harness::fault_injection::InjectedFault;
use crate::harness::lives::Life;
use crate::harness::machine::Machine;
use crate::harness::store_spy::StoreSpy;
use crate::harness::violation::{Checked, Invariant};

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

    /// An operator may change the settings between two lives. How long an attempt may take is also
    /// what the receivers go by.
    fn before_load(&mut self) {
        if self.machine.processes > 0 && self.plan.reconfigures && self.machine.random.chance(1, 3) {
            let attempt_timeout = self.settings.attempt_timeout;
            let settings = plan::settings(&mut self.machine.random);
            self.settings = Arc::new(Settings { attempt_timeout, ..settings });
            self.machine.trace.note(format_args!("other settings: {:?}", self.settings.ways_configured));
        }
    }

    fn load(
        &mut self,
        spy: &Arc<StoreSpy>,
        clock: Arc<dyn Clock>,
        process: Process,
    ) -> Result<Server, StoreError> {
        let ignored = usize::from(self.machine.plan.injected == Some(InjectedFault::LimitIgnored));
        let limits = Limits {
            per_client: self.plan.per_client_in_flight + ignored,
            total: IN_FLIGHT_MAX,
            breaker_pause: self.settings.retry.base,
        };
        Server::start(spy, clock, &self.settings_as_given(), process, limits)
    }

    /// The model goes to where the store is. What was sent in another life was cut off.
    fn started(&mut self, server: Server) -> Checked {
        let now = self.machine.clock.now();
        self.machine.trace.note(format_args!("process {} starts at {}", self.machine.processes, now.0));
        let orphans = server.orphans.clone();
        let loaded = server.spy.take_loaded();
        self.server = Some(server);
        for (partition, head) in loaded {
            self.forget_after(partition, head.seq);
            self.machine.trace.note(format_args!("{partition} is loaded at batch {}", head.seq));
            if partition == PartitionId::REGISTRY {
                self.registry.back_to(head.seq)?;
            } else {
                let track = &mut self.model[usize::from(partition.0)];
                track.load(head.seq, now, (self.machine.processes, &self.settings), [false; 3])?;
            }
        }
        // An opening makes durable what it finds.
        self.all_synced();
        for partition in 0..self.plan.partitions {
            self.audit(PartitionId(partition))?;
        }
        self.audit(PartitionId::REGISTRY)?;
        if self.machine.random.chance(1, 3) {
            // What a start shows must be durable, whatever the life before it has left unsynced.
            self.audit_after_a_crash()?;
        }
        for client in orphans {
            self.sweep(client, PartitionId(0));
        }
        let ways: Vec<WayIn> = self.ways().collect();
        for way in ways {
            if self.machine.random.chance(9, 10) {
                self.attend(way, true);
            }
        }
        Ok(())
    }

    fn power_failed(&mut self) {
        self.model.iter_mut().for_each(Track::power_failed);
        self.registry.power_failed();
    }

    fn synced(&mut self) {
        self.model.iter_mut().for_each(Track::synced);
        self.registry.synced();
    }

    fn bury(&mut self) {
        self.server = None;
        for call in std::mem::take(&mut self.calls) {
            self.repeat_later(call.then);
        }
        self.expectations.clear();
        self.sending.cut_off();
        self.breakers.forget();
    }

    fn step_partition(&mut self, partition: PartitionId, count: usize) -> Checked {
        self.step_devices(partition, count)
    }

    fn drain_inputs(&mut self) -> Checked<bool> {
        let Some(server) = &self.server else { return Ok(false) };
        if !server.registry.dead && server.registry.runner.may_step() && !server.registry.inbox.is_empty() {
            self.step_registry(usize::MAX)?;
            return Ok(true);
        }
        let waits =
            |port: &&super::server::Port<_, _>| !port.dead && port.runner.may_step() && port.has_input();
        let waiting = server.partitions.iter().find(waits).map(|port| port.runner.id());
        let Some(partition) = waiting else { return Ok(false) };
        self.step_partition(partition, usize::MAX)?;
        Ok(true)
    }

    fn close(&mut self) {
        if let Some(server) = &mut self.server {
            server.partitions.iter_mut().for_each(|port| port.runner.close());
        }
    }

    fn living(&self) -> Vec<PartitionId> {
        let ports = self.server.iter().flat_map(|server| &server.partitions);
        ports.filter(|port| !port.dead).map(|port| port.runner.id()).collect()
    }

    fn is_settled_or_dead(&self) -> bool {
        self.server.as_ref().is_none_or(Server::is_settled_or_dead)
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
        for (id, track) in (0..).zip(&self.model) {
            contents::check_partition(&*store, PartitionId(id), track, Past::LossOfPower)?;
        }
        contents::check_registry(&*store, &self.registry, Past::LossOfPower)?;
        Ok(())
    }
}

impl World {
    /// The settings that the server is given: those in force, unless the harness is broken.
    fn settings_as_given(&self) -> Arc<Settings> {
        let settings = &self.settings;
        match self.machine.plan.injected {
            Some(InjectedFault::RetriesTooSoon) => {
                let retry = Retry { base: settings.retry.base / 2, ..settings.retry };
                Arc::new(Settings { retry, ..(**settings).clone() })
            }
            Some(InjectedFault::NothingSkipped) => {
                let render =
                    |picture: &Picture<'_>| notify::render(&Picture { skipped: 0, ..picture.clone() });
                Arc::new(Settings { render: Arc::new(render), ..(**settings).clone() })
            }
            _ => Arc::clone(settings),
        }
    }

    /// Asks a partition to unlink a client that is gone, and the next ones after it.
    pub(super) fn sweep(&mut self, client: Incarnation, partition: PartitionId) {
        if partition.0 >= self.plan.partitions {
            return;
        }
        let call = self.next_call();
        let (reply, receiver) = Reply::new();
        if self.hand_in(partition, Input::SweepClient { client, reply }, Meant::Sweep { call, client }) {
            let then = Then::SweepOn(client, partition);
            self.await_answer(call, Waiting::Swept(receiver), vec![partition], then);
        }
    }

    /// A way in opens or closes its door.
    pub(super) fn attend(&mut self, way: WayIn, attended: bool) {
        self.machine.trace.note(format_args!("{} attended: {attended}", way.as_str()));
        let told = attended || self.machine.plan.injected == Some(InjectedFault::SilentDoor);
        if let Some(server) = &self.server {
            server.attended[way.index()].store(told, std::sync::atomic::Ordering::SeqCst);
        }
        for partition in 0..self.plan.partitions {
            let input = Input::Attend { way, attended: told };
            let _not_accepting = self.hand_in(PartitionId(partition), input, Meant::Attend { way, attended });
        }
    }

    /// What came of batches that the power has taken is as if it had never been: nobody can hold it
    /// against the server.
    fn forget_after(&mut self, partition: PartitionId, seq: u64) {
        self.sending.forget_after(partition, seq);
        self.receivers.forget_after(partition, seq);
    }
}
