//! The calls that append: messages become an input, and duplicates are told with their first ones.

use std::sync::{Arc, OnceLock};

use base::limits::{MESSAGE_BYTES_PER_CALL_MAX, MESSAGES_PER_CALL_MAX};
use base::{Incarnation, Problem};
use tokio::task::spawn_blocking;

use super::super::append_run::AppendRun;
use super::super::checks::check_message;
use super::super::input::{AppendCall, AppendOutcome, StreamsInput};
use super::super::reading::StreamReader;
use super::super::{AppendedMessage, NewMessage, StreamName};
use super::{AppendTerms, StreamCalls};
use crate::kernel::idempotency::IdempotencyKey;

impl StreamCalls {
    /// Appends up to [`MESSAGES_PER_CALL_MAX`] messages in this order, all or none; makes the
    /// stream if it is not there. With `expect_last_id` only where that is the id of the newest
    /// message.
    ///
    /// # Errors
    /// 422 for what is not allowed, such as `reserved_source` for what only the stream's own next
    /// messages are called. 409 `tail_moved`, 429 `too_many_streams`, 503 `stream_full`.
    pub async fn append(
        &self,
        stream: &StreamName,
        messages: Vec<NewMessage>,
        expect_last_id: Option<u64>,
    ) -> Result<Vec<AppendedMessage>, Problem> {
        self.append_with(stream, messages, AppendTerms { expect_last_id, ..AppendTerms::default() }).await
    }

    /// Begins a run of appends to a stream: see [`StreamCalls::append_next`].
    #[must_use]
    pub fn begin_run(&self) -> AppendRun {
        AppendRun { run: self.engine.context().streams.next_run(), next: 0 }
    }

    /// [`StreamCalls::append`] behind the earlier appends of a run, which may not be answered yet.
    /// The future must be polled before those of later ones are. If one is refused, all behind it
    /// are.
    ///
    /// # Errors
    /// What [`StreamCalls::append`] says, or 503 `busy` behind one that was refused.
    pub fn append_next(
        &self,
        run: &mut AppendRun,
        stream: &StreamName,
        messages: Vec<NewMessage>,
        terms: AppendTerms,
    ) -> impl Future<Output = Result<Vec<AppendedMessage>, Problem>> + use<> {
        let (streams, stream, place) = (self.clone(), stream.clone(), run.place());
        let terms = AppendTerms { run: Some(place), ..terms };
        async move { streams.append_with(&stream, messages, terms).await }
    }

    /// [`StreamCalls::append`] on terms.
    ///
    /// # Errors
    /// As that; 503 `busy` behind an append of the same run that was not taken.
    pub async fn append_with(
        &self,
        stream: &StreamName,
        messages: Vec<NewMessage>,
        terms: AppendTerms,
    ) -> Result<Vec<AppendedMessage>, Problem> {
        self.append_once(stream, messages, terms, None).await
    }

    /// [`StreamCalls::append_with`] for a request that may come again: a repeat appends nothing.
    /// Its key is known for a day, to the stream that has its messages; one that a crash lost was
    /// never there. A refusal is not kept.
    ///
    /// # Errors
    /// As that; 422 `idempotency_key_reused` where the key came with another body.
    pub async fn append_once(
        &self,
        stream: &StreamName,
        messages: Vec<NewMessage>,
        terms: AppendTerms,
        idempotency: Option<IdempotencyKey>,
    ) -> Result<Vec<AppendedMessage>, Problem> {
        let outcomes = self.outcomes_of(stream, messages, terms, (None, idempotency)).await?;
        let is_duplicate = |outcome: &AppendOutcome| matches!(outcome, AppendOutcome::Duplicate(_));
        if outcomes.iter().any(is_duplicate) {
            return self.with_first_messages(stream, outcomes).await;
        }
        Ok(outcomes.into_iter().filter_map(|outcome| appended(&outcome)).collect())
    }

