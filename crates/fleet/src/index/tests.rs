//! The index against devices that are looked at one by one.

use std::collections::{BTreeMap, BTreeSet};

use base::{Attended, Kind, Timestamp};
use proptest::prelude::*;
use records::PaceOverride;

use super::*;
use crate::selection::{Selectable, Selection, SelectionKey};

const CONNECTIONS: [Connection; 3] = [Connection::NeverSeen, Connection::Online, Connection::Lost];
const CLIENTS: [(u64, &str); 3] = [(1, "acme"), (2, "other"), (3, "third")];

/// The client of number 4 is gone, though devices are still linked to it.
struct Clients;

impl KnownClients for Clients {
    fn incarnation(&self, id: &str) -> Option<Incarnation> {
        CLIENTS.iter().find(|(_, known)| *known == id).map(|(number, _)| Incarnation(*number))
    }

    fn id(&self, client: Incarnation) -> Option<ClientId> {
        CLIENTS.iter().find(|(number, _)| *number == client.0).and_then(|(_, id)| ClientId::new(id))
    }
}

/// A device as the model knows it.
#[derive(Clone, Debug)]
struct Known {
    profile: Arc<DeviceProfile>,
    connection: Connection,
    connected: bool,
    answering: bool,
}

impl Known {
    fn clients(&self) -> Vec<&'static str> {
        let id = |client: &Incarnation| CLIENTS.iter().find(|(number, _)| *number == client.0);
        self.profile.clients.iter().filter_map(id).map(|(_, id)| *id).collect()
    }

    fn is_meant(&self, selection: &Selection) -> bool {
        selection.matches(Selectable {
            kind: self.profile.kind.as_str(),
            labels: &self.profile.labels,
            connection: self.connection,
            connected: self.connected,
            answering: self.answering,
            clients: &self.clients(),
        })
    }

    fn values(&self, key: &SelectionKey) -> Vec<Option<String>> {
        let truth = |is: bool| vec![Some(is.to_string())];
        match key {
            SelectionKey::Kind => vec![Some(self.profile.kind.to_string())],
            SelectionKey::Connection => vec![Some(self.connection.as_str().to_owned())],
            SelectionKey::Connected => truth(self.connected),
            SelectionKey::Answering => truth(self.answering),
            SelectionKey::Client if self.clients().is_empty() => vec![None],
            SelectionKey::Client => self.clients().into_iter().map(|id| Some(id.to_owned())).collect(),
            SelectionKey::Label(key) => {
                vec![self.profile.labels.iter().find(|(k, _)| **k == **key).map(|(_, value)| value.clone())]
            }
        }
    }
}

#[derive(Default)]
struct Model(BTreeMap<u32, Known>);

impl Model {
    /// Changes a device, or the fleet, and says how the index is told of it.
    fn change(&mut self, slot: u32, step: Step) -> IndexChange {
        let known = self.0.get(&slot).cloned();
        let slot_of = DeviceSlot(slot);
        match step {
            Step::Put(labels, clients) => {
                let kind = known.as_ref().map_or_else(
                    || Kind::new(["lock", "gate"][slot as usize % 2]),
                    |known| Some(known.profile.kind.clone()),
                );
                let is = Arc::new(profile(slot, kind.expect("a kind"), labels, clients));
                let state = known.clone().unwrap_or(Known {
                    profile: Arc::clone(&is),
                    connection: Connection::NeverSeen,
                    connected: false,
                    answering: true,
                });
                self.0.insert(slot, Known { profile: Arc::clone(&is), ..state });
                IndexChange::Profile { was: known.map(|known| known.profile), is: Some(is) }
            }
            Step::Delete => {
                self.0.remove(&slot);
                IndexChange::Profile { was: known.map(|known| known.profile), is: None }
            }
            Step::Connection(connection) => {
                self.with(slot, |known| known.connection = connection);
                IndexChange::Connection(slot_of, connection)
            }
            Step::Connected(is) => {
                self.with(slot, |known| known.connected = is);
                IndexChange::Connected(slot_of, is)
            }
            Step::Answering(is) => {
                self.with(slot, |known| known.answering = is);
                IndexChange::Answering(slot_of, is)
            }
        }
    }

    fn with(&mut self, slot: u32, change: impl FnOnce(&mut Known)) {
        if let Some(known) = self.0.get_mut(&slot) {
            change(known);
        }
    }

