//! What is asked of the server: slices of reports, and calls to the registry.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{
    ClientId, Clock, DeviceId, EntityId, Incarnation, Kind, PartitionId, Problem, Timestamp, Value, WayIn,
    hash,
};
use engine::effect::Reply;
use engine::input::{Addressed, Input, LinkedClient};
use engine::intake::SlicePart;
use engine::registry::RegistryInput;
use engine::{ClientPatch, DevicePatch, NewClient, NewDevice, Patch, Report, Said};
use fleet::Made;

use super::World;
use super::calls::{Then, Waiting};
use crate::meant::{CallId, Meant, MeantClient};
use crate::sabotage::Sabotage;
use crate::violation::Checked;

/// Reports of a slice at most.
const SLICE_REPORTS: u64 = 8;
/// Reports of a long one.
const LONG_SLICE_REPORTS: u64 = base::limits::SLICE_REPORTS_MAX as u64;
/// Characters of a large value: with its quotes it is just allowed.
const LARGE_VALUE_CHARS: usize = base::limits::VALUE_BYTES_MAX - 2;
/// Slices that wait to be handed in again at most.
const REPEATS_MAX: usize = 8;
/// Registrations handed in at once while a fleet is made.
const FLEET_STEP: u64 = 100;

impl World {
    /// A way in hands in what it read together.
    pub(super) fn hand_in_reports(&mut self) {
        if !self.repeats.is_empty() && self.random.chance(1, 3) {
            let again = self.random.below(self.repeats.len() as u64) as usize;
            let (way, reports) = self.repeats.swap_remove(again);
            return self.submit(way, reports);
        }
        let ways: Vec<WayIn> = self.ways().collect();
        let way = ways[self.random.below(ways.len() as u64) as usize];
        let long = self.plan.long_reports && self.random.chance(1, 8);
        let count = 1 + self.random.below(if long { LONG_SLICE_REPORTS } else { SLICE_REPORTS });
        let reports = (0..count).map(|_| self.any_report()).collect();
        self.submit(way, reports);
    }

    /// Whoever handed in a slice and was not answered does so again, sooner or later, or gives up.
    pub(super) fn repeat_later(&mut self, then: Then) {
        if let Then::Repeat(way, reports) = then
            && self.repeats.len() < REPEATS_MAX
        {
            self.repeats.push((way, reports));
        }
    }

    /// Splits a slice by partition, as the intake does.
    fn submit(&mut self, way: WayIn, reports: Vec<Report>) {
        let room =
            |server: &super::server::Server| server.partitions.iter().all(super::server::Port::has_room);
        if !self.server.as_ref().is_some_and(room) {
            // The way in waits for room.
            return;
        }
        let count = reports.len() as u32;
        let again = reports.clone();
        let mut split: BTreeMap<PartitionId, Vec<Addressed>> = BTreeMap::new();
        for (index, report) in (0..).zip(reports) {
            let hash = hash::device_hash(report.device.as_str());
            let partition = hash::partition_of(hash::routing_hash(hash), self.plan.partitions);
            split.entry(partition).or_default().push(Addressed { index, hash, report });
        }
        let call = self.next_call();
        self.trace.note(format_args!("call {call}: {count} reports by {}", way.as_str()));
        let (pending, parts) = SlicePart::split(count, split.len());
        let asked = split.keys().copied().collect();
        for ((partition, mut reports), part) in split.into_iter().zip(parts) {
            let meant = reports.iter().map(|addressed| (addressed.index, addressed.report.clone())).collect();
            if self.plan.sabotage == Some(Sabotage::SwappedReports) {
                reports.reverse();
            }
            let input = Input::Reports { way, reports, part };
            let _has_room = self.hand_in(partition, input, Meant::Reports { call, way, reports: meant });
        }
        self.await_answer(call, Waiting::Slice(Some(pending)), asked, Then::Repeat(way, again));
    }

