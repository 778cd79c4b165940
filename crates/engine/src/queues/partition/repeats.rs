//! Answers that are kept for a day, so that a request that comes again is answered like the first.

use std::sync::Arc;
use std::time::Duration;

use base::{Problem, Timestamp};
use records::{KeptAnswer, Op};
use store::StoreError;

use super::{QueuePartition, RECORDS_MAX, Turn};
use crate::partition::Stop;
use crate::queues::Once;

/// How long answers are kept for repeats.
pub(super) const ANSWERS_KEPT: Duration = Duration::from_secs(24 * 3_600);

impl QueuePartition {
    /// What the first request with this key was answered.
    pub(super) fn recall(&mut self, once: Once, turn: &mut Turn<'_>) -> Result<Option<Arc<[u8]>>, Stop> {
        let kept = match self.answers.get(&once.key) {
            Some(recent) => recent.cloned(),
            None => turn.fetch.view()?.answer(once.key)?,
        };
        let Some(kept) = kept else { return Ok(None) };
        if kept.at.after(ANSWERS_KEPT) <= turn.now {
            self.answers.put(turn.seq, kept.key, None);
            turn.push(Op::DeleteAnswer(kept.key, kept.at));
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
    pub(super) fn remember(&mut self, once: Once, answer: Arc<[u8]>, turn: &mut Turn<'_>) {
        let kept = KeptAnswer { key: once.key, at: turn.now, body: once.body, answer };
        self.oldest_answer.get_or_insert(turn.now);
        self.answers.put(turn.seq, once.key, Some(kept.clone()));
        turn.push(Op::PutAnswer(Box::new(kept)));
    }

    /// Forgets answers that are too old. Whether there may be more of them.
    pub(super) fn forget_answers(&mut self, turn: &mut Turn<'_>) -> Result<bool, StoreError> {
        let end = turn.now.before(ANSWERS_KEPT);
        if self.oldest_answer.is_none_or(|oldest| oldest > end) {
            return Ok(false);
        }
        // Besides those that go: the next one, and as many as were changed since the view's moment.
        let asked = RECORDS_MAX + 1 + self.answers.len();
        let stored = turn.fetch.view()?.answers_before(Timestamp::MAX, asked)?;
        // One that was given anew is not the one that is read here, which went when it was.
        let mut old = stored.into_iter().filter(|(_, key)| self.answers.get(key).is_none()).peekable();
        // What is too new to be seen in the store is not old either.
        let unseen = (self.answers.len() > 0).then_some(turn.now);
        let mut gone = Vec::new();
        while gone.len() < RECORDS_MAX
            && let Some(answer) = old.next_if(|(at, _)| *at <= end)
        {
            gone.push(answer);
        }
        self.oldest_answer = old.peek().map(|(at, _)| *at).or(unseen);
        for (at, key) in gone {
            self.answers.put(turn.seq, key, None);
            turn.push(Op::DeleteAnswer(key, at));
        }
        Ok(self.oldest_answer.is_some_and(|oldest| oldest <= end))
    }
}
