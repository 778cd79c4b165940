//! A feed as a stream sends it: the newest items first, then what comes behind them.
//!
//! Who falls behind is told so and goes on from the newest: nothing is kept for a slow reader, and
//! a flood is not sent to the end.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use base::{Problem, Timestamp};

use super::position::Position;
use crate::ApiState;
use crate::cursor::Key;
use crate::list::List;
use crate::page::{Feed, Order};

/// Items of a message at most.
const ITEMS_MAX: usize = 200;
/// A message ends when its items have become so heavy, in bytes.
pub(super) const MESSAGE_BYTES_MAX: usize = 256 * 1_024;
/// Full messages in a row after which a stream is behind: what is left is left out.
const FULL_MAX: u32 = 5;

/// A feed that can be read from any place on.
pub(crate) trait Source: Send + Sync {
    /// The newest items, oldest first.
    fn newest(&self, items: usize) -> Result<Part, Problem>;
    /// The items behind a place, oldest first. `None` for what is no place.
    fn since(&self, position: &Position, items: usize) -> Result<Option<Part>, Problem>;
}

/// Items as they are sent.
#[derive(Debug)]
pub(crate) struct Part {
    /// JSON texts with commas between.
    items: Vec<u8>,
    count: usize,
    /// There is more behind them.
    more: bool,
    /// The key of the last one, or the place before all.
    place: Option<Box<[u8]>>,
}

/// A list that `make` makes for a span and an order.
pub(crate) struct Listed<F>(pub(crate) F);

impl<L: List, F: Fn(Feed) -> L + Send + Sync> Source for Listed<F> {
    fn newest(&self, items: usize) -> Result<Part, Problem> {
        let list = (self.0)(feed(None, Order::Descending));
        let (found, _) = read(&list, None, items)?;
        let mut texts = fitting::<L>(&found);
        texts.reverse();
        Ok(Part {
            count: texts.len(),
            items: texts.join(&b','),
            more: false,
            place: place_of::<L>(found.first()),
        })
    }

    fn since(&self, position: &Position, items: usize) -> Result<Option<Part>, Problem> {
        let Some(key) = L::Key::read(&position.place) else { return Ok(None) };
        let list = (self.0)(feed(Some(position.looked_until), Order::Ascending));
        let (found, more) = read(&list, Some(&key), items)?;
        let texts = fitting::<L>(&found);
        let more = more || texts.len() < found.len();
        let place = match texts.len().checked_sub(1) {
            Some(last) => place_of::<L>(found.get(last)),
            None => Some(position.place.clone()),
        };
        Ok(Some(Part { count: texts.len(), items: texts.join(&b','), more, place }))
    }
}

fn feed(from: Option<Timestamp>, order: Order) -> Feed {
    Feed { from, to: None, order, wait: Duration::ZERO }
}

/// So many items behind `after`, and whether there are more.
fn read<L: List>(list: &L, after: Option<&L::Key>, items: usize) -> Result<(Vec<L::Found>, bool), Problem> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    loop {
        let asked = (items + 1 - found.len()).min(L::READ_MAX);
        let last = found.last().map(L::key);
        let read = list.read(last.as_ref().or(after), asked)?;
        let ended = read.len() < asked;
        bytes += read.iter().map(L::bytes).sum::<usize>();
        found.extend(read);
        if found.len() > items {
            found.truncate(items);
            return Ok((found, true));
        }
        if ended || bytes >= MESSAGE_BYTES_MAX {
            return Ok((found, !ended));
        }
    }
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

fn place_of<L: List>(last: Option<&L::Found>) -> Option<Box<[u8]>> {
    let key = last.map(L::key).or_else(L::Key::before_all)?;
    let mut bytes = Vec::new();
    key.write(&mut bytes);
    Some(bytes.into())
}

