//! Answers that are kept for a day, so that a request that comes again is answered like the first.
//!
//! An answer is kept in the batch of what it is about: whatever becomes of the process, both are there or neither. So a repeat has to
//! come to the same partition. What an answer looks like is for whoever asks to say.

use std::sync::Arc;
use std::time::Duration;

use base::{Problem, Timestamp};
use records::{AnswerKey, KeptAnswer, Op};
use store::{StoreError, View};

use crate::devices::partition::Stop;
use crate::kernel::fetch::Fetch;
use crate::kernel::pending_writes::PendingWrites;
use crate::queues::Once;

/// How long answers are kept for repeats.
const ANSWERS_KEPT: Duration = Duration::from_secs(24 * 3_600);
/// Answers that are forgotten at a time.
const FORGOTTEN_MAX: usize = 1_000;

/// In what form a request is answered, and whether it may come again.
#[derive(Debug)]
pub struct Form<T> {
    /// The request's key, if it has one.
    pub once: Option<Once>,
    /// Writes the answer down. Refusals are answers too.
    pub write: fn(&Result<T, Problem>) -> Arc<[u8]>,
}

/// The answers that a partition keeps.
#[derive(Debug)]
pub(crate) struct Answers {
    pending: PendingWrites<AnswerKey, KeptAnswer>,
    /// When the first of them was given, or earlier.
    oldest: Option<Timestamp>,
}

/// Where answers are looked up and kept: a step of their partition.
pub(crate) struct Within<'a> {
    pub(crate) now: Timestamp,
    /// The number of the step's batch.
    pub(crate) seq: u64,
    pub(crate) fetch: &'a dyn Fetch,
    pub(crate) ops: &'a mut Vec<Op>,
}

impl Answers {
    /// Those that the store has.
    pub(crate) fn load(view: &dyn View) -> Result<Self, StoreError> {
        let first = view.answers_before(Timestamp::MAX, 1)?;
        Ok(Self { pending: PendingWrites::default(), oldest: first.first().map(|(at, _)| *at) })
    }

    /// What the first request with this key was answered.
    pub(crate) fn recall(&mut self, once: Once, within: Within<'_>) -> Result<Option<Arc<[u8]>>, Stop> {
        let Within { now, seq, fetch, ops } = within;
        let kept = self.pending.get_or_read(&once.key, || fetch.view()?.answer(once.key))?;
        let Some(kept) = kept else { return Ok(None) };
        if kept.at.after(ANSWERS_KEPT) <= now {
            self.pending.put(seq, kept.key, None);
            ops.push(Op::DeleteAnswer(kept.key, kept.at));
            return Ok(None);
        }
        if kept.body != once.body {
            let detail =
                "this Idempotency-Key came with another body before; give every request a key of its own";
            return Err(Problem::not_allowed("idempotency_key_reused", detail).into());
        }
        Ok(Some(kept.answer))
    }

    /// Keeps what a request with this key was answered.
    pub(crate) fn remember(&mut self, once: Once, answer: Arc<[u8]>, within: Within<'_>) {
        let Within { now, seq, ops, .. } = within;
        let kept = KeptAnswer { key: once.key, at: now, body: once.body, answer };
        self.oldest.get_or_insert(now);
        self.pending.put(seq, once.key, Some(kept.clone()));
        ops.push(Op::PutAnswer(Box::new(kept)));
    }

    /// Forgets answers that are too old. Whether there may be more of them.
    pub(crate) fn forget(&mut self, within: Within<'_>) -> Result<bool, StoreError> {
        let Within { now, seq, fetch, ops } = within;
        let end = now.before(ANSWERS_KEPT);
        if self.oldest.is_none_or(|oldest| oldest > end) {
            return Ok(false);
        }
        // Besides those that go: the next one, and as many as were changed since the view's moment.
        let asked = FORGOTTEN_MAX + 1 + self.pending.len();
        let stored = fetch.view()?.answers_before(Timestamp::MAX, asked)?;
        // One that was given anew is not the one that is read here, which went when it was.
        let mut old = stored.into_iter().filter(|(_, key)| self.pending.get(key).is_none()).peekable();
        // What is too new to be seen in the store is not old either.
        let unseen = (self.pending.len() > 0).then_some(now);
        let mut gone = Vec::new();
        while gone.len() < FORGOTTEN_MAX
            && let Some(answer) = old.next_if(|(at, _)| *at <= end)
        {
            gone.push(answer);
        }
        self.oldest = old.peek().map(|(at, _)| *at).or(unseen);
        for (at, key) in gone {
            self.pending.put(seq, key, None);
            ops.push(Op::DeleteAnswer(key, at));
        }
        Ok(self.oldest.is_some_and(|oldest| oldest <= end))
    }

    /// Forgets what is durable.
    pub(crate) fn settle(&mut self, seq: u64) {
        self.pending.settle(seq);
    }

    /// When the next answer is too old.
    pub(crate) fn next_wakeup(&self) -> Option<Timestamp> {
        self.oldest.map(|at| at.after(ANSWERS_KEPT))
    }
}
