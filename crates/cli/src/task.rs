//! `fieldpost task`: some devices of many are asked once.

mod run;
mod view;
mod watch;

use clap::{Args, Subcommand};

use super::api::{ApiPath, ServerApi};
use super::failure::CommandFailure;
use super::feed::SortOrder;
use super::list::{self, ListFlags};
use super::screen::Screen;
pub(super) use view::ResultView;
use view::TaskView;

/// What can be done with tasks.
#[derive(Debug, Subcommand)]
pub enum TaskAction {
    /// Ask some devices, and show what each says as it comes. The server goes on when this is
    /// interrupted. Exit code: 0 when as many devices as were wanted gave a good answer, 1 when
    /// not.
    Run(Box<run::RunTask>),
    /// Show a task: how many devices were picked, and what came of it.
    Show(OneTask),
    /// List what came of each device, the newest first.
    Results(ListResults),
    /// Show what came of each device, now and as it comes, until the task has ended. Exit code as
    /// of `task run`.
    Watch(watch::WatchTask),
    /// Stop tasks: what was not sent to a device yet is cancelled.
    Cancel(SeveralTasks),
}

#[derive(Args, Debug)]
pub struct OneTask {
    /// The task.
    #[arg(value_name = "TASK")]
    id: String,
}

#[derive(Args, Debug)]
pub struct SeveralTasks {
    /// The tasks.
    #[arg(value_name = "TASK", required = true)]
    ids: Vec<String>,
}

#[derive(Args, Debug)]
pub struct ListResults {
    /// The task.
    #[arg(value_name = "TASK")]
    id: String,
    /// Oldest or newest first: desc if left out.
    #[arg(long, value_enum, value_name = "ORDER")]
    order: Option<SortOrder>,
    #[command(flatten)]
    list_flags: ListFlags,
}

impl TaskAction {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        match self {
            Self::Run(run) => run.run(api, screen),
            Self::Show(OneTask { id }) => {
                let task = api.get(&of(id))?;
                screen.show(&task, || Ok(api.read::<TaskView>(&task)?.facts()))
            }
            Self::Results(ListResults { id, order, list_flags }) => {
                let path = of(id).and(&["results"]).with_maybe("order", order.map(SortOrder::as_str));
                list::show::<ResultView>(api, screen, &path, list_flags, "no results")
            }
            Self::Watch(watch) => watch.run(api, screen),
            Self::Cancel(SeveralTasks { ids }) => screen.each(ids, "cancelled", |id| api.delete(&of(id))),
        }
    }
}

fn of(id: &str) -> ApiPath {
    ApiPath::of(&["tasks", id])
}
