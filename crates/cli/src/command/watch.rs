//! `fieldpost command watch`: commands live until they have ended.
//!
//! It asks again and again, from this side; the server keeps nothing for it. A server that goes
//! away is waited for.

use std::thread::sleep;
use std::time::Duration;

use clap::{ArgGroup, Args};

use super::view::CommandView;
use super::{of, open_statuses};
use crate::api::{ApiPath, ServerApi};
use crate::failure::CommandFailure;
use crate::list::{self, ListFlags};
use crate::polling::{interval, patiently};
use crate::screen::Screen;

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("which").required(true).args(["id", "device"]))]
pub struct WatchCommands {
    /// The command.
    #[arg(value_name = "COMMAND")]
    id: Option<String>,
    /// All commands of this device that have not ended now, in place of COMMAND.
    #[arg(long)]
    device: Option<String>,
    /// How long to wait between two looks.
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = interval)]
    every: Duration,
}

/// A command that is watched, and how it was shown last.
struct WatchedCommand {
    id: String,
    shown: String,
}

impl WatchCommands {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let ids = match (&self.id, &self.device) {
            (Some(id), _) => vec![id.clone()],
            (None, device) => open_commands(device.as_deref().unwrap_or_default(), api)?,
        };
        if ids.is_empty() {
            screen.note("no commands that have not ended");
        }
        let mut watched: Vec<_> =
            ids.into_iter().map(|id| WatchedCommand { id, shown: String::new() }).collect();
        let mut verdict = Ok(());
        while !watched.is_empty() {
            let mut open = Vec::with_capacity(watched.len());
            for mut command in watched {
                let view = self.look(&mut command, api, screen)?;
                if view.has_ended() {
                    verdict = verdict.and(view.verdict());
                } else {
                    open.push(command);
                }
            }
            screen.flush()?;
            watched = open;
            if !watched.is_empty() {
                sleep(self.every);
            }
        }
        verdict
    }

    /// Shows a command if anything about it is new.
    fn look(
        &self,
        command: &mut WatchedCommand,
        api: &ServerApi,
        screen: &mut Screen,
    ) -> Result<CommandView, CommandFailure> {
        let document = patiently(screen, || api.get(&of(&command.id)))?;
        let view: CommandView = api.read(&document)?;
        if command.shown != document.get() {
            document.get().clone_into(&mut command.shown);
            screen.show(&document, || Ok(view.line()))?;
        }
        Ok(view)
    }
}

/// The ids of a device's commands that have not ended, the oldest first.
fn open_commands(device: &str, api: &ServerApi) -> Result<Vec<String>, CommandFailure> {
    let mut found = Vec::new();
    for status in open_statuses() {
        let path = ApiPath::of(&["devices", device, "commands"]).with("status", status);
        list::each_page(api, &path.with("order", "asc"), &ListFlags::ALL, |items| {
            for item in items {
                found.push(api.read::<CommandView>(item)?.id);
            }
            Ok(())
        })?;
    }
    // Ids are in order of time. A command that moved on between two lists is in both.
    found.sort();
    found.dedup();
    Ok(found)
}
