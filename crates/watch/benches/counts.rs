//! Instructions of a report: one that says what is known already, and one that is a change.
//!
//! `make bench-counts` holds these against `benches/counts`. Counts, not times: they are the same
//! on a busy machine.
#![allow(missing_docs, reason = "the harness makes items of its own")]

use std::hint::black_box;
use std::time::Duration;

use base::{Attended, DeviceId, Incarnation, Kind, PartitionId, Timestamp, Value, WayIn};
use gungraun::{library_benchmark, library_benchmark_group, main};
use records::{AttendedReadings, Batch, DeviceProfile, DeviceSlot, DeviceState, PaceOverride};
use watch::{Noticed, SignOfLife, SilenceSettings, Watch};

/// A crowd, so that a device is not the only one in its tables.
const DEVICES: u32 = 10_000;
const REPORTS: u32 = 64;
const NOW: Timestamp = Timestamp(1_795_219_200_000);

struct Scene {
    watch: Watch,
    batch: Batch,
    noticed: Vec<Noticed>,
    value: f64,
}

/// Every device has reported 0; the next reports will say `value`.
fn scene(value: f64) -> Scene {
    let settings = SilenceSettings {
        report_interval: Duration::from_secs(3_600),
        loss_grace: Duration::ZERO,
        restart_grace: Duration::ZERO,
        configured: [true; 3],
    };
    let mut watch = Watch::new(settings, AttendedReadings::default(), NOW);
    watch.attend(NOW, WayIn::Mqtt, true);
    for slot in 0..DEVICES {
        watch.load(&profile(slot), DeviceState::default(), None);
    }
    let mut scene = Scene { watch, batch: Batch::new(PartitionId(0)), noticed: Vec::new(), value: 0.0 };
    for slot in 0..DEVICES {
        report(&mut scene, slot);
    }
    scene.batch.ops.clear();
    scene.noticed.clear();
    Scene { value, ..scene }
}

fn profile(slot: u32) -> DeviceProfile {
    DeviceProfile {
        id: DeviceId::new(&format!("d{slot}")).expect("an id"),
        incarnation: Incarnation(slot.into()),
        slot: DeviceSlot(slot),
        kind: Kind::new("lock").expect("a kind"),
        address: None,
        labels: Vec::new(),
        report_interval_ms: None,
        pace: PaceOverride::default(),
        registered_at: NOW,
        expected_from: Attended(0),
        clients: Vec::new(),
    }
}

fn report(scene: &mut Scene, slot: u32) {
    let Scene { watch, batch, noticed, value } = scene;
    let sign = SignOfLife::Report { value: Value::Number(*value), ts: None };
    watch.sign(NOW, DeviceSlot(slot), WayIn::Mqtt, sign, batch, noticed);
}

#[library_benchmark]
#[bench::equal(args = (0.0), setup = scene)]
#[bench::changed(args = (1.0), setup = scene)]
fn watch_64_reports(mut scene: Scene) -> Scene {
    for number in 0..REPORTS {
        report(&mut scene, black_box(number * 151));
    }
    scene
}

library_benchmark_group!(name = reports, benchmarks = [watch_64_reports]);
main!(library_benchmark_groups = reports);
