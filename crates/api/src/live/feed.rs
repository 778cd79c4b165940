//! A feed as a stream sends it: the newest items first, then what comes behind them.
//!
//! A reader who falls behind is told so and goes on from the newest. Nothing is kept for a slow
//! reader, and a flood is not sent to the end.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use base::{ClientId, DeviceId, EntityId, Problem, Timestamp};
use engine::queries::{BoundedPage, LOOKED_AT_MAX};

use super::LiveLook;
use super::digest::digest;
use super::memo::ReadFrom;
use super::moved::{MovedRows, SentRow, SentRows};
use super::position::FeedPosition;
use super::topic::LiveTopic;
use crate::authorization::Visibility;
use crate::cursor::CursorKey;
use crate::list::List;
use crate::page::{FeedQuery, TimeOrder};

/// Items of a message at most.
const ITEMS_MAX: usize = 200;
/// A message ends when its items have become so heavy, in bytes.
pub(super) const MESSAGE_BYTES_MAX: usize = 256 * 1_024;
/// Full messages in a row after which a stream is behind: what is left is left out.
const FULL_MAX: u32 = 5;
/// Looks for the newest items of a list that filters; whatever these do not find is left out.
const NEWEST_LOOKS_MAX: usize = 4;

/// A feed that can be read from any place on.
pub(crate) trait FeedSource: Send + Sync {
    /// The newest items, oldest first.
    fn newest(&self, items: usize) -> Result<FeedRead, Problem>;
    /// The items behind a place, oldest first. `None` for what is no place.
    fn since(&self, position: &FeedPosition, items: usize) -> Result<Option<FeedRead>, Problem>;
    /// Whether items change after they were made.
    fn is_changing(&self) -> bool;
    /// An item as it is now, as JSON; `None` for one that is gone.
    fn row(&self, id: EntityId) -> Result<Option<Vec<u8>>, Problem>;
}

/// Which feed it is, and what of it its reader sees. Streams that agree in all of that share what
/// one of them read. So it is compared as a whole, and not by a hash that a caller could choose.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct FeedIdentity {
    pub(super) topic: LiveTopic,
    pub(super) device: Option<DeviceId>,
    pub(super) client: Option<ClientId>,
    pub(super) sees: Visibility,
}

/// Items as they are sent.
#[derive(Debug)]
pub(crate) struct FeedRead {
    /// JSON texts with commas between.
    items: Vec<u8>,
    count: usize,
    /// Which they are, of a feed whose items change.
    pub(super) rows: Vec<SentRow>,
    /// There is more behind them.
    more: bool,
    /// The key of the last one, of the last one that was looked at, or the place before all.
    place: Option<Box<[u8]>>,
}

/// A list that `make` makes for a span and an order.
pub(crate) struct ListSource<F, L: List> {
    make: F,
    rows: Option<RowLookup<L>>,
}

/// An item as JSON, if it is still there.
type FoundItem = Result<Option<Vec<u8>>, Problem>;

/// How the items of a list that change are told apart, and looked at again.
pub(crate) struct RowLookup<L: List> {
    pub(crate) id: fn(&L::Found) -> EntityId,
    pub(crate) find: fn(&L, EntityId) -> FoundItem,
}

impl<F, L: List> ListSource<F, L> {
    /// A list whose items stay as they were made.
    pub(crate) fn new(make: F) -> Self {
        Self { make, rows: None }
    }

    /// A list whose items change.
    pub(crate) fn changing(make: F, rows: RowLookup<L>) -> Self {
        Self { make, rows: Some(rows) }
    }

    fn rows_of(&self, found: &[L::Found], texts: &[Vec<u8>]) -> Vec<SentRow> {
        let Some(RowLookup { id, .. }) = self.rows else { return Vec::new() };
        let row = |(found, text): (_, &Vec<u8>)| SentRow { id: id(found), digest: Some(digest(text)) };
        found.iter().zip(texts).map(row).collect()
    }
}

impl<L: List, F: Fn(FeedQuery) -> L + Send + Sync> FeedSource for ListSource<F, L> {
    fn newest(&self, items: usize) -> Result<FeedRead, Problem> {
        let list = (self.make)(feed(None, TimeOrder::Descending));
        let BoundedPage { found, .. } = read(&list, None, items, NEWEST_LOOKS_MAX)?;
        let mut texts = fitting::<L>(&found);
        let mut rows = self.rows_of(&found, &texts);
        rows.reverse();
        texts.reverse();
        Ok(FeedRead {
            count: texts.len(),
            items: texts.join(&b','),
            rows,
            more: false,
            place: place_of::<L>(found.first().map(L::key)),
        })
    }

