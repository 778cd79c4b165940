//! Messages of stored blocks: the index first, then the slices of messages that are needed.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use ::streams::block::FOOTER_BYTES;
use ::streams::{BlockError, BlockIndex};
use base::Problem;
use records::StreamBlock;

use super::{BLOCKS_PER_PAGE, FoundStream, PageMaker, ROWS_PER_PAGE, StreamReader, TURNS};
use crate::queries::unreadable;
use crate::streams::block_worker::BlockFile;

/// Bytes of a file's end that are read at first: most indexes are shorter.
const TAIL_BYTES: u64 = 16 << 10;
/// Bytes of a block in another storage that are read at a time.
const BYTES_PER_READ_ELSEWHERE: u64 = 512 << 10;
/// Blocks whose rows are read at a time.
const ROWS_PER_READ: usize = 64;

/// Why a block was not read.
pub(super) enum NotRead {
    /// It is gone since its row was read.
    Gone,
    Failed(Problem),
}

impl StreamReader<'_> {
    /// Messages that are in blocks.
    pub(super) fn blocks(&self, found: &FoundStream, page: &mut PageMaker<'_>) -> Result<(), Problem> {
        let (mut rows, mut read) = (0, 0);
        while !page.is_full() {
            let blocks = found.view.stream_blocks(found.stream, page.next, ROWS_PER_READ);
            let blocks = blocks.map_err(unreadable)?;
            if blocks.is_empty() {
                return Ok(());
            }
            for block in blocks {
                if page.is_full() {
                    return Ok(());
                }
                rows += 1;
                let is_read = may_have(&block, page);
                read += usize::from(is_read);
                if read > BLOCKS_PER_PAGE || rows > ROWS_PER_PAGE {
                    page.is_full = true;
                    return Ok(());
                }
                if is_read {
                    match self.block(&block, page) {
                        Ok(()) => {}
                        Err(NotRead::Gone) => {
                            (page.is_full, page.has_lost) = (true, true);
                            return Ok(());
                        }
                        Err(NotRead::Failed(problem)) if page.items.is_empty() => return Err(problem),
                        // What was read is shown; whoever reads on is told.
                        Err(NotRead::Failed(_)) => {
                            page.is_full = true;
                            return Ok(());
                        }
                    }
                }
                if !page.is_full() {
                    page.next = page.next.max(block.last + 1);
                }
            }
        }
        Ok(())
    }

    fn block(&self, block: &StreamBlock, page: &mut PageMaker<'_>) -> Result<(), NotRead> {
        let index = self.index(block)?;
        let from = page.query.from.map_or(0, |from| index.slice_from(from));
        let first = index.slice_for(page.next.max(block.first)).unwrap_or(index.slices()).max(from);
        let slices: Vec<usize> = if page.query.segments.is_empty() {
            (first..index.slices()).collect()
        } else {
            let segments = page.query.segments.iter().map(|segment| &**segment);
            index.slices_with(segments).into_iter().filter(|slice| *slice >= first).collect()
        };
        // What lies elsewhere costs little more to read in large parts than in small ones.
        let most = if block.is_local() { 0 } else { BYTES_PER_READ_ELSEWHERE };
        let mut slices = &slices[..];
        while !slices.is_empty() && !page.is_full() {
            let count = lie_together(&index, slices, most);
            let (together, left) = slices.split_at(count);
            self.slices(block, &index, together, page)?;
            slices = left;
            if !block.is_local() {
                page.read_elsewhere();
            }
        }
        Ok(())
    }

    /// Messages of slices that lie one behind the other.
    fn slices(
        &self,
        block: &StreamBlock,
        index: &BlockIndex,
        slices: &[usize],
        page: &mut PageMaker<'_>,
    ) -> Result<(), NotRead> {
        let ranges: Vec<_> = slices.iter().filter_map(|slice| index.range(*slice)).collect();
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return Ok(()) };
        let len = usize::try_from(last.end - first.start).unwrap_or(usize::MAX);
        let bytes: Arc<[u8]> = self.range(block, first.start, len)?.into();
        for (slice, range) in slices.iter().zip(&ranges) {
            let (start, end) = ((range.start - first.start) as usize, (range.end - first.start) as usize);
            let messages = index.read_slice(*slice, bytes.get(start..end).unwrap_or_default());
            for message in messages.map_err(|error| self.damaged_block(block, &error))? {
                let message = message.map_err(|error| self.damaged_block(block, &error))?;
                page.message(&message, &bytes);
            }
        }
        page.looked_at(bytes.len());
        Ok(())
    }

    pub(super) fn slice_bytes(
        &self,
        block: &StreamBlock,
        index: &BlockIndex,
        slice: usize,
    ) -> Result<Vec<u8>, NotRead> {
        let Some(range) = index.range(slice) else { return Ok(Vec::new()) };
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        self.range(block, range.start, len)
    }

    /// What a block has where.
    pub(super) fn index(&self, block: &StreamBlock) -> Result<Arc<BlockIndex>, NotRead> {
        let name = BlockFile::of(block).block_name();
        if let Some(index) = self.context.indexes.get(name) {
            return Ok(index);
        }
        let all = block.stored_bytes;
        let mut len = TAIL_BYTES.max(FOOTER_BYTES as u64).min(all);
        loop {
            let tail = self.range(block, all - len, usize::try_from(len).unwrap_or(usize::MAX))?;
            match BlockIndex::parse(name, &tail, all) {
                Ok(index) => {
                    let index = Arc::new(index);
                    self.context.indexes.keep(name, &index);
                    return Ok(index);
                }
                Err(BlockError::ShortTail(more)) if more > len && more <= all => len = more,
                Err(error) => return Err(self.damaged_block(block, &error)),
            }
        }
    }

    fn range(&self, block: &StreamBlock, offset: u64, len: usize) -> Result<Vec<u8>, NotRead> {
        let mut place = Cow::Borrowed(block);
        for _ in 0..TURNS {
            let Some(storage) = self.context.storage(self.store, &place.storage) else {
                return Err(self.damaged_block(&place, &"it is not among the settings"));
            };
            match storage.get_range(&place.file_name(), offset, len) {
                Ok(bytes) => return Ok(bytes),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    // It may have gone to another storage since its row was read.
                    place = Cow::Owned(self.row_of_missing(&place, &error)?);
                }
                Err(error) => return Err(self.damaged_block(&place, &error)),
            }
        }
        Err(self.damaged_block(&place, &"the block is being moved: read it again"))
    }

    /// The file of a block is not there: it went elsewhere, which its row says now, it went with
    /// its row, or is lost.
    fn row_of_missing(&self, block: &StreamBlock, error: &io::Error) -> Result<StreamBlock, NotRead> {
        let partition = base::PartitionId::of_streams(block.stream.partition_index());
        let view = self.store.view(partition);
        match view.and_then(|view| view.stream_block(block.stream, block.first)) {
            Ok(None) => Err(NotRead::Gone),
            Ok(Some(row)) if BlockFile::of(&row) != BlockFile::of(block) => Ok(row),
            Ok(Some(_)) => Err(self.damaged_block(block, error)),
            Err(error) => Err(NotRead::Failed(unreadable(error))),
        }
    }

    pub(super) fn damaged_block(&self, block: &StreamBlock, error: &dyn std::fmt::Display) -> NotRead {
        let error = format!("block {}: {error}", BlockFile::of(block).block_name());
        NotRead::Failed(self.unreadable_in(&block.storage, block.stream, &error))
    }
}

/// How many of these slices lie one behind the other within so many bytes; at least one.
fn lie_together(index: &BlockIndex, slices: &[usize], bytes_max: u64) -> usize {
    let start = slices.first().and_then(|first| index.range(*first)).map_or(0, |range| range.start);
    let is_within = |pair: &&[usize]| {
        let end = index.range(pair[1]).map_or(u64::MAX, |range| range.end);
        pair[0] + 1 == pair[1] && end - start <= bytes_max
    };
    1 + slices.windows(2).take_while(is_within).count()
}

/// Whether a block may have messages that a page asks for, as far as its row tells.
fn may_have(block: &StreamBlock, page: &PageMaker<'_>) -> bool {
    let query = page.query;
    let is_in_time = query.from.is_none_or(|from| block.last_at >= from);
    let has_segment = query.segments.is_empty()
        || block.any_segment
        || block.segments.iter().any(|segment| query.segments.contains(segment));
    is_in_time && has_segment
}
