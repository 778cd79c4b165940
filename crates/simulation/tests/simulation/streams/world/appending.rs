//! Those who append, and what they are answered.

use std::sync::{Arc, OnceLock};

use base::{Incarnation, Problem};
use engine::kernel::reply::Reply;
use engine::streams::input::{AppendCall, AppendOutcome};
use engine::streams::{NewMessage, OwnedExternalId, StreamsInput};
use records::SaveMode;

use super::{Answer, MeantInput, TakenAppend, Then, World, partition, stream_name};
use crate::harness::calls::Waiting;
use crate::harness::track::AnyTrack;
use crate::harness::violation::{Checked, Invariant};
use crate::streams::message::{GivenMessage, Origin};
use crate::streams::model::StreamModel;

/// Messages of an append, at most.
const MESSAGES_MAX: u64 = 8;
/// Messages that may come again.
const SENT_MAX: usize = 200;

impl World {
    pub(super) fn append(&mut self) {
        let name = self.any_name();
        let count =
            if self.machine.random.chance(1, 2) { 1 } else { 1 + self.machine.random.below(MESSAGES_MAX) };
        let given: Vec<GivenMessage> = (0..count).map(|_| self.any_message()).collect();
        let expect_last_id = self.machine.random.chance(1, 10).then(|| self.any_last_id(&name));
        self.machine.trace.note(format_args!("append {} to {name}, behind {expect_last_id:?}", given.len()));
        let messages = given.iter().map(GivenMessage::new_message).collect();
        let (reply, receiver) = Reply::new();
        let taken_by = Arc::<OnceLock<Incarnation>>::default();
        let call = AppendCall {
            expect_last_id,
            taken_by: Some(Arc::clone(&taken_by)),
            ..AppendCall::new(stream_name(&name), messages, reply)
        };
        let input = StreamsInput::Append(Box::new(call));
        let then = Then::Append { name: name.clone(), given, expect_last_id };
        let meant = move |call| MeantInput::Append { call, name, taken_by };
        self.ask((input, meant), Waiting::on(receiver, Answer::Appended), then);
    }

    fn any_message(&mut self) -> GivenMessage {
        let again = self.any_sent();
        let random = &self.machine.random;
        if let Some(sent) = again.as_ref().filter(|_| random.chance(1, 2)) {
            return sent.clone();
        }
        self.last_payload += 1;
        let number = self.last_payload;
        let padding = match random.below(20) {
            0 => 3_000,
            1..=4 => random.below(200),
            _ => random.below(20),
        };
        let payload = format!("\"{number}{}\"", "x".repeat(padding as usize)).into_bytes().into();
        let segment = random.chance(1, 3).then(|| format!("g{}", random.below(3)).into());
        let is_named = random.chance(3, 4);
        let origin = match again {
            Some(sent) => sent.origin,
            None => is_named.then(|| self.any_origin()),
        };
        let given = GivenMessage { payload, origin, segment };
        if given.origin.is_some() {
            if self.sent.len() == SENT_MAX {
                self.sent.remove(0);
            }
            self.sent.push(given.clone());
        }
        given
    }

    /// A message that was sent before.
    fn any_sent(&self) -> Option<GivenMessage> {
        let random = &self.machine.random;
        if self.sent.is_empty() || !random.chance(1, 5) {
            return None;
        }
        let from = if random.chance(1, 2) { self.sent.len().saturating_sub(8) } else { 0 };
        Some(random.one_of(&self.sent[from..]))
    }

    /// An id of a source: the next one, any, or a text.
    fn any_origin(&mut self) -> Origin {
        let random = &self.machine.random;
        let source: Box<str> = format!("till-{}", random.below(3)).into();
        let id = match random.below(4) {
            0 => OwnedExternalId::Number(random.below(300)),
            1 => OwnedExternalId::Text(format!("t{}", random.below(200)).into()),
            _ => {
                let next = self.next_numbers.entry(source.clone()).or_insert(1_000);
                *next += 1;
                OwnedExternalId::Number(*next)
            }
        };
        (source, id)
    }

    /// The id of the newest message, as somebody may know it, or another.
    fn any_last_id(&self, name: &str) -> u64 {
        let Some((stream, found)) = self.model.present.named(name) else { return 0 };
        let newest = self.ledger.of(stream).map(|(id, _)| id).max().unwrap_or(0).max(found.last);
        if self.machine.random.chance(2, 3) { newest } else { self.machine.random.below(newest + 2) }
    }

    pub(super) fn refused(&mut self, problem: &Problem) -> Checked {
        match problem.code {
            "tail_moved" => self.counts.tail_moved += 1,
            "stream_full" => self.counts.full += 1,
            // It was deleted while they waited, to be appended or to be saved.
            "unknown_stream" => {}
            "unavailable" if problem.detail.contains("was deleted") => {}
            _ => return Err(Invariant::AS_THE_MODEL.broken(format!("refused without a reason: {problem:?}"))),
        }
        Ok(())
    }

