//! Calls to the registry: devices, their links, clients, and what is to be told again.

use std::time::Duration;

use base::{ClientId, DeviceId, EntityId, Incarnation, PartitionId, hash};
use engine::devices::input::{DeviceInput, LinkedClient};
use engine::kernel::reply::Reply;
use engine::registry::RegistryInput;
use engine::{ClientPatch, DevicePatch, NewClient, NewDevice, OnlyIf, Patch};
use fleet::Made;

use super::World;
use super::calls::{self, Answer, Then, Waiting};
use crate::devices::meant::{Meant, MeantClient};

/// Registrations handed in at once while a fleet is made.
const FLEET_STEP: u64 = 100;

impl World {
    /// A device of the run's fleet, registered or not, and its kind.
    pub(super) fn any_device(&mut self) -> (DeviceId, String) {
        device(self.machine.random.below(self.plan.devices + 1))
    }

    pub(super) fn any_client_id(&mut self) -> String {
        format!("c{}", self.machine.random.below(self.plan.clients))
    }

    /// The beginning of most runs: clients and devices are there, and linked, before anything else
    /// happens. Whether there was such a part of it.
    pub(super) fn ask_for_a_fleet(&mut self, part: u64) -> bool {
        match part {
            0 => {
                let none = self.machine.random.chance(1, 4) && !self.plan.moods_last;
                let clients = if none { 0 } else { 3 * self.plan.clients };
                (0..clients).for_each(|_| self.create_client());
                !none
            }
            _ if self.plan.has_a_crowd() => self.ask_for_a_crowd(part - 1),
            1 => {
                for _ in 0..3 * self.plan.devices {
                    self.create_device();
                    self.link(true);
                }
                true
            }
            _ => false,
        }
    }

    /// Every device of the crowd, each linked to the first client.
    fn ask_for_a_crowd(&mut self, part: u64) -> bool {
        let client = ClientId::new("c0").expect("letters and digits");
        let numbers = (0..self.plan.devices).filter(|number| number.div_ceil(FLEET_STEP) == part);
        let numbers: Vec<u64> = numbers.collect();
        for number in &numbers {
            let (id, kind) = device(*number);
            self.create(&id, kind);
            self.link_to(&id, client.clone(), true);
        }
        if numbers.is_empty() && self.machine.random.chance(3, 4) {
            // The sweep goes on while other things happen.
            self.delete(client);
        }
        !numbers.is_empty()
    }

    /// A call to the registry: of devices and links, or of clients.
    pub(super) fn call_registry(&mut self) {
        if self.machine.random.chance(1, 6) && self.enable_somebody() {
            return;
        }
        match self.machine.random.below(40) {
            0..=5 => self.create_device(),
            6..=7 => self.patch_device(),
            8 => self.delete_device(),
            9..=17 => self.link(true),
            18..=19 => self.link(false),
            20..=23 => self.create_client(),
            24..=27 => self.patch_client(),
            28 => self.delete_client(),
            29 => self.tell_again(),
            30..=33 => self.import(),
            34 => self.refuse_what_nobody_sent(),
            35..=36 => self.discard(),
            37 => self.rotate(),
            _ => self.retry_delivery(),
        }
    }

    pub(super) fn partition_of(&self, device: &DeviceId) -> PartitionId {
        hash::device_partition(device, self.machine.plan.partitions)
    }

    fn create_device(&mut self) {
        let (id, kind) = self.any_device();
        self.create(&id, kind);
    }

    fn create(&mut self, id: &DeviceId, kind: String) {
        let interval =
            self.machine.random.chance(1, 4).then(|| Duration::from_secs(1 + self.machine.random.below(60)));
        let address =
            self.machine.random.chance(1, 2).then(|| format!("\"Haus\" {}", self.machine.random.below(100)));
        let device = NewDevice {
            id: id.to_string(),
            kind: (kind != "lock" || self.machine.random.chance(1, 2)).then_some(kind),
            address,
            labels: Some(self.any_labels()),
            report_interval: interval,
            commands: None,
        };
        let checked = device.clone().check(&self.settings.registry_rules());
        let checked = Box::new(checked.expect("the workload makes devices that may be"));
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let partition = self.partition_of(id);
        let (input, meant) =
            (DeviceInput::CreateDevice { device: checked, reply }, Meant::Create { call, device });
        self.ask(partition, input, meant, (calls::device(receiver), Then::Nothing));
    }

    fn patch_device(&mut self) {
        let (id, _) = self.any_device();
        let patch = DevicePatch {
            address: match self.machine.random.below(3) {
                0 => Patch::Keep,
                1 => Patch::Clear,
                _ => Patch::Set(format!("street {}", self.machine.random.below(100))),
            },
            report_interval: match self.machine.random.below(3) {
                0 => Patch::Keep,
                1 => Patch::Clear,
                _ => Patch::Set(Duration::from_secs(1 + self.machine.random.below(90))),
            },
            labels: match self.machine.random.below(6) {
                0 => Patch::Clear,
                1..=3 => Patch::Set(self.any_label_changes()),
                _ => Patch::Keep,
            },
            ..DevicePatch::default()
        };
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let partition = self.partition_of(&id);
        let input = DeviceInput::PatchDevice {
            id: id.clone(),
            patch: Box::new(patch.clone()),
            only_if: OnlyIf::default(),
            reply,
        };
        let answer = (calls::device(receiver), Then::Nothing);
        self.ask(partition, input, Meant::Patch { call, id, patch }, answer);
    }

    /// Of a site, or none; of a floor besides, sometimes.
    pub(super) fn any_labels(&mut self) -> Vec<(String, String)> {
        let changes = self.any_label_changes();
        changes.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }

    fn any_label_changes(&mut self) -> Vec<(String, Option<String>)> {
        let mut changes = Vec::new();
        for (key, values) in [("floor", 2), ("site", 3)] {
            if self.machine.random.chance(2, 3) {
                let value =
                    self.machine.random.chance(3, 4).then(|| self.machine.random.below(values).to_string());
                changes.push((key.to_owned(), value));
            }
        }
        changes
    }

    fn delete_device(&mut self) {
        let (id, _) = self.any_device();
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let partition = self.partition_of(&id);
        let input = DeviceInput::DeleteDevice { id: id.clone(), only_if: OnlyIf::default(), reply };
        let answer = (Waiting::on(receiver, Answer::Done), Then::Cut(id.clone(), None));
        self.ask(partition, input, Meant::Delete { call, id }, answer);
    }

    fn link(&mut self, linked: bool) {
        let (id, _) = self.any_device();
        let client = ClientId::new(&self.any_client_id()).expect("letters and digits");
        self.link_to(&id, client, linked);
    }

    fn link_to(&mut self, id: &DeviceId, client: ClientId, linked: bool) {
        let Some(server) = &self.server else { return };
        let Some(known) = server.context.directory().by_id(&client) else { return };
        let incarnation = known.incarnation;
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let partition = self.partition_of(id);
        let input = DeviceInput::Link {
            id: id.clone(),
            client: LinkedClient { incarnation, id: client.clone() },
            linked,
            reply,
        };
        let meant = Meant::Link { call, id: id.clone(), client: (incarnation, client), linked };
        let then = if linked { Then::Nothing } else { Then::Cut(id.clone(), Some(incarnation)) };
        let takes = self.ask(partition, input, meant, (Waiting::on(receiver, Answer::Done), then));
        if takes && linked {
            self.sending.ask_link(id, incarnation, call);
        }
    }

    fn retry_delivery(&mut self) {
        let partition = self.random_partition();
        // Nobody can know of a delivery that is not durable.
        let deliveries = &self.model[usize::from(partition.0)].durable().deliveries;
        let Some(last) = deliveries.len().checked_sub(1) else { return };
        let back = self.machine.random.below(4).min(last as u64) as usize;
        let id: EntityId = deliveries[last - back].id;
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let answer = (Waiting::on(receiver, Answer::Done), Then::Nothing);
        self.ask(partition, DeviceInput::RetryDelivery { id, reply }, Meant::Retry { call, id }, answer);
    }

    fn create_client(&mut self) {
        let id = self.any_client_id();
        let client = NewClient {
            name: format!("owner of {id}"),
            url: self.any_url(&id),
            id: Some(id),
            secret: None,
            notices: false,
        };
        let secret = self.any_secret();
        let made = Box::new(Made { id: [7; 8], secret });
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let input = RegistryInput::Create { client: Box::new(client.clone()), made, reply };
        let meant = MeantClient::Create { call, client, secret };
        self.ask_registry(input, meant, calls::client(receiver), Then::Nothing);
    }

    fn any_secret(&mut self) -> [u8; 32] {
        [self.machine.random.below(256) as u8; 32]
    }

    fn rotate(&mut self) {
        let id = ClientId::new(&self.any_client_id()).expect("letters and digits");
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let secret = self.any_secret();
        let input = RegistryInput::Rotate { id: id.clone(), secret: Box::new(secret), reply };
        let meant = MeantClient::Rotate { call, id, secret };
        self.ask_registry(input, meant, calls::client(receiver), Then::Nothing);
    }

    fn patch_client(&mut self) {
        let text = self.any_client_id();
        let id = ClientId::new(&text).expect("letters and digits");
        let patch = ClientPatch {
            url: if self.machine.random.chance(1, 2) { Patch::Set(self.any_url(&text)) } else { Patch::Keep },
            enabled: match self.machine.random.below(8) {
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
        let input = RegistryInput::Patch {
            id: id.clone(),
            patch: Box::new(patch.clone()),
            only_if: OnlyIf::default(),
            reply,
        };
        let meant = MeantClient::Patch { call, id, patch };
        self.ask_registry(input, meant, calls::client(receiver), Then::Nothing);
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
        let known = self.server.as_ref().and_then(|server| server.context.directory().by_id(&client));
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
        let input = RegistryInput::Delete { id: id.clone(), only_if: OnlyIf::default(), reply };
        let meant = MeantClient::Delete { call, id };
        self.ask_registry(input, meant, calls::client(receiver), Then::Gone);
    }

    fn ask_registry(&mut self, input: RegistryInput, meant: MeantClient, waiting: Waiting, then: Then) {
        self.machine.trace.note(format_args!("call {}: {meant:?}", self.calls.last_id()));
        if self.hand_in_registry(input, meant) {
            self.await_answer(vec![PartitionId::REGISTRY], (waiting, then));
        }
    }

    fn any_url(&mut self, client: &str) -> String {
        format!("https://{client}.example/{}", self.machine.random.below(1_000))
    }

    /// Asks a partition to unlink a client that is gone, and the next ones after it.
    pub(super) fn sweep(&mut self, client: Incarnation, partition: PartitionId) {
        if partition.0 >= self.machine.plan.partitions {
            return;
        }
        let call = self.next_call();
        let (reply, receiver) = Reply::new();
        let answer = (Waiting::on(receiver, Answer::Swept), Then::SweepOn(client, partition));
        self.ask(
            partition,
            DeviceInput::SweepClient { client, reply },
            Meant::Sweep { call, client },
            answer,
        );
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
