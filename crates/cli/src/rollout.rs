//! `fieldpost rollout`: one command to many devices, handed out little by little.

mod run;
mod view;
mod watch;

use clap::{Args, Subcommand};

use super::api::{ApiPath, ServerApi};
use super::failure::CommandFailure;
use super::list::{self, ListFlags};
use super::screen::Screen;
use view::{RolloutDeviceView, RolloutView};

/// What can be done with rollouts.
#[derive(Debug, Subcommand)]
pub enum RolloutAction {
    /// Give many devices a command. The rollout is durable when this returns, and goes on by
    /// itself.
    Run(Box<run::RunRollout>),
    /// List rollouts, in order of id.
    Ls(ListRollouts),
    /// Show a rollout: how many of its devices stand where.
    Show(OneRollout),
    /// List the devices of a rollout, in the order of their turns.
    Devices(ListRolloutDevices),
    /// Follow a rollout until it has ended, or has stopped. Exit code: 0 when it is done and not
    /// too many devices failed, 1 when not.
    Watch(watch::WatchRollout),
    /// Hand out nothing more until it is resumed.
    Pause(SeveralRollouts),
    /// Go on with rollouts that were paused, or have stopped.
    Resume(SeveralRollouts),
    /// Approve the present stage, so that the next one may begin.
    Approve(SeveralRollouts),
    /// Cancel what was not sent.
    Cancel(SeveralRollouts),
}

#[derive(Args, Debug)]
pub struct OneRollout {
    /// The rollout.
    #[arg(value_name = "ROLLOUT")]
    id: String,
}

#[derive(Args, Debug)]
pub struct SeveralRollouts {
    /// The rollouts.
    #[arg(value_name = "ROLLOUT", required = true)]
    ids: Vec<String>,
}

#[derive(Args, Debug)]
pub struct ListRollouts {
    #[command(flatten)]
    list_flags: ListFlags,
}

#[derive(Args, Debug)]
pub struct ListRolloutDevices {
    /// The rollout.
    #[arg(value_name = "ROLLOUT")]
    id: String,
    /// Only those that stand there: waiting, scheduled, published, acknowledged, failed, expired,
    /// superseded or cancelled.
    #[arg(long)]
    status: Option<String>,
    #[command(flatten)]
    list_flags: ListFlags,
}

impl RolloutAction {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        match self {
            Self::Run(run) => run.run(api, screen),
            Self::Ls(ListRollouts { list_flags }) => {
                list::show::<RolloutView>(api, screen, &ApiPath::of(&["rollouts"]), list_flags, "no rollouts")
            }
            Self::Show(OneRollout { id }) => {
                let rollout = api.get(&of(id))?;
                screen.show(&rollout, || Ok(api.read::<RolloutView>(&rollout)?.facts()))
            }
            Self::Devices(ListRolloutDevices { id, status, list_flags }) => {
                let path = of(id).and(&["devices"]).with_maybe("status", status.as_ref());
                list::show::<RolloutDeviceView>(api, screen, &path, list_flags, "no devices")
            }
            Self::Watch(watch) => watch.run(api, screen),
            Self::Pause(SeveralRollouts { ids }) => tell(ids, "pause", "is paused", api, screen),
            Self::Resume(SeveralRollouts { ids }) => tell(ids, "resume", "goes on", api, screen),
            Self::Approve(SeveralRollouts { ids }) => tell(ids, "approve", "is approved", api, screen),
            Self::Cancel(SeveralRollouts { ids }) => screen.each(ids, "cancelled", |id| api.delete(&of(id))),
        }
    }
}

fn tell(
    ids: &[String],
    what: &str,
    done: &str,
    api: &ServerApi,
    screen: &mut Screen,
) -> Result<(), CommandFailure> {
    screen.each(ids, done, |id| api.start(&of(id).and(&[what])))
}

fn of(id: &str) -> ApiPath {
    ApiPath::of(&["rollouts", id])
}