    fn since(&self, position: &FeedPosition, items: usize) -> Result<Option<FeedRead>, Problem> {
        let Some(key) = L::Key::read(&position.place) else { return Ok(None) };
        let list = (self.make)(feed(Some(position.looked_until), TimeOrder::Ascending));
        let BoundedPage { found, next, .. } = read(&list, Some(&key), items, 1)?;
        let texts = fitting::<L>(&found);
        let is_cut = texts.len() < found.len();
        let more = is_cut || next.is_some();
        let sent = texts.len().checked_sub(1).and_then(|last| found.get(last)).map(L::key);
        let reached = next.filter(|_| !is_cut).or(sent);
        let place = reached.map_or_else(|| Some(position.place.clone()), |key| place_of::<L>(Some(key)));
        let rows = self.rows_of(&found, &texts);
        Ok(Some(FeedRead { count: texts.len(), items: texts.join(&b','), rows, more, place }))
    }

    fn is_changing(&self) -> bool {
        self.rows.is_some()
    }

    fn row(&self, id: EntityId) -> Result<Option<Vec<u8>>, Problem> {
        let Some(RowLookup { find, .. }) = self.rows else { return Ok(None) };
        let list = (self.make)(feed(None, TimeOrder::Ascending));
        find(&list, id)
    }
}

fn feed(from: Option<Timestamp>, order: TimeOrder) -> FeedQuery {
    FeedQuery { from, to: None, order, wait: Duration::ZERO }
}

/// So many items behind `after`, and where the list goes on if there may be more. Of a list that
/// filters, so many looks may find less than was asked for.
fn read<L: List>(
    list: &L,
    after: Option<&L::Key>,
    items: usize,
    looks_max: usize,
) -> Result<BoundedPage<L::Found, L::Key>, Problem> {
    let (mut found, mut bytes, mut short_looks) = (Vec::new(), 0, 0);
    let (mut reached, mut budget) = (None, LOOKED_AT_MAX * looks_max);
    let next = loop {
        let asked = (items + 1 - found.len()).min(L::READ_MAX);
        let cost_max = budget.min(LOOKED_AT_MAX);
        let BoundedPage { found: read, next, cost, .. } =
            list.look(reached.as_ref().or(after), asked, cost_max)?;
        let has_ended = read.len() < asked && next.is_none();
        budget = budget.saturating_sub(cost);
        short_looks += usize::from(next.is_some());
        bytes += read.iter().map(L::bytes).sum::<usize>();
        found.extend(read);
        if found.len() > items {
            found.truncate(items);
            break found.last().map(L::key);
        }
        reached = next.or_else(|| found.last().map(L::key));
        if has_ended {
            break None;
        }
        if short_looks >= looks_max || budget == 0 || bytes >= MESSAGE_BYTES_MAX {
            break reached;
        }
    };
    Ok(BoundedPage { next, ..BoundedPage::indexed(found) })
}

/// The first of these items, as many as a message takes; at least one.
fn fitting<L: List>(found: &[L::Found]) -> Vec<Vec<u8>> {
    let (mut texts, mut bytes) = (Vec::with_capacity(found.len()), 0);
    for item in found {
        let text = serde_json::to_vec(&L::show(item)).expect("a shape is JSON");
        bytes += text.len();
        if bytes > MESSAGE_BYTES_MAX && !texts.is_empty() {
            break;
        }
        texts.push(text);
    }
    texts
}

fn place_of<L: List>(last: Option<L::Key>) -> Option<Box<[u8]>> {
    let key = last.or_else(L::Key::before_all)?;
    let mut bytes = Vec::new();
    key.write(&mut bytes);
    Some(bytes.into())
}

/// What a stream finds when it looks at a feed.
#[derive(Clone, Debug)]
pub(super) struct FeedUpdate {
    /// JSON texts with commas between.
    pub(super) items: Bytes,
    pub(super) count: usize,
    /// Which they are, of a feed whose items change.
    pub(super) rows: Vec<SentRow>,
    /// They are the newest, not those behind what was sent before.
    pub(super) first: bool,
    /// Items were left out.
    pub(super) behind: bool,
    /// There is more behind them.
    pub(super) more: bool,
    /// Whatever is stamped before that is among them, or was sent before.
    pub(super) end: Timestamp,
    pub(super) position: Option<FeedPosition>,
}

