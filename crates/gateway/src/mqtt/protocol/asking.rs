//! Labels that have to be known before a packet can be used. The packet is held back and used again
//! with the answers.

use std::task::{Context, Poll, ready};

use base::DeviceId;
use rmqtt_codec::types::QoS;

use super::{Asking, MqttProtocol, UnusedPacket};
use crate::mqtt::ending::MqttEnding;
use crate::mqtt::labels::Answer;
use crate::mqtt::limits::LABELS_ASKED_MAX;
use crate::mqtt::wire;

impl MqttProtocol {
    pub(super) fn is_asking(&self) -> bool {
        self.asking.as_deref().is_some_and(|asking| matches!(asking, Asking::Asks(_)))
    }

    /// Ready when nothing has to be known any more.
    pub(in crate::mqtt) fn poll_answers(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), MqttEnding>> {
        let Some(Asking::Asks(asking)) = self.asking.as_deref_mut() else { return Poll::Ready(Ok(())) };
        let answers = ready!(asking.as_mut().poll(cx));
        self.asking = None;
        self.asking = Some(Box::new(Asking::Answered(answers?)));
        Poll::Ready(Ok(()))
    }

    /// The answers for the packet that was held back.
    pub(super) fn take_answers(&mut self) -> Vec<Answer> {
        match self.asking.take().map(|asking| *asking) {
            Some(Asking::Answered(answers)) => answers,
            Some(Asking::Asks(_)) | None => Vec::new(),
        }
    }

    /// Looks up these devices, and those of the packets behind, so that many reports take one
    /// lookup.
    pub(super) fn ask(&mut self, mut devices: Vec<DeviceId>, behind: &[u8]) {
        let Some(label) = self.access.label() else { return };
        self.add_upcoming(&mut devices, behind);
        let labels = std::sync::Arc::clone(&self.shared.labels);
        let asking = labels.look_up(self.shared.engine.clone(), label, devices);
        self.asking = Some(Box::new(Asking::Asks(Box::pin(asking))));
    }

    fn add_upcoming(&self, devices: &mut Vec<DeviceId>, mut behind: &[u8]) {
        let known = self.shared.known(&[]);
        while devices.len() < LABELS_ASKED_MAX
            && let Ok(Some(packet)) = wire::packet(behind, self.shared.limits.packet_bytes_max)
        {
            behind = &behind[packet.bytes.len()..];
            if !packet.is_publish() {
                continue;
            }
            let Ok(publish) = wire::publish(self.client.version, packet) else { return };
            if let Some(device) = self.access.asks_about(publish.topic, known)
                && !devices.contains(&device)
            {
                devices.push(device);
            }
        }
    }

    /// Asks for the devices of these filters that are not known, once: no more of them than a
    /// connection has subscriptions.
    pub(super) fn ask_for_filters(
        &self,
        filters: &[(String, QoS)],
        answers: &[Answer],
    ) -> Result<(), UnusedPacket> {
        let most = self.shared.limits.subscriptions_max;
        let mut asked: Vec<&str> = Vec::new();
        let mut unknown = Vec::new();
        for (filter, _) in filters {
            let level = self.shared.kinds.device_level(filter);
            let Some(level) = level.filter(|level| !asked.contains(level)) else { continue };
            if asked.len() >= most {
                break;
            }
            asked.push(level);
            unknown.extend(self.access.asks_about(filter, self.shared.known(answers)));
        }
        if unknown.is_empty() { Ok(()) } else { Err(UnusedPacket::Asks(unknown)) }
    }
}
