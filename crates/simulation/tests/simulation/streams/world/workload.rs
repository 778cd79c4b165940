//! Streams as a workload: what the process is loaded with, what happens around it, and how likely
//! that is.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::{PartitionId, Timestamp};
use engine::EngineSettings;
use engine::streams::StreamPartition;
use records::{StreamBlock, StreamMove, WhenFull};
use store::{BlockStorage, BlockStorages, StoreError};

use super::{Server, World, free_space, partition};
use crate::harness::calls::{Calls, Expectations};
use crate::harness::machine::Machine;
use crate::harness::one_partition::{Phase, one_partition};
use crate::harness::port::{AnyPort, Port};
use crate::harness::process::Process;
use crate::harness::schedule::{Acts, when};
use crate::harness::shrinking::Knob;
use crate::harness::track::Track;
use crate::harness::violation::{Checked, Invariant};
use crate::harness::workload::{Rest, Workload};
use crate::streams::cold_storage::{COLD, ColdStorage};
use crate::streams::counts::Counts;
use crate::streams::ledger::Ledger;
use crate::streams::model::Model;
use crate::streams::plan::StreamsPlan;
use crate::streams::positions::Positions;
use crate::streams::readers::ReaderCalls;

/// How long a run waits at the end. By then every block is closed, stored though that failed, and
/// dropped if it does not stay for ever.
const REST: Duration = Duration::from_secs(20 * 60);

/// Calls of readers that are under way, at most.
const READS_MAX: usize = 8;

/// A kind of step that is this workload's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Append,
    Set,
    Delete,
    Read,
    Work,
    Disk,
    Cold,
    LookAtCold,
    Subscribe,
    Unsubscribe,
    ReadOn,
    EndRead,
    Commit,
    Post,
    ShowSubscription,
}

impl Workload for World {
    type Plan = StreamsPlan;
    type Counts = Counts;
    type Act = Act;

    one_partition!(partition(), streams);

    fn new(mut plan: StreamsPlan, machine: &Rc<Machine>) -> Self {
        let cold = Arc::<ColdStorage>::default();
        let storages = BTreeMap::from([(COLD.into(), Arc::clone(&cold) as Arc<dyn BlockStorage>)]);
        let block_storages = BlockStorages::new(storages);
        plan.settings = Arc::new(EngineSettings { block_storages, ..(*plan.settings).clone() });
        let model = Model { cold: Arc::clone(&cold), ..Model::default() };
        Self {
            model: Track::new(model, machine.plan.sync_interval().is_some()),
            cold,
            machine: Rc::clone(machine),
            server: None,
            ledger: Ledger::default(),
            positions: Positions::default(),
            readers: ReaderCalls::default(),
            reads: Vec::new(),
            posts: Vec::new(),
            expectations: Expectations::new(),
            calls: Calls::new(),
            sent: Vec::new(),
            next_numbers: BTreeMap::new(),
            last_payload: 0,
            is_nearly_full: false,
            was_nearly_full: false,
            phase: Phase::default(),
            counts: Counts::default(),
            plan,
        }
    }