/// How far a stream is in a feed.
pub(super) struct FeedState {
    source: Arc<dyn FeedSource>,
    feed: Arc<FeedIdentity>,
    /// Items that it begins with.
    last: usize,
    pub(super) position: Option<FeedPosition>,
    full_in_a_row: u32,
    sent: SentRows,
    /// It goes on behind a stream that was cut, and does not know what that one sent.
    is_taken_up: bool,
}

impl FeedState {
    /// Begins with the last so many items, or goes on behind `position`.
    pub(super) fn new(
        source: Arc<dyn FeedSource>,
        feed: FeedIdentity,
        last: usize,
        position: Option<FeedPosition>,
    ) -> Self {
        Self {
            source,
            feed: Arc::new(feed),
            last: last.min(ITEMS_MAX),
            is_taken_up: position.is_some(),
            position,
            full_in_a_row: 0,
            sent: SentRows::default(),
        }
    }

    /// A stream that is behind looks less often.
    pub(super) fn is_behind(&self) -> bool {
        self.full_in_a_row >= FULL_MAX
    }

    /// Looks at the feed at this moment, by its number.
    ///
    /// # Errors
    /// What reading it says, or `busy`.
    pub(super) async fn look(&mut self, look: &LiveLook<'_>) -> Result<Arc<FeedUpdate>, Problem> {
        // Streams that ask for different numbers of newest items read the same from then on.
        let newest = (Arc::clone(&self.feed), ReadFrom::Newest(self.last));
        let (source, position, last) = (Arc::clone(&self.source), self.position.clone(), self.last);
        let (feed, api, gives_up) = (Arc::clone(&self.feed), look.api.clone(), self.is_behind());
        let tick = look.tick;
        let read = move || {
            let memo = &api.shared.live.memo;
            let end = memo.feed_end(tick, || api.engine().feed_end());
            let read_newest = || {
                let page = source.newest(last)?;
                Ok(update_of(FeedRead { more: false, ..page }, end, true))
            };
            let Some(position) = position else { return memo.get_or_read(tick, newest, read_newest) };
            let from = (feed, ReadFrom::Behind(position.clone()));
            let since = memo.get_or_read(tick, from, || {
                match source.since(&position, ITEMS_MAX)? {
                    // Up to its last item only, if there is more behind it.
                    Some(page) if page.more => Ok(update_of(page, position.looked_until, false)),
                    Some(page) => Ok(update_of(page, end, false)),
                    None => read_newest(),
                }
            })?;
            if !(since.more && gives_up) {
                return Ok(since);
            }
            let newest = memo.get_or_read(tick, newest, read_newest)?;
            Ok(Arc::new(FeedUpdate { behind: true, ..(*newest).clone() }))
        };
        let looked = look.read(read).await?;
        self.full_in_a_row = match (looked.more, looked.behind) {
            (true, _) => self.full_in_a_row + 1,
            (false, true) => self.full_in_a_row,
            (false, false) => 0,
        };
        // Nothing new: still remember how far was looked.
        self.position = looked.position.clone().or_else(|| self.position.take());
        self.sent.note(&looked);
        Ok(looked)
    }

    /// Those of the items sent before this update that look different now.
    ///
    /// # Errors
    /// What reading them says, or `busy`.
    pub(super) async fn moved(
        &mut self,
        look: &LiveLook<'_>,
        update: &FeedUpdate,
    ) -> Result<MovedRows, Problem> {
        let is_taken_up = std::mem::take(&mut self.is_taken_up);
        if update.first || !self.source.is_changing() {
            return Ok(MovedRows::default());
        }
        if is_taken_up {
            let (source, last) = (Arc::clone(&self.source), self.last);
            let newest = look.read(move || source.newest(last)).await?;
            self.sent.note_earlier(newest.rows);
        }
        self.sent.moved(look, self.feed.topic, &self.source).await
    }
}

fn update_of(page: FeedRead, end: Timestamp, first: bool) -> FeedUpdate {
    let FeedRead { items, count, rows, more, place } = page;
    let position = place.map(|place| FeedPosition { place, looked_until: end });
    FeedUpdate { items: items.into(), count, rows, first, behind: false, more, end, position }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
impl FeedUpdate {
    /// Nothing was found.
    pub(super) fn nothing() -> Self {
        let page = FeedRead { items: Vec::new(), count: 0, rows: Vec::new(), more: false, place: None };
        update_of(page, Timestamp(0), false)
    }
}
