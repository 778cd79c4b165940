//! Lists: as many pages as were asked for, each shown as it comes.

use clap::Args;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::api::{ApiPath, ServerApi};
use super::failure::CommandFailure;
use super::screen::Screen;
use super::table::{Cell, TextTable};

/// The most that the server puts into a page.
const PAGE_ITEMS_MAX: u64 = 1_000;

/// How much of a list is shown.
#[derive(Args, Debug)]
#[command(next_help_heading = "List")]
pub(super) struct ListFlags {
    /// Show at most so many.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) limit: u64,
    /// Show all, however many there are.
    #[arg(long, conflicts_with = "limit")]
    pub(super) all: bool,
    /// Go on where another list ended.
    #[arg(long, value_name = "CURSOR")]
    pub(super) cursor: Option<String>,
}

impl ListFlags {
    /// Everything from the beginning.
    pub(super) const ALL: Self = Self { limit: PAGE_ITEMS_MAX, all: true, cursor: None };

    /// The first so many.
    pub(super) fn up_to(limit: u64) -> Self {
        Self { limit, all: false, cursor: None }
    }
}

/// An item that people see as a row.
pub(super) trait TableRow: DeserializeOwned {
    const HEADINGS: &'static [&'static str];

    fn cells(&self) -> Vec<Cell>;
}

#[derive(Deserialize)]
struct ListPage {
    items: Vec<Box<RawValue>>,
    #[serde(default)]
    next_cursor: Option<String>,
}

/// Shows a list: a table, or an item a line. `nothing` is what people are told of an empty one.
pub(super) fn show<R: TableRow>(
    api: &ServerApi,
    screen: &mut Screen,
    path: &ApiPath,
    list_flags: &ListFlags,
    nothing: &str,
) -> Result<(), CommandFailure> {
    let mut table = TextTable::new(R::HEADINGS).within(screen.width());
    let mut count = 0;
    let rest = each_page(api, path, list_flags, |items| {
        count += items.len();
        show_items::<R>(api, screen, &mut table, items)
    })?;
    if count == 0 && !screen.is_for_programs() {
        screen.note(nothing);
    }
    if let Some(cursor) = rest {
        // The cursor has a line of its own, so that both fit a terminal.
        screen.note(&format!("there are more: --all shows them, or go on with\n--cursor {cursor}"));
    }
    Ok(())
}

/// Shows some more items of a list.
pub(super) fn show_items<R: TableRow>(
    api: &ServerApi,
    screen: &mut Screen,
    table: &mut TextTable,
    items: &[Box<RawValue>],
) -> Result<(), CommandFailure> {
    if screen.is_for_programs() {
        items.iter().try_for_each(|item| screen.write_line(item.get()))?;
    } else {
        let rows = items.iter().map(|item| api.read::<R>(item).map(|row| row.cells()));
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        screen.tell(&table.lines(&rows))?;
    }
    screen.flush()
}

/// Hands over page after page; the cursor of what is left, if anything is.
pub(super) fn each_page(
    api: &ServerApi,
    path: &ApiPath,
    list_flags: &ListFlags,
    mut take: impl FnMut(&[Box<RawValue>]) -> Result<(), CommandFailure>,
) -> Result<Option<String>, CommandFailure> {
    let mut cursor = list_flags.cursor.clone();
    let mut left = if list_flags.all { u64::MAX } else { list_flags.limit };
    loop {
        let asked =
            path.clone().with("limit", &left.min(PAGE_ITEMS_MAX)).with_maybe("cursor", cursor.as_ref());
        let page: ListPage = api.read(&api.get(&asked)?)?;
        left = left.saturating_sub(page.items.len() as u64);
        take(&page.items)?;
        cursor = page.next_cursor;
        if cursor.is_none() || left == 0 {
            return Ok(cursor);
        }
    }
}
