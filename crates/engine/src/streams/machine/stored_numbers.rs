//! The rows of a stream's numbers, and how much memory its external ids have.

use ::streams::{NumberInterval, StoredIntervals};
use base::Incarnation;
use records::ExternalInterval;
use store::StoreError;

use super::loaded::LoadedStream;
use super::{StreamPartition, StreamsStep};
use crate::kernel::fetch::Fetch;
use crate::streams::effect::{StreamsEffect, TailChange};

/// What a text of a message that is not saved takes beside itself and its source.
pub(super) const TEXT_BYTES: usize = 96;
/// Readers are told of the memory of external ids when it differs by so much.
const TOLD_BYTES: usize = 1 << 10;

/// Intervals of a stream that are durable, as of a step.
pub(super) struct NumberRows<'a> {
    pub(super) stream: Incarnation,
    pub(super) fetch: &'a dyn Fetch,
}

impl StoredIntervals for NumberRows<'_> {
    type Error = StoreError;

    fn up_to(
        &self,
        source: &str,
        number: u64,
        is_left_out: &dyn Fn(u64) -> bool,
    ) -> Result<Option<NumberInterval>, StoreError> {
        let row = self.fetch.view()?.interval_up_to(self.stream, source, number, is_left_out)?;
        Ok(row.map(interval))
    }

    fn starting_at(&self, source: &str, from: u64) -> Result<Option<NumberInterval>, StoreError> {
        Ok(self.fetch.view()?.interval_at(self.stream, source, from)?.map(interval))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is the row's end")]
fn interval(row: ExternalInterval) -> NumberInterval {
    NumberInterval { from: row.from, to: row.to }
}

/// Memory of external ids of a stream, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct IdBytes {
    /// All of it.
    pub(super) all: usize,
    /// What a save makes room of, with the answers that are kept under keys then.
    pub(super) unsaved: usize,
}

impl LoadedStream {
    fn id_bytes(&self) -> IdBytes {
        let Self { numbers, text_bytes, unkept_bytes, .. } = self;
        let unsaved = numbers.untaken_bytes() + text_bytes + unkept_bytes;
        IdBytes { all: numbers.bytes() + text_bytes, unsaved }
    }
}

impl StreamPartition {
    /// Forgets what is durable of a stream's external ids, and counts what is left.
    pub(super) fn count_ids(&mut self, stream: Incarnation, step: &mut StreamsStep<'_>) {
        let Some(loaded) = self.loaded.get_mut(&stream) else { return };
        loaded.numbers.settle(self.durable);
        if loaded.numbers.bytes() > self.memory_max / 2 {
            loaded.numbers.shrink();
        }
        let (before, now) = (loaded.counted_ids, loaded.id_bytes());
        loaded.counted_ids = now;
        self.external_id_bytes = self.external_id_bytes + now.all - before.all;
        self.unsaved_id_bytes = self.unsaved_id_bytes + now.unsaved - before.unsaved;
        if now.all.abs_diff(loaded.told_id_bytes) >= TOLD_BYTES {
            loaded.told_id_bytes = now.all;
            let change = TailChange::Ids(now.all);
            step.emit(StreamsEffect::Tail(self.id, loaded.name.clone(), change));
        }
    }
}
