//! Blocks that go before copies have taken them: only where there is no room, and then it is said.

use std::collections::BTreeMap;

use base::Incarnation;
use records::{CopyDirection, Op, StreamCopy, StreamSettings};
use store::View;

use super::model::Model;
use crate::harness::violation::{Checked, Invariant, unreadable};

type CopyId = (Incarnation, Box<str>);

/// What a batch drops that copies have not taken.
pub(super) struct DroppedUncopied {
    before: BTreeMap<CopyId, u64>,
    /// Blocks that go.
    dropped: BTreeMap<CopyId, Vec<Vec<DroppedMessage>>>,
}

/// A message that goes, as a copy sees it.
struct DroppedMessage {
    id: u64,
    /// It is of a segment of the copy. What is of none may count, before its segment is known.
    is_its: bool,
    /// The copy has taken it, by its row before the change.
    was_taken: bool,
}

impl DroppedUncopied {
    pub(super) fn new(model: &Model) -> Self {
        let before = model.copies.iter().map(|(id, copy)| (id.clone(), copy.dropped));
        Self { before: before.collect(), dropped: BTreeMap::new() }
    }

    /// Before the model takes the change.
    pub(super) fn look_at(&mut self, op: &Op, model: &Model, for_room: bool) -> Checked {
        let Op::DeleteStreamBlock(stream, first) = op else { return Ok(()) };
        let Some(found) = model.streams.get(stream).filter(|found| !found.is_deleted) else { return Ok(()) };
        let Some(block) = found.blocks.get(first) else { return Ok(()) };
        for (id, copy) in model.copies.iter().filter(|((of, _), _)| of == stream) {
            if copy.direction != CopyDirection::To {
                continue;
            }
            let messages = found.messages.range(block.first..=block.last).map(|(id, given)| DroppedMessage {
                id: *id,
                is_its: copy.segments.is_empty()
                    || given.segment.as_ref().is_some_and(|segment| copy.segments.contains(segment)),
                was_taken: was_taken(copy, *id),
            });
            let messages: Vec<DroppedMessage> = messages.collect();
            let wanted = messages.iter().filter(|message| message.is_its && !message.was_taken).count();
            self.dropped.entry(id.clone()).or_default().push(messages);
            let may_go = copy.paused || for_room;
            Invariant::KEPT_UNTIL_COPIED.check(wanted == 0 || may_go, || {
                format!("{wanted} messages of {block:?} go for their age, and {copy:?} has not taken them")
            })?;
        }
        Ok(())
    }

    /// After the model took the batch. A copy that begins anew in it, or moves on, may do so before
    /// or after a block goes.
    pub(super) fn check(&self, model: &Model) -> Checked {
        for (id, blocks) in &self.dropped {
            let Some(copy) = model.copies.get(id) else { continue };
            let is_untaken = |message: &DroppedMessage| !message.was_taken || !was_taken(copy, message.id);
            let surely = |message: &&DroppedMessage| {
                message.is_its && !message.was_taken && !was_taken(copy, message.id)
            };
            let least = blocks.iter().flatten().filter(surely).count() as u64;
            // Of a block that is taken in part, only how many messages it has is known.
            let in_part = blocks.iter().filter(|block| block.iter().any(is_untaken));
            let most = in_part.map(|block| block.len() as u64).sum();
            let said = copy.dropped - self.before.get(id).copied().unwrap_or(0);
            Invariant::DROPPED_IS_SAID.check((least..=most).contains(&said), || {
                format!("{least} to {most} messages went untaken, and {said} are said to have: {copy:?}")
            })?;
        }
        Ok(())
    }
}

fn was_taken(copy: &StreamCopy, id: u64) -> bool {
    id <= copy.position || copy.live.is_some_and(|live| id > live.from && id <= live.position)
}

impl Model {
    /// Whether a block may go for room that its stream is to keep to: by its settings before or
    /// behind the change that drops it.
    pub(super) fn had_bounds(&self, op: &Op, before: &BTreeMap<Incarnation, StreamSettings>) -> bool {
        let Op::DeleteStreamBlock(stream, _) = op else { return false };
        let now = self.streams.get(stream).map(|found| &found.row.settings);
        let all = [now, before.get(stream)].into_iter().flatten();
        all.into_iter().any(|settings| settings.keep.bytes.is_some())
    }

    /// The copies of a stream are stored as the batches said.
    pub(super) fn check_copies(&self, stream: Incarnation, view: &dyn View) -> Checked {
        let found = view.copies_of(stream, None, usize::MAX).map_err(unreadable)?;
        let expected = self.copies.iter().filter(|((of, _), _)| *of == stream);
        let expected: Vec<StreamCopy> = expected.map(|(_, copy)| copy.clone()).collect();
        Invariant::AS_THE_MODEL.same("copies", &found, &expected)
    }
}