    fn meant(&self, selection: &Selection) -> BTreeMap<u32, &Known> {
        self.0
            .iter()
            .filter(|(_, known)| known.is_meant(selection))
            .map(|(slot, known)| (*slot, known))
            .collect()
    }

    fn count(&self, selection: &Selection) -> SelectionCount {
        let meant = self.meant(selection);
        let of = |is: &dyn Fn(&Known) -> bool| meant.values().filter(|known| is(known)).count() as u64;
        SelectionCount {
            total: meant.len() as u64,
            connected: of(&|known| known.connected),
            online: of(&|known| known.connection == Connection::Online),
            lost: of(&|known| known.connection == Connection::Lost),
            never_seen: of(&|known| known.connection == Connection::NeverSeen),
        }
    }

    fn count_by(&self, selection: &Selection, key: &SelectionKey) -> Vec<ValueCount> {
        let mut counts: BTreeMap<Option<String>, (u64, u64)> = BTreeMap::new();
        for known in self.meant(selection).values() {
            for value in known.values(key) {
                let counts = counts.entry(value).or_default();
                counts.0 += 1;
                counts.1 += u64::from(known.connected);
            }
        }
        let item = |(value, (total, connected)): (Option<String>, _)| ValueCount {
            value: value.map(Into::into),
            total,
            connected,
        };
        let mut items: Vec<_> = counts.into_iter().map(item).collect();
        items.sort_by_key(|item| std::cmp::Reverse(item.total));
        items
    }

    /// An index that is loaded with what the model knows.
    fn loaded(&self) -> FleetIndex {
        let mut loading = LoadingIndex::default();
        self.0.values().rev().for_each(|known| loading.add(&known.profile, known.connection));
        loading.loaded()
    }
}

