//! Refused reports on their way to the quarantine, as the intake sends them, and out of it again.

use std::collections::BTreeMap;

use base::{EntityId, PartitionId, Problem, WayIn, hash};
use engine::Report;
use engine::devices::input::{DeviceInput, RefusedMessage};
use engine::intake::Rejection;
use engine::kernel::reply::Reply;

use super::World;
use super::calls::{Answer, Then, Waiting};
use crate::devices::meant::Meant;

/// Bytes of what was received at most.
const PAYLOAD_BYTES_MAX: u64 = 600;

impl World {
    /// What was refused of a slice is kept as it was received.
    pub(super) fn keep_refused(&mut self, way: WayIn, reports: &[Report], rejected: Vec<Rejection>) {
        let mut messages = Vec::new();
        for Rejection { index, device, problem } in rejected {
            let topic =
                (way == WayIn::Mqtt).then(|| format!("dev/x/{}/state", reports[index as usize].device));
            let payload = self.any_payload();
            let of_whom = device
                .as_ref()
                .map_or_else(|| hash::derived(0, &payload), |device| hash::device_hash(device.as_str()));
            let routing = hash::routing_hash(of_whom);
            messages.push(RefusedMessage { routing, device, topic, problem, payload, cut: false });
        }
        self.quarantine(way, messages);
    }

    /// A message of which nobody can say whose it is.
    pub(super) fn refuse_what_nobody_sent(&mut self) {
        let way = self.any_way();
        let payload = self.any_payload();
        let message = RefusedMessage {
            routing: hash::routing_hash(hash::derived(0, &payload)),
            device: None,
            topic: None,
            problem: Problem::unreadable("this is no report"),
            cut: self.machine.random.chance(1, 4),
            payload,
        };
        self.quarantine(way, vec![message]);
    }

    fn any_payload(&mut self) -> Vec<u8> {
        let length = self.machine.random.below(PAYLOAD_BYTES_MAX) as usize;
        vec![self.machine.random.below(256) as u8; length]
    }

    fn quarantine(&mut self, way: WayIn, messages: Vec<RefusedMessage>) {
        let mut split: BTreeMap<PartitionId, Vec<RefusedMessage>> = BTreeMap::new();
        for message in messages {
            let partition = hash::partition_of(message.routing, self.machine.plan.partitions);
            split.entry(partition).or_default().push(message);
        }
        for (partition, messages) in split {
            let (call, (reply, receiver)) = (self.next_call(), Reply::new());
            let meant = Meant::Quarantine { call, way, messages: messages.clone() };
            let answer = (Waiting::on(receiver, |()| Answer::Kept), Then::Nothing);
            self.ask(partition, DeviceInput::Quarantine { way, messages, reply }, meant, answer);
        }
    }

    /// An operator has seen a refused report; sometimes one that another operator has discarded
    /// meanwhile.
    pub(super) fn discard(&mut self) {
        let partition = self.random_partition();
        let kept = &self.model[usize::from(partition.0)].durable().quarantine.kept;
        let Some(last) = kept.len().checked_sub(1) else { return };
        let mut id: EntityId = kept[self.machine.random.below(last as u64 + 1) as usize].id;
        if self.machine.random.chance(1, 8) {
            id.number += 1_000_000;
        }
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let answer = (Waiting::on(receiver, Answer::Done), Then::Nothing);
        self.ask(partition, DeviceInput::Discard { id, reply }, Meant::Discard { call, id }, answer);
    }
}
