//! A node with devices and streams, as a workload of its own: production's partition of each in one
//! process, and the worker of its blocks. All who use it are in the world.

mod bringing;

use std::rc::Rc;
use std::sync::Arc;

use base::PartitionId;
use engine::EngineSettings;
use engine::context::EngineContext;
use engine::devices::input::DeviceInput;
use engine::devices::partition::DevicePartition;
use engine::streams::block_sweep::sweep_files;
use engine::streams::block_worker::{DoneWork, do_work};
use engine::streams::{StreamPartition, StreamsInput};
use store::StoreError;

use super::{DEVICES, streams_partition};
use crate::harness::counts::counts;
use crate::harness::machine::Machine;
use crate::harness::port::{AnyPort, Port};
use crate::harness::process::Process;
use crate::harness::schedule::{Acts, when};
use crate::harness::shrinking::Knob;
use crate::harness::track::{AnyTrack, Past, Track};
use crate::harness::violation::Checked;
use crate::harness::workload::{Rest, Stored, Workload};
use crate::streams::world::as_node::StreamsNode;
use bringing::Bringing;

/// Memory of the partition of streams, in bytes.
const STREAMS_MEMORY: usize = 1 << 20;

counts! {
    /// What a node saw.
    NodeCounts:
    blocks,
}

/// One life of the process.
struct Server {
    context: EngineContext,
    devices: Port<DevicePartition, ()>,
    streams: Port<StreamPartition, ()>,
    /// The worker of blocks has begun.
    has_swept: bool,
    /// What it has done and not told.
    done: Option<DoneWork>,
}

/// The workload. Of its partitions it follows which batches there are; what is in them the world
/// checks between nodes.
pub(super) struct ReportsNode {
    settings: Arc<EngineSettings>,
    machine: Rc<Machine>,
    server: Option<Server>,
    devices: Track<()>,
    streams: Track<()>,
    bringing: Bringing,
    is_closing: bool,
    counts: NodeCounts,
}

/// The worker of blocks goes on.
#[derive(Clone, Copy)]
pub(super) struct Work;

impl StreamsNode for ReportsNode {
    fn context(&self) -> Option<&EngineContext> {
        self.server.as_ref().map(|server| &server.context)
    }

    /// Whether both partitions would take inputs now.
    fn takes_input(&self) -> bool {
        let has_room = |server: &Server| server.devices.has_room() && server.streams.has_room();
        !self.is_closing && self.server.as_ref().is_some_and(has_room)
    }

    fn tell_streams(&mut self, input: StreamsInput) -> bool {
        let server = self.server.as_mut().filter(|_| !self.is_closing);
        server.is_some_and(|server| server.streams.hand_in(input, ()))
    }

    fn was_read(&mut self) {
        let Some(server) = self.server.as_ref() else { return };
        let store = &*server.context.kernel.store;
        if let Ok(view) = store.view(DEVICES) {
            self.devices.shown(view.head().seq);
        }
        if let Ok(view) = store.view(streams_partition()) {
            self.streams.shown(view.head().seq);
        }
    }
}

impl ReportsNode {
    /// Hands an input to the devices. Whether it was taken.
    pub(super) fn tell_devices(&mut self, input: DeviceInput) -> bool {
        let server = self.server.as_mut().filter(|_| !self.is_closing);
        server.is_some_and(|server| server.devices.hand_in(input, ()))
    }

    /// The worker of blocks goes on. Whether it had anything to do.
    fn work(&mut self) -> bool {
        let is_closing = self.is_closing;
        let Some(server) = self.server.as_mut() else { return false };
        let store = &*server.context.kernel.store;
        if !server.has_swept {
            server.has_swept = true;
            let _none_is_left = sweep_files(store, &server.context.streams);
            return true;
        }
        if server.done.is_some() {
            if is_closing || !server.streams.has_room() {
                return false;
            }
            let done = server.done.take().map(DoneWork::into_input);
            return done.is_some_and(|done| server.streams.hand_in(done, ()));
        }
        let Some(work) = server.context.streams.take_block_work() else { return false };
        server.done = do_work(store, &server.context.streams, work);
        self.counts.blocks += u64::from(server.done.is_some());
        true
    }
}

impl Workload for ReportsNode {
    type Plan = Arc<EngineSettings>;
    type Counts = NodeCounts;
    type Act = Work;

    fn new(settings: Arc<EngineSettings>, machine: &Rc<Machine>) -> Self {
        Self {
            settings,
            machine: Rc::clone(machine),
            server: None,
            devices: Track::new((), false),
            streams: Track::new((), false),
            bringing: Bringing::default(),
            is_closing: false,
            counts: NodeCounts::default(),
        }
    }

