//! The index of a fleet of 1,000,000 devices with six labels, in 16 partitions. Measured are how
//! long it takes to load, how much memory it takes, and how long counts and changes take.
//!
//! `cargo bench --package fleet --bench index`. Times are of one thread.
#![allow(missing_docs, clippy::print_stdout, reason = "a benchmark is no library, and prints its figures")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::random::Random;
use base::{Attended, ClientId, DeviceId, Incarnation, Kind, Timestamp};
use fleet::Selection;
use fleet::index::{CountsByValue, FleetIndex, IndexChange, KnownClients, LoadingIndex, SelectionCount};
use fleet::selection::SelectionKey;
use records::{Connection, DeviceProfile, DeviceSlot, PaceOverride};

const DEVICES: u32 = 1_000_000;
const PARTITIONS: u32 = 16;
const ROUNDS: usize = 1_000;

struct NoClients;

impl KnownClients for NoClients {
    fn incarnation(&self, _: &str) -> Option<Incarnation> {
        None
    }

    fn id(&self, _: Incarnation) -> Option<ClientId> {
        None
    }
}

/// A value below `values`, the first ones more often than the last.
fn skewed(random: &mut Random, values: u64) -> u64 {
    let first = random.below(values);
    random.below(first + 1)
}

/// 60 countries, 600 provinces, 3,000 cities, 5 operators, 20 models and 300 sites.
fn profile(number: u32, random: &mut Random) -> DeviceProfile {
    let city = skewed(random, 3_000);
    let label = |key: &str, value: String| (key.to_owned(), value);
    DeviceProfile {
        id: DeviceId::new(&format!("probe{number:07}")).expect("an id"),
        incarnation: Incarnation(u64::from(number)),
        slot: DeviceSlot(number / PARTITIONS),
        kind: Kind::new(if number.is_multiple_of(10) { "gate" } else { "probe" }).expect("a kind"),
        address: None,
        labels: vec![
            label("city", format!("{:06}", 110_000 + city)),
            label("country", format!("C{}", city / 50)),
            label("model", format!("m{}", skewed(random, 20))),
            label("operator", random.below(5).to_string()),
            label("province", format!("{:06}", 110_000 + city / 5)),
            label("site", format!("s{}", random.below(300))),
        ],
        report_interval_ms: None,
        pace: PaceOverride::default(),
        registered_at: Timestamp(0),
        expected_from: Attended(0),
        clients: Vec::new(),
    }
}

fn main() {
    let random = &mut Random::new(7);
    // As a partition is read: one after the other.
    let of = |partition| (partition..DEVICES).step_by(PARTITIONS as usize);
    let profiles: Vec<Vec<DeviceProfile>> = (0..PARTITIONS)
        .map(|partition| of(partition).map(|number| profile(number, random)).collect())
        .collect();
    let (resident, begun) = (resident_bytes(), Instant::now());
    let mut indexes: Vec<FleetIndex> = profiles.iter().map(|profiles| loaded(profiles)).collect();
    println!("fleet index: load of {DEVICES} devices with 6 labels: {:?}", begun.elapsed());
    let resident = resident_bytes().saturating_sub(resident);
    println!("fleet index: resident memory a device: {:.1} B", resident as f64 / f64::from(DEVICES));
    for _ in 0..3 {
        let begun = Instant::now();
        drop(profiles.iter().map(|profiles| loaded(profiles)).collect::<Vec<FleetIndex>>());
        println!("fleet index: load again, and drop: {:?}", begun.elapsed());
    }
    for slot in (0..DEVICES / PARTITIONS).filter(|slot| slot % 3 != 0) {
        let changes = [IndexChange::Connected(DeviceSlot(slot), true)];
        indexes.iter_mut().for_each(|index| index.apply(&changes[0]));
    }
    let bytes = indexes.iter().map(FleetIndex::bytes).fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
    let each = |bytes: usize| bytes as f64 / f64::from(DEVICES);
    println!("fleet index: memory a device: {:.1} B, and {:.1} B for ids", each(bytes.0), each(bytes.1));
    for selector in [
        "country=C1,operator=2,connected=true",
        "country in (C0,C1,C2),operator!=2,model=m1",
        "connection=online,kind=probe,site notin (s1,s2,s3)",
    ] {
        let selection = Selection::parse(selector).expect("readable");
        let mut total = SelectionCount::default();
        let times = timed(|| {
            total = SelectionCount::default();
            for index in &indexes {
                total += index.count(&index.evaluate(&selection, &NoClients));
            }
        });
        println!("fleet index: count of {selector}: {} of {}", spread(&times), total.total);
    }
    for (key, selector) in [("site", "connected=true"), ("city", "country=C1"), ("site", "")] {
        let (selection, key) =
            (Selection::parse(selector).expect("readable"), SelectionKey::Label(key.into()));
        let mut values = 0;
        let times = timed(|| {
            let mut counts = CountsByValue::default();
            for index in &indexes {
                index.count_by(&index.evaluate(&selection, &NoClients), &key, &NoClients, &mut counts);
            }
            values = counts.most(1_000).0.len();
        });
        println!("fleet index: {selector:?} by {} ({values} values): {}", key.as_str(), spread(&times));
    }
    relabel(&mut indexes[0], &profiles[0]);
}

/// What the process has of memory now.
fn resident_bytes() -> u64 {
    const PAGE_BYTES: u64 = 4_096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * PAGE_BYTES
}

fn loaded(profiles: &[DeviceProfile]) -> FleetIndex {
    let mut loading = LoadingIndex::default();
    profiles.iter().for_each(|profile| loading.add(profile, Connection::Online));
    loading.loaded()
}

/// Every device of a partition gets another site.
fn relabel(index: &mut FleetIndex, profiles: &[DeviceProfile]) {
    let changes: Vec<IndexChange> = profiles
        .iter()
        .map(|was| {
            let mut is = was.clone();
            is.labels[5].1 = format!("s{}", was.slot.0 % 400);
            IndexChange::Profile { was: Some(Arc::new(was.clone())), is: Some(Arc::new(is)) }
        })
        .collect();
    let begun = Instant::now();
    changes.iter().for_each(|change| index.apply(change));
    println!("fleet index: change of a label: {:?} each", begun.elapsed() / changes.len() as u32);
}

fn timed(mut act: impl FnMut()) -> Vec<Duration> {
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        act();
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    times
}

fn spread(times: &[Duration]) -> String {
    format!("p50 {:?}, p99 {:?}", times[times.len() / 2], times[times.len() * 99 / 100])
}