/// What a stream finds when it looks at a feed.
#[derive(Debug)]
pub(super) struct Looked {
    /// JSON texts with commas between.
    pub(super) items: Bytes,
    pub(super) count: usize,
    /// They are the newest, not those behind what was sent before.
    pub(super) first: bool,
    /// Items were left out.
    pub(super) behind: bool,
    /// There is more behind them.
    pub(super) more: bool,
    /// Whatever is stamped before that is among them, or was sent before.
    pub(super) end: Timestamp,
    position: Option<Position>,
}

/// How far a stream is in a feed.
pub(super) struct FeedState {
    source: Arc<dyn Source>,
    /// Of the feed and its filters: the same for every stream that shows the same.
    feed: u64,
    /// Items that it begins with.
    last: usize,
    pub(super) position: Option<Position>,
    full_in_a_row: u32,
}

impl FeedState {
    /// Begins with the last so many items, or goes on behind `position`.
    pub(super) fn new(source: Arc<dyn Source>, feed: u64, last: usize, position: Option<Position>) -> Self {
        Self { source, feed, last: last.min(ITEMS_MAX), position, full_in_a_row: 0 }
    }

    /// A stream that is behind looks less often.
    pub(super) fn is_behind(&self) -> bool {
        self.full_in_a_row >= FULL_MAX
    }

    /// Looks at the feed at this moment, by its number.
    ///
    /// # Errors
    /// What reading it says, or `busy`.
    pub(super) async fn look(&mut self, api: &ApiState, tick: u64) -> Result<Arc<Looked>, Problem> {
        // Behind the newest items of different numbers comes the same; the newest are apart.
        let newest = (self.feed ^ (self.last as u64).rotate_left(32), None);
        let from = match &self.position {
            None => newest.clone(),
            Some(position) => (self.feed, Some(position.place.clone())),
        };
        let (source, position, last) = (Arc::clone(&self.source), self.position.clone(), self.last);
        let (state, gives_up) = (api.clone(), self.full_in_a_row >= FULL_MAX);
        let read = move || {
            let memo = &state.shared.live.memo;
            let read_newest = || {
                let end = state.engine().feed_end();
                let part = source.newest(last)?;
                Ok(looked(Part { more: false, ..part }, end, true))
            };
            let Some(position) = position else { return memo.get_or_read(tick, newest, read_newest) };
            let since = memo.get_or_read(tick, from, || {
                let end = state.engine().feed_end();
                match source.since(&position, ITEMS_MAX)? {
                    // Up to its last item only, if there is more behind it.
                    Some(part) if part.more => Ok(looked(part, position.looked_until, false)),
                    Some(part) => Ok(looked(part, end, false)),
                    None => read_newest(),
                }
            })?;
            if !(since.more && gives_up) {
                return Ok(since);
            }
            let newest = memo.get_or_read(tick, newest, read_newest)?;
            let Looked { items, count, position, end, .. } = &*newest;
            let (items, count, position, end) = (items.clone(), *count, position.clone(), *end);
            Ok(Arc::new(Looked { items, count, first: true, behind: true, more: false, end, position }))
        };
        let looked = api.shared.follows.run(read).await?;
        self.full_in_a_row = match (looked.more, looked.behind) {
            (true, _) => self.full_in_a_row + 1,
            (false, true) => self.full_in_a_row,
            (false, false) => 0,
        };
        // Nothing came: what was looked through in vain is not looked through again.
        self.position = looked.position.clone().or_else(|| self.position.take());
        Ok(looked)
    }
}

fn looked(part: Part, end: Timestamp, first: bool) -> Looked {
    let Part { items, count, more, place } = part;
    let position = place.map(|place| Position { place, looked_until: end });
    Looked { items: items.into(), count, first, behind: false, more, end, position }
}

#[cfg(test)]
impl Looked {
    /// Nothing was found.
    pub(super) fn nothing() -> Self {
        looked(Part { items: Vec::new(), count: 0, more: false, place: None }, Timestamp(0), false)
    }
}
