//! Lives of the process: it starts, is killed, loses its power, or stops well; and starts again over what is left.

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
use super::server::Server;
use crate::harness::storage::End;
use crate::meant::Meant;
use crate::model::track::Track;
use crate::plan;
use crate::sabotage::Sabotage;
use crate::tap::Tap;
use crate::violation::{Checked, Invariant};

/// Steps that a clean stop may take: far more than any needs.
const STOP_STEPS_MAX: usize = 10_000;

impl World {
    /// The process starts. With faults of the disk it may not get far, and is started again later.
    pub(super) fn start(&mut self) -> Checked {
        if self.processes > 0 {
            self.check_rows()?;
        }
        match self.try_start() {
            Ok(server) => self.started(server),
            Err(error) => {
                self.trace.note(format_args!("the start fails: {error}"));
                if let Some(end) = self.storage.take_end() {
                    self.trace.note(format_args!("{end:?} while it starts"));
                    self.counts.ends_in_a_start += 1;
                    self.power_may_have_failed(end);
                    return Ok(());
                }
                self.counts.refused_opens += 1;
                let excused = self.storage.is_faulty();
                Invariant::DurableBeforeAcknowledged
                    .check(excused, || format!("a disk without faults is refused: {error}"))?;
                self.storage.heal();
                self.storage.kill();
                Ok(())
            }
        }
    }

    fn try_start(&mut self) -> Result<Server, StoreError> {
        let store = self.storage.open()?;
        self.clock.start(store.recorded_now());
        self.reconfigure();
        let tap = Tap::new(store, self.plan.sabotage);
        self.processes += 1;
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let ignored = usize::from(self.plan.sabotage == Some(Sabotage::LimitIgnored));
        let limits = Limits {
            per_client: self.plan.per_client_in_flight + ignored,
            total: IN_FLIGHT_MAX,
            breaker_pause: self.settings.retry.base,
        };
        Server::start(&tap, clock, &self.settings_as_given(), Process(self.processes), limits)
    }

    /// An operator may change the settings between two lives. How long an attempt may take is also what the receivers go by.
    fn reconfigure(&mut self) {
        if self.processes > 0 && self.plan.reconfigures && self.random.chance(1, 3) {
            let attempt_timeout = self.settings.attempt_timeout;
            let settings = plan::settings(&mut self.random);
            self.settings = Arc::new(Settings { attempt_timeout, ..settings });
            self.trace.note(format_args!("other settings: {:?}", self.settings.ways_configured));
        }
    }

    /// The settings that the server is given: those in force, unless the harness is broken.
    fn settings_as_given(&self) -> Arc<Settings> {
        let settings = &self.settings;
        match self.plan.sabotage {
            Some(Sabotage::RetriesTooSoon) => {
                let retry = Retry { base: settings.retry.base / 2, ..settings.retry };
                Arc::new(Settings { retry, ..(**settings).clone() })
            }
            Some(Sabotage::NothingSkipped) => {
                let render =
                    |picture: &Picture<'_>| notify::render(&Picture { skipped: 0, ..picture.clone() });
                Arc::new(Settings { render: Arc::new(render), ..(**settings).clone() })
            }
            _ => Arc::clone(settings),
        }
    }

    /// The model goes to where the store is; what was sent in another life was cut off.
    fn started(&mut self, server: Server) -> Checked {
        let now = self.clock.now();
        self.trace.note(format_args!("process {} starts at {}", self.processes, now.0));
        let orphans = server.orphans.clone();
        let loaded = server.tap.take_loaded();
        self.server = Some(server);
        for (partition, head) in loaded {
            self.forget_after(partition, head.seq);
            self.trace.note(format_args!("{partition} is loaded at batch {}", head.seq));
            if partition == PartitionId::REGISTRY {
                self.registry.back_to(head.seq)?;
            } else {
                let track = &mut self.model[usize::from(partition.0)];
                track.load(head.seq, now, (self.processes, &self.settings), [false; 3])?;
            }
        }
        // An opening makes durable what it finds.
        self.all_synced();
        for partition in 0..self.plan.partitions {
            self.audit(PartitionId(partition))?;
        }
        self.audit(PartitionId::REGISTRY)?;
        if self.random.chance(1, 3) {
            // What a start shows must be durable, whatever the life before it has left unsynced.
            self.audit_after_a_crash()?;
        }
        for client in orphans {
            self.sweep(client, PartitionId(0));
        }
        let ways: Vec<WayIn> = self.ways().collect();
        for way in ways {
            if self.random.chance(9, 10) {
                self.attend(way, true);
            }
        }
        Ok(())
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
        self.trace.note(format_args!("{} attended: {attended}", way.as_str()));
        let told = attended || self.plan.sabotage == Some(Sabotage::SilentDoor);
        if let Some(server) = &self.server {
            server.attended[way.index()].store(told, std::sync::atomic::Ordering::SeqCst);
        }
        for partition in 0..self.plan.partitions {
            let input = Input::Attend { way, attended: told };
            let _not_accepting = self.hand_in(PartitionId(partition), input, Meant::Attend { way, attended });
        }
    }

