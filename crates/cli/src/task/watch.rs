//! `fieldpost task watch`: what each device of a task says, as it comes, until the task has ended.
//!
//! Each look waits at the server for the next result. A server that goes away is waited for.

use clap::Args;
use serde_json::value::RawValue;

use super::of;
use super::view::{ResultView, TaskView};
use crate::api::ServerApi;
use crate::failure::CommandFailure;
use crate::follow::{self, PAGE_ITEMS_MAX};
use crate::list::{self, TableRow};
use crate::max_failed::{MaxFailed, max_failed};
use crate::polling::patiently;
use crate::screen::Screen;
use crate::table::TextTable;

/// How long a look waits for a result before it looks whether the task has ended without one.
const WAIT: &str = "1s";

#[derive(Args, Debug)]
pub struct WatchTask {
    /// The task.
    #[arg(value_name = "TASK")]
    id: String,
    #[command(flatten)]
    watch: TaskWatch,
}

/// When a task has gone well.
#[derive(Args, Debug)]
pub(super) struct TaskWatch {
    /// How many of the wanted good answers may be missing: a number, or a share such as 2%.
    #[arg(long, value_name = "N|SHARE%", default_value = "0", value_parser = max_failed)]
    max_failed: MaxFailed,
}

impl WatchTask {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        self.watch.follow(&self.id, api, screen)
    }
}

impl TaskWatch {
    /// Shows all results of a task, in the order in which they came, and at its end the task.
    pub(super) fn follow(
        &self,
        id: &str,
        api: &ServerApi,
        screen: &mut Screen,
    ) -> Result<(), CommandFailure> {
        let path = of(id).and(&["results"]).with("order", "asc").with("limit", &PAGE_ITEMS_MAX);
        let mut table = TextTable::new(ResultView::HEADINGS).within(screen.width());
        let mut cursor = None;
        let mut ended: Option<(TaskView, Box<RawValue>)> = None;
        loop {
            // After the end no result comes: what is there is shown, and not waited for.
            let path = path.clone().with_maybe("wait", ended.is_none().then_some(WAIT));
            let page = patiently(screen, || follow::look(api, &path, cursor.as_deref()))?;
            show(api, screen, &mut table, &page.items)?;
            let has_more = page.next_cursor.is_some();
            cursor = Some(page.after(api)?);
            if has_more {
                continue;
            }
            if let Some((task, document)) = ended {
                task.show_line(&document, screen)?;
                screen.flush()?;
                return task.verdict(self.max_failed);
            }
            let document = patiently(screen, || api.get(&of(id)))?;
            let task: TaskView = api.read(&document)?;
            ended = task.has_ended().then_some((task, document));
        }
    }
}

/// Some more results: for programs each an object of its own sort.
fn show(
    api: &ServerApi,
    screen: &mut Screen,
    table: &mut TextTable,
    results: &[Box<RawValue>],
) -> Result<(), CommandFailure> {
    if !screen.is_for_programs() {
        return list::show_items::<ResultView>(api, screen, table, results);
    }
    results.iter().try_for_each(|result| screen.show_as("result", result, String::new))?;
    screen.flush()
}
