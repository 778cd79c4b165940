//! The naive model: every notice, and every operation, as the registry's batches tell it.
//!
//! It does not say what comes next: it looks at each change and says whether it may be.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use base::{EntityId, Timestamp};
use records::{Batch, Notice, NoticeKey, NoticeKind, Op, OperationState};

use crate::harness::violation::{Checked, Invariant, unreadable};
use crate::harness::workload::Stored;
use crate::registry::counts::Counts;

/// Rows that are read at a time.
const READ_AT_ONCE: usize = 100;

/// The registry.
#[derive(Clone, Default)]
pub(crate) struct Model {
    pub(crate) notices: BTreeMap<NoticeKey, Rc<Notice>>,
    /// What was told last of each subject.
    newest: BTreeMap<Box<str>, (NoticeKind, Timestamp)>,
    pub(crate) operations: BTreeMap<EntityId, Rc<OperationState>>,
    pub(crate) counts: Counts,
}

impl Model {
    pub(crate) fn newest(&self, subject: &str) -> Option<NoticeKind> {
        self.newest.get(subject).map(|(kind, _)| *kind)
    }

    /// The registry made a batch.
    pub(crate) fn made(&mut self, batch: &Batch, quiet: Duration) -> Checked {
        for op in &batch.ops {
            match op {
                Op::PutNotice(notice) => self.noticed(notice, quiet)?,
                Op::PutOperationState(state) => self.went_on(state)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn noticed(&mut self, notice: &Notice, quiet: Duration) -> Checked {
        let (kind, at) = (notice.kind, notice.id.at);
        let before = self.newest.insert(notice.subject.clone(), (kind, at));
        Invariant::NOTICES_ARE_RARE
            .check(before.is_none_or(|(_, before)| before.after(quiet) <= at), || {
                format!("{notice:?} within {quiet:?} of {before:?}")
            })?;
        self.counts.told_failing += u64::from(kind == NoticeKind::ClientFailing);
        self.counts.told_disabled += u64::from(kind == NoticeKind::ClientDisabled);
        self.counts.told_recovered += u64::from(kind == NoticeKind::ClientRecovered);
        self.notices.insert(notice.id.into(), Rc::new(notice.clone()));
        Ok(())
    }

    fn went_on(&mut self, state: &OperationState) -> Checked {
        let before = self.operations.insert(state.id, Rc::new(state.clone()));
        let counts = state.counts;
        let ended = counts.done + counts.refused + counts.skipped;
        Invariant::ROWS_ARE_COUNTED
            .check(ended + state.chunk.len() as u64 == counts.matched, || format!("{state:?}"))?;
        let Some(before) = before else { return Ok(()) };
        // Where it has ended, the rows of its last chunk need not have a turn.
        let left = if state.status.has_ended() { before.chunk.len() as u64 } else { 0 };
        let goes_on = counts.matched + left >= before.counts.matched
            && (!before.status.has_ended()
                || (before.status, before.ended_at) == (state.status, state.ended_at));
        Invariant::AS_THE_MODEL.check(goes_on, || format!("{state:?} after {before:?}"))
    }

    /// What a reader sees is what the batches said.
    pub(crate) fn check_stored(&self, stored: &Stored) -> Checked {
        let view = &*stored.view;
        let mut stored = BTreeMap::new();
        let mut after = None;
        loop {
            let page = store::Page {
                from: Timestamp(i64::MIN),
                to: Timestamp::MAX,
                ascending: true,
                after,
                limit: READ_AT_ONCE,
            };
            let notices = view.notices(page, &|_| true).map_err(unreadable)?;
            let Some(last) = notices.last() else { break };
            after = Some(NoticeKey::from(last.id));
            stored.extend(notices.into_iter().map(|notice| (NoticeKey::from(notice.id), Rc::new(notice))));
        }
        Invariant::AS_THE_MODEL.same("notices", &stored, &self.notices)?;
        let (mut stored, mut after) = (BTreeMap::new(), None);
        loop {
            let states = view.operation_states(after, READ_AT_ONCE).map_err(unreadable)?;
            let Some(last) = states.last() else { break };
            after = Some(last.id);
            stored.extend(states.into_iter().map(|state| (state.id, Rc::new(state))));
        }
        Invariant::AS_THE_MODEL.same("operations", &stored, &self.operations)
    }
}