    fn knobs(_: &mut Arc<EngineSettings>) -> Vec<Knob<'_>> {
        Vec::new()
    }

    fn counts(&self) -> NodeCounts {
        self.counts
    }

    fn partitions(&self) -> Vec<PartitionId> {
        vec![DEVICES, streams_partition()]
    }

    fn port(&self, partition: PartitionId) -> Option<&dyn AnyPort> {
        let server = self.server.as_ref()?;
        Some(if partition == DEVICES { &server.devices } else { &server.streams })
    }

    fn port_mut(&mut self, partition: PartitionId) -> Option<&mut dyn AnyPort> {
        let server = self.server.as_mut()?;
        Some(if partition == DEVICES { &mut server.devices } else { &mut server.streams })
    }

    fn track(&mut self, partition: PartitionId) -> &mut dyn AnyTrack {
        if partition == DEVICES { &mut self.devices } else { &mut self.streams }
    }

    fn step_partition(&mut self, partition: PartitionId, count: usize) -> Checked {
        let Some(server) = &mut self.server else { return Ok(()) };
        let (batch, track) = if partition == DEVICES {
            let stepped = server.devices.step(count, &self.machine);
            (stepped.and_then(|stepped| stepped.batch), &mut self.devices)
        } else {
            let stepped = server.streams.step(count, &self.machine);
            (stepped.and_then(|stepped| stepped.batch), &mut self.streams)
        };
        batch.map_or(Ok(()), |batch| track.made(batch.head.seq))
    }

    /// No batch is lost that somebody may know of.
    fn check_stored(&self, partition: PartitionId, stored: Stored, past: Past) -> Checked {
        let track = if partition == DEVICES { &self.devices } else { &self.streams };
        track.at(stored.seq, past).map(|_| ())
    }

    /// Streams before devices, as the engine does: from their first report on devices know which
    /// copies want some.
    fn load(&mut self, process: &Process) -> Result<(), StoreError> {
        let context = process.context(&self.settings);
        let streams = load_streams(process, &context)?;
        let devices = load_devices(process, &context, &self.settings)?;
        self.server = Some(Server { context, devices, streams, has_swept: false, done: None });
        Ok(())
    }

    fn loaded(&mut self, partition: PartitionId, seq: u64, _: bool) -> Checked {
        let track = if partition == DEVICES { &mut self.devices } else { &mut self.streams };
        track.back_to(seq)
    }

    fn closing(&mut self) {
        self.is_closing = true;
    }

    fn bury(&mut self) {
        (self.server, self.is_closing) = (None, false);
        self.bringing = Bringing::default();
    }

    fn acts(&self) -> Acts<Work> {
        let outside = vec![(Work, when(self.server.is_some(), 60))];
        Acts { engine: Vec::new(), outside, surroundings: Vec::new() }
    }

    fn act(&mut self, _: Work) -> Checked {
        self.work();
        Ok(())
    }

    fn told(&mut self) -> Checked {
        Ok(())
    }

    fn any_partition(&mut self) -> PartitionId {
        self.machine.random.one_of(&self.partitions())
    }

    fn act_at_rest(&mut self) -> Checked<bool> {
        Ok(self.work())
    }

    fn rest(&mut self) -> Checked<Rest> {
        Ok(Rest::Found)
    }

    fn check_rest(&mut self) -> Checked {
        Ok(())
    }
}

fn load_streams(process: &Process, context: &EngineContext) -> Result<Port<StreamPartition, ()>, StoreError> {
    let shared = context.clone();
    let load = move || {
        let streams = &shared.streams;
        let loaded = StreamPartition::load(&*shared.kernel.store, streams_partition(), STREAMS_MEMORY)?;
        let loaded = loaded.on_node(streams.node_name(), &*shared.kernel.store);
        streams.partition_loaded(streams_partition(), &loaded);
        Ok(loaded)
    };
    Port::load(process, streams_partition(), &context.streams, load)
}

fn load_devices(
    process: &Process,
    context: &EngineContext,
    settings: &Arc<EngineSettings>,
) -> Result<Port<DevicePartition, ()>, StoreError> {
    let (settings, shared, number) = (Arc::clone(settings), context.clone(), process.number);
    let load = move || {
        let (kernel, moment) = (&shared.kernel, shared.kernel.moment_of_load());
        let opened =
            DevicePartition::load(&*kernel.store, DEVICES, &settings, number, moment, &shared.devices)?;
        Ok(opened.partition)
    };
    Port::load(process, DEVICES, &context.devices, load)
}
