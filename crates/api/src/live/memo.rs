//! What was just read of a feed, for all streams that stand at the same place: many pages that show
//! the same are one read.
//!
//! Streams look at the same moments, ten times a second. So what was read at one of them serves
//! whoever comes from the same place at the same one, and is forgotten with the next.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use base::locks::locked;
use base::{DeviceId, EntityId, Incarnation, Problem, Timestamp};

use super::feed::{FeedIdentity, FeedUpdate};
use super::position::FeedPosition;
use super::topic::LiveTopic;

/// Results that are kept at a time, of at most 256 KiB and one item each.
const KEPT_MAX: usize = 64;

/// From where on a feed was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ReadFrom {
    /// Its newest items, so many.
    Newest(usize),
    /// Behind this position: all of it, since a caller hands it in.
    Behind(FeedPosition),
}

/// What was read: as a whole, so that nobody is served what another may see.
type ReadKey = (Arc<FeedIdentity>, ReadFrom);

/// Rows that are kept at a time, and how heavy they may be together, in bytes.
const ROWS_KEPT_MAX: usize = 4_096;
const ROWS_BYTES_MAX: usize = 4 * 1_024 * 1_024;

/// Something that streams show as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum RowKey {
    /// An item of a feed.
    Item(LiveTopic, EntityId),
    /// A device.
    Device(DeviceId),
}

/// It as JSON, the same for whoever may see it.
#[derive(Debug)]
pub(super) struct SharedRow {
    pub(super) text: Vec<u8>,
    pub(super) digest: u64,
    /// Of a device, the clients that it is linked to.
    pub(super) clients: Box<[Incarnation]>,
}

/// A row, and whether it was read for another stream; then it may be a moment old. `None` for one
/// that is gone.
pub(super) type KnownRow = (Option<Arc<SharedRow>>, bool);

/// The latest results.
#[derive(Debug, Default)]
pub(super) struct Memo(Mutex<MemoEntries>);

#[derive(Debug, Default)]
struct MemoEntries {
    tick: u64,
    /// How far feeds could be read when the first stream looked.
    feed_end: Option<Timestamp>,
    results: HashMap<ReadKey, Arc<FeedUpdate>>,
    rows: HashMap<RowKey, Option<Arc<SharedRow>>>,
    row_bytes: usize,
}

impl Memo {
    /// How far feeds can be read at that moment: for all streams the same, so that those at the
    /// same place stay there together. `read` reads it.
    pub(super) fn feed_end(&self, tick: u64, read: impl FnOnce() -> Timestamp) -> Timestamp {
        let mut kept = locked(&self.0);
        kept.advance_to(tick);
        if tick == kept.tick { *kept.feed_end.get_or_insert_with(read) } else { read() }
    }

    /// What is there from that place on, at that moment; read by `read` if nobody did.
    ///
    /// # Errors
    /// What `read` says.
    pub(super) fn get_or_read(
        &self,
        tick: u64,
        from: ReadKey,
        read: impl FnOnce() -> Result<FeedUpdate, Problem>,
    ) -> Result<Arc<FeedUpdate>, Problem> {
        {
            let mut kept = locked(&self.0);
            kept.advance_to(tick);
            if let Some(known) = kept.results.get(&from).filter(|_| tick == kept.tick) {
                return Ok(Arc::clone(known));
            }
        }
        // Not under the lock: others read other feeds.
        let looked = Arc::new(read()?);
        let mut kept = locked(&self.0);
        if kept.tick == tick && kept.results.len() < KEPT_MAX {
            kept.results.insert(from, Arc::clone(&looked));
        }
        Ok(looked)
    }

    /// A row as it is at that moment; read by `read` if nobody did.
    ///
    /// # Errors
    /// What `read` says.
    pub(super) fn row_or_read(
        &self,
        tick: u64,
        key: RowKey,
        read: impl FnOnce() -> Result<Option<SharedRow>, Problem>,
    ) -> Result<KnownRow, Problem> {
        {
            let mut kept = locked(&self.0);
            kept.advance_to(tick);
            if let Some(known) = kept.rows.get(&key).filter(|_| tick == kept.tick) {
                return Ok((known.clone(), true));
            }
        }
        let row = read()?.map(Arc::new);
        let mut kept = locked(&self.0);
        let bytes = kept.row_bytes + row.as_ref().map_or(0, |row| row.text.len());
        if kept.tick == tick && kept.rows.len() < ROWS_KEPT_MAX && bytes <= ROWS_BYTES_MAX {
            kept.row_bytes = bytes;
            kept.rows.insert(key, row.clone());
        }
        Ok((row, false))
    }
}

