//! Lists: what each says of itself, and the answer with a page of it.
//!
//! One item more than asked for is read, so that `next_cursor` is null exactly where the list ends
//! now. Where items may be large, few are read at a time, and a page ends early when it has become
//! heavy. The same lists in other forms, from one end to the other, are in [`crate::export`].

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use base::Problem;
use base::limits::PAGE_ITEMS_MAX;
use engine::queries::{BoundedPage, LOOKED_AT_MAX};
use net::memory_budget::{MemoryReservation, SENDER_BYTES};
use net::problem::Refused;
use serde::Serialize;

use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::compression;
use crate::cursor::{self, CursorKey};
use crate::export;
use crate::page::{ListForm, PageOf};
use crate::reads::Reads;
use crate::row::CsvRow;

/// A page ends when its items have become so heavy, in bytes.
const PAGE_BYTES_MAX: usize = 8 * 1_024 * 1_024;

/// A page of a list, or why it could not be read.
pub(crate) type PageOfList<L> = Result<BoundedPage<<L as List>::Found, <L as List>::Key>, Problem>;

/// A list that can be read from any of its items on.
pub(crate) trait List: Send + Sync + 'static {
    /// The place of an item.
    type Key: CursorKey + Send + Sync + 'static;
    /// An item as it is found.
    type Found;
    /// An item as it is shown.
    type Shown<'a>: Serialize + CsvRow;

    /// Most items that are read at a time.
    const READ_MAX: usize = PAGE_ITEMS_MAX + 1;
    /// What an item may take in memory, in bytes: a device with the largest value, every label and
    /// a long address does.
    const ITEM_BYTES_MAX: usize = 8 * 1_024;

    /// At most `limit` items behind `after`. Reads the store.
    ///
    /// A list with an index answers [`BoundedPage::indexed`], fewer only at its end. One that
    /// filters behind its index goes as far as rows lead that cost `cost_max` to look at, and says
    /// where to go on then.
    fn look(&self, after: Option<&Self::Key>, limit: usize, cost_max: usize) -> PageOfList<Self>;

    /// What of the item's size is not the same for all, in bytes.
    fn bytes(_: &Self::Found) -> usize {
        0
    }

    /// Where the item is.
    fn key(found: &Self::Found) -> Self::Key;

    /// The item's shape.
    fn show(found: &Self::Found) -> Self::Shown<'_>;
}

/// The part of the list that was asked for, in the form that was asked for.
///
/// # Errors
/// What reading it says, or `busy`.
pub(crate) async fn answer<L: List>(
    api: &ApiState,
    page: PageOf<L::Key>,
    list: L,
) -> Result<Response, Refused> {
    match page.form {
        ListForm::Page => {
            let (held, read) = read(api, &api.shared.lists, &Arc::new((page, list))).await?;
            Ok(held.until_sent(read.into_response()))
        }
        ListForm::Export(rows) => Ok(export::all(api, rows, page, list).await?),
    }
}

/// Reads a page in its turn among `reads`, with room for it.
///
/// # Errors
/// What reading it says, or `busy`.
pub(crate) async fn read<L: List>(
    api: &ApiState,
    reads: &Reads,
    asked: &Arc<(PageOf<L::Key>, L)>,
) -> Result<(MemoryReservation, Read), Problem> {
    // Whoever waits for room waits among those who wait for their turn.
    let place = reads.enter_as(&asked.0.whose)?;
    let bytes = bytes_max::<L>(asked.0.items() + 1);
    let held = api.shared.memory_of_pages.take_soon(&asked.0.whose, bytes).await?;
    let held = held.counted_by(&api.shared.metrics.page_held_bytes);
    let asked = Arc::clone(asked);
    let read = place.run(move || one_page(&asked.0, &asked.1)).await?;
    Ok((held, read))
}

#[derive(Serialize)]
struct ItemsPage<S> {
    items: Vec<S>,
    next_cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tail_cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    looked_at: Option<u64>,
}

/// A page that was read.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) answer: ApiAnswer,
    is_compressed: bool,
    pub is_empty: bool,
}

impl IntoResponse for Read {
    fn into_response(self) -> Response {
        let mut response = self.answer.into_response();
        compression::set_headers(response.headers_mut(), self.is_compressed);
        response
    }
}

/// What a page of so many items may take in memory. It is at most half of what its caller may have,
/// so that a slow page leaves room for another.
fn bytes_max<L: List>(items: usize) -> usize {
    let heavy = PAGE_BYTES_MAX + L::READ_MAX * L::ITEM_BYTES_MAX;
    (items * L::ITEM_BYTES_MAX).min(heavy).min(SENDER_BYTES / 2)
}

