//! What copies read and append: durable messages, each with the source and the external id that it
//! is given on with.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::streams::own_origins::origin_of;
use ::streams::{
    EXTERNAL_NUMBER_MAX, ExternalId, MessageHeaders, MessageOrigin, StreamMessage, StreamPayload,
    TransferReader, TransferWriter,
};
use base::limits::MESSAGE_PAYLOAD_BYTES_MAX;
use base::{Incarnation, Problem};
use records::{StreamCopy, StreamOrigin};
use store::Store;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::super::append_run::PlaceInRun;
use super::super::context::StreamsContext;
use super::super::copy::{CopyKey, CopyTarget, PeerIdentity, other_stream, unknown_copy};
use super::super::input::{AppendCall, AppendOutcome, StreamsInput};
use super::super::reading::StreamReader;
use super::super::{
    MessagePayload, NewMessage, OwnedExternalId, OwnedMessage, StreamName, StreamPage, StreamRead,
};
use super::StreamCalls;
use super::subscriptions::blocking;
use crate::queries::unreadable;

/// How often a page is begun where its stream is made anew meanwhile.
const TURNS: usize = 3;
/// Duplicates of an append that are compared: the first ones. Who begins a copy anew brings many.
const COMPARED_MAX: usize = 64;
/// What these take together, in bytes: behind its answer a call has no memory of the budget.
const COMPARED_BYTES_MAX: usize = 2 * 1_024 * 1_024;
/// How long a copy waits until its duplicates are compared with the first messages. What takes
/// longer goes on behind its answer,
const COMPARED_WITHIN: Duration = Duration::from_millis(500);
/// and so many at a time hold their messages for that: those of others are not compared.
static COMPARING: Semaphore = Semaphore::const_new(16);

const _: () = assert!(COMPARED_BYTES_MAX >= 2 * MESSAGE_PAYLOAD_BYTES_MAX, "the first one is compared");

/// How messages are appended.
#[derive(Clone, Copy, Debug, Default)]
pub struct AppendTerms {
    /// The id that the newest message must have.
    pub expect_last_id: Option<u64>,
    /// Behind which other appends it comes.
    pub run: Option<PlaceInRun>,
    /// It is saved at once and answered when all is durable, whatever the save mode.
    pub is_durable: bool,
    /// It is answered when all is durable. A mode that answers then saves in its own time.
    pub waits_until_durable: bool,
    /// It brings reports that this node gathered: nobody else appends to their stream.
    pub is_gathered: bool,
}

/// What became of messages that were appended together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferAppended {
    /// Messages that are new.
    pub appended: u64,
    /// Messages that were there before.
    pub duplicates: u64,
    /// Which stream has them.
    pub identity: PeerIdentity,
}

/// Messages of a stream as a copy gives them on.
#[derive(Clone, Debug)]
pub struct OriginPage {
    /// The messages.
    pub page: StreamPage,
    /// Which stream they are of.
    pub identity: PeerIdentity,
    /// The newest message that is durable; 0 before the first.
    pub newest_durable: u64,
    origins: Vec<StreamOrigin>,
}

impl OriginPage {
    /// The messages, each with its source and its external id.
    #[must_use]
    pub fn with_origins(mut self) -> StreamPage {
        for message in self.page.items.iter_mut().filter(|message| message.source.is_none()) {
            if let Some(source) = origin_of(&self.origins, message.id) {
                message.source = Some(source.into());
                message.external_id = Some(OwnedExternalId::Number(message.id));
            }
        }
        self.page
    }

    /// The messages in the form in which copies send them.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = TransferWriter::default();
        for message in &self.page.items {
            writer.push(&borrowed(message, &self.origins));
        }
        writer.finish()
    }
}

fn borrowed<'a>(message: &'a OwnedMessage, origins: &'a [StreamOrigin]) -> StreamMessage<'a> {
    let own = || {
        let source = origin_of(origins, message.id)?;
        let external_id = ExternalId::Number(message.id.min(EXTERNAL_NUMBER_MAX));
        Some(MessageOrigin { source, external_id })
    };
    let origin = match (&message.source, &message.external_id) {
        (Some(source), Some(id)) => Some(MessageOrigin { source, external_id: id.as_external_id() }),
        _ => own(),
    };
    StreamMessage {
        id: message.id,
        received_at: message.received_at,
        ts: message.ts,
        origin,
        segment: message.segment.as_deref(),
        headers: MessageHeaders::new(&message.headers),
        payload: match message.is_json {
            true => StreamPayload::Json(&message.payload),
            false => StreamPayload::Bytes(&message.payload),
        },
    }
}

