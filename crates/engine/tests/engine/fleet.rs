//! The index of devices against what the store's rows say: after random changes, batches that are
//! lost, and restarts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::random::Random;
use base::{ClientId, DeviceId, Lineage, PartitionId, SystemClock, Timestamp, Value, WayIn, hash};
use engine::fleet::index::SelectionCount;
use engine::fleet::selection::SelectionKey;
use engine::fleet::{Selectable, Selection};
use engine::presence::{KindSet, Session};
use engine::queries::DeviceFilter;
use engine::{DevicePatch, Engine, ImportDevice, NewClient, NewDevice, OnlyIf, Patch, Report, ReportContent};
use records::{Connection, DevicePlace, DisconnectReason};
use store::{MemoryStore, Planned, Store};

use crate::whole::settings;

const PARTITIONS: u16 = 4;
const DEVICES: u64 = 40;
const CLIENTS: [&str; 3] = ["acme", "other", "third"];
const SELECTORS: [&str; 12] = [
    "",
    "site=1",
    "site!=1",
    "site in (0,2),floor",
    "!floor",
    "connection=online",
    "connection notin (never_seen)",
    "connected=true",
    "connected=false,site=2",
    "client=acme",
    "!client",
    "kind=gate,client",
];

struct Fleet {
    store: Arc<MemoryStore>,
    engine: Engine,
    random: Random,
    /// The devices whose session lives, as the listener knows.
    sessions: BTreeSet<String>,
}

impl Fleet {
    async fn start(seed: u64) -> Self {
        let store = Arc::new(MemoryStore::new(Lineage(1), PARTITIONS));
        let engine = start(&store).await;
        for id in CLIENTS {
            register_client(&engine, id).await;
        }
        Self { store, engine, random: Random::new(seed), sessions: BTreeSet::new() }
    }

    async fn restart(&mut self) {
        self.engine.stop().await;
        self.engine = start(&self.store).await;
        self.sessions.clear();
    }

    fn name(&mut self) -> String {
        format!("d{}", self.random.below(DEVICES))
    }

    fn labels(&mut self) -> Vec<(String, String)> {
        let site = [("site".to_owned(), self.random.below(3).to_string())];
        let floor = self.random.chance(1, 2).then(|| ("floor".to_owned(), self.random.below(9).to_string()));
        site.into_iter().chain(floor).collect()
    }

    /// Does something. Whether it was refused does not matter; nor whether it was lost.
    async fn change(&mut self) {
        let (name, labels) = (self.name(), self.labels());
        let device = DeviceId::new(&name).expect("an id");
        let client = CLIENTS[self.random.below(3) as usize];
        match self.random.below(10) {
            0 | 1 => drop(self.engine.create_device(new(&name, labels)).await),
            2 => {
                let clients = self.random.chance(1, 2).then(|| vec![client.to_owned()]);
                let lines = [&name, &self.name()].map(|name| new(name, labels.clone()));
                let line = |device| ImportDevice { device, clients: clients.clone(), expect_from: None };
                drop(self.engine.import(lines.map(line).to_vec()).await);
            }
            3 => {
                let drops = [("floor".to_owned(), None)];
                let sets = labels.into_iter().take(1).map(|(key, value)| (key, Some(value)));
                let labels = Patch::Set(sets.chain(drops).collect());
                let patch = DevicePatch { labels, ..DevicePatch::default() };
                drop(self.engine.patch_device(device, patch, OnlyIf::default()).await);
            }
            4 => drop(self.engine.delete_device(device, OnlyIf::default()).await),
            5 => drop(self.engine.link(device, ClientId::new(client).expect("an id")).await),
            6 => drop(self.engine.unlink(device, ClientId::new(client).expect("an id")).await),
            7 => {
                let content = ReportContent::Value { value: Value::number(1.0).expect("finite"), ts: None };
                let report = Report { device, kind: None, content, id: None };
                drop(
                    self.engine
                        .intake(WayIn::Http)
                        .submit(vec![report])
                        .await
                        .expect("taken")
                        .durable()
                        .await,
                );
            }
            8 => {
                let session = Session { number: number(&name), address: None, label: None };
                self.sessions.insert(name);
                let _lost = self.engine.presence().connected(device, KindSet::Any, session).await;
            }
            _ => {
                let reason = DisconnectReason::ConnectionLost;
                if self.sessions.remove(&name) {
                    let _lost = self.engine.presence().disconnected(device, number(&name), reason).await;
                }
            }
        }
    }

