//! Instructions of a partition's step over a slice of 64 reports, in a partition of 10,000 devices.
//!
//! `make bench-counts` holds these against `benches/counts`. Counts, not times: they are the same
//! on a busy machine.
#![allow(missing_docs, reason = "the harness makes items of its own")]

use std::hint::black_box;
use std::sync::Arc;

use base::{
    ClientId, DeviceId, Incarnation, Lineage, PartitionId, SystemClock, Timestamp, Value, WayIn, hash,
};
use engine::context::EngineContext;
use engine::devices::effect::DeviceEffect;
use engine::devices::input::{Addressed, DeviceInput, LinkedClient};
use engine::devices::partition::DevicePartition;
use engine::intake::SlicePart;
use engine::kernel::fetch::FromStore;
use engine::kernel::machine::{Machine, Step, StepTime};
use engine::kernel::reply::Reply;
use engine::records::Process;
use engine::{EngineSettings, NewDevice, PendingSlice, Report, ReportContent};
use gungraun::{library_benchmark, library_benchmark_group, main};
use store::{MemoryStore, Store};

const DEVICES: u32 = 10_000;
const REPORTS: u32 = 64;
const NOW: Timestamp = Timestamp(1_795_219_200_000);

struct Scene {
    partition: DevicePartition,
    /// A step over reports of known devices reads nothing of it.
    store: Arc<MemoryStore>,
    /// What the step will be given.
    input: Option<DeviceInput>,
    pending: Option<PendingSlice>,
}

fn id(number: u32) -> DeviceId {
    DeviceId::new(&format!("d{number}")).expect("an id")
}

fn client() -> LinkedClient {
    LinkedClient { incarnation: Incarnation(7), id: ClientId::new("acme").expect("an id") }
}

impl Scene {
    fn new(linked: bool) -> Self {
        let settings = Arc::new(EngineSettings { ways_configured: [true; 3], ..EngineSettings::for_tests() });
        let store = Arc::new(MemoryStore::new(Lineage(1), 1));
        let clock = Arc::new(SystemClock::start(NOW));
        let context = EngineContext::new(Arc::clone(&store) as _, clock, &settings);
        let moment = StepTime { now: NOW, stamp: NOW, wall: NOW };
        let opened =
            DevicePartition::load(&*store, PartitionId(0), &settings, Process(1), moment, &context.devices);
        let partition = opened.expect("an empty store loads").partition;
        let mut scene = Self { partition, store, input: None, pending: None };
        scene.step(vec![DeviceInput::Attend { way: WayIn::Mqtt, attended: true }]);
        for first in (0..DEVICES).step_by(500) {
            scene.register(first..first + 500, linked, &settings);
            let (inputs, _pending) = reports(first..first + 500, 0.0);
            scene.step(vec![inputs]);
        }
        scene
    }

    fn register(&mut self, numbers: std::ops::Range<u32>, linked: bool, settings: &EngineSettings) {
        let rules = settings.registry_rules();
        let create = |number| {
            let device = NewDevice { id: id(number).to_string(), ..NewDevice::default() };
            let (reply, _answer) = Reply::new();
            DeviceInput::CreateDevice { device: Box::new(device.check(&rules).expect("a device")), reply }
        };
        self.step(numbers.clone().map(create).collect());
        if linked {
            let link = |number| {
                let (reply, _answer) = Reply::new();
                DeviceInput::Link { id: id(number), client: client(), linked: true, reply }
            };
            self.step(numbers.map(link).collect());
        }
    }

    /// Steps until nothing is left to do; everything is durable at once.
    fn step(&mut self, inputs: Vec<DeviceInput>) {
        let mut inputs = inputs.into_iter();
        while self.one_step(&mut inputs).more || inputs.len() > 0 {}
    }

    fn one_step(&mut self, inputs: &mut dyn Iterator<Item = DeviceInput>) -> Step<DeviceEffect> {
        let moment = StepTime { now: NOW, stamp: NOW, wall: NOW };
        let fetch = FromStore::new(&*self.store, PartitionId(0));
        let mut step = self.partition.step(moment, inputs, &fetch).expect("memory can be read");
        if let Some(batch) = step.batch.take() {
            let seq = batch.head.seq;
            self.store.commit(batch, Box::new(|_| {}));
            self.partition.settled(seq);
        }
        step
    }
}

fn reports(numbers: impl Iterator<Item = u32>, value: f64) -> (DeviceInput, PendingSlice) {
    let addressed = |(index, number)| {
        let device = id(number);
        let hash = hash::device_hash(device.as_str());
        let content = ReportContent::Value { value: Value::Number(value), ts: None };
        Addressed { index, hash, report: Report { device, kind: None, content, id: None } }
    };
    let reports: Vec<_> = (0..).zip(numbers).map(addressed).collect();
    let (pending, mut parts) = SlicePart::split(reports.len() as u32, 1);
    let part = parts.next().expect("one part");
    (DeviceInput::Reports { way: WayIn::Mqtt, reports, part }, pending)
}

/// Every device said 0; 64 of them will say `value`.
fn scene(linked: bool, value: f64) -> Scene {
    let mut scene = Scene::new(linked);
    let (input, pending) = reports((0..REPORTS).map(|number| number * 151), value);
    (scene.input, scene.pending) = (Some(input), Some(pending));
    scene
}

#[library_benchmark]
#[bench::equal(args = (false, 0.0), setup = scene)]
#[bench::changed(args = (false, 1.0), setup = scene)]
#[bench::equal_linked(args = (true, 0.0), setup = scene)]
#[bench::changed_linked(args = (true, 1.0), setup = scene)]
fn step_of_64_reports(mut scene: Scene) -> (Scene, Step<DeviceEffect>) {
    let moment = StepTime { now: NOW, stamp: NOW, wall: NOW };
    let Scene { partition, store, input, .. } = &mut scene;
    let fetch = FromStore::new(&**store, PartitionId(0));
    let step = partition.step(moment, &mut black_box(input.take()).into_iter(), &fetch);
    let step = step.expect("memory can be read");
    drop(fetch);
    (scene, step)
}

library_benchmark_group!(name = steps, benchmarks = [step_of_64_reports]);
main!(library_benchmark_groups = steps);