/// The messages of a body in the form in which copies send them; `is_json` says whether bytes are
/// a compact JSON text.
///
/// # Errors
/// 400 `unreadable`, 422 `too_many_messages`.
pub fn decode_transfer(body: &[u8], is_json: fn(&[u8]) -> bool) -> Result<Vec<NewMessage>, Problem> {
    let unreadable =
        |what: &dyn std::fmt::Display| Problem::unreadable(format!("the messages are unreadable: {what}"));
    let reader = TransferReader::new(body).map_err(|bad| unreadable(&bad))?;
    let most = base::limits::MESSAGES_PER_CALL_MAX;
    if reader.messages() > most as u64 {
        let detail = format!("messages must be 1 to {most}, not {}", reader.messages());
        return Err(Problem::not_allowed("too_many_messages", detail));
    }
    let mut messages = Vec::with_capacity(reader.messages() as usize);
    for message in reader {
        let message = message.map_err(|bad| unreadable(&bad))?;
        if messages.len() >= most {
            return Err(unreadable(&"there are more messages than it says"));
        }
        let payload = match message.payload {
            StreamPayload::Json(text) if !is_json(text) => return Err(unreadable(&"a payload is no JSON")),
            StreamPayload::Json(text) => MessagePayload::Json(text.into()),
            StreamPayload::Bytes(bytes) => MessagePayload::Bytes(bytes.into()),
        };
        messages.push(NewMessage {
            payload,
            source: message.origin.map(|origin| origin.source.into()),
            external_id: message.origin.map(|origin| origin.external_id.into()),
            segment: message.segment.map(Box::from),
            ts: Some(message.ts),
            headers: message.headers.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        });
    }
    Ok(messages)
}

impl StreamReader<'_> {
    pub(super) fn copy_row(&self, key: &CopyKey) -> Result<StreamCopy, Problem> {
        let found = self.find(&key.stream)?;
        let row = found.view.stream_copy(found.stream, &key.copy).map_err(unreadable)?;
        row.ok_or_else(|| unknown_copy(&key.stream, &key.copy))
    }

    fn durable_page(&self, stream: &StreamName, query: &StreamRead) -> Result<OriginPage, Problem> {
        let mut read = self.origin_page(stream, query)?;
        let newest = read.newest_durable;
        read.page.items.retain(|message| message.id <= newest);
        read.page.next_after = read.page.next_after.min(newest.max(query.after));
        read.page.is_end = read.page.next_after >= newest;
        Ok(read)
    }

    fn origin_page(&self, stream: &StreamName, query: &StreamRead) -> Result<OriginPage, Problem> {
        let node = self.context.node(self.store);
        for _ in 0..TURNS {
            let found = self.find(stream)?;
            let (of, next) = (found.stream, found.tail.next);
            let durable = found.open.as_ref().map_or(next, |open| open.saved().max(next));
            let row = found.view.stream(of).map_err(unreadable)?;
            let row = row.ok_or_else(|| super::super::machine::unknown_stream(stream))?;
            let origins = node.origins(&row, &found.tail);
            drop(found);
            let page = self.read(stream, query)?;
            // What was read is of the stream whose origins these are.
            if self.find(stream)?.stream == of {
                return Ok(OriginPage {
                    page,
                    origins,
                    newest_durable: durable.max(1) - 1,
                    identity: PeerIdentity { stream: node.source(of), node: node.name },
                });
            }
        }
        Err(Problem::unavailable(format!("stream {stream} is made anew again and again")))
    }
}

impl StreamsContext {
    /// [`StreamCalls::durable_page`], for whoever runs partitions without an engine.
    ///
    /// # Errors
    /// As that.
    pub fn durable_page(
        &self,
        store: &dyn Store,
        stream: &StreamName,
        query: &StreamRead,
    ) -> Result<OriginPage, Problem> {
        StreamReader { store, context: self }.durable_page(stream, query)
    }

    /// [`StreamCalls::origin_page`], for whoever runs partitions without an engine.
    ///
    /// # Errors
    /// As that.
    pub fn origin_page(
        &self,
        store: &dyn Store,
        stream: &StreamName,
        query: &StreamRead,
    ) -> Result<OriginPage, Problem> {
        StreamReader { store, context: self }.origin_page(stream, query)
    }

