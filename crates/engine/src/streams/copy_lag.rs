//! How many messages a copy has not copied.

use ::streams::subscriptions::lag;
use base::Problem;
use records::StreamCopy;

use super::copy::{CopyKey, unknown_copy};
use super::reading::{FoundStream, StreamReader};
use crate::context::EngineContext;
use crate::queries::unreadable;

/// Messages of its stream that a copy `to` has not copied.
pub(super) fn lag_in_stream(row: &StreamCopy, (found, kept): &(FoundStream, u64)) -> u64 {
    lag(row.position.saturating_add(ahead_of(row)), &found.tail, *kept, found.next)
}

/// Messages that went ahead of others.
pub(super) fn ahead_of(row: &StreamCopy) -> u64 {
    row.live.map_or(0, |live| live.position - live.from)
}

impl EngineContext {
    /// The lag of a copy `to`, as it is shown, for whoever runs partitions without an engine.
    ///
    /// # Errors
    /// 404 when it is not there, 503 `storage_unavailable`.
    pub fn lag_of_copy(&self, key: &CopyKey) -> Result<u64, Problem> {
        // In front of the streams: what a stream takes in between counts twice.
        let gathered = self.devices.gatherings.waiting();
        let reader = StreamReader { store: &*self.kernel.store, context: &self.streams };
        let found = reader.find_counted(&key.stream)?;
        let row = found.0.view.stream_copy(found.0.stream, &key.copy).map_err(unreadable)?;
        let row = row.ok_or_else(|| unknown_copy(&key.stream, &key.copy))?;
        let waiting = row.gather().and_then(|gather| gathered.get(&gather)).map_or(0, |of| of.reports);
        Ok(lag_in_stream(&row, &found).saturating_add(waiting))
    }
}