    /// What became of each message, of whoever appends them. Where `taken_by` has a stream, no
    /// other one takes them: see [`AppendCall`].
    pub(super) async fn outcomes_of(
        &self,
        stream: &StreamName,
        messages: Vec<NewMessage>,
        terms: AppendTerms,
        (taken_by, idempotency): (Option<Arc<OnceLock<Incarnation>>>, Option<IdempotencyKey>),
    ) -> Result<Vec<AppendOutcome>, Problem> {
        check_all(&messages)?;
        self.check_count(stream).await?;
        let AppendTerms { expect_last_id, run, is_durable, waits_until_durable, is_gathered } = terms;
        if !is_gathered && self.gathers_reports(stream) {
            let detail = format!("stream {stream} gathers reports for a copy: nobody else appends to it");
            return Err(Problem::conflict("stream_gathers", detail));
        }
        let name = stream.clone();
        let call = |reply| {
            let call = AppendCall::new(name, messages, reply);
            let call =
                AppendCall { run, expect_last_id, is_durable, is_gathered, taken_by, idempotency, ..call };
            StreamsInput::Append(Box::new(call))
        };
        let outcomes = self.partition(stream).ask(call).await??;
        if waits_until_durable {
            self.save_now(stream).await?;
        }
        Ok(outcomes)
    }

    /// Answers also which messages were there before. Looked up by few callers at a time, where it
    /// may block.
    async fn with_first_messages(
        &self,
        stream: &StreamName,
        outcomes: Vec<AppendOutcome>,
    ) -> Result<Vec<AppendedMessage>, Problem> {
        let context = Arc::clone(&self.engine.context().streams);
        let _permit = context.look_ups.acquire(stream).await;
        let (engine, name) = (self.engine.clone(), stream.clone());
        let look_up = move || {
            let context = &engine.context().streams;
            let reader = StreamReader { store: engine.store(), context };
            let mut duplicates = Vec::new();
            let mut all: Vec<Option<AppendedMessage>> = Vec::with_capacity(outcomes.len());
            for outcome in outcomes {
                all.push(appended(&outcome));
                if let AppendOutcome::Duplicate(message) = outcome {
                    duplicates.push(*message);
                }
            }
            // What is new was appended, whatever becomes of this.
            let firsts = match reader.first_messages(&name, &duplicates) {
                Ok(firsts) => firsts.into_iter().map(|first| first.appended).collect(),
                Err(problem) => {
                    tracing::warn!(stream = %name, %problem, "the first messages of duplicates are not told");
                    let unknown = AppendedMessage { id: None, duplicate: true, conflict: false };
                    vec![unknown; duplicates.len()]
                }
            };
            context.counts.conflicts(firsts.iter().filter(|first| first.conflict).count() as u64);
            let mut firsts = firsts.into_iter();
            all.into_iter().filter_map(|one| one.or_else(|| firsts.next())).collect()
        };
        let stopping = |_| Problem::unavailable("the server is not accepting now");
        spawn_blocking(look_up).await.map_err(stopping)
    }
}

/// What became of a message that is new.
fn appended(outcome: &AppendOutcome) -> Option<AppendedMessage> {
    match outcome {
        AppendOutcome::Appended(id) => {
            Some(AppendedMessage { id: Some(*id), duplicate: false, conflict: false })
        }
        AppendOutcome::Duplicate(_) => None,
    }
}

fn check_all(messages: &[NewMessage]) -> Result<(), Problem> {
    if messages.is_empty() {
        let detail = format!("messages is empty; a call appends 1 to {MESSAGES_PER_CALL_MAX}");
        return Err(Problem::not_allowed("missing_field", detail));
    }
    if messages.len() > MESSAGES_PER_CALL_MAX {
        let detail = format!("messages must be 1 to {MESSAGES_PER_CALL_MAX}, not {}", messages.len());
        return Err(Problem::not_allowed("too_many_messages", detail));
    }
    for (place, message) in messages.iter().enumerate() {
        check_message(&format_args!("message {}", place + 1), message)?;
    }
    let bytes: usize = messages.iter().map(NewMessage::weight).sum();
    if bytes > MESSAGE_BYTES_PER_CALL_MAX {
        let detail = format!("messages of a call may have {MESSAGE_BYTES_PER_CALL_MAX} bytes, not {bytes}");
        return Err(Problem::not_allowed("payload_too_large", detail));
    }
    Ok(())
}