    /// What this node and one of its streams call themselves.
    #[must_use]
    pub fn identity_of(&self, store: &dyn Store, stream: Incarnation) -> PeerIdentity {
        let node = self.node(store);
        PeerIdentity { stream: node.source(stream), node: node.name }
    }

    /// The copies that run, for whoever runs partitions without an engine.
    #[must_use]
    pub fn running_copies(&self) -> Vec<CopyTarget> {
        self.copies.all()
    }

    /// A copy as it is stored, for whoever runs partitions without an engine.
    ///
    /// # Errors
    /// 404 when it is not there.
    pub fn copy_row(&self, store: &dyn Store, key: &CopyKey) -> Result<StreamCopy, Problem> {
        StreamReader { store, context: self }.copy_row(key)
    }
}

impl StreamCalls {
    /// Messages that are durable, oldest first. Reads from disk.
    ///
    /// # Errors
    /// 404 `unknown_stream`, 503 `storage_unavailable`.
    pub fn durable_page(&self, stream: &StreamName, query: &StreamRead) -> Result<OriginPage, Problem> {
        self.reader().durable_page(stream, query)
    }

    /// Messages, oldest first, with what a copy calls them. Reads from disk.
    ///
    /// # Errors
    /// 404 `unknown_stream`, 503 `storage_unavailable`.
    pub fn origin_page(&self, stream: &StreamName, query: &StreamRead) -> Result<OriginPage, Problem> {
        self.reader().origin_page(stream, query)
    }

    /// Appends as [`StreamCalls::append`] does, and says which stream has the messages. The first
    /// duplicates are compared; those that carry something else than what is there are counted.
    /// With `expected` only the stream takes them that is called so: see [`PeerIdentity`].
    ///
    /// # Errors
    /// As [`StreamCalls::append`]; 503 `busy` behind an append of the same run that was not taken;
    /// 409 `other_stream`.
    pub async fn append_transfer(
        &self,
        stream: &StreamName,
        messages: Vec<NewMessage>,
        terms: AppendTerms,
        expected: Option<&str>,
    ) -> Result<TransferAppended, Problem> {
        let taken_by = Arc::new(OnceLock::new());
        if let Some(expected) = expected {
            let _first = taken_by.set(self.stream_called(stream, expected).await?);
        }
        let outcomes = self.outcomes_of(stream, messages, terms, (Some(Arc::clone(&taken_by)), None)).await?;
        let of = taken_by.get().copied();
        let of = of.ok_or_else(|| Problem::unavailable("the server is not accepting now"))?;
        let identity = self.identity_of(of);
        let all = outcomes.len() as u64;
        let repeated = |outcome| match outcome {
            AppendOutcome::Duplicate(message) => Some(*message),
            AppendOutcome::Appended(_) => None,
        };
        let repeated: Vec<NewMessage> = outcomes.into_iter().filter_map(repeated).collect();
        let duplicates = repeated.len() as u64;
        self.compare(stream, repeated, &identity).await;
        Ok(TransferAppended { appended: all - duplicates, duplicates, identity })
    }

    /// The stream of a name, if it is called so.
    async fn stream_called(&self, stream: &StreamName, expected: &str) -> Result<Incarnation, Problem> {
        let found = match self.engine.context().streams.tails.get(stream) {
            Some(open) => Ok(open.stream),
            None => {
                let (streams, name) = (self.clone(), stream.clone());
                blocking(move || streams.reader().find(&name).map(|found| found.stream)).await
            }
        };
        match found {
            Ok(of) if *self.identity_of(of).stream == *expected => Ok(of),
            Err(problem) if problem.status != 404 => Err(problem),
            _ => Err(other_stream(stream)),
        }
    }

    /// Compares duplicates with the first messages, and counts those that carry something else.
    /// What comes back to the stream that gave it its identity is not compared.
    async fn compare(&self, stream: &StreamName, mut repeated: Vec<NewMessage>, own: &PeerIdentity) {
        repeated.retain(|message| message.source.as_deref() != Some(&*own.stream));
        keep_compared(&mut repeated);
        if repeated.is_empty() {
            return;
        }
        let Ok(permit) = COMPARING.try_acquire() else {
            tracing::debug!(%stream, "duplicates of a copy are not compared: too many wait for that");
            return;
        };
        let (streams, name) = (self.clone(), stream.clone());
        let comparing = tokio::spawn(async move {
            let context = Arc::clone(&streams.engine.context().streams);
            let _permit = context.look_ups.acquire(&name).await;
            let look_up = move || streams.note_conflicts(&name, &repeated);
            if let Err(error) = spawn_blocking(look_up).await {
                tracing::debug!(%error, "duplicates of a copy are not compared");
            }
            drop(permit);
        });
        let late = self.engine.until(self.engine.clock().now().after(COMPARED_WITHIN));
        tokio::select! {
            _compared = comparing => {}
            () = late => {}
        }
    }