    /// A partition that has lost a batch is loaded again before it does anything else.
    async fn loaded(&self, partition: PartitionId) {
        let names = (0..).map(|n| format!("x{n}")).map(|name| DeviceId::new(&name).expect("an id"));
        let there = |id: &DeviceId| hash::device_partition(id, PARTITIONS) == partition;
        let nobody = names.into_iter().find(there).expect("some id is of the partition");
        let mut code = "";
        while code != "unknown_device" {
            let refused = self.engine.delete_device(nobody.clone(), OnlyIf::default()).await;
            code = refused.expect_err("it is not there").code;
        }
    }

    /// The devices that a selection means by the store's rows, with what counts need.
    fn meant(&self, selection: &Selection) -> BTreeMap<DeviceId, (DevicePlace, Connection, bool)> {
        let mut meant = BTreeMap::new();
        for partition in (0..PARTITIONS).map(PartitionId) {
            let view = self.store.view(partition).expect("readable");
            for profile in view.devices(None, 1_000).expect("readable") {
                let known = |client: &_| self.engine.directory().get(*client);
                let clients: Vec<_> = profile.clients.iter().filter_map(known).collect();
                let clients: Vec<&str> = clients.iter().map(|client| client.id.as_str()).collect();
                let connection = view.state(profile.slot).expect("readable").connection;
                let connected = self.sessions.contains(profile.id.as_str());
                let is_meant = selection.matches(Selectable {
                    kind: profile.kind.as_str(),
                    labels: &profile.labels,
                    connection,
                    connected,
                    answering: true,
                    clients: &clients,
                });
                if is_meant {
                    let place = DevicePlace { partition, slot: profile.slot };
                    meant.insert(profile.id, (place, connection, connected));
                }
            }
        }
        meant
    }

    /// A list of what is meant, page by page.
    fn listed(&self, selection: &Selection, cost_max: usize, limit: usize) -> Vec<DeviceId> {
        let queries = self.engine.queries().within(cost_max);
        let filter = DeviceFilter { selection: Some(selection.clone()), ..DeviceFilter::default() };
        let mut listed = Vec::new();
        loop {
            let behind = listed.last().cloned();
            let mut page = queries.devices(&filter, behind.as_ref(), limit).expect("readable");
            while let Some(next) = page.next.clone().filter(|_| page.found.is_empty()) {
                page = queries.devices(&filter, Some(&next), limit).expect("readable");
            }
            let is_last = page.found.is_empty() || (page.found.len() < limit && page.next.is_none());
            listed.extend(page.found.into_iter().map(|device| device.profile.id));
            if is_last {
                return listed;
            }
        }
    }

    fn agrees(&self, about: &str) {
        let fleet = self.engine.fleet();
        for selector in SELECTORS {
            let selection = Selection::parse(selector).expect("readable");
            let (found, meant) = (fleet.evaluate(&selection), self.meant(&selection));
            let ids: BTreeMap<_, _> = fleet.device_ids(&found).into_iter().collect();
            let expect = meant.iter().map(|(id, (place, ..))| (id.clone(), *place)).collect();
            assert_eq!(ids, expect, "{about}: {selector}");
            let of = |is: &dyn Fn(Connection) -> bool| {
                meant.values().filter(|(_, connection, _)| is(*connection)).count() as u64
            };
            let count = SelectionCount {
                total: meant.len() as u64,
                connected: meant.values().filter(|(.., connected)| *connected).count() as u64,
                online: of(&|one| one == Connection::Online),
                lost: of(&|one| one == Connection::Lost),
                never_seen: of(&|one| one == Connection::NeverSeen),
            };
            assert_eq!(fleet.count(&selection), count, "{about}: {selector}");
            // In order of the ids of few, and by looking at rows.
            for (cost_max, limit) in [(10_000, 7), (2, 3)] {
                let listed = self.listed(&selection, cost_max, limit);
                assert!(listed.iter().eq(meant.keys()), "{about}: {selector}: {listed:?}");
            }
        }
    }
}