    fn knobs(plan: &mut StreamsPlan) -> Vec<Knob<'_>> {
        let (weights, subscriptions) = (&mut plan.weights, &mut plan.subscriptions);
        vec![
            Knob::new("streams", &mut plan.streams, 1),
            Knob::new("memory_bytes", &mut plan.memory_bytes, 500),
            Knob::new("set", &mut weights.set, 0),
            Knob::new("delete", &mut weights.delete, 0),
            Knob::new("read", &mut weights.read, 0),
            Knob::new("disk", &mut weights.disk, 0),
            Knob::new("cold", &mut weights.cold, 0),
            Knob::new("moving_percent", &mut plan.moving_percent, 0),
            Knob::new("subscribe", &mut subscriptions.put, 0),
            Knob::new("unsubscribe", &mut subscriptions.delete, 0),
            Knob::new("read_on", &mut subscriptions.read, 0),
            Knob::new("commit", &mut subscriptions.commit, 0),
            Knob::new("post", &mut subscriptions.post, 0),
            Knob::new("show", &mut subscriptions.show, 0),
        ]
    }

    fn load(&mut self, process: &Process) -> Result<(), StoreError> {
        let context = process.context(&self.plan.settings);
        context.streams.disk_has(free_space(self.is_nearly_full));
        let (shared, memory_max) = (context.clone(), self.plan.memory_bytes as usize);
        let loads = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&loads);
        let load = move || {
            let streams = &shared.streams;
            let loaded = StreamPartition::load(&*shared.kernel.store, partition(), memory_max)?;
            let loaded = loaded.on_disk(streams.free_space());
            let loaded = loaded.on_node(streams.node_name(), &*shared.kernel.store);
            streams.partition_loaded(partition(), &loaded);
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(loaded)
        };
        let streams = Port::load(process, partition(), &context.streams, load)?;
        self.server = Some(Server {
            context,
            streams,
            has_swept: false,
            done: None,
            has_failed: false,
            loads,
            loads_noticed: 0,
            loads_seen: 0,
        });
        Ok(())
    }

    fn started(&mut self) -> Checked {
        self.take_answers()
    }

    fn check_stopped(&self) -> Checked {
        // A store that failed makes no stop clean.
        let is_dead = self.partition_port().is_none_or(AnyPort::is_dead);
        if is_dead { Ok(()) } else { self.ledger.check_all_there(&self.model.present) }
    }

    fn power_failed(&mut self, _: PartitionId, kept: u64) {
        self.ledger.forget_after(kept);
        self.positions.forget_after(kept);
    }

    fn bury(&mut self) {
        // Whoever reads or posts is cut off with the process, and holds nothing after it.
        self.reads.clear();
        self.posts.clear();
        self.readers = ReaderCalls::default();
        (self.server, self.phase.is_closing) = (None, false);
        for call in self.calls.waiting.drain(..) {
            call.then.unanswered(&mut self.positions);
        }
        self.expectations.clear();
    }

    fn acts(&self) -> Acts<Act> {
        let (weights, has_room, is_up) = (&self.plan.weights, self.has_room(), self.server.is_some());
        let subscriptions = &self.plan.subscriptions;
        let may_read = is_up && self.reads.len() < READS_MAX;
        let may_end_read = has_room && !self.reads.is_empty();
        let outside = vec![
            (Act::Append, when(has_room, weights.append)),
            (Act::Set, when(has_room, weights.set)),
            (Act::Delete, when(has_room, weights.delete)),
            (Act::Read, when(is_up, weights.read)),
            (Act::Work, when(is_up, weights.work)),
            (Act::Disk, when(has_room, weights.disk)),
            (Act::Cold, when(is_up, weights.cold)),
            (Act::LookAtCold, when(is_up, weights.cold.div_ceil(2))),
            (Act::Subscribe, when(has_room, subscriptions.put)),
            (Act::Unsubscribe, when(has_room, subscriptions.delete)),
            (Act::ReadOn, when(may_read, subscriptions.read)),
            (Act::EndRead, when(may_end_read, subscriptions.read)),
            (Act::Commit, when(has_room, subscriptions.commit)),
            (Act::Post, when(has_room, subscriptions.post)),
            (Act::ShowSubscription, when(is_up, subscriptions.show)),
        ];
        Acts { engine: Vec::new(), outside, surroundings: Vec::new() }
    }

    fn act(&mut self, act: Act) -> Checked {
        match act {
            Act::Append => self.append(),
            Act::Set => self.set(),
            Act::Delete => self.delete(),
            Act::Read => self.read()?,
            Act::Work => drop(self.work()),
            Act::Disk => self.change_disk(!self.is_nearly_full),
            Act::Cold => self.change_cold(!self.cold.is_away()),
            Act::LookAtCold => self.look_at_cold(),
            Act::Subscribe => self.subscribe(),
            Act::Unsubscribe => self.unsubscribe(),
            Act::ReadOn => self.read_on()?,
            Act::EndRead => self.end_read()?,
            Act::Commit => self.commit_unread()?,
            Act::Post => self.post()?,
            Act::ShowSubscription => self.show_subscription()?,
        }
        Ok(())
    }

    fn become_quiet(&mut self) {
        self.phase.is_quiet = true;
        self.end_all_reads();
        self.posts.clear();
        self.change_cold(false);
        if self.is_nearly_full {
            self.change_disk(false);
        }
    }

    fn act_at_rest(&mut self) -> Checked<bool> {
        Ok(self.work() || self.post_at_rest()?)
    }

    fn rest(&mut self) -> Checked<Rest> {
        let now = self.now();
        let until = *self.phase.rest_until.get_or_insert(now.after(REST));
        Ok(if now < until { Rest::Waits(until.0 - now.0) } else { Rest::Found })
    }

    fn check_rest(&mut self) -> Checked {
        let waiting = self.calls.waiting.len();
        let late = Invariant::NEVER_EARLY_HARDLY_LATE;
        late.check(waiting == 0, || format!("{waiting} calls are not answered"))?;
        let now = self.now();
        let present = &self.model.present;
        for found in present.streams.values() {
            late.check(!found.is_deleted, || format!("{:?} is not swept", found.row))?;
            late.check(found.chunks.is_empty(), || format!("{:?} are in no block", found.chunks))?;
            let keep = found.row.settings.keep;
            let moves = &found.row.settings.moves;
            let is_late = |block: &&StreamBlock| {
                let is_due =
                    |one: &StreamMove| block.last_at.after(Duration::from_millis(one.after_ms)) < now;
                block.is_local() && moves.iter().any(is_due)
            };
            let late_one = found.blocks.values().find(is_late);
            late.check(late_one.is_none(), || format!("{late_one:?} has not gone at {now:?}"))?;
            let is_old =
                |at: Timestamp| keep.age_ms.is_some_and(|ms| at.after(Duration::from_millis(ms)) < now);
            let old = found.blocks.values().find(|block| is_old(block.last_at) && !present.is_held(block));
            late.check(old.is_none(), || format!("{old:?} is still there at {now:?}"))?;
            let bytes: u64 = found.blocks.values().map(|block| block.bytes).sum();
            let may_drop = found.row.settings.when_full == WhenFull::DropOldest;
            let is_within = !may_drop || keep.bytes.is_none_or(|most| bytes <= most);
            Invariant::KEPT_AS_SET
                .check(is_within, || format!("{bytes} bytes are kept of {:?}", found.row))?;
        }
        if let Some(server) = &self.server {
            let stands = server.streams.runner.machine().stands();
            let is_idle = (stands.loaded, stands.unsaved_bytes, stands.external_id_bytes) == (0, 0, 0);
            late.check(is_idle, || format!("streams that nobody uses are in memory: {stands:?}"))?;
        }
        self.look_at_cold();
        self.check_files()?;
        self.read_all()?;
        self.check_subscriptions_at_rest()
    }
}
