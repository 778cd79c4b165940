//! Those who give messages to nodes, and ask for receipts.

use std::sync::{Arc, OnceLock};

use base::{Incarnation, Problem};
use engine::kernel::reply::Reply;
use engine::streams::input::{AppendCall, AppendOutcome};
use engine::streams::{MessagePayload, NewMessage, OwnedExternalId, ReceiptOf, StreamsInput};
use records::{KeepBounds, SaveMode, StreamMove, StreamSettings, WhenFull};
use tokio::sync::oneshot::{Receiver, error::TryRecvError};

use super::World;
use crate::harness::violation::{Checked, Invariant};
use crate::nodes::fault_injection::{COPIES_NOT_WAITED_FOR, RECEIPT_BEFORE_ANSWER};
use crate::nodes::ledger::{AnsweredTo, GivenTo, SentMessage};
use crate::nodes::plan::node_name;
use crate::streams::cold_storage::COLD;
use crate::streams::world::as_node::StreamsNode;
use crate::streams::world::{small_blocks, stream_name};

/// Messages of an append, at most.
const MESSAGES_MAX: u64 = 6;

/// An append that is not answered.
pub(super) struct ClientCall {
    node: usize,
    image: u64,
    numbers: Vec<u64>,
    mode: SaveMode,
    settings_given: u64,
    taken_by: Arc<OnceLock<Incarnation>>,
    outcome: Receiver<Result<Vec<AppendOutcome>, Problem>>,
}

/// Whoever is answered in this mode is to find the message after a crash.
fn promises(mode: SaveMode) -> bool {
    matches!(mode, SaveMode::Sync | SaveMode::Wait)
}

impl World {
    /// A client gives messages to a node, or again to another one.
    pub(super) fn append(&mut self) {
        let node = self.any_node();
        if !self.nodes[node].node.users().takes_input() {
            return;
        }
        let name = self.any_stream();
        let random = &self.machine.random;
        let count = if random.chance(1, 2) { 1 } else { 1 + random.below(MESSAGES_MAX) };
        let numbers: Vec<u64> = (0..count).map(|_| self.any_message()).collect();
        self.give(node, &name, numbers);
    }

    /// Every stream gets one message more of each segment. A copy that has nothing to bring hears
    /// nothing of its other end, and does not know that it was made anew.
    pub(super) fn append_last(&mut self) {
        for node in 0..self.nodes.len() {
            for stream in 0..self.plan.streams {
                let of = |segment: u64| Some(format!("g{segment}").into());
                let numbers = (0..2).map(|segment| {
                    self.ledger.add(SentMessage { segment: of(segment), ..SentMessage::default() })
                });
                let numbers = numbers.collect();
                self.give(node, &format!("s{stream}"), numbers);
            }
        }
    }

    fn give(&mut self, node: usize, name: &str, numbers: Vec<u64>) {
        let set_back = self.nodes[node].set_back;
        let stream = name.trim_start_matches('s').parse().unwrap_or(0);
        let mut messages = Vec::new();
        for number in &numbers {
            let Some(sent) = self.ledger.messages.get_mut(number) else { continue };
            sent.given_to.push(GivenTo { node, stream, set_back });
            messages.push(new_message(*number, sent));
        }
        self.machine.trace.note(format_args!("n{node}: {numbers:?} for {name}"));
        let (reply, outcome) = Reply::new();
        let taken_by = Arc::new(OnceLock::new());
        let call = AppendCall {
            taken_by: Some(Arc::clone(&taken_by)),
            ..AppendCall::new(stream_name(name), messages, reply)
        };
        if self.nodes[node].node.users_mut().tell_streams(StreamsInput::Append(Box::new(call))) {
            let (image, mode, settings_given) =
                (self.nodes[node].image, self.mode_of(node, name), self.settings_given);
            self.clients.push(ClientCall { node, image, numbers, mode, settings_given, taken_by, outcome });
        }
    }

    /// In which mode a stream saves, as far as its node has come.
    fn mode_of(&self, node: usize, name: &str) -> SaveMode {
        self.nodes[node].present().named(name).map_or(SaveMode::Sync, |(_, found)| found.row.settings.save)
    }

    /// A new message, or one with a source that was given before.
    fn any_message(&mut self) -> u64 {
        let random = &self.machine.random;
        let last = self.ledger.last();
        if last > 0 && random.chance(1, 4) {
            let again = 1 + last - (1 + random.below(last.min(20)));
            if self.ledger.messages.get(&again).is_some_and(|sent| sent.origin.is_some()) {
                return again;
            }
        }
        let source = random.chance(1, 3).then(|| (format!("till-{}", random.below(2)).into(), last + 1));
        let segment = random.chance(1, 2).then(|| format!("g{}", random.below(2)).into());
        self.ledger.add(SentMessage { origin: source, segment, ..SentMessage::default() })
    }

    /// Takes answers that have come.
    pub(super) fn take_answers_of_clients(&mut self) -> Checked {
        for mut call in std::mem::take(&mut self.clients) {
            match call.outcome.try_recv() {
                Err(TryRecvError::Empty) => self.clients.push(call),
                Err(TryRecvError::Closed) => {}
                Ok(Ok(outcomes)) => self.answered(&call, &outcomes)?,
                Ok(Err(_)) => self.counts.refused += 1,
            }
        }
        Ok(())
    }

