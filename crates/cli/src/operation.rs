//! `fieldpost operation`: one action on everything that matches.

mod run;
mod view;

use clap::{Args, Subcommand};

use super::api::{ApiPath, ServerApi};
use super::failure::CommandFailure;
use super::list::{self, ListFlags};
use super::screen::Screen;
use view::OperationView;

/// What can be done with operations.
#[derive(Debug, Subcommand)]
pub enum OperationCommand {
    /// Do one action to everything that matches. The operation is durable when this returns, and
    /// goes on by itself.
    Run(Box<run::RunOperation>),
    /// List operations, the newest first.
    Ls(ListOperations),
    /// Show an operation, and how far it has come.
    Show(OneOperation),
    /// Have operations do no more: what was done stays done.
    Cancel(SeveralOperations),
}

#[derive(Args, Debug)]
pub struct OneOperation {
    /// The operation.
    #[arg(value_name = "OPERATION")]
    id: String,
}

#[derive(Args, Debug)]
pub struct SeveralOperations {
    /// The operations.
    #[arg(value_name = "OPERATION", required = true)]
    ids: Vec<String>,
}

#[derive(Args, Debug)]
pub struct ListOperations {
    #[command(flatten)]
    list_flags: ListFlags,
}

impl OperationCommand {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        match self {
            Self::Run(run) => run.run(api, screen),
            Self::Ls(ListOperations { list_flags }) => {
                let path = ApiPath::of(&["operations"]);
                list::show::<OperationView>(api, screen, &path, list_flags, "no operations")
            }
            Self::Show(OneOperation { id }) => {
                let operation = api.get(&of(id))?;
                screen.show(&operation, || Ok(api.read::<OperationView>(&operation)?.facts()))
            }
            Self::Cancel(SeveralOperations { ids }) => {
                screen.each(ids, "cancelled", |id| api.delete(&of(id)))
            }
        }
    }
}

fn of(id: &str) -> ApiPath {
    ApiPath::of(&["operations", id])
}
