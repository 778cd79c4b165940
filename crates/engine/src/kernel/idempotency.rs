//! Answers that are kept for a day, so that a request that comes again is answered like the first.
//!
//! An answer is kept in the batch of what it is about: whatever becomes of the process, both are
//! there or neither. So a repeat has to come to the same partition. What an answer looks like is
//! for whoever asks to say.
//!
//! A source makes its calls one after the other, and repeats only the newest. That one is kept for
//! longer, in one row for each source: whoever was cut off for days finds its answer again.

use std::sync::Arc;
use std::time::Duration;

use base::{EntityId, Problem, Timestamp, random};
use records::{AnswerKey, KeptAnswer, Op};
use store::{StoreError, View};

use super::pending_writes::PendingWrites;
use super::reply::{Answered, InputFailure, answered};
use super::step_context::StepContext;

/// How long answers are kept for repeats.
const ANSWERS_KEPT: Duration = Duration::from_secs(24 * 3_600);
/// How long the newest answer of a source is kept.
const NEWEST_KEPT: Duration = Duration::from_secs(90 * 24 * 3_600);
/// Answers that are forgotten at a time.
const FORGOTTEN_MAX: usize = 1_000;

/// What marks a request that may be repeated, and must then get the answer of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The caller's key, made one with all that it belongs to.
    pub key: AnswerKey,
    /// A hash of the request's body.
    pub body: u128,
}

impl IdempotencyKey {
    /// The bytes of an id that nobody has; the same for the same key, which stands at `at`.
    ///
    /// # Errors
    /// 503 without a source of randomness.
    pub(crate) fn id_bytes(idempotency: Option<Self>, at: usize) -> Result<[u8; EntityId::BYTES], Problem> {
        let unguessable = || {
            random::unguessable().map_err(|_| Problem::unavailable("the system has no source of randomness"))
        };
        let Some(idempotency) = idempotency else { return unguessable() };
        let mut bytes = [0; EntityId::BYTES];
        bytes[at..at + 16].copy_from_slice(&idempotency.key.0.to_be_bytes());
        Ok(bytes)
    }
}

/// Who makes calls one after the other, made one with all that it belongs to, hashed; and the call
/// that it makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceCall {
    /// The source, as a key of its own.
    pub source: AnswerKey,
    /// The call.
    pub idempotency: IdempotencyKey,
}

impl SourceCall {
    /// Tells the call from others of its source.
    fn digest(self) -> u128 {
        let IdempotencyKey { key, body } = self.idempotency;
        key.0 ^ body.rotate_left(64)
    }
}

/// What is kept of a source.
#[derive(Debug)]
pub(crate) enum NewestCall {
    /// This very call, with its answer.
    This(Arc<[u8]>),
    /// Another one, and where it is kept.
    Other(Timestamp),
    /// None.
    None,
}

/// In what form a request is answered, and whether it may come again.
#[derive(Debug)]
pub struct AnswerForm<T> {
    /// The request's key, if it has one.
    pub idempotency: Option<IdempotencyKey>,
    /// Writes the answer down. Refusals are answers too.
    pub write: fn(&Result<T, Problem>) -> Arc<[u8]>,
}

/// The answers that a partition keeps.
#[derive(Debug, Default)]
pub(crate) struct KeptAnswers {
    pending: PendingWrites<AnswerKey, KeptAnswer>,
    /// When the first of them was given, or earlier.
    oldest: Option<Timestamp>,
    /// None in the store was given earlier.
    first: Option<Timestamp>,
}

impl KeptAnswers {
    /// Those that the store has.
    pub(crate) fn load(view: &dyn View) -> Result<Self, StoreError> {
        let first = view.answers_given(None, Timestamp::MAX, 1)?.first().map(|(at, _)| *at);
        Ok(Self { pending: PendingWrites::default(), oldest: first, first })
    }

    /// What the first request with this key was answered.
    pub(crate) fn recall<E, O>(
        &mut self,
        idempotency: IdempotencyKey,
        step: &mut StepContext<'_, E, O>,
    ) -> Result<Option<Arc<[u8]>>, InputFailure> {
        let kept =
            self.pending.get_or_read(&idempotency.key, || step.fetch.view()?.answer(idempotency.key))?;
        let Some(kept) = kept else { return Ok(None) };
        if kept.at.after(ANSWERS_KEPT) <= step.now {
            self.pending.put(step.seq, kept.key, None);
            step.push(Op::DeleteAnswer(kept.key, kept.at));
            return Ok(None);
        }
        if kept.body != idempotency.body {
            return Err(reused().into());
        }
        Ok(Some(kept.answer))
    }

    /// Keeps what a request with this key was answered.
    pub(crate) fn remember<E, O>(
        &mut self,
        idempotency: IdempotencyKey,
        answer: Arc<[u8]>,
        step: &mut StepContext<'_, E, O>,
    ) {
        let kept = KeptAnswer { key: idempotency.key, at: step.now, body: idempotency.body, answer };
        self.is_kept_from(step.now);
        self.pending.put(step.seq, idempotency.key, Some(kept.clone()));
        step.push(Op::PutAnswer(Box::new(kept)));
    }

