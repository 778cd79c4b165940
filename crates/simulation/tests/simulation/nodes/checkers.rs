//! What must hold between nodes: of every position and receipt at any moment, and of every message
//! at rest.

use std::collections::BTreeMap;

use base::Incarnation;
use records::{CopyDirection, StreamCopy};

use super::ledger::AnsweredTo;
use super::plan::node_name;
use super::sim_node::{SeenMessages, SimNode, node_number, number_of};
use super::world::World;
use crate::harness::violation::{Checked, Invariant};
use crate::streams::message::GivenMessage;
use crate::streams::model::{Model, StreamModel};

/// A copy of a node with the streams at its ends, as they are now.
struct Ends<'a> {
    source: (&'a SimNode, Incarnation),
    sink: (&'a SimNode, Incarnation),
}

fn is_its(copy: &StreamCopy, given: &GivenMessage) -> bool {
    copy.segments.is_empty() || given.segment.as_ref().is_some_and(|segment| copy.segments.contains(segment))
}

fn is_behind(copy: &StreamCopy, id: u64) -> bool {
    let is_live = copy.live.is_some_and(|live| id > live.from && id <= live.position);
    (id > copy.start || copy.direction == CopyDirection::From) && (id <= copy.position || is_live)
}

/// The newest message that a stream keeps through a crash.
fn durable_last(model: &Model, stream: Incarnation) -> u64 {
    model.streams.get(&stream).filter(|found| !found.is_deleted).map_or(0, |found| found.last)
}

impl World {
    /// The streams at both ends of a copy; `None` where one is not there.
    fn ends<'a>(&'a self, holder: &'a SimNode, copy: &StreamCopy) -> Option<Ends<'a>> {
        let other = &self.nodes[node_number(&copy.node).unwrap_or(holder.number)];
        let here = (holder, copy.stream);
        let there = (other, other.present().named(&copy.other_name)?.0);
        Some(match copy.direction {
            CopyDirection::To => Ends { source: here, sink: there },
            CopyDirection::From => Ends { source: there, sink: here },
        })
    }

    /// Every position speaks of what is durable at the other end.
    pub(super) fn check_positions(&self) -> Checked {
        for holder in &self.nodes {
            for copy in holder.durable().copies.values() {
                self.check_position(holder, copy)?;
            }
        }
        Ok(())
    }

    fn check_position(&self, holder: &SimNode, copy: &StreamCopy) -> Checked {
        let Some(Ends { source, sink }) = self.ends(holder, copy) else { return Ok(()) };
        let other = if copy.direction == CopyDirection::To { sink } else { source };
        if copy.peer.as_deref() != Some(&*other.0.identity_of(other.1)) {
            // It is of another stream, as the next answer will say.
            return Ok(());
        }
        let Some(found) = source.0.durable().streams.get(&source.1).filter(|found| !found.is_deleted) else {
            return Ok(());
        };
        let Some(seen) = sink.0.seen.get(&sink.1) else { return Ok(()) };
        let last = durable_last(sink.0.durable(), sink.1);
        let passed = found.messages.iter().filter(|(id, given)| is_behind(copy, **id) && is_its(copy, given));
        for (id, given) in passed {
            let there = seen.by_number.get(&number_of(given));
            Invariant::POSITIONS_ARE_TRUE.check(there.is_some_and(|there| *there <= last), || {
                format!(
                    "n{} says that {id} is on n{}, and it is there as {there:?}; durable is {last}: {copy:?}; given {given:?}; seen {:?}; model {:?}",
                    holder.number, sink.0.number, seen.by_id,
                    sink.0.durable().streams.get(&sink.1).map(|found| (found.gone_to, found.last, found.messages.iter().map(|(id, given)| (*id, number_of(given), given.origin.clone())).collect::<Vec<_>>()))
                )
            })?;
        }
        Ok(())
    }

    /// Each node that a receipt names keeps the message through a crash.
    pub(super) fn check_receipt(
        &self,
        node: usize,
        (stream, id): (Incarnation, u64),
        durable_on: &[Box<str>],
    ) -> Checked {
        let holder = &self.nodes[node];
        let mine = holder.seen.get(&stream).and_then(|seen| seen.by_id.get(&id));
        let Some(number) = mine else { return Ok(()) };
        for name in durable_on {
            let is_there = if **name == *node_name(node) {
                durable_last(holder.durable(), stream) >= id
            } else {
                let copies = holder.durable().copies.values();
                let mut copies =
                    copies.filter(|copy| copy.stream == stream && copy.peer_node.as_ref() == Some(name));
                copies.any(|copy| self.keeps(holder, copy, *number))
            };
            Invariant::RECEIPTS_ARE_TRUE.check(is_there, || {
                format!("{id} of n{node}, message {number}, is to be durable on {name}")
            })?;
        }
        Ok(())
    }

    /// Whether the other end of a copy keeps a message, or is another one by now: nobody could
    /// know.
    fn keeps(&self, holder: &SimNode, copy: &StreamCopy, number: u64) -> bool {
        let Some(Ends { sink: (node, stream), .. }) = self.ends(holder, copy) else { return true };
        if copy.peer.as_deref() != Some(&*node.identity_of(stream)) {
            return true;
        }
        let there = node.seen.get(&stream).and_then(|seen| seen.by_number.get(&number));
        there.is_some_and(|id| *id <= durable_last(node.durable(), stream))
    }

    /// All faults have stopped, and copies had time.
    pub(super) fn check_at_rest(&mut self) -> Checked {
        for number in 0..self.nodes.len() {
            self.nodes[number].node.audit()?;
        }
        self.check_positions()?;
        self.check_promises()?;
        for holder in &self.nodes {
            for copy in holder.present().copies.values() {
                self.check_level(holder, copy)?;
                self.check_brought(holder, copy)?;
            }
        }
        self.check_copied_is_saved()?;
        if self.plan.keeps_order() {
            self.check_order()?;
        }
        self.count_at_rest();
        Ok(())
    }

    fn count_at_rest(&mut self) {
        let copies = self.nodes.iter().flat_map(|node| node.present().copies.values());
        self.counts.dropped += copies.map(|copy| copy.dropped).sum::<u64>();
        let of_missing = |answer: &&AnsweredTo| {
            let node = &self.nodes[answer.node];
            let is_there_yet =
                node.image == answer.image && node.present().streams.contains_key(&answer.stream);
            is_there_yet
                && node.seen.get(&answer.stream).is_none_or(|seen| !seen.by_id.contains_key(&answer.id))
        };
        let answers = self.ledger.messages.values().flat_map(|sent| &sent.answers);
        self.counts.lost += answers.filter(of_missing).count() as u64;
        let of_others = |node: &SimNode| {
            let numbers = node.seen.values().flat_map(|seen| seen.by_number.keys());
            let given = |number: &u64| self.ledger.messages.get(number).map(|sent| &sent.given_to);
            let is_foreign =
                |number: &&u64| given(number).is_some_and(|to| to.iter().all(|to| to.node != node.number));
            numbers.filter(is_foreign).count() as u64
        };
        self.counts.copied += self.nodes.iter().map(of_others).sum::<u64>();
    }

    /// What was answered as durable is there, or went as its stream is set.
    fn check_promises(&self) -> Checked {
        for (number, sent) in &self.ledger.messages {
            for answer in sent.answers.iter().filter(|answer| answer.is_promised) {
                let node = &self.nodes[answer.node];
                let found = node.present().streams.get(&answer.stream);
                let found = found.filter(|found| !found.is_deleted && node.image == answer.image);
                let Some(found) = found else { continue };
                let seen = node.seen.get(&answer.stream).and_then(|seen| seen.by_id.get(&answer.id));
                // What goes as its stream is set may go before anybody has looked.
                let is_kept = seen.map_or(found.gone_to >= answer.id, |seen| seen == number);
                Invariant::DURABLE_BEFORE_ACKNOWLEDGED
                    .check(is_kept, || format!("{number} is lost: {answer:?}"))?;
            }
        }
        Ok(())
    }

    /// A copy has nothing left to do.
    fn check_level(&self, holder: &SimNode, copy: &StreamCopy) -> Checked {
        let Some(Ends { source, .. }) = self.ends(holder, copy) else { return Ok(()) };
        let Some(found) = source.0.present().streams.get(&source.1) else { return Ok(()) };
        let wanted = found.messages.iter().rev().find(|(id, given)| **id > copy.start && is_its(copy, given));
        let newest = wanted.map_or(0, |(id, _)| *id);
        let is_level = copy.position >= newest && copy.live.is_none();
        Invariant::COPIES_COME_TO_REST
            .check(is_level, || format!("the source on n{} is at {newest}: {copy:?}", source.0.number))
    }

    /// What the source of a copy keeps is at its other end.
    fn check_brought(&self, holder: &SimNode, copy: &StreamCopy) -> Checked {
        let Some(Ends { source, sink }) = self.ends(holder, copy) else { return Ok(()) };
        let none = SeenMessages::default();
        let there = sink.0.seen.get(&sink.1).unwrap_or(&none);
        let Some(found) = source.0.present().streams.get(&source.1) else { return Ok(()) };
        let found: &StreamModel = found;
        for (id, given) in
            found.messages.iter().filter(|(id, given)| is_behind(copy, **id) && is_its(copy, given))
        {
            let number = number_of(given);
            Invariant::EVERYWHERE_IN_THE_END.check(there.by_number.contains_key(&number), || {
                format!(
                    "message {number}, {id} of n{}, is not on n{}: {copy:?}; {:?}",
                    source.0.number,
                    sink.0.number,
                    self.ledger.messages.get(&number)
                )
            })?;
        }
        Ok(())
    }

    /// What one node alone was given, and has lost in a crash, is on no other.
    fn check_copied_is_saved(&self) -> Checked {
        for node in &self.nodes {
            for number in node.seen.values().flat_map(|seen| seen.by_number.keys()) {
                let Some(sent) = self.ledger.messages.get(number) else { continue };
                let [given] = sent.given_to[..] else { continue };
                let first = &self.nodes[given.node];
                if first.set_back != given.set_back {
                    continue;
                }
                let is_there = first.seen.values().any(|seen| seen.by_number.contains_key(number));
                Invariant::COPIED_IS_SAVED.check(is_there, || {
                    format!("{number} is on n{}, and its node lost it: {sent:?}", node.number)
                })?;
            }
        }
        Ok(())
    }

    /// Messages that a node was given are everywhere in the order in which it has them.
    fn check_order(&self) -> Checked {
        for home in &self.nodes {
            for (stream, own) in &home.seen {
                let name = home.present().streams.get(stream).map(|found| found.row.name.clone());
                let Some(number) = name.and_then(|name| name.strip_prefix('s')?.parse().ok()) else {
                    continue;
                };
                for node in self.nodes.iter().filter(|node| node.number != home.number) {
                    node.seen.values().try_for_each(|seen| self.check_order_in((home, number), own, seen))?;
                }
            }
        }
        Ok(())
    }

    fn check_order_in(
        &self,
        (home, stream): (&SimNode, u64),
        own: &SeenMessages,
        seen: &SeenMessages,
    ) -> Checked {
        let is_own = |number: &u64| {
            let given_to = self.ledger.messages.get(number).map(|sent| &sent.given_to[..]);
            matches!(given_to, Some([given]) if given.node == home.number && given.stream == stream)
        };
        let there: BTreeMap<u64, u64> = own
            .by_number
            .iter()
            .filter(|(number, _)| is_own(number))
            .filter_map(|(number, id)| Some((*id, *seen.by_number.get(number)?)))
            .collect();
        let ids: Vec<u64> = there.values().copied().collect();
        let bad = ids.windows(2).find(|pair| pair[0] > pair[1]);
        Invariant::SOURCE_ORDER
            .check(bad.is_none(), || format!("messages of n{} are at {ids:?}", home.number))
    }
}
