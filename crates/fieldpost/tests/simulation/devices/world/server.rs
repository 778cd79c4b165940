//! One life of the server process: the production state machines behind inboxes, and their outcomes
//! on the way back.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base::{Clock, Incarnation, PartitionId, WayIn};
use engine::context::EngineContext;
use engine::devices::partition::Partition;
use engine::kernel::machine::Machine;
use engine::kernel::runner::{CommitResult, Runner};
use engine::registry::Registry;
use engine::{Settings, Store};
use notify::lanes::{Lanes, Limits};
use records::Process;
use store::StoreError;
use tokio::sync::watch;

use crate::devices::meant::{Meant, MeantClient};
use crate::harness::store_spy::{Ending, StoreSpy};

/// Inputs that wait for a partition at most, as in the engine's own driver.
pub(crate) const INBOX_INPUTS_MAX: usize = 256;

/// A state machine with what waits for it, and what the model makes of that.
pub(crate) struct Port<M: Machine, N> {
    pub(crate) runner: Runner<M>,
    pub(crate) inbox: VecDeque<(M::Input, N)>,
    /// It wants to go on at once.
    pub(crate) more: bool,
    /// Its store does not go on; nothing is taken any more.
    pub(crate) dead: bool,
    /// Counts how often it lost its memory.
    pub(crate) life: u32,
}

/// The outcome of a batch on its way to the partition that made it.
pub(crate) struct Outcome {
    pub(crate) partition: PartitionId,
    pub(crate) seq: u64,
    pub(crate) ending: Ending,
    pub(crate) told: CommitResult,
}

/// Outcomes that are known and not told yet.
pub(crate) type Outcomes = Arc<Mutex<VecDeque<Outcome>>>;

/// How many there are.
pub(crate) fn waiting_in(outcomes: &Outcomes) -> usize {
    outcomes.lock().unwrap_or_else(PoisonError::into_inner).len()
}

impl<M: Machine, N> Port<M, N> {
    pub(crate) fn new(runner: Runner<M>) -> Self {
        // The first step begins with what loading found.
        Self { runner, inbox: VecDeque::new(), more: true, dead: false, life: 0 }
    }

    /// Whether the production driver would step it now.
    pub(crate) fn wants_step(&self, now: base::Timestamp) -> bool {
        let due = self.runner.next_wakeup(now).is_some_and(|at| at <= now);
        let waits = self.more || due || self.has_input();
        !self.dead && self.runner.may_step() && waits
    }

    /// Whether there is something to apply.
    pub(crate) fn has_input(&self) -> bool {
        self.runner.has_unfinished() || !self.inbox.is_empty()
    }

    /// Whether another input may be handed in.
    pub(crate) fn has_room(&self) -> bool {
        !self.dead && self.inbox.len() < INBOX_INPUTS_MAX
    }

    /// One step over at most the first `count` inputs; those that it took are given back as the
    /// model knows them.
    pub(crate) fn step(
        &mut self,
        count: usize,
        spy: &Arc<StoreSpy>,
        outcomes: &Outcomes,
    ) -> Result<Vec<N>, StoreError> {
        let (spy, outcomes) = (Arc::clone(spy), Arc::clone(outcomes));
        let partition = self.runner.id();
        let tell = move |told| {
            let (seq, ending) = spy.ending().expect("the spy hears an outcome before the partition");
            let outcome = Outcome { partition, seq, ending, told };
            outcomes.lock().unwrap_or_else(PoisonError::into_inner).push_back(outcome);
        };
        let (inbox, mut taken) = (&mut self.inbox, Vec::new());
        let mut inputs = std::iter::from_fn(|| {
            let (input, meant) = if taken.len() < count { inbox.pop_front()? } else { return None };
            taken.push(meant);
            Some(input)
        });
        let stepped = self.runner.step(&mut inputs, tell);
        self.more = stepped?;
        Ok(taken)
    }

    /// It takes nothing more; whoever waits is told.
    pub(crate) fn die(&mut self) {
        self.dead = true;
        self.inbox.clear();
    }
}

/// A running process.
pub(crate) struct Server {
    pub(crate) context: EngineContext,
    pub(crate) spy: Arc<StoreSpy>,
    pub(crate) registry: Port<Registry, MeantClient>,
    pub(crate) partitions: Vec<Port<Partition, Meant>>,
    pub(crate) outcomes: Outcomes,
    pub(crate) attended: Arc<[AtomicBool; 3]>,
    pub(crate) lanes: Lanes,
    pub(crate) clients_changed: watch::Receiver<u64>,
    /// Clients that are gone and still linked: swept at the start.
    pub(crate) orphans: Vec<Incarnation>,
}

