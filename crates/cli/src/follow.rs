//! A feed that is followed: what is there, then every item as it comes, until Ctrl-C.
//!
//! The server keeps nothing for whoever follows. Each answer has a cursor for what comes after it,
//! which outlives the server's process too. A request at the end of a feed is answered when there
//! is something. A server that goes away is waited for.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::api::{ApiPath, ServerApi};
use super::failure::CommandFailure;
use super::list::{self, ListFlags, TableRow};
use super::polling::patiently;
use super::screen::Screen;
use super::table::TextTable;

/// How long the server is to wait for the first item. It may be up to 60 seconds, which is how long
/// an answer is waited for.
const WAIT: &str = "30s";
/// The most that the server puts into a page.
pub(super) const PAGE_ITEMS_MAX: u64 = 1_000;
/// At least between two looks that find nothing.
const PAUSE: Duration = Duration::from_secs(1);

/// An item of a feed.
pub(super) trait Timed: TableRow {
    /// By which the feed is ordered.
    fn time(&self) -> &str;
}

/// A page of a feed that is read from its oldest item on.
#[derive(Deserialize)]
pub(super) struct FollowedPage {
    pub(super) items: Vec<Box<RawValue>>,
    #[serde(default)]
    pub(super) next_cursor: Option<String>,
    #[serde(default)]
    tail_cursor: Option<String>,
}

impl FollowedPage {
    /// Where the feed goes on after this page.
    pub(super) fn after(self, api: &ServerApi) -> Result<String, CommandFailure> {
        let after = self.next_cursor.or(self.tail_cursor);
        after.ok_or_else(|| api.foreign("it gives no tail_cursor: it cannot be followed yet".to_owned()))
    }
}

/// Shows the feed of a path. It begins at the cursor of `list_flags`, at the path's own `from`, or
/// so that the newest items are shown that `list_flags` asks for. Ends only by a failure.
pub(super) fn run<R: Timed>(
    api: &ServerApi,
    screen: &mut Screen,
    path: &ApiPath,
    list_flags: &ListFlags,
    has_from: bool,
) -> Result<(), CommandFailure> {
    let begins_itself = has_from || list_flags.all || list_flags.cursor.is_some();
    let from = if begins_itself { None } else { time_of_nth_newest::<R>(api, path, list_flags.limit)? };
    let path = path.clone().with_maybe("from", from).with("order", "asc").with("limit", &PAGE_ITEMS_MAX);
    let path = path.with("wait", WAIT);
    let mut table = TextTable::new(R::HEADINGS).within(screen.width());
    let mut cursor = list_flags.cursor.clone();
    // A server that cannot even be reached for the first time is not waited for.
    let mut page = look(api, &path, cursor.as_deref())?;
    loop {
        list::show_items::<R>(api, screen, &mut table, &page.items)?;
        cursor = Some(page.after(api)?);
        page = wait_for_more(api, screen, &path, cursor.as_deref())?;
    }
}

/// The next look that has something to show or another place to go on from.
fn wait_for_more(
    api: &ServerApi,
    screen: &Screen,
    path: &ApiPath,
    cursor: Option<&str>,
) -> Result<FollowedPage, CommandFailure> {
    let began = Instant::now();
    let page = patiently(screen, || look(api, path, cursor))?;
    if page.items.is_empty() {
        sleep(PAUSE.saturating_sub(began.elapsed()));
    }
    Ok(page)
}

/// The page of a feed that begins at a cursor.
pub(super) fn look(
    api: &ServerApi,
    path: &ApiPath,
    cursor: Option<&str>,
) -> Result<FollowedPage, CommandFailure> {
    api.read(&api.get(&path.clone().with_maybe("cursor", cursor))?)
}

/// The time from which on there are so many items now; `None` where there are none.
fn time_of_nth_newest<R: Timed>(
    api: &ServerApi,
    path: &ApiPath,
    nth: u64,
) -> Result<Option<String>, CommandFailure> {
    let mut time = None;
    list::each_page(api, &path.clone().with("order", "desc"), &ListFlags::up_to(nth), |items| {
        if let Some(oldest) = items.last() {
            time = Some(api.read::<R>(oldest)?.time().to_owned());
        }
        Ok(())
    })?;
    Ok(time)
}