    pub(super) fn appended(
        &mut self,
        name: &str,
        TakenAppend { stream, mode }: TakenAppend,
        (given, expect_last_id): (Vec<GivenMessage>, Option<u64>),
        outcomes: Vec<AppendOutcome>,
    ) -> Checked {
        let Some(stream) = stream else {
            return Err(Invariant::AS_THE_MODEL.broken("an append is answered, and there is no stream"));
        };
        Invariant::AS_THE_MODEL.same("outcomes of an append", &outcomes.len(), &given.len())?;
        let is_promised = matches!(mode, SaveMode::Sync | SaveMode::Wait);
        let durable = self.model.durable().streams.get(&stream).cloned();
        // It was deleted since.
        let Some(durable) = durable.filter(|found| !found.is_deleted) else { return Ok(()) };
        let first_new = outcomes.iter().find_map(|outcome| match outcome {
            AppendOutcome::Appended(id) => Some(*id),
            AppendOutcome::Duplicate(_) => None,
        });
        if let Some((expect, first)) = expect_last_id.zip(first_new) {
            self.check_expected(stream, &durable, (expect, first))?;
        }
        let mut duplicates = Vec::new();
        for (given, outcome) in given.into_iter().zip(outcomes) {
            match outcome {
                AppendOutcome::Appended(id) => {
                    Invariant::DURABLE_BEFORE_ACKNOWLEDGED.check(
                        !is_promised || id <= durable.gone_to || durable.messages.get(&id) == Some(&given),
                        || format!("{id} of {name} is answered in mode {mode:?}, and not durable: {given:?}"),
                    )?;
                    let seq = self.model.latest_shown();
                    self.ledger.answered(stream, id, (given, is_promised, seq))?;
                    let of_mode = if is_promised { &mut self.counts.durable } else { &mut self.counts.early };
                    *of_mode += 1;
                }
                AppendOutcome::Duplicate(message) => duplicates.push((given, *message)),
            }
        }
        self.check_duplicates(name, (stream, &durable), duplicates)
    }

    /// The message before the first one of an append is the one that its caller expected.
    fn check_expected(
        &self,
        stream: Incarnation,
        durable: &StreamModel,
        (expect, first): (u64, u64),
    ) -> Checked {
        let answered = self.ledger.of(stream).map(|(id, _)| id);
        let before = durable.messages.keys().copied().chain(answered).filter(|id| *id < first).max();
        let before = before.unwrap_or(0).max(durable.gone_to);
        Invariant::AS_THE_MODEL.same(format_args!("the message before {first}"), &before, &expect)
    }

    fn check_duplicates(
        &mut self,
        name: &str,
        (stream, durable): (Incarnation, &StreamModel),
        duplicates: Vec<(GivenMessage, NewMessage)>,
    ) -> Checked {
        // Of a stream that is deleted meanwhile nothing is found.
        let is_there = self.model.present.names.get(name) == Some(&stream) && !duplicates.is_empty();
        let Some(server) = self.server.as_ref().filter(|_| is_there) else { return Ok(()) };
        let store = &*server.context.kernel.store;
        let messages: Vec<NewMessage> = duplicates.iter().map(|(_, message)| message.clone()).collect();
        let failed_before = self.machine.failed_reads();
        let found = server.context.streams.first_messages(store, &stream_name(name), &messages);
        // What lies in a storage that is away, or in a file that was not read, is not told.
        let is_unread = self.cold.is_away() || self.machine.failed_reads() > failed_before;
        let Ok(found) = found else {
            self.counts.unreadable += 1;
            return Ok(());
        };
        if let Ok(view) = store.view(partition()) {
            self.model.shown(view.head().seq);
        }
        for ((given, _), first) in duplicates.into_iter().zip(found) {
            let Some(origin) = given.origin.clone() else {
                return Err(Invariant::ONCE_ONLY.broken(format!("{given:?} is no duplicate")));
            };
            self.counts.duplicates += 1;
            self.counts.conflicts += u64::from(first.conflict);
            self.counts.firsts_gone += u64::from(first.id.is_none());
            // Of the store what somebody may know; a batch further on may have dropped it.
            let present = self.model.present.streams.get(&stream);
            let kept_from = present.map_or(0, |present| present.gone_to + 1);
            let answered = self.ledger.of(stream).find(|(_, one)| one.origin.as_ref() == Some(&origin));
            let expected = durable.first_with(&origin).or(answered);
            let expected = expected.filter(|(id, _)| *id >= kept_from);
            let names = Invariant::DUPLICATES_NAME_THE_FIRST;
            match (expected, first.id) {
                (Some((id, kept)), Some(found)) => {
                    names.same(format_args!("the first of {origin:?}"), &found, &id)?;
                    let is_other = kept.payload != given.payload;
                    if is_unread && is_other && !first.conflict {
                        self.counts.unreadable += 1;
                        continue;
                    }
                    names.same(format_args!("whether {id} is another"), &first.conflict, &is_other)?;
                }
                (Some(_), None) if is_unread => self.counts.unreadable += 1,
                (Some((id, _)), None) => {
                    return Err(names.broken(format!("{id} of {name} has {origin:?}, and is not found")));
                }
                // Dropped by a batch that nobody was told of.
                (None, _) => {}
            }
        }
        Ok(())
    }
}