    fn any_report(&mut self) -> Report {
        let (device, kind) = self.any_device();
        let claimed = match self.random.below(12) {
            0 => Kind::new(if kind == "lock" { "meter" } else { "lock" }),
            1..=5 => Kind::new(&kind),
            _ => None,
        };
        let said = match self.random.below(20) {
            0..=1 => Said::Alive,
            2 => Said::Refused(Box::new(Problem::not_allowed("ts_ahead", "the ts is too far ahead"))),
            _ => Said::Value { value: self.any_value(&kind), ts: self.any_ts() },
        };
        Report { device, kind: claimed, said, id: None }
    }

    fn any_value(&mut self, kind: &str) -> Value {
        let number = |number: u64| Value::number(number as f64).expect("finite");
        if kind == "lock" {
            return number(if self.random.chance(1, 30) { 2 } else { self.random.below(2) });
        }
        if self.plan.long_reports {
            let letter = (b'a' + self.random.below(26) as u8) as char;
            return Value::from_canonical(&format!("\"{}\"", letter.to_string().repeat(LARGE_VALUE_CHARS)));
        }
        match self.random.below(5) {
            0 => Value::from_canonical(r#"{"open":true,"why":"\"\u0001"}"#),
            1 => Value::from_canonical("null"),
            n => number(n),
        }
    }

    /// Most reports say nothing of the time; those that do may be late, or a little ahead.
    fn any_ts(&mut self) -> Option<Timestamp> {
        if self.random.chance(2, 3) {
            return None;
        }
        let offset = self.random.below(300_000) as i64 - 240_000;
        Some(Timestamp(self.clock.wall().0 + offset))
    }

    /// A device of the run's fleet, registered or not, and its kind.
    fn any_device(&mut self) -> (DeviceId, String) {
        device(self.random.below(self.plan.devices + 1))
    }

    pub(super) fn any_client_id(&mut self) -> String {
        format!("c{}", self.random.below(self.plan.clients))
    }

    /// The beginning of most runs: clients and devices are there, and linked, before anything else happens.
    pub(super) fn ask_for_a_fleet(&mut self) -> Checked {
        if self.random.chance(1, 4) {
            return Ok(());
        }
        for _ in 0..3 * self.plan.clients {
            self.create_client();
        }
        self.settle()?;
        if self.plan.has_a_crowd() {
            return self.ask_for_a_crowd();
        }
        for _ in 0..3 * self.plan.devices {
            self.create_device();
            self.link(true);
        }
        self.settle()
    }

    /// Every device of the crowd, each linked to the first client.
    fn ask_for_a_crowd(&mut self) -> Checked {
        let client = ClientId::new("c0").expect("letters and digits");
        for number in 0..self.plan.devices {
            let (id, kind) = device(number);
            self.create(&id, kind);
            self.link_to(id, client.clone(), true);
            if number % FLEET_STEP == 0 {
                self.settle()?;
            }
        }
        self.settle()?;
        if self.random.chance(3, 4) {
            // The sweep goes on while other things happen.
            self.delete(client);
        }
        Ok(())
    }

    /// A call to the registry: of devices and links, or of clients.
    pub(super) fn call_registry(&mut self) {
        if self.random.chance(1, 6) && self.enable_somebody() {
            return;
        }
        match self.random.below(32) {
            0..=5 => self.create_device(),
            6..=7 => self.patch_device(),
            8 => self.delete_device(),
            9..=17 => self.link(true),
            18..=19 => self.link(false),
            20..=23 => self.create_client(),
            24..=27 => self.patch_client(),
            28 => self.delete_client(),
            29 => self.tell_again(),
            _ => self.retry_delivery(),
        }
    }

    fn partition_of(&self, device: &DeviceId) -> PartitionId {
        hash::device_partition(device, self.plan.partitions)
    }

    fn create_device(&mut self) {
        let (id, kind) = self.any_device();
        self.create(&id, kind);
    }

    fn create(&mut self, id: &DeviceId, kind: String) {
        let interval = self.random.chance(1, 4).then(|| Duration::from_secs(1 + self.random.below(60)));
        let address = self.random.chance(1, 2).then(|| format!("\"Haus\" {}", self.random.below(100)));
        let device = NewDevice {
            id: id.to_string(),
            kind: (kind != "lock" || self.random.chance(1, 2)).then_some(kind),
            address,
            labels: vec![("site".to_owned(), self.random.below(3).to_string())],
            report_interval: interval,
        };
        let checked = device.clone().check(&self.settings.registry_rules());
        let checked = Box::new(checked.expect("the workload makes devices that may be"));
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        self.trace.note(format_args!("call {call}: create {id}"));
        let partition = self.partition_of(id);
        if self.hand_in(
            partition,
            Input::CreateDevice { device: checked, reply },
            Meant::Create { call, device },
        ) {
            self.await_answer(call, Waiting::Device(receiver), vec![partition], Then::Nothing);
        }
    }

    fn patch_device(&mut self) {
        let (id, _) = self.any_device();
        let patch = DevicePatch {
            address: match self.random.below(3) {
                0 => Patch::Keep,
                1 => Patch::Clear,
                _ => Patch::Set(format!("street {}", self.random.below(100))),
            },
            report_interval: match self.random.below(3) {
                0 => Patch::Keep,
                1 => Patch::Clear,
                _ => Patch::Set(Duration::from_secs(1 + self.random.below(90))),
            },
            ..DevicePatch::default()
        };
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        self.trace.note(format_args!("call {call}: patch {id}"));
        let partition = self.partition_of(&id);
        let input = Input::PatchDevice { id: id.clone(), patch: Box::new(patch.clone()), reply };
        if self.hand_in(partition, input, Meant::Patch { call, id, patch }) {
            self.await_answer(call, Waiting::Device(receiver), vec![partition], Then::Nothing);
        }
    }

    fn delete_device(&mut self) {
        let (id, _) = self.any_device();
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        self.trace.note(format_args!("call {call}: delete {id}"));
        let partition = self.partition_of(&id);
        let input = Input::DeleteDevice { id: id.clone(), reply };
        if self.hand_in(partition, input, Meant::Delete { call, id: id.clone() }) {
            self.await_answer(call, Waiting::Done(receiver), vec![partition], Then::Cut(id, None));
        }
    }

    fn link(&mut self, linked: bool) {
        let (id, _) = self.any_device();
        let client = ClientId::new(&self.any_client_id()).expect("letters and digits");
        self.link_to(id, client, linked);
    }

    fn link_to(&mut self, id: DeviceId, client: ClientId, linked: bool) {
        let Some(server) = &self.server else { return };
        let Some(known) = server.outside.directory.by_id(&client) else { return };
        let incarnation = known.incarnation;
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        self.trace.note(format_args!("call {call}: link {id} {client} {linked}"));
        let partition = self.partition_of(&id);
        let input = Input::Link {
            id: id.clone(),
            client: LinkedClient { incarnation, id: client.clone() },
            linked,
            reply,
        };
        let meant = Meant::Link { call, id: id.clone(), client: (incarnation, client), linked };
        if self.hand_in(partition, input, meant) {
            if linked {
                self.sending.ask_link(&id, incarnation, call);
            }
            let then = if linked { Then::Nothing } else { Then::Cut(id, Some(incarnation)) };
            self.await_answer(call, Waiting::Done(receiver), vec![partition], then);
        }
    }

    fn retry_delivery(&mut self) {
        let partition = self.random_partition();
        // Nobody can know of a delivery that is not durable.
        let deliveries = &self.model[usize::from(partition.0)].durable().deliveries;
        let Some(last) = deliveries.len().checked_sub(1) else { return };
        let back = self.random.below(4).min(last as u64) as usize;
        let id: EntityId = deliveries[last - back].id;
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        self.trace.note(format_args!("call {call}: retry {id:?}"));
        if self.hand_in(partition, Input::RetryDelivery { id, reply }, Meant::Retry { call, id }) {
            self.await_answer(call, Waiting::Done(receiver), vec![partition], Then::Nothing);
        }
    }

    fn create_client(&mut self) {
        let id = self.any_client_id();
        let client =
            NewClient { name: format!("owner of {id}"), url: self.any_url(&id), id: Some(id), secret: None };
        let made = Box::new(Made { id: [7; 8], secret: [self.random.below(256) as u8; 32] });
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        self.trace.note(format_args!("call {call}: create {client:?}"));
        let input = RegistryInput::Create { client: Box::new(client.clone()), made, reply };
        let meant = MeantClient::Create { call, client };
        self.ask_registry(call, input, meant, Waiting::Client(receiver), Then::Nothing);
    }

    fn patch_client(&mut self) {
        let text = self.any_client_id();
        let id = ClientId::new(&text).expect("letters and digits");
        let patch = ClientPatch {
            url: if self.random.chance(1, 2) { Patch::Set(self.any_url(&text)) } else { Patch::Keep },
            enabled: match self.random.below(8) {
                0 => Patch::Set(false),
                1..=4 => Patch::Set(true),
                _ => Patch::Keep,
            },
            ..ClientPatch::default()
        };
        self.patch(id, patch);
    }

    fn patch(&mut self, id: ClientId, patch: ClientPatch) {
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        self.trace.note(format_args!("call {call}: patch {id}: {patch:?}"));
        let input = RegistryInput::Patch { id: id.clone(), patch: Box::new(patch.clone()), reply };
        let meant = MeantClient::Patch { call, id, patch };
        self.ask_registry(call, input, meant, Waiting::Client(receiver), Then::Nothing);
    }

    /// An owner sees that its client is disabled, and enables it. Whether there was one.
    fn enable_somebody(&mut self) -> bool {
        let clients = self.registry.present.clients.values();
        let Some(id) = clients.filter(|client| !client.enabled).map(|client| client.id.clone()).next() else {
            return false;
        };
        self.patch(id, ClientPatch { enabled: Patch::Set(true), ..ClientPatch::default() });
        true
    }

    fn tell_again(&mut self) {
        let client = ClientId::new(&self.any_client_id()).expect("letters and digits");
        let known = self.server.as_ref().and_then(|server| server.outside.directory.by_id(&client));
        if let Some(known) = known {
            self.resend(known.incarnation, PartitionId(0), None);
        }
    }

    fn delete_client(&mut self) {
        let id = ClientId::new(&self.any_client_id()).expect("letters and digits");
        self.delete(id);
    }

    fn delete(&mut self, id: ClientId) {
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        self.trace.note(format_args!("call {call}: delete {id}"));
        let input = RegistryInput::Delete { id: id.clone(), reply };
        let meant = MeantClient::Delete { call, id };
        self.ask_registry(call, input, meant, Waiting::Client(receiver), Then::Gone);
    }

    fn ask_registry(
        &mut self,
        call: CallId,
        input: RegistryInput,
        meant: MeantClient,
        waiting: Waiting,
        then: Then,
    ) {
        if self.hand_in_registry(input, meant) {
            self.await_answer(call, waiting, vec![PartitionId::REGISTRY], then);
        }
    }

    fn any_url(&mut self, client: &str) -> String {
        format!("https://{client}.example/{}", self.random.below(1_000))
    }

    /// Notes which registrations there ever were.
    pub(super) fn know_clients(&mut self) {
        let known: Vec<Incarnation> =
            self.registry.present.clients.values().map(|client| client.incarnation).collect();
        self.clients_seen.extend(known);
    }
}

/// A device of the fleet, and its kind.
fn device(number: u64) -> (DeviceId, String) {
    let kind = if number % 3 == 2 { "meter" } else { "lock" };
    (DeviceId::new(&format!("d{number}")).expect("letters and digits"), kind.to_owned())
}