    /// Whether the newest call of a source is this one.
    pub(crate) fn recall_newest<E, O>(
        &mut self,
        call: SourceCall,
        step: &StepContext<'_, E, O>,
    ) -> Result<NewestCall, InputFailure> {
        let kept = self.pending.get_or_read(&call.source, || step.fetch.view()?.answer(call.source))?;
        Ok(match kept {
            Some(kept) if kept.body == call.digest() && kept.at.after(ANSWERS_KEPT) > step.now => {
                NewestCall::This(kept.answer)
            }
            Some(kept) => NewestCall::Other(kept.at),
            None => NewestCall::None,
        })
    }

    /// Keeps what the newest call of a source was answered, in place of the one `before`.
    pub(crate) fn remember_newest<E, O>(
        &mut self,
        call: SourceCall,
        before: &NewestCall,
        answer: Arc<[u8]>,
        step: &mut StepContext<'_, E, O>,
    ) {
        if let NewestCall::Other(at) = before {
            step.push(Op::DeleteAnswer(call.source, *at));
        }
        // Every answer goes a day after its time.
        let at = step.now.after(NEWEST_KEPT.saturating_sub(ANSWERS_KEPT));
        let kept = KeptAnswer { key: call.source, at, body: call.digest(), answer };
        self.is_kept_from(at);
        self.pending.put(step.seq, call.source, Some(kept.clone()));
        step.push(Op::PutAnswer(Box::new(kept)));
    }

    /// An answer is kept whose time this is. That of a source's newest call lies ahead.
    fn is_kept_from(&mut self, at: Timestamp) {
        self.oldest = Some(self.oldest.map_or(at, |oldest| oldest.min(at)));
    }

    /// Forgets answers that are too old. Whether there may be more of them.
    pub(crate) fn forget<E, O>(&mut self, step: &mut StepContext<'_, E, O>) -> Result<bool, StoreError> {
        let end = step.now.before(ANSWERS_KEPT);
        if self.oldest.is_none_or(|oldest| oldest > end) {
            return Ok(false);
        }
        // Besides those that go: the next one, and as many as were changed since the view's moment.
        let asked = FORGOTTEN_MAX + 1 + self.pending.len();
        let stored = step.fetch.view()?.answers_given(self.first, Timestamp::MAX, asked)?;
        // One that was given anew is not the one that is read here, which went when it was.
        let mut old = stored.into_iter().filter(|(_, key)| self.pending.get(key).is_none()).peekable();
        // What is too new to be seen in the store is not old either.
        let unseen = (self.pending.len() > 0).then_some(step.now);
        let mut gone = Vec::new();
        while gone.len() < FORGOTTEN_MAX
            && let Some(answer) = old.next_if(|(at, _)| *at <= end)
        {
            gone.push(answer);
        }
        self.oldest = [old.peek().map(|(at, _)| *at), unseen].into_iter().flatten().min();
        // What is too new to be seen was given later than all that is gone.
        self.first = gone.last().map(|(at, _)| *at).or(self.first);
        for (at, key) in gone {
            self.pending.put(step.seq, key, None);
            step.push(Op::DeleteAnswer(key, at));
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

/// The key came with another body before.
pub(crate) fn reused() -> Problem {
    let detail = "this Idempotency-Key came with another body before; give every request a key of its own";
    Problem::not_allowed("idempotency_key_reused", detail)
}

/// Whether a request that comes again gets the same answer. A refusal that is the server's own
/// matter, as 503, asks for the request to come again: then it is tried anew.
fn is_final<T>(answer: &Result<T, Problem>) -> bool {
    answer.as_ref().err().is_none_or(|problem| problem.status < 500)
}

/// A machine that keeps answers.
pub(crate) trait Idempotent: Sized {
    fn answers(&mut self) -> &mut KeptAnswers;

    /// Does what is asked, and keeps the answer in the same batch, unless it was done before: then
    /// that is the answer.
    fn once<T, E, O>(
        &mut self,
        form: &AnswerForm<T>,
        step: &mut StepContext<'_, E, O>,
        act: impl FnOnce(&mut Self, &mut StepContext<'_, E, O>) -> Result<T, InputFailure>,
    ) -> Result<Answered<Arc<[u8]>>, StoreError> {
        let whole = |_: &Answered<T>, written: &Arc<[u8]>| Arc::clone(written);
        self.once_kept_as(form, step, act, whole, |_, kept, _| Ok(kept))
    }

    /// The same where something else is kept in place of the answer. `keep` makes that of the
    /// answer and its written form; `answer_again` makes the written answer of it.
    fn once_kept_as<T, E, O>(
        &mut self,
        form: &AnswerForm<T>,
        step: &mut StepContext<'_, E, O>,
        act: impl FnOnce(&mut Self, &mut StepContext<'_, E, O>) -> Result<T, InputFailure>,
        keep: impl FnOnce(&Answered<T>, &Arc<[u8]>) -> Arc<[u8]>,
        answer_again: impl FnOnce(&Self, Arc<[u8]>, &StepContext<'_, E, O>) -> Result<Arc<[u8]>, StoreError>,
    ) -> Result<Answered<Arc<[u8]>>, StoreError> {
        if let Some(idempotency) = form.idempotency {
            match answered(self.answers().recall(idempotency, step))? {
                Ok(None) => {}
                Ok(Some(kept)) => return answer_again(self, kept, step).map(Ok),
                Err(reused) => return Ok(Err(reused)),
            }
        }
        let answer = answered(act(self, step))?;
        let written = (form.write)(&answer);
        if let Some(idempotency) = form.idempotency.filter(|_| is_final(&answer)) {
            let kept = keep(&answer, &written);
            self.answers().remember(idempotency, kept, step);
        }
        Ok(Ok(written))
    }
}
