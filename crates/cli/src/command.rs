//! `fieldpost command`: devices are told to do something, and what becomes of it is seen.

mod send;
mod terms;
mod view;
mod watch;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use fieldpost_client::CommandStatus;

use super::api::{ApiPath, ServerApi};
use super::device::Label;
use super::failure::CommandFailure;
use super::feed::FeedFlags;
use super::list::ListFlags;
use super::screen::Screen;
pub(super) use terms::TermFlags;
use view::CommandView;

/// What can be done with commands.
#[derive(Debug, Subcommand)]
pub enum CommandAction {
    /// Tell a device to do something. The command is durable when this returns; it goes out as soon
    /// as the device is reachable, again and again until the device answers.
    Send(Box<send::SendCommand>),
    /// List commands, the newest first.
    Ls(LsCommands),
    /// Show a command: where it stands, and what the device said.
    Show {
        /// The command.
        #[arg(value_name = "COMMAND")]
        id: String,
    },
    /// Follow a command until it has ended, or all that a device has open. Exit code: 0 when the
    /// device did it, 1 when not.
    Watch(watch::WatchCommands),
    /// Call commands off that have not ended.
    Cancel(CommandIds),
    /// Try failed, expired or cancelled commands anew, under the same ids.
    Retry(CommandIds),
}

#[derive(Args, Debug)]
pub struct CommandIds {
    /// The commands.
    #[arg(value_name = "COMMAND", required = true)]
    ids: Vec<String>,
}

#[derive(Args, Debug)]
pub struct LsCommands {
    /// Only of this device.
    #[arg(long)]
    device: Option<String>,
    /// Only those of this status.
    #[arg(long, value_parser = PossibleValuesParser::new(CommandStatus::ALL.map(CommandStatus::as_str)))]
    status: Option<String>,
    /// Only of devices with this label; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<Label>,
    /// Only those of this origin.
    #[arg(long, value_name = "TEXT")]
    origin: Option<String>,
    #[command(flatten)]
    feed: FeedFlags,
    #[command(flatten)]
    list_flags: ListFlags,
}

/// The statuses of commands that have not ended.
fn open_statuses() -> impl Iterator<Item = &'static str> {
    CommandStatus::ALL.into_iter().filter(|status| !status.has_ended()).map(CommandStatus::as_str)
}

impl CommandAction {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        match self {
            Self::Send(send) => send.run(api, screen),
            Self::Ls(ls) => ls.run(api, screen),
            Self::Show { id } => {
                let command = api.get(&of(id))?;
                screen.show(&command, || Ok(api.read::<CommandView>(&command)?.facts()))
            }
            Self::Watch(watch) => watch.run(api, screen),
            Self::Cancel(CommandIds { ids }) => screen.each(ids, "cancelled", |id| api.delete(&of(id))),
            Self::Retry(CommandIds { ids }) => {
                screen.each(ids, "is tried anew", |id| api.start(&of(id).and(&["retry"])))
            }
        }
    }
}

impl LsCommands {
    fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let path = ApiPath::of(&["commands"])
            .with_maybe("device", self.device.as_ref())
            .with_maybe("status", self.status.as_ref())
            .with_maybe("origin", self.origin.as_ref());
        let path = self.label.iter().fold(path, |path, label| label.narrow(path));
        self.feed.show::<CommandView>(api, screen, path, &self.list_flags, "no commands")
    }
}

fn of(id: &str) -> ApiPath {
    ApiPath::of(&["commands", id])
}