    /// The process ends without a word.
    pub(super) fn end_life(&mut self, end: End) {
        self.trace.note(format_args!("{end:?}"));
        // The disk goes first: a process that dies writes nothing more.
        match end {
            End::Kill => {
                self.counts.kills += 1;
                self.storage.kill();
            }
            End::Crash => {
                self.counts.crashes += 1;
                self.storage.crash(&mut self.random);
            }
        }
        self.ended(end);
    }

    fn ended(&mut self, end: End) {
        self.power_may_have_failed(end);
        self.bury();
    }

    fn power_may_have_failed(&mut self, end: End) {
        if end == End::Crash {
            self.model.iter_mut().for_each(Track::power_failed);
            self.registry.power_failed();
        }
    }

    /// What came of batches that the power has taken is as if it had never been: nobody can hold it against the server.
    fn forget_after(&mut self, partition: PartitionId, seq: u64) {
        self.sending.forget_after(partition, seq);
        self.receivers.forget_after(partition, seq);
    }

    /// Syncs what is committed, where the store does so later than it answers.
    pub(super) fn sync(&mut self) {
        let synced = self.storage.sync_step();
        if !self.notice_end() && synced {
            self.trace.note(format_args!("synced"));
            self.all_synced();
        }
    }

    fn all_synced(&mut self) {
        self.unsynced_since = None;
        self.model.iter_mut().for_each(Track::synced);
        self.registry.synced();
    }

    /// Commits what waits. Whether there was anything.
    pub(super) fn commit(&mut self) -> bool {
        let any = self.storage.commit_step(&mut self.random);
        if any {
            self.unsynced_since.get_or_insert(self.clock.now());
        }
        any
    }

    /// The process may have come to its end within what its store was just asked to do. Whether it has.
    pub(super) fn notice_end(&mut self) -> bool {
        let Some(end) = self.storage.take_end() else { return false };
        self.trace.note(format_args!("{end:?} in the middle of a step"));
        self.counts.ends_in_a_step += 1;
        self.ended(end);
        true
    }

    /// Whoever waited for the process waits for nothing.
    fn bury(&mut self) {
        self.server = None;
        for call in std::mem::take(&mut self.calls) {
            self.repeat_later(call.then);
        }
        self.expectations.clear();
        self.sending.cut_off();
        self.breakers.forget();
    }

    /// The process is asked to stop: it finishes what it took, and then ends.
    pub(super) fn stop_well(&mut self) -> Checked {
        self.trace.note(format_args!("stop"));
        for _ in 0..STOP_STEPS_MAX {
            if !self.drain_step()? {
                break;
            }
        }
        if let Some(server) = &mut self.server {
            server.partitions.iter_mut().for_each(|port| port.runner.close());
        }
        for partition in 0..self.plan.partitions {
            if self.server.as_mut().is_some_and(|server| !server.port(PartitionId(partition)).dead) {
                self.step_partition(PartitionId(partition), 0)?;
            }
        }
        for _ in 0..STOP_STEPS_MAX {
            if !self.commit_and_tell()? {
                break;
            }
        }
        if self.server.is_none() {
            // It came to another end.
            return Ok(());
        }
        let settled = self.server.as_ref().is_none_or(Server::is_settled_or_dead);
        Invariant::Bounded.check(settled, || "a clean stop does not come to an end".to_owned())?;
        self.counts.stops += 1;
        self.bury();
        let synced = self.storage.stop();
        if !self.notice_end() && synced {
            self.all_synced();
        }
        Ok(())
    }

    /// A step of whoever has something left. Whether anybody had.
    fn drain_step(&mut self) -> Checked<bool> {
        let Some(server) = &self.server else { return Ok(false) };
        if !server.registry.dead && server.registry.runner.may_step() && !server.registry.inbox.is_empty() {
            self.step_registry(usize::MAX)?;
            return Ok(true);
        }
        let waits =
            |port: &&super::server::Port<_, _>| !port.dead && port.runner.may_step() && port.has_input();
        let waiting = server.partitions.iter().find(waits).map(|port| port.runner.id());
        if let Some(partition) = waiting {
            self.step_partition(partition, usize::MAX)?;
            return Ok(true);
        }
        self.commit_and_tell()
    }

    /// A commit, or an outcome. Whether there was either.
    pub(super) fn commit_and_tell(&mut self) -> Checked<bool> {
        if self.outcomes_waiting() > 0 {
            self.tell_outcome(0)?;
            return Ok(true);
        }
        let any = self.commit();
        Ok(any && !self.notice_end())
    }
}
