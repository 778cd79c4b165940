//! Items that change after they were sent: a command goes on to its answer, a delivery to its end.
//!
//! A stream remembers which items it sent last. When some of the feed's may have moved, it reads
//! these again, and sends those that look different now.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use base::{EntityId, Problem};

use super::LiveLook;
use super::digest::digest;
use super::feed::{FeedSource, FeedUpdate, MESSAGE_BYTES_MAX};
use super::memo::{RowKey, SharedRow};
use super::topic::LiveTopic;
use super::visible::add;

/// Items that a stream remembers, the newest: as many as a feed begins with at most.
const ROWS_MAX: usize = 200;

/// An item that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SentRow {
    pub(super) id: EntityId,
    /// As it was sent last; `None` where another stream sent it, before this one was taken up.
    pub(super) digest: Option<u64>,
}

/// The items that a stream sent last, oldest first.
#[derive(Debug, Default)]
pub(super) struct SentRows(VecDeque<SentRow>);

/// Items that look different now.
#[derive(Debug, Default)]
pub(super) struct MovedRows {
    /// JSON texts with commas between.
    pub(super) items: Vec<u8>,
    /// A message does not take all.
    pub(super) more: bool,
}

impl SentRows {
    /// These are sent.
    pub(super) fn note(&mut self, update: &FeedUpdate) {
        if update.first {
            self.0.clear();
        }
        self.0.extend(&update.rows);
        let too_many = self.0.len().saturating_sub(ROWS_MAX);
        self.0.drain(..too_many);
    }

    /// These were sent by a stream that was cut, as they looked then.
    pub(super) fn note_earlier(&mut self, rows: Vec<SentRow>) {
        let known: HashSet<EntityId> = self.0.iter().map(|row| row.id).collect();
        let earlier = rows.into_iter().filter(|row| !known.contains(&row.id)).rev();
        for row in earlier.take(ROWS_MAX.saturating_sub(self.0.len())) {
            self.0.push_front(SentRow { digest: None, ..row });
        }
    }

    /// Those that look different now, as many as a message takes.
    ///
    /// # Errors
    /// What reading them says, or `busy`.
    pub(super) async fn moved(
        &mut self,
        look: &LiveLook<'_>,
        topic: LiveTopic,
        source: &Arc<dyn FeedSource>,
    ) -> Result<MovedRows, Problem> {
        if self.0.is_empty() {
            return Ok(MovedRows::default());
        }
        let (rows, source) = (self.0.clone(), Arc::clone(source));
        let (api, tick) = (look.api.clone(), look.tick);
        let read = move || {
            let (mut moved, mut bytes) = (Vec::new(), 0);
            for (at, row) in rows.into_iter().enumerate() {
                let present = || {
                    let text = source.row(row.id)?;
                    Ok(text.map(|text| SharedRow { digest: digest(&text), text, clients: Box::default() }))
                };
                let key = RowKey::Item(topic, row.id);
                let (present, _) = api.shared.live.memo.row_or_read(tick, key, present)?;
                let Some(present) = present.filter(|present| row.digest != Some(present.digest)) else {
                    continue;
                };
                bytes += present.text.len();
                if bytes > MESSAGE_BYTES_MAX && !moved.is_empty() {
                    return Ok((moved, true));
                }
                moved.push((at, present));
            }
            Ok((moved, false))
        };
        let (moved, more) = look.read(read).await?;
        let mut items = Vec::new();
        for (at, present) in moved {
            self.0[at].digest = Some(present.digest);
            add(&mut items, &present.text);
        }
        Ok(MovedRows { items, more })
    }
}

#[cfg(test)]
mod tests {
    use base::Timestamp;

    use super::*;

    fn row(number: u32, digest: u64) -> SentRow {
        let id = EntityId { routing: 0, at: Timestamp(0), number, tag: 0 };
        SentRow { id, digest: Some(digest) }
    }

    fn update(rows: Vec<SentRow>, first: bool) -> FeedUpdate {
        FeedUpdate { rows, first, ..FeedUpdate::nothing() }
    }

    #[test]
    fn the_newest_rows_are_remembered_and_those_of_a_cut_stream_behind_them() {
        let mut sent = SentRows::default();
        sent.note(&update(vec![row(3, 1)], false));
        sent.note_earlier(vec![row(1, 1), row(2, 1), row(3, 1)]);
        let numbers = |sent: &SentRows| sent.0.iter().map(|row| row.id.number).collect::<Vec<_>>();
        assert_eq!(numbers(&sent), [1, 2, 3]);
        assert_eq!(sent.0.iter().map(|row| row.digest).collect::<Vec<_>>(), [None, None, Some(1)]);
        sent.note(&update((10..10 + ROWS_MAX as u32).map(|number| row(number, 1)).collect(), false));
        assert_eq!((sent.0.len(), sent.0[0].id.number), (ROWS_MAX, 10));
        sent.note_earlier(vec![row(1, 1)]);
        assert_eq!((sent.0.len(), sent.0[0].id.number), (ROWS_MAX, 10));
        sent.note(&update(vec![row(9, 1)], true));
        assert_eq!(numbers(&sent), [9]);
    }
}
