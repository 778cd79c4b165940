//! Imports: lines of devices, new or known, split by partition as the engine does; and who is asked
//! too late.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{ClientId, EntityId, Incarnation, PartitionId, Problem, Timestamp};
use engine::devices::input::{DeviceInput, ImportOutcome, LinkedClient, ToImport};
use engine::kernel::reply::Reply;
use engine::{ImportDevice, NewDevice};

use super::World;
use super::calls::{Answer, Then, Waiting};
use crate::devices::meant::{ImportLine, Meant};
use crate::harness::calls::{BatchRef, CallId};

/// Lines of an import at most.
const LINES: u64 = 5;
/// How long ago, and how far ahead, the time from which a device is missed may be, in milliseconds.
const EXPECTED_AGO_MS_MAX: u64 = 120_000;
const EXPECTED_AHEAD_MS_MAX: u64 = 60_000;

impl World {
    /// Some lines; each partition gets its own.
    pub(super) fn import(&mut self) {
        let mut split: BTreeMap<PartitionId, Vec<(ToImport, ImportLine)>> = BTreeMap::new();
        for index in 0..=self.machine.random.below(LINES) as u32 {
            let asked = self.any_line();
            if let Some(line) = self.looked_up(index, asked) {
                split.entry(self.partition_of(&line.1.id)).or_default().push(line);
            }
        }
        for (partition, lines) in split {
            let (call, (reply, receiver)) = (self.next_call(), Reply::new());
            let (lines, meant): (Vec<_>, Vec<_>) = lines.into_iter().unzip();
            let linked = meant.clone();
            let answer = (Waiting::on(receiver, Answer::Imported), Then::Imported(meant.clone()));
            let (input, meant) = (DeviceInput::Import { lines, reply }, Meant::Import { call, lines: meant });
            if self.ask(partition, input, meant, answer) {
                for line in &linked {
                    let clients = line.clients.iter().flatten();
                    clients.for_each(|client| self.sending.ask_link(&line.id, *client, call));
                }
            }
        }
    }

    fn any_line(&mut self) -> ImportDevice {
        let (id, kind) = self.any_device();
        let other = if kind == "lock" { "meter" } else { "lock" }.to_owned();
        let device = NewDevice {
            id: id.to_string(),
            kind: match self.machine.random.below(8) {
                0 => Some(other),
                1..=4 => Some(kind),
                _ => None,
            },
            address: self
                .machine
                .random
                .chance(1, 3)
                .then(|| format!("yard {}", self.machine.random.below(100))),
            labels: self.machine.random.chance(1, 2).then(|| self.any_labels()),
            report_interval: self
                .machine
                .random
                .chance(1, 4)
                .then(|| Duration::from_secs(1 + self.machine.random.below(60))),
            commands: None,
        };
        let clients = self.machine.random.chance(1, 2).then(|| {
            let count = self.machine.random.below(3);
            (0..count).map(|_| self.any_client_id()).collect()
        });
        let now = self.now().0;
        let expect_from = match self.machine.random.below(4) {
            0 => Some(Timestamp(now - self.machine.random.below(EXPECTED_AGO_MS_MAX) as i64)),
            1 => Some(Timestamp(now + self.machine.random.below(EXPECTED_AHEAD_MS_MAX) as i64)),
            _ => None,
        };
        ImportDevice { device, clients, expect_from }
    }

    /// The line with its clients; nothing if one of them is not there, which is answered before any
    /// partition is asked.
    fn looked_up(&self, index: u32, asked: ImportDevice) -> Option<(ToImport, ImportLine)> {
        let directory = self.server.as_ref()?.context.directory();
        let import = asked.clone().check(&self.settings.registry_rules());
        let import = import.expect("the workload makes lines that may be");
        let known = |id: &ClientId| {
            let client = directory.by_id(id)?;
            Some(LinkedClient { incarnation: client.incarnation, id: client.id.clone() })
        };
        let clients: Option<Vec<LinkedClient>> = match import.clients() {
            Some(ids) => Some(ids.iter().map(known).collect::<Option<_>>()?),
            None => None,
        };
        let incarnations = |clients: &Vec<LinkedClient>| {
            clients.iter().map(|client| client.incarnation).collect::<Vec<Incarnation>>()
        };
        let line =
            ImportLine { index, id: import.id().clone(), asked, clients: clients.as_ref().map(incarnations) };
        Some((ToImport { index, import, clients }, line))
    }

    /// Lines that name clients have cut the links to all others.
    pub(super) fn imported(
        &mut self,
        call: CallId,
        batch: BatchRef,
        lines: &[ImportLine],
        outcomes: &[(u32, Result<ImportOutcome, Problem>)],
    ) {
        for (line, (_, outcome)) in lines.iter().zip(outcomes) {
            let Some(named) = line.clients.as_ref().filter(|_| outcome.is_ok()) else { continue };
            for client in self.clients_seen.iter().filter(|client| !named.contains(client)) {
                self.sending.cut(&line.id, Some(*client), call, batch);
            }
        }
    }

    /// Somebody who asks again for what is just being forgotten is sent away. Whether it is still
    /// there depends on which batches are durable by then. That is known only once all are.
    pub(super) fn withdraw_what_is_uncertain(&mut self, partition: PartitionId) {
        let model = &self.model[usize::from(partition.0)].present;
        let Some(server) = &mut self.server else { return };
        let port = server.port(partition);
        if port.runner.is_settled() {
            return;
        }
        let newest_event_is_gone = |device: &crate::devices::model::device::Device| {
            device.events.last().is_some_and(|event| event.at < model.kept.events)
        };
        let uncertain_delivery = |id: &EntityId| {
            let delivery = model.deliveries.iter().find(|delivery| delivery.id == *id);
            let device = delivery.and_then(|delivery| model.devices.get(&delivery.device));
            !model.lists(*id) || device.is_some_and(newest_event_is_gone)
        };
        let mut withdrawn = Vec::new();
        port.inbox.retain(|(_, meant)| {
            let call = match meant {
                Meant::Retry { call, id } if uncertain_delivery(id) => *call,
                Meant::Resend { call, .. } if model.devices.values().any(newest_event_is_gone) => *call,
                _ => return true,
            };
            withdrawn.push(call);
            false
        });
        self.calls.waiting.retain(|call| !withdrawn.contains(&call.id));
    }
}