async fn start(store: &Arc<MemoryStore>) -> Engine {
    let clock = Arc::new(SystemClock::start(Timestamp(0)));
    Engine::start(settings(), Arc::clone(store) as Arc<dyn Store>, clock).await.expect("loads")
}

async fn register_client(engine: &Engine, id: &str) {
    let client = NewClient {
        id: Some(id.to_owned()),
        name: id.to_owned(),
        url: "http://127.0.0.1:9/".to_owned(),
        secret: None,
        notices: false,
    };
    engine.create_client(client).await.expect("registered");
}

fn new(id: &str, labels: Vec<(String, String)>) -> NewDevice {
    let kind = if number(id).is_multiple_of(2) { "lock" } else { "gate" };
    NewDevice { id: id.to_owned(), kind: Some(kind.to_owned()), labels: Some(labels), ..NewDevice::default() }
}

fn number(name: &str) -> u64 {
    name[1..].parse().expect("a number")
}

#[tokio::test]
async fn the_index_is_what_the_stores_rows_say_whatever_happens() {
    for seed in 0..8 {
        let mut fleet = Fleet::start(seed).await;
        for step in 0..150 {
            if fleet.random.chance(1, 12) {
                let partition = PartitionId(fleet.random.below(u64::from(PARTITIONS)) as u16);
                let outcomes = [Planned::UnknownLost, Planned::UnknownWritten, Planned::Fenced];
                fleet.store.plan(partition, outcomes[fleet.random.below(3) as usize]);
            }
            fleet.change().await;
            if fleet.random.chance(1, 40) {
                fleet.restart().await;
            }
            for partition in (0..PARTITIONS).map(PartitionId) {
                fleet.loaded(partition).await;
            }
            fleet.agrees(&format!("seed {seed}, step {step}"));
        }
        fleet.engine.stop().await;
    }
}

#[tokio::test]
async fn a_client_that_is_deleted_counts_for_nothing_at_once() {
    let fleet = Fleet::start(0).await;
    fleet.engine.create_device(new("d1", Vec::new())).await.expect("registered");
    let (device, acme) = (DeviceId::new("d1").expect("an id"), ClientId::new("acme").expect("an id"));
    fleet.engine.link(device, acme.clone()).await.expect("linked");
    let total = |selector| fleet.engine.fleet().count(&Selection::parse(selector).expect("readable")).total;
    assert_eq!((total("client=acme"), total("client"), total("!client")), (1, 1, 0));
    fleet.engine.delete_client(acme, OnlyIf::default()).await.expect("deleted");
    assert_eq!((total("client=acme"), total("client"), total("!client")), (0, 0, 1));
    let counts = fleet.engine.fleet().count_by(&Selection::default(), &SelectionKey::Client, 10);
    assert_eq!(
        counts.items.iter().map(|item| (item.value.as_deref(), item.total)).collect::<Vec<_>>(),
        [(None, 1)]
    );
}

#[tokio::test]
async fn who_is_mute_is_known_until_its_partition_is_loaded_anew_by_another_process() {
    let mut fleet = Fleet::start(0).await;
    let device = fleet.engine.create_device(new("d1", Vec::new())).await.expect("registered");
    let partition = hash::device_partition(&device.profile.id, PARTITIONS);
    let place = DevicePlace { partition, slot: device.profile.slot };
    let mute = Selection::parse("answering=false").expect("readable");
    assert!(!fleet.engine.fleet().matches(place, &mute));
    fleet.engine.fleet().set_answering(place, false);
    assert!(fleet.engine.fleet().matches(place, &mute));
    // The batch is lost, and the partition is loaded again.
    fleet.store.plan(partition, Planned::UnknownLost);
    let lost = fleet.engine.delete_device(device.profile.id.clone(), OnlyIf::default()).await;
    assert_eq!(lost.expect_err("unknown").status, 503);
    fleet.loaded(partition).await;
    assert_eq!(fleet.engine.fleet().evaluate(&mute).places().collect::<Vec<_>>(), [place]);
    fleet.restart().await;
    assert!(fleet.engine.fleet().evaluate(&mute).is_empty());
}
