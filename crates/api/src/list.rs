//! Lists: what each says of itself, and the answer with a page of it.
//!
//! One item more than asked for is read, so that `next_cursor` is null exactly where the list ends now. The same lists in
//! other forms, from one end to the other, are in [`crate::export`].

use axum::response::{IntoResponse, Response};
use base::Problem;
use serde::Serialize;

use crate::ApiState;
use crate::answer::Answer;
use crate::cursor::{self, Key};
use crate::export;
use crate::page::{Form, PageOf};
use crate::problem::Refused;
use crate::row::Row;

/// A list that can be read from any of its items on.
pub(crate) trait List: Send + Sync + 'static {
    /// The place of an item.
    type Key: Key + Send + Sync + 'static;
    /// An item as it is found.
    type Found;
    /// An item as it is shown.
    type Shown<'a>: Serialize + Row;

    /// At most `limit` items behind `after`; fewer only at the end of the list. Reads the store.
    fn read(&self, after: Option<&Self::Key>, limit: usize) -> Result<Vec<Self::Found>, Problem>;

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
        Form::Page => {
            // Whoever waits for room waits among those who wait for their turn.
            let place = api.shared.lists.enter()?;
            let held = api.shared.pages.room(page.items() + 1).await;
            let answer = place.run(move || one_page(&page, &list)).await?;
            Ok(held.until_sent(answer.into_response()))
        }
        Form::Export(rows) => Ok(export::all(api, rows, page, list).await?),
    }
}

#[derive(Serialize)]
struct Items<S> {
    items: Vec<S>,
    next_cursor: Option<String>,
}

fn one_page<L: List>(page: &PageOf<L::Key>, list: &L) -> Result<Answer, Problem> {
    let mut found = list.read(page.after.as_ref(), page.items() + 1)?;
    let more = found.len() > page.items();
    found.truncate(page.items());
    let last = found.last().filter(|_| more).map(L::key);
    let next_cursor = last.map(|key| cursor::write(page.fingerprint, &key));
    Ok(Answer::ok(&Items { items: found.iter().map(L::show).collect(), next_cursor }))
}
