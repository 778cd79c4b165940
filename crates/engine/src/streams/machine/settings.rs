//! Streams are made, and get other settings.

use base::Incarnation;
use records::{Op, Stream, StreamOrigin, StreamSettings, StreamTail};
use store::StoreError;

use super::loaded::LoadedStream;
use super::{StreamPartition, StreamsStep};
use crate::kernel::reply::{Answered, Reply};
use crate::streams::StreamName;
use crate::streams::effect::{StreamsEffect, TailChange};

impl StreamPartition {
    /// Effective at once: what waits for a save of the mode before is saved.
    pub(super) fn put_settings(
        &mut self,
        name: &StreamName,
        settings: StreamSettings,
        reply: Reply<Answered<()>>,
        step: &mut StreamsStep<'_>,
    ) -> Result<(), StoreError> {
        let stream = self.load_or_make(name, step)?;
        if self.loaded.get(&stream).is_some_and(|loaded| loaded.mode() != settings.save) {
            self.save(stream, step);
        }
        if let Some(loaded) = self.loaded.get_mut(&stream) {
            if loaded.stream.settings.moves != settings.moves {
                loaded.begin_moves(step.now);
                loaded.moves.waits = false;
                self.move_scheduler.forget(stream);
            }
            loaded.stream.settings = settings;
            loaded.look_for_moves(step.now);
            loaded.is_row_dirty = false;
            loaded.written = step.seq;
            loaded.used_at = step.now;
            // When its blocks go is looked at anew.
            loaded.expires_at = (loaded.tail.blocks > 0).then_some(step.now);
            step.push(Op::PutStream(Box::new(loaded.stream.clone())));
        }
        self.close_if_full(stream, step);
        step.own.touched.insert(stream);
        step.emit(StreamsEffect::Done(reply, Ok(())));
        Ok(())
    }

    /// The stream of a name, in memory; a new one if there is none.
    pub(super) fn load_or_make(
        &mut self,
        name: &StreamName,
        step: &mut StreamsStep<'_>,
    ) -> Result<Incarnation, StoreError> {
        match self.load_stream(name, step)? {
            Some(stream) => Ok(stream),
            None => Ok(self.make(name, step)),
        }
    }

    fn make(&mut self, name: &StreamName, step: &mut StreamsStep<'_>) -> Incarnation {
        let index = self.id.streams_index().unwrap_or_default();
        let incarnation = Incarnation::in_partition(index, self.head.next_incarnation);
        self.head.next_incarnation += 1;
        let stream = Stream {
            incarnation,
            namespace: name.namespace().into(),
            name: name.stream().into(),
            deleted: false,
            settings: StreamSettings::default(),
            created_at: step.now,
            origins: vec![StreamOrigin { source: self.node.source(incarnation), from: 1 }],
        };
        let tail = StreamTail::begin(incarnation);
        step.push(Op::PutStream(Box::new(stream.clone())));
        let mut loaded = LoadedStream::new(stream, name.clone(), tail, step.now);
        (loaded.is_tail_dirty, loaded.written, loaded.unread) = (true, step.seq, None);
        step.emit(StreamsEffect::Tail(
            self.id,
            name.clone(),
            TailChange::Opened { stream: incarnation, next: loaded.tail.next },
        ));
        self.keep_in_memory(loaded);
        self.streams += 1;
        step.own.touched.insert(incarnation);
        incarnation
    }

    pub(super) fn keep_in_memory(&mut self, loaded: LoadedStream) {
        let stream = loaded.incarnation();
        self.names.insert(loaded.name.clone(), stream);
        self.loaded.insert(stream, loaded);
    }
}