    /// Reads from disk.
    fn note_conflicts(&self, stream: &StreamName, repeated: &[NewMessage]) {
        let firsts = match self.reader().first_messages(stream, repeated) {
            Ok(firsts) => firsts,
            Err(problem) => {
                tracing::debug!(%stream, %problem, "duplicates of a copy are not compared");
                return;
            }
        };
        let conflicts = || firsts.iter().zip(repeated).filter(|(first, _)| first.appended.conflict);
        let count = conflicts().count() as u64;
        let Some((first, message)) = conflicts().next() else { return };
        self.engine.context().streams.counts.conflicts(count);
        let (source, id) = (message.source.as_deref(), first.appended.id);
        let external_id = message.external_id.as_ref().map(ToString::to_string);
        tracing::warn!(
            %stream, count, source, external_id, id,
            "a copy brought messages whose source and external id are here with another payload; they \
             are not appended: what gives the external ids should give each once"
        );
    }

    /// What this node and one of its streams call themselves.
    pub(super) fn identity_of(&self, stream: Incarnation) -> PeerIdentity {
        self.engine.context().streams.identity_of(self.engine.store(), stream)
    }

    /// Has a stream saved whose mode answers before it saves. All that was answered is durable when
    /// this returns.
    pub(super) async fn save_now(&self, stream: &StreamName) -> Result<(), Problem> {
        let open = self.engine.context().streams.tails.get(stream);
        if open.is_none_or(|open| open.saved() >= open.next()) {
            return Ok(());
        }
        let name = stream.clone();
        let call = |reply| {
            StreamsInput::Append(Box::new(AppendCall {
                // A stream that was deleted meanwhile is not made again.
                expect_last_id: Some(1),
                is_durable: true,
                ..AppendCall::new(name, Vec::new(), reply)
            }))
        };
        match self.partition(stream).ask(call).await? {
            Err(problem) if problem.status == 503 => Err(problem),
            _ => Ok(()),
        }
    }

    /// What this node calls itself.
    #[must_use]
    pub fn node_name(&self) -> Box<str> {
        self.engine.context().streams.node(self.engine.store()).name
    }

    /// Returns when there may be a durable message behind that id: at once if there is one. Also
    /// when the stream is deleted or goes out of memory.
    pub async fn saved(&self, stream: &StreamName, after: u64) {
        let waiter = self.engine.context().streams.tails.wait(stream);
        let mut known = None;
        loop {
            let told = waiter.told.notified();
            tokio::pin!(told);
            // Before it is looked at: what comes behind the look is told.
            told.as_mut().enable();
            let end = match self.engine.context().streams.tails.get(stream) {
                Some(open) => Some((open.stream, open.saved())),
                None => self.end(stream).await,
            };
            match end {
                // Another one of that name is not the one that was asked about.
                Some((of, saved)) if saved <= after.saturating_add(1) && *known.get_or_insert(of) == of => {
                    told.await;
                }
                _ => return,
            }
        }
    }
}

/// Keeps the first duplicates, which are compared.
fn keep_compared(repeated: &mut Vec<NewMessage>) {
    let mut bytes = 0;
    let fits = |message: &&NewMessage| {
        bytes += message.weight();
        bytes <= COMPARED_BYTES_MAX
    };
    let fitting = repeated.iter().take(COMPARED_MAX).take_while(fits).count();
    repeated.truncate(fitting);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_duplicates_are_compared_and_so_many_bytes() {
        for (count, bytes, expect) in [
            (0, 0, 0),
            (1_000, 1, COMPARED_MAX),
            (16, MESSAGE_PAYLOAD_BYTES_MAX, 1),
            (40, COMPARED_BYTES_MAX / 5, 4),
        ] {
            let message = NewMessage::new(MessagePayload::Bytes(vec![0_u8; bytes].into()));
            let mut repeated = vec![message; count];
            keep_compared(&mut repeated);
            assert_eq!(repeated.len(), expect, "{count} of {bytes} bytes");
        }
    }
}
