//! Pages of lists: how many items from where on, and the answer with the cursor of the next page.
//!
//! One item more than asked for is read, so that `next_cursor` is null exactly where the list ends now.

use base::Timestamp;
use engine::Page;
use serde::Serialize;

use crate::answer::Answer;
use crate::cursor::{self, Key};

/// The part of a list that was asked for.
#[derive(Debug)]
pub(crate) struct PageOf<K> {
    pub limit: usize,
    /// The last item of the page before.
    pub after: Option<K>,
    pub fingerprint: u64,
}

/// A span of time: `from` is in it, `to` is not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
}

/// The order of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Ascending,
    Descending,
}

impl Order {
    pub(crate) const ALL: [Self; 2] = [Self::Ascending, Self::Descending];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ascending => "asc",
            Self::Descending => "desc",
        }
    }
}

#[derive(Serialize)]
struct List<S> {
    items: Vec<S>,
    next_cursor: Option<String>,
}

impl<K: Key> PageOf<K> {
    /// How many items to read: one more than is shown.
    pub(crate) fn to_read(&self) -> usize {
        self.limit + 1
    }

    /// The page as the engine's feeds take it.
    pub(crate) fn of_feed(&self, span: Span, order: Order) -> Page<K>
    where
        K: Copy,
    {
        Page {
            from: span.from.unwrap_or(Timestamp(i64::MIN)),
            to: span.to.unwrap_or(Timestamp::MAX),
            ascending: order == Order::Ascending,
            after: self.after,
            limit: self.to_read(),
        }
    }

    /// The answer that shows these items, each with its place.
    pub(crate) fn show<T, S: Serialize>(
        &self,
        mut items: Vec<T>,
        key: impl FnOnce(&T) -> K,
        shape: impl Fn(T) -> S,
    ) -> Answer {
        let more = items.len() > self.limit;
        items.truncate(self.limit);
        let last = items.last().filter(|_| more).map(key);
        let next_cursor = last.map(|key| cursor::write(self.fingerprint, &key));
        Answer::ok(&List { items: items.into_iter().map(shape).collect(), next_cursor })
    }
}
