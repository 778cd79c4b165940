//! What is stored of streams, and the files of their blocks, against the model.

use std::collections::BTreeMap;
use std::io;

use base::Incarnation;
use engine::streams::OwnedExternalId;
use records::StreamBlock;
use store::{BlockStorage, View};
use streams::{BlockIndex, BlockName, MessageReader};

use super::message::GivenMessage;
use super::model::{Model, StreamModel};
use crate::harness::violation::{Checked, Invariant, unreadable};
use crate::harness::workload::Stored;

/// Rows that are read at a time.
const READ_AT_ONCE: usize = 10_000;
const BYTES_AT_ONCE: usize = 64 << 20;

impl Model {
    /// What a reader sees is what the batches said.
    pub(crate) fn check_stored(&self, stored: &Stored) -> Checked {
        let (view, blocks) = (&*stored.view, &*stored.blocks);
        let names = view.streams(None, None, READ_AT_ONCE).map_err(unreadable)?;
        let names: Vec<_> = names.into_iter().map(|row| (row.name, row.incarnation)).collect();
        let expected: Vec<_> = self.names.iter().map(|(name, stream)| (name.clone(), *stream)).collect();
        Invariant::AS_THE_MODEL.same("streams", &names, &expected)?;
        self.check_subscriptions(view)?;
        for (stream, found) in self.streams.iter().filter(|(_, found)| !found.is_deleted) {
            found.check_rows(*stream, view)?;
            self.check_copies(*stream, view)?;
            found.check_external_ids(*stream, view)?;
            found.blocks.values().try_for_each(|block| {
                found.check_file(block, if block.is_local() { blocks } else { self.cold.blocks() })
            })?;
        }
        Ok(())
    }
}

impl StreamModel {
    fn check_rows(&self, stream: Incarnation, view: &dyn View) -> Checked {
        let row = view.stream(stream).map_err(unreadable)?;
        Invariant::AS_THE_MODEL.same("a stream", &row.as_ref(), &Some(&self.row))?;
        let tail = view.stream_tail(stream).map_err(unreadable)?;
        Invariant::AS_THE_MODEL.same("a tail", &tail, &self.tail)?;
        let rows = view.stream_blocks(stream, 0, READ_AT_ONCE).map_err(unreadable)?;
        let rows: BTreeMap<u64, StreamBlock> = rows.into_iter().map(|block| (block.first, block)).collect();
        Invariant::AS_THE_MODEL.same("blocks", &rows, &self.blocks)?;
        let chunks = view.stream_chunks(stream, 0..u64::MAX, BYTES_AT_ONCE).map_err(unreadable)?;
        let found: BTreeMap<u64, u64> =
            chunks.iter().map(|chunk| (chunk.first, u64::from(chunk.messages))).collect();
        Invariant::AS_THE_MODEL.same("chunks", &found, &self.chunks)?;
        chunks.iter().try_for_each(|chunk| self.check_messages(MessageReader::of(chunk)).map(|_| ()))
    }

    fn check_messages(&self, messages: MessageReader<'_>) -> Checked<u32> {
        let mut read = 0;
        for message in messages {
            let message = message.map_err(|bad| Invariant::AS_THE_MODEL.broken(bad.to_string()))?;
            let found = Some(GivenMessage::of(&message));
            Invariant::AS_THE_MODEL.same(
                format_args!("message {}", message.id),
                &found.as_ref(),
                &self.messages.get(&message.id),
            )?;
            read += 1;
        }
        Ok(read)
    }

    fn check_external_ids(&self, stream: Incarnation, view: &dyn View) -> Checked {
        let rows = view.intervals_of_stream(stream, READ_AT_ONCE).map_err(unreadable)?;
        let found: Vec<_> = rows.into_iter().map(|row| (row.source, row.from, row.to)).collect();
        let mut expected: Vec<(Box<str>, u64, u64)> = Vec::new();
        for (source, number) in &self.numbers {
            match expected.last_mut() {
                Some((of, _, to)) if of == source && *to + 1 == *number => *to = *number,
                _ => expected.push((source.clone(), *number, *number)),
            }
        }
        Invariant::AS_THE_MODEL.same("intervals of numbers", &found, &expected)?;
        for (id, given) in &self.messages {
            let Some((source, external_id)) = &given.origin else { continue };
            let block = self.blocks.range(..=id).next_back().filter(|(_, block)| block.last >= *id);
            let is_found = match external_id {
                OwnedExternalId::Text(text) => {
                    view.external_texts(stream, source, text).map_err(unreadable)?.contains(id)
                }
                OwnedExternalId::Number(number) => block.is_none_or(|(first, _)| {
                    view.blocks_with_number(stream, source, *number).is_ok_and(|found| found.contains(first))
                }),
            };
            Invariant::AS_THE_MODEL.check(is_found, || format!("nothing leads to {id}, {given:?}"))?;
        }
        Ok(())
    }

    /// The file of a block has its messages. A disk that fails meanwhile says nothing.
    fn check_file(&self, block: &StreamBlock, blocks: &dyn BlockStorage) -> Checked {
        let broken = |detail: String| Invariant::BLOCKS_HAVE_FILES.broken(format!("{detail}: {block:?}"));
        let name = BlockName { stream: block.stream, first: block.first };
        let read = blocks.get_range(&block.file_name(), 0, block.stored_bytes as usize);
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) => {
                return Err(broken(error.to_string()));
            }
            Err(_) => return Ok(()),
        };
        let index = BlockIndex::parse(name, &bytes, block.stored_bytes);
        let index = index.map_err(|error| broken(error.to_string()))?;
        let mut messages = 0;
        for slice in 0..index.slices() {
            let range = index.range(slice).unwrap_or_default();
            let within = bytes.get(range.start as usize..range.end as usize).unwrap_or_default();
            let read = index.read_slice(slice, within).map_err(|error| broken(error.to_string()))?;
            messages += self.check_messages(read)?;
        }
        Invariant::BLOCKS_HAVE_FILES.check(messages == block.messages, || format!("{messages} in {block:?}"))
    }
}