fn profile(slot: u32, kind: Kind, labels: BTreeMap<String, String>, clients: BTreeSet<u64>) -> DeviceProfile {
    DeviceProfile {
        id: DeviceId::new(&format!("d{slot}")).expect("an id"),
        incarnation: Incarnation(u64::from(slot)),
        slot: DeviceSlot(slot),
        kind,
        address: None,
        labels: labels.into_iter().collect(),
        report_interval_ms: None,
        pace: PaceOverride::default(),
        registered_at: Timestamp(0),
        expected_from: Attended(0),
        clients: clients.into_iter().map(Incarnation).collect(),
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(BTreeMap<String, String>, BTreeSet<u64>),
    Delete,
    Connection(Connection),
    Connected(bool),
    Answering(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let labels = proptest::collection::btree_map("[ab]", "[xyz]", 0..3);
    let clients = proptest::collection::btree_set(1_u64..5, 0..3);
    prop_oneof![
        4 => (labels, clients).prop_map(|(labels, clients)| Step::Put(labels, clients)),
        1 => Just(Step::Delete),
        2 => proptest::sample::select(&CONNECTIONS[..]).prop_map(Step::Connection),
        2 => any::<bool>().prop_map(Step::Connected),
        1 => any::<bool>().prop_map(Step::Answering),
    ]
}

fn selection() -> impl Strategy<Value = Selection> {
    let requirement = prop_oneof![
        "(a|b|c)(=|!=)(x|y|w)",
        "(a|b) (in|notin) \\((x|w),(y|z)\\)",
        "!?(a|b|client|kind)",
        "kind(=|!=)(lock|gate|other)",
        "connection(=|!=)(online|lost|never_seen)",
        "(connected|answering)(=|!=)(true|false)",
        "client (in|notin) \\((acme|other|nobody),third\\)",
    ];
    proptest::collection::vec(requirement, 0..4)
        .prop_map(|requirements| Selection::parse(&requirements.join(",")).expect("readable"))
}

fn by() -> impl Strategy<Value = SelectionKey> {
    const KEYS: [&str; 7] = ["a", "c", "kind", "connection", "connected", "answering", "client"];
    proptest::sample::select(&KEYS[..]).prop_map(|key| SelectionKey::read(key).expect("a key"))
}

fn agree(index: &FleetIndex, model: &Model, selection: &Selection, key: &SelectionKey) {
    let found = index.evaluate(selection, &Clients);
    assert_eq!(
        found.iter().collect::<Vec<_>>(),
        model.meant(selection).into_keys().collect::<Vec<_>>(),
        "{selection}"
    );
    assert_eq!(index.count(&found), model.count(selection), "{selection}");
    let mut counts = CountsByValue::default();
    index.count_by(&found, key, &Clients, &mut counts);
    assert_eq!(
        counts.most(1_000),
        (model.count_by(selection, key), false),
        "{selection} by {}",
        key.as_str()
    );
    let mut parts: BTreeMap<Option<String>, BTreeSet<u32>> = BTreeMap::new();
    index.split_by(&found, key, &Clients, &mut |value, slots| {
        assert!(parts.insert(value.map(str::to_owned), slots.iter().collect()).is_none(), "{selection}");
    });
    let mut expect: BTreeMap<Option<String>, BTreeSet<u32>> = BTreeMap::new();
    for (slot, known) in model.meant(selection) {
        for value in known.values(key) {
            expect.entry(value).or_default().insert(slot);
        }
    }
    assert_eq!(parts, expect, "{selection} by {}", key.as_str());
    for slot in model.0.keys().copied().chain([5_000]) {
        assert_eq!(
            index.matches(DeviceSlot(slot), selection, &Clients),
            found.contains(slot),
            "{selection} {slot}"
        );
    }
}

proptest! {
    #[test]
    fn the_index_means_the_devices_that_the_selection_matches(
        // Slots of several containers, each used again and again.
        steps in proptest::collection::vec((0_u32..400, step()), 0..600),
        asked in proptest::collection::vec((selection(), by()), 1..8),
    ) {
        let (mut index, mut model, mut gone) = (FleetIndex::default(), Model::default(), BTreeSet::new());
        for (number, step) in steps {
            let slot = number % 200 * 997;
            let is_delete = matches!(step, Step::Delete);
            // A slot that was left is not used again.
            if gone.contains(&slot) && matches!(step, Step::Put(..)) {
                continue;
            }
            if is_delete && model.0.contains_key(&slot) {
                gone.insert(slot);
            }
            index.apply(&model.change(slot, step));
        }
        for (selection, key) in &asked {
            agree(&index, &model, selection, key);
        }
        for (slot, known) in &model.0 {
            assert_eq!(index.device_id(DeviceSlot(*slot)).as_ref(), Some(&known.profile.id));
        }
        let mut loaded = model.loaded();
        loaded.go_on_from(&index);
        for (selection, key) in &asked {
            agree(&loaded, &model, selection, key);
        }
    }
}

#[test]
fn nothing_is_left_of_devices_that_are_gone() {
    let mut index = FleetIndex::default();
    let labels = BTreeMap::from([("a".to_owned(), "x".to_owned())]);
    let kind = Kind::lock();
    for slot in 0..300 {
        let is = Some(Arc::new(profile(slot, kind.clone(), labels.clone(), BTreeSet::from([1]))));
        index.apply(&IndexChange::Profile { was: None, is: is.clone() });
        index.apply(&IndexChange::Connected(DeviceSlot(slot), true));
        index.apply(&IndexChange::Answering(DeviceSlot(slot), false));
    }
    for slot in 0..300 {
        let was = Some(Arc::new(profile(slot, kind.clone(), labels.clone(), BTreeSet::from([1]))));
        index.apply(&IndexChange::Profile { was, is: None });
        index.apply(&IndexChange::Connected(DeviceSlot(slot), true));
    }
    assert!(index.is_empty() && index.connected_len() == 0 && index.mute.is_empty());
    assert!(index.kinds.is_empty() && index.labels.is_empty() && index.clients.is_empty());
    assert!(index.connections.iter().all(SlotSet::is_empty) && index.device_id(DeviceSlot(7)).is_none());
}

#[test]
fn counts_by_value_are_the_most_with_a_word_that_there_are_more() {
    let mut index = FleetIndex::default();
    for slot in 0..60 {
        let labels = BTreeMap::from([("a".to_owned(), format!("v{}", slot % 10 + slot / 50))]);
        let is = Some(Arc::new(profile(slot, Kind::lock(), labels, BTreeSet::new())));
        index.apply(&IndexChange::Profile { was: None, is });
    }
    let all = index.evaluate(&Selection::default(), &Clients);
    for (max, expect, more) in [(2, &["v1", "v2"][..], true), (1, &["v1"], true), (11, &["v1"], false)] {
        let mut counts = CountsByValue::default();
        index.count_by(&all, &SelectionKey::Label("a".into()), &Clients, &mut counts);
        let (items, is_more) = counts.most(max);
        assert!(items.len() <= max && is_more == more, "{max}");
        let first: Vec<_> =
            items.iter().filter_map(|item| item.value.as_deref()).take(expect.len()).collect();
        assert_eq!(first, expect, "{max}");
    }
}
