//! The edge node and the centre, the network between them, and the devices that report.

mod centre;
mod checks;
mod copying;
mod network;
mod reporters;
mod workload;

use std::rc::Rc;
use std::sync::{Arc, Mutex};

use base::Timestamp;
use engine::devices::input::DeviceInput;
use engine::kernel::reply::Reply;
use engine::streams::input::PutCopyCall;
use engine::streams::{CopyStatus, NewCopy, ReportsTerms, StreamsInput};
use engine::{EngineSettings, NewDevice, PendingSlice};
use records::CopyDirection;

use self::reporters::Reporter;
use super::counts::Counts;
use super::node::ReportsNode;
use super::plan::ReportsPlan;
use super::{CENTRE, EDGE, copy_key};
use crate::harness::machine::Machine;
use crate::harness::node::Node;
use crate::harness::violation::Checked;
use crate::nodes::fault_injection::GATHERED_TAKEN_AT_ONCE;
use crate::nodes::network::Network;
use crate::nodes::plan::node_name;
use crate::nodes::sim_node::CopyTask;
use crate::streams::world::as_node::StreamsNode;
use crate::streams::world::{small_blocks, stream_name};

/// The workload. Its machine is the world: it has the time, and the chance.
pub(super) struct World {
    plan: ReportsPlan,
    machine: Rc<Machine>,
    nodes: Vec<Node<ReportsNode>>,
    /// The process of each node, as it was last looked at.
    processes: [Option<u64>; 2],
    /// A call that the centre took has its `PendingSlice`, unless nobody will answer it.
    network: Network<Option<PendingSlice>>,
    /// The newest call that came to the centre: its run, and its place there.
    newest: (u64, u64),
    /// The copy, while it runs on the edge.
    copy: Option<CopyTask>,
    /// How it goes, as its runner noted last.
    status: Arc<Mutex<CopyStatus>>,
    reporters: Vec<Reporter>,
    /// Until when everybody has time at the end, and whether that was told once more.
    rest_until: Option<(Timestamp, bool)>,
    counts: Counts,
}

impl World {
    fn now(&self) -> Timestamp {
        self.machine.now()
    }

    /// Something happened on a node: its process may have ended, and it may have answered.
    fn look_at(&mut self, number: usize) {
        let process = self.nodes[number].process();
        if std::mem::replace(&mut self.processes[number], process) != process {
            self.network.process_changed(number, process.is_some());
            if number == EDGE {
                self.copy = None;
            }
        }
        if number == EDGE {
            self.tend_copy();
        }
        self.take_answers_of_edge();
        self.take_answers_of_centre();
        self.network.take_moves();
    }

    /// A node does one thing.
    fn step_node(&mut self, number: usize) -> Checked {
        self.nodes[number].step()?;
        self.look_at(number);
        Ok(())
    }

    /// Gathered reports go on at the edge. Whether there was anything to do.
    fn gather(&mut self) -> bool {
        let is_taken_at_once = self.machine.injects(GATHERED_TAKEN_AT_ONCE);
        self.nodes[EDGE].users_mut().bring_gathered(is_taken_at_once)
    }

    /// Both nodes know the devices, each by the kind that they are there.
    fn register_devices(&mut self) {
        let settings = Arc::clone(&self.plan.settings);
        for reporter in &self.reporters {
            for (number, kind) in [(EDGE, &reporter.kind), (CENTRE, &reporter.kind_there)] {
                let device = NewDevice {
                    id: reporter.device.to_string(),
                    kind: Some(kind.to_string()),
                    ..NewDevice::default()
                };
                let _takes = self.nodes[number].users_mut().tell_devices(registration(device, &settings));
            }
        }
    }

    /// The edge is to bring reports to the centre, by a stream with blocks that a run fills.
    fn put_copy(&mut self) {
        let copy = NewCopy {
            name: copy_key().copy,
            direction: CopyDirection::To,
            node: node_name(CENTRE).into(),
            other: stream_name("reports"),
            segments: vec![copy_key().copy],
            from: None,
            live_permille: 0,
            rate: None,
            reports: Some(ReportsTerms::default()),
        };
        let (stream, settings) = (copy_key().stream, Box::new(small_blocks(&self.machine.random)));
        self.machine.trace.note(format_args!("put {copy:?} of {settings:?}"));
        let edge = self.nodes[EDGE].users_mut();
        let (reply, _nobody_waits) = Reply::new();
        let _takes = edge.tell_streams(StreamsInput::PutSettings { stream: stream.clone(), settings, reply });
        let (reply, _nobody_waits) = Reply::new();
        let _takes = edge.tell_streams(StreamsInput::PutCopy(Box::new(PutCopyCall { stream, copy, reply })));
    }

    /// The copy rests, or goes on.
    fn pause_copy(&mut self, paused: bool) {
        self.machine.trace.note(format_args!("the copy rests: {paused}"));
        let (reply, _nobody_waits) = Reply::new();
        let (stream, copy) = (copy_key().stream, copy_key().copy);
        let input = StreamsInput::PauseCopy { stream, copy, paused, reply };
        let is_told = self.nodes[EDGE].users_mut().tell_streams(input);
        self.counts.pauses += u64::from(is_told && paused);
    }
}

fn registration(device: NewDevice, settings: &EngineSettings) -> DeviceInput {
    let checked = device.check(&settings.registry_rules());
    let device = Box::new(checked.expect("the world makes devices that may be"));
    let (reply, _nobody_waits) = Reply::new();
    DeviceInput::CreateDevice { device, reply }
}