impl MemoEntries {
    fn advance_to(&mut self, tick: u64) {
        if tick > self.tick {
            *self = Self { tick, ..Self::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use base::ClientId;

    use super::*;
    use crate::authorization::Visibility;

    fn of_device(device: &str) -> FeedIdentity {
        let device = DeviceId::new(device);
        FeedIdentity { topic: LiveTopic::Events, device, client: None, sees: Visibility::Everything }
    }

    fn behind(place: &[u8], looked_until: i64) -> ReadFrom {
        let looked_until = Timestamp(looked_until);
        ReadFrom::Behind(FeedPosition { place: place.into(), looked_until })
    }

    #[test]
    fn who_comes_from_the_same_place_at_the_same_moment_reads_nothing() {
        let memo = Memo::default();
        let mut reads = 0;
        let mut look = |tick, device: &str, place: &[u8]| {
            let read = || {
                reads += 1;
                Ok(FeedUpdate::nothing())
            };
            let from = (Arc::new(of_device(device)), behind(place, 0));
            memo.get_or_read(tick, from, read).expect("readable");
            reads
        };
        for (tick, device, place, expect) in [
            (1, "d1", b"a", 1),
            (1, "d1", b"a", 1),
            (1, "d2", b"a", 2),
            (1, "d1", b"b", 3),
            (2, "d1", b"a", 4),
            (2, "d1", b"a", 4),
            // A late one finds nothing of its moment, and leaves nothing behind.
            (1, "d1", b"b", 5),
            (2, "d1", b"b", 6),
        ] {
            assert_eq!(look(tick, device, place), expect, "{tick} {device} {place:?}");
        }
    }

    #[test]
    fn what_differs_in_anything_that_a_caller_chooses_or_sees_is_read_apart() {
        let all = FeedIdentity { device: None, ..of_device("d1") };
        let client = ClientId::new("acme");
        let feeds = [
            all.clone(),
            of_device("d1"),
            FeedIdentity { client: client.clone(), ..of_device("d1") },
            FeedIdentity { client, ..all.clone() },
            FeedIdentity { sees: Visibility::ItsOwn, ..all.clone() },
            FeedIdentity { topic: LiveTopic::Deliveries, ..all },
        ];
        // The same place, but a time that its caller made up: whoever has it looks for less.
        let starts = [ReadFrom::Newest(1), ReadFrom::Newest(2), behind(b"a", 0), behind(b"a", i64::MAX)];
        let (memo, mut reads) = (Memo::default(), 0);
        for feed in &feeds {
            for start in &starts {
                let read = || {
                    reads += 1;
                    Ok(FeedUpdate::nothing())
                };
                memo.get_or_read(1, (Arc::new(feed.clone()), start.clone()), read).expect("readable");
            }
        }
        assert_eq!(reads, feeds.len() * starts.len());
    }

    #[test]
    fn all_streams_of_a_moment_have_looked_equally_far() {
        let memo = Memo::default();
        for (tick, now, expect) in [(1, 10, 10), (1, 11, 10), (2, 12, 12), (1, 13, 13), (2, 14, 12)] {
            assert_eq!(memo.feed_end(tick, || Timestamp(now)), Timestamp(expect), "{tick} {now}");
        }
    }

    #[test]
    fn a_row_is_read_once_at_a_moment() {
        let memo = Memo::default();
        let look = |tick, device: &str| {
            let row = || Ok(Some(SharedRow { text: vec![b'1'], digest: 1, clients: Box::default() }));
            let key = RowKey::Device(DeviceId::new(device).expect("an id"));
            memo.row_or_read(tick, key, row).expect("readable").1
        };
        let known = [(1, "d1"), (1, "d1"), (1, "d2"), (2, "d1"), (2, "d1"), (1, "d1")];
        assert_eq!(known.map(|(tick, device)| look(tick, device)), [false, true, false, false, true, false]);
        for device in 0..=ROWS_KEPT_MAX {
            look(3, &format!("d{device}"));
        }
        assert_eq!(locked(&memo.0).rows.len(), ROWS_KEPT_MAX);
    }
}