fn one_page<L: List>(page: &PageOf<L::Key>, list: &L) -> Result<Read, Problem> {
    let (mut found, mut bytes, wanted) = (Vec::new(), 0, page.items() + 1);
    let (mut looked_at, mut behind) = (None, None);
    // One for all that this page looks at, however few items are read at a time.
    let mut budget = LOOKED_AT_MAX;
    let more = loop {
        let asked = (wanted - found.len()).min(L::READ_MAX);
        let last = found.last().map(L::key);
        let BoundedPage { found: read, next, looked_at: looked, cost } =
            list.look(last.as_ref().or(page.after.as_ref()), asked, budget)?;
        let ended = read.len() < asked;
        budget = budget.saturating_sub(cost);
        looked_at = looked.map_or(looked_at, |looked| Some(looked_at.unwrap_or(0) + looked));
        bytes += read.iter().map(L::bytes).sum::<usize>();
        found.extend(read);
        if found.len() == wanted || (bytes >= PAGE_BYTES_MAX && found.len() > 1) {
            // The last one is left for the next page, so that there is one.
            found.pop();
            break true;
        }
        if ended {
            // As far as was looked; there may be more.
            behind = next;
            break behind.is_some();
        }
        if budget == 0 {
            break true;
        }
    };
    let last = behind.or_else(|| found.last().map(L::key));
    let last = last.map(|key| cursor::write(page.fingerprint, &key));
    let tail_cursor = if page.tail { last.clone().or_else(|| tail_of_nothing(page)) } else { None };
    let next_cursor = last.filter(|_| more);
    let items = found.iter().map(L::show).collect();
    let mut answer = ApiAnswer::ok(&ItemsPage { items, next_cursor, tail_cursor, looked_at });
    let compressed = if page.gzip { compression::page(&answer.body) } else { None };
    let is_compressed = compressed.is_some();
    answer.body = compressed.unwrap_or(answer.body);
    // One that leads on is not waited for.
    Ok(Read { answer, is_compressed, is_empty: found.is_empty() && !more })
}

/// Where a feed goes on that has nothing to show: where it was asked for, or from its beginning on.
fn tail_of_nothing<K: CursorKey>(page: &PageOf<K>) -> Option<String> {
    let beginning = K::before_all();
    let place = page.after.as_ref().or(beginning.as_ref())?;
    Some(cursor::write(page.fingerprint, place))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use net::shares::SenderKey;

    use super::*;
    use crate::cursor::NumberKey;
    use crate::row::Cells;

    /// Numbers, of which every 500th is meant, read a few at a time as what is large is.
    struct Sparse(Mutex<usize>);

    #[derive(Serialize)]
    struct Number(u64);

    impl CsvRow for Number {
        const COLUMNS: &'static [&'static str] = &["number"];

        fn write(&self, cells: &mut Cells<'_>) {
            cells.text(&self.0.to_string());
        }
    }

    const NUMBERS: u64 = 60_000;
    const STEP: u64 = 500;

    impl List for Sparse {
        type Key = NumberKey;
        type Found = u64;
        type Shown<'a> = Number;

        const READ_MAX: usize = 2;

        fn look(&self, after: Option<&NumberKey>, limit: usize, cost_max: usize) -> PageOfList<Self> {
            let mut page = BoundedPage::default();
            let from = after.map_or(0, |after| after.0 + 1);
            for number in from..NUMBERS {
                if page.found.len() == limit {
                    break;
                }
                if page.cost == cost_max {
                    page.next = Some(NumberKey(number - 1));
                    break;
                }
                page.cost += 1;
                page.found.extend(Some(number).filter(|number| number % STEP == 0));
            }
            *self.0.lock().expect("unpoisoned") += page.cost;
            Ok(BoundedPage { looked_at: Some(page.cost as u64), ..page })
        }

        fn key(number: &u64) -> NumberKey {
            NumberKey(*number)
        }

        fn show(number: &u64) -> Number {
            Number(*number)
        }
    }

    #[test]
    fn a_page_has_one_budget_however_few_items_are_read_at_a_time() {
        let (mut after, mut found) = (None, Vec::new());
        loop {
            let list = Sparse(Mutex::default());
            let page = PageOf {
                limit: Some(100),
                after,
                fingerprint: 0,
                form: ListForm::Page,
                tail: false,
                gzip: false,
                whose: SenderKey::Unknown,
                rights: None,
            };
            let read = one_page(&page, &list).expect("readable");
            let cost = *list.0.lock().expect("unpoisoned");
            assert!(cost <= LOOKED_AT_MAX, "a page cost {cost}");
            let answer: serde_json::Value = serde_json::from_slice(&read.answer.body).expect("JSON");
            assert_eq!(answer["looked_at"], cost);
            let items = answer["items"].as_array().expect("items").iter();
            found.extend(items.map(|item| item.as_u64().expect("a number")));
            let Some(text) = answer["next_cursor"].as_str() else { break };
            after = Some(cursor::read::<NumberKey>(0, text).expect("its own"));
        }
        assert_eq!(found, (0..NUMBERS).step_by(STEP as usize).collect::<Vec<_>>());
    }
}
