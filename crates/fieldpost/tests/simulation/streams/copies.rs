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
    /// At least, and at most: what went before its segment is known may count.
    dropped: BTreeMap<CopyId, (u64, u64)>,
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
            let ids = found.messages.range(block.first..=block.last);
            let untaken = ids.filter(|(id, _)| !was_taken(copy, **id));
            let (wanted, all) = untaken.fold((0, 0), |(wanted, all), (_, given)| {
                let is_its = copy.segments.is_empty()
                    || given.segment.as_ref().is_some_and(|segment| copy.segments.contains(segment));
                (wanted + u64::from(is_its), all + 1)
            });
            let count = self.dropped.entry(id.clone()).or_default();
            *count = (count.0 + wanted, count.1 + all);
            let may_go = copy.paused || for_room;
            Invariant::KEPT_UNTIL_COPIED.check(wanted == 0 || may_go, || {
                format!("{wanted} messages of {block:?} go for their age, and {copy:?} has not taken them")
            })?;
        }
        Ok(())
    }

    /// After the model took the batch.
    pub(super) fn check(&self, model: &Model) -> Checked {
        for (id, (least, most)) in &self.dropped {
            let Some(copy) = model.copies.get(id) else { continue };
            let said = copy.dropped - self.before.get(id).copied().unwrap_or(0);
            Invariant::DROPPED_IS_SAID.check((*least..=*most).contains(&said), || {
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