impl Server {
    /// Loads everything, as the engine does when it starts.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn start(
        spy: &Arc<StoreSpy>,
        clock: Arc<dyn Clock>,
        settings: &Arc<Settings>,
        process: Process,
        limits: Limits,
    ) -> Result<Self, StoreError> {
        let context = EngineContext::new(Arc::clone(spy) as Arc<dyn Store>, clock, settings);
        let attended: Arc<[AtomicBool; 3]> = Arc::default();
        let registry = load_registry(&context, settings)?;
        let mut orphans = Vec::new();
        let partitions = (0..spy.partitions())
            .map(|id| load_partition(&context, settings, process, &attended, PartitionId(id), &mut orphans))
            .collect::<Result<Vec<_>, _>>()?;
        orphans.sort_unstable();
        orphans.dedup();
        Ok(Self {
            clients_changed: context.directory().subscribe(),
            context,
            spy: Arc::clone(spy),
            registry,
            partitions,
            outcomes: Outcomes::default(),
            attended,
            lanes: Lanes::new(limits),
            orphans,
        })
    }

    pub(crate) fn port(&mut self, partition: PartitionId) -> &mut Port<Partition, Meant> {
        &mut self.partitions[usize::from(partition.0)]
    }

    /// Whether anything waits for an input to be taken or for a batch to be durable.
    pub(crate) fn is_settled(&self) -> bool {
        let idle =
            |port: &Port<Partition, Meant>| port.runner.is_settled() && !port.has_input() && !port.more;
        self.registry.runner.is_settled()
            && self.registry.inbox.is_empty()
            && self.partitions.iter().all(idle)
    }

    /// A partition drops what it holds, and is loaded again as soon as nothing of it is on its way.
    pub(crate) fn loses_its_memory(&mut self, partition: PartitionId) {
        if partition == PartitionId::REGISTRY {
            self.registry.life += 1;
        } else {
            self.port(partition).life += 1;
        }
    }

    /// Whether everybody who is not dead is settled.
    pub(crate) fn is_settled_or_dead(&self) -> bool {
        let idle = |port: &Port<Partition, Meant>| port.dead || port.runner.is_settled() && !port.has_input();
        let registry = &self.registry;
        (registry.dead || registry.runner.is_settled()) && self.partitions.iter().all(idle)
    }

    /// Whether somebody takes nothing more, because its store does not go on.
    pub(crate) fn is_broken(&self) -> bool {
        self.registry.dead || self.partitions.iter().any(|port| port.dead)
    }

    /// Which ways in are attended.
    pub(crate) fn attended_now(&self) -> [bool; 3] {
        WayIn::ALL.map(|way| self.attended[way.index()].load(Ordering::SeqCst))
    }

    /// How often a partition, or the registry, lost its memory; nothing for one that is dead.
    pub(crate) fn life(&self, partition: PartitionId) -> Option<u32> {
        let (dead, life) = if partition == PartitionId::REGISTRY {
            (self.registry.dead, self.registry.life)
        } else {
            let port = &self.partitions[usize::from(partition.0)];
            (port.dead, port.life)
        };
        (!dead).then_some(life)
    }
}

fn load_registry(
    context: &EngineContext,
    settings: &Arc<Settings>,
) -> Result<Port<Registry, MeantClient>, StoreError> {
    let (settings, shared) = (Arc::clone(settings), context.clone());
    let load = move || {
        let registry = Registry::load(&*shared.kernel.store, &settings)?;
        shared.directory().replace(registry.clients().cloned());
        Ok(registry)
    };
    let (registry, kernel) = (load()?, Arc::clone(&context.kernel));
    let effects = Arc::clone(&context.registry);
    let runner = Runner::new(PartitionId::REGISTRY, registry, Box::new(load), kernel, effects);
    let mut port = Port::new(runner);
    port.more = false;
    Ok(port)
}

fn load_partition(
    context: &EngineContext,
    settings: &Arc<Settings>,
    process: Process,
    attended: &Arc<[AtomicBool; 3]>,
    id: PartitionId,
    orphans: &mut Vec<Incarnation>,
) -> Result<Port<Partition, Meant>, StoreError> {
    let (settings, shared, attended) = (Arc::clone(settings), context.clone(), Arc::clone(attended));
    let load = move || {
        let (kernel, moment) = (&shared.kernel, shared.kernel.moment_of_load());
        let mut opened = Partition::load(&*kernel.store, id, &settings, process, moment, shared.directory())?;
        for way in WayIn::ALL {
            opened.partition.attend(moment.now, way, attended[way.index()].load(Ordering::SeqCst));
        }
        Ok(opened)
    };
    let opened = load()?;
    orphans.extend(opened.orphans);
    let reload = Box::new(move || Ok(load()?.partition));
    let (kernel, effects) = (Arc::clone(&context.kernel), Arc::clone(&context.devices));
    Ok(Port::new(Runner::new(id, opened.partition, reload, kernel, effects)))
}
