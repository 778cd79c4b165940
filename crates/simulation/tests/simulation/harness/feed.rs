//! Lists and feeds read as a caller reads them: page by page, in both directions.

use std::fmt::Debug;

use base::Timestamp;
use store::{Page, StoreError};

use super::violation::{Checked, Invariant, unreadable};

/// Items of a page: few, so that pages meet.
const PAGE_ITEMS: usize = 7;
/// Items of the later pages of a long list.
const LATER_PAGE_ITEMS: usize = 500;
/// So many pages are short.
const SHORT_PAGES: usize = 12;

/// Reads a list page by page, by the key of the last item.
pub(crate) fn paged<K: Clone, T>(
    read: impl Fn(Option<K>, usize) -> Result<Vec<(K, T)>, StoreError>,
) -> Checked<Vec<T>> {
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let limit = if all.len() < SHORT_PAGES * PAGE_ITEMS { PAGE_ITEMS } else { LATER_PAGE_ITEMS };
        let page = read(after.clone(), limit).map_err(unreadable)?;
        let full = page.len() >= limit;
        after = page.last().map(|(key, _)| key.clone());
        all.extend(page.into_iter().map(|(_, item)| item));
        if !full {
            return Ok(all);
        }
    }
}

fn page<K>(ascending: bool, after: Option<K>, limit: usize) -> Page<K> {
    Page { from: Timestamp(0), to: Timestamp::MAX, ascending, after, limit }
}

/// Reads a feed in both directions, and gives it oldest first.
pub(crate) fn both_ways<K: Clone, T: PartialEq + Debug>(
    read: impl Fn(Page<K>) -> Result<Vec<(K, T)>, StoreError>,
) -> Checked<Vec<T>> {
    let oldest_first = paged(|after, limit| read(page(true, after, limit)))?;
    let mut newest_first = paged(|after, limit| read(page(false, after, limit)))?;
    newest_first.reverse();
    Invariant::AS_THE_MODEL.same("the same feed read backwards", &newest_first, &oldest_first)?;
    Ok(oldest_first)
}