    fn answered(&mut self, call: &ClientCall, outcomes: &[AppendOutcome]) -> Checked {
        let Some(stream) = call.taken_by.get().copied() else { return Ok(()) };
        let node = &self.nodes[call.node];
        let now = node.present().streams.get(&stream).map(|found| found.row.settings.save);
        let is_promised =
            promises(call.mode) && now.is_some_and(promises) && call.settings_given == self.settings_given;
        for (number, outcome) in call.numbers.iter().zip(outcomes) {
            let Some(sent) = self.ledger.messages.get_mut(number) else { continue };
            match outcome {
                AppendOutcome::Appended(id) => {
                    *(if is_promised { &mut self.counts.durable } else { &mut self.counts.early }) += 1;
                    let (node, image, id) = (call.node, call.image, *id);
                    sent.answers.push(AnsweredTo { node, image, stream, id, is_promised });
                }
                AppendOutcome::Duplicate(_) => {
                    self.counts.duplicates += 1;
                    let is_known = sent.origin.is_some() && sent.given_to.len() > 1;
                    Invariant::NEW_IS_NEW
                        .check(is_known, || format!("{number} is no duplicate: {sent:?}"))?;
                }
            }
        }
        Ok(())
    }

    /// Somebody changes how a stream saves, and what it keeps.
    pub(super) fn set(&mut self) {
        let node = self.any_node();
        let (name, settings) = (self.any_stream(), self.any_settings());
        self.give_settings(node, &name, settings);
    }

    fn give_settings(&mut self, node: usize, name: &str, settings: StreamSettings) {
        self.machine.trace.note(format_args!("n{node}: set {name}: {settings:?}"));
        let (reply, _nobody_waits) = Reply::new();
        let input =
            StreamsInput::PutSettings { stream: stream_name(name), settings: Box::new(settings), reply };
        self.settings_given += u64::from(self.nodes[node].node.users_mut().tell_streams(input));
    }

    fn any_settings(&self) -> StreamSettings {
        let random = &self.machine.random;
        let mut settings = small_blocks(random);
        settings.unload_after_ms = 100 + random.below(30_000);
        if random.below(100) < self.plan.moving_percent {
            settings.moves.push(StreamMove { after_ms: random.below(60_000), to: COLD.into() });
        }
        settings.when_full = random.one_of(&WhenFull::ALL);
        let until_copied = !self.machine.injects(COPIES_NOT_WAITED_FOR);
        settings.keep = KeepBounds { age_ms: None, bytes: None, until_copied };
        if self.plan.drops {
            settings.keep.age_ms = random.chance(2, 3).then(|| 1_000 + random.below(60_000));
            settings.keep.bytes = random.chance(1, 4).then(|| 1_000 + random.below(8_000));
            // One that is full and refuses is never level with its sources.
            settings.when_full = WhenFull::DropOldest;
        }
        settings
    }

    /// Every stream gets settings of this run.
    pub(super) fn set_first(&mut self, node: usize) {
        for number in 0..self.plan.streams {
            let settings = self.any_settings();
            self.give_settings(node, &format!("s{number}"), settings);
        }
    }

    /// Somebody asks where a message is durable.
    pub(super) fn ask_receipt(&mut self) -> Checked {
        let node = self.any_node();
        let name = self.any_stream();
        let Some(context) = self.nodes[node].context() else { return Ok(()) };
        let Some((stream, found)) = self.nodes[node].present().named(&name) else { return Ok(()) };
        let kept: Vec<u64> = found.messages.keys().copied().collect();
        if kept.is_empty() {
            return Ok(());
        }
        let from = if self.machine.random.chance(1, 2) { kept.len().saturating_sub(8) } else { 0 };
        let id = self.machine.random.one_of(&kept[from..]);
        let number = self.nodes[node].seen.get(&stream).and_then(|seen| seen.by_id.get(&id)).copied();
        let of = match number.and_then(|number| self.ledger.messages.get(&number)?.origin.clone()) {
            Some((source, number)) if self.machine.random.chance(1, 2) => {
                ReceiptOf::Origin(source, OwnedExternalId::Number(number))
            }
            _ => ReceiptOf::Id(id),
        };
        let receipt = context.streams.receipt(&*context.kernel.store, &stream_name(&name), &of);
        let Ok(mut receipt) = receipt else { return Ok(()) };
        self.nodes[node].node.users_mut().was_read();
        // A stream that is deleted answers until the batch that says so is stored, also where the
        // same batch makes another one of its name.
        let Some((stream, _)) = self.nodes[node].durable().named(&name) else { return Ok(()) };
        if self.machine.injects(RECEIPT_BEFORE_ANSWER) {
            let copies = self.nodes[node].durable().copies.values();
            let copies = copies.filter(|copy| copy.stream == stream && copy.peer_node.is_some());
            receipt.durable_on.extend(copies.map(|copy| copy.node.clone()));
        }
        self.machine.trace.note(format_args!("n{node}: {of:?} of {name} is on {:?}", receipt.durable_on));
        self.counts.receipts += 1;
        self.counts.receipts_of_several += u64::from(receipt.durable_on.len() > 1);
        let mine: Box<str> = node_name(node).into();
        let is_first = receipt.durable_on.first().is_none_or(|first| *first == mine);
        Invariant::RECEIPTS_ARE_TRUE.check(is_first, || format!("{receipt:?} of {mine}"))?;
        self.check_receipt(node, (stream, receipt.id), &receipt.durable_on)
    }
}

fn new_message(number: u64, sent: &SentMessage) -> NewMessage {
    let padding = "x".repeat((number % 37) as usize);
    let payload = format!("\"{number}{padding}\"").into_bytes().into();
    NewMessage {
        source: sent.origin.as_ref().map(|(source, _)| source.clone()),
        external_id: sent.origin.as_ref().map(|(_, id)| OwnedExternalId::Number(*id)),
        segment: sent.segment.clone(),
        ..NewMessage::new(MessagePayload::Json(payload))
    }
}
