//! `fieldpost client`: the applications that are told, and their secrets.

mod portal;
mod view;

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use serde_json::{Map, Value};

use super::api::{ApiPath, ServerApi};
use super::failure::CommandFailure;
use super::input;
use super::list::{self, ListFlags};
use super::screen::Screen;
use super::table::plain;
use view::{ClientView, Rotated, TestAttempt};

/// What can be done with clients.
#[derive(Debug, Subcommand)]
pub enum ClientAction {
    /// Register a client; its secret is shown this once.
    Add(AddClient),
    /// List clients.
    Ls(ListClients),
    /// Show a client.
    Show(OneClient),
    /// Change a client's name or URL, or whether it is told of notices.
    Set(SetClient),
    /// Remove clients; nothing more goes out to them.
    Rm(SeveralClients),
    /// Give a client a new secret; the old one still signs beside it for 24 hours.
    RotateSecret(OneClient),
    /// Send one `client.test` now; exit 1 if the client does not take it.
    Test(OneClient),
    /// Open a portal: a short-lived link that shows one client to whoever has it.
    Portal(portal::OpenPortal),
    /// List the open portals of a client.
    Portals(OneClient),
    /// Close portals of a client.
    ClosePortal(portal::ClosePortalArgs),
    /// Tell a client the present state of all its devices.
    Resend(OneClient),
    /// Send to clients again.
    Enable(SeveralClients),
    /// Send nothing to clients until they are enabled.
    Disable(SeveralClients),
}

#[derive(Args, Debug)]
pub struct OneClient {
    /// The client.
    #[arg(value_name = "CLIENT")]
    id: String,
}

#[derive(Args, Debug)]
pub struct SeveralClients {
    /// The clients.
    #[arg(value_name = "CLIENT", required = true)]
    ids: Vec<String>,
}

#[derive(Args, Debug)]
pub struct AddClient {
    /// Its id; the server makes one where there is none.
    #[arg(value_name = "CLIENT", required_unless_present = "name")]
    id: Option<String>,
    /// Where notifications are posted.
    #[arg(long, value_name = "URL")]
    hook: String,
    /// What people call it; the id if left out.
    #[arg(long)]
    name: Option<String>,
    /// Tell it of notices too.
    #[arg(long)]
    notices: bool,
    /// Read its secret (`whsec_...`) from a file, - for stdin; the server makes one if left out.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct ListClients {
    /// Only those that are told of this device.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    #[command(flatten)]
    list_flags: ListFlags,
}

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("changes").required(true).multiple(true).args(["hook", "name", "notices"]))]
pub struct SetClient {
    /// The client.
    #[arg(value_name = "CLIENT")]
    id: String,
    /// Where notifications are posted.
    #[arg(long, value_name = "URL")]
    hook: Option<String>,
    /// What people call it.
    #[arg(long)]
    name: Option<String>,
    /// Whether it is told of notices.
    #[arg(long, value_name = "BOOL")]
    notices: Option<bool>,
}

impl ClientAction {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        match self {
            Self::Add(add) => add.run(api, screen),
            Self::Ls(ls) => ls.run(api, screen),
            Self::Show(OneClient { id }) => {
                let client = api.get(&of(id))?;
                screen.show(&client, || Ok(api.read::<ClientView>(&client)?.facts()))
            }
            Self::Set(set) => set.run(api, screen),
            Self::Rm(SeveralClients { ids }) => screen.each(ids, "removed", |id| api.delete(&of(id))),
            Self::RotateSecret(OneClient { id }) => {
                let rotated = api.call(&below(id, "rotate-secret"))?;
                screen.show(&rotated, || Ok(api.read::<Rotated>(&rotated)?.facts()))
            }
            Self::Test(OneClient { id }) => test(id, api, screen),
            Self::Portal(open) => open.run(api, screen),
            Self::Portals(OneClient { id }) => portal::list(id, api, screen),
            Self::ClosePortal(close) => close.run(api, screen),
            Self::Resend(OneClient { id }) => {
                api.start(&below(id, "resend"))?;
                screen.tell(&format!("{} will be told the state of its devices\n", plain(id)))
            }
            Self::Enable(SeveralClients { ids }) => {
                ids.iter().try_for_each(|id| switch(id, true, api, screen))
            }
            Self::Disable(SeveralClients { ids }) => {
                ids.iter().try_for_each(|id| switch(id, false, api, screen))
            }
        }
    }
}

impl AddClient {
    fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let mut body = Map::new();
        body.insert("url".to_owned(), self.hook.clone().into());
        if let Some(name) = self.name.as_ref().or(self.id.as_ref()) {
            body.insert("name".to_owned(), name.clone().into());
        }
        if let Some(id) = &self.id {
            body.insert("id".to_owned(), id.clone().into());
        }
        if self.notices {
            body.insert("notices".to_owned(), true.into());
        }
        if let Some(file) = &self.secret_file {
            body.insert("secret".to_owned(), input::whole(file)?.trim().into());
        }
        let client = api.post(&ApiPath::of(&["clients"]), &body)?;
        screen.show(&client, || Ok(api.read::<ClientView>(&client)?.facts()))
    }
}

impl ListClients {
    fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let path = match &self.device {
            Some(device) => ApiPath::of(&["devices", device, "clients"]),
            None => ApiPath::of(&["clients"]),
        };
        list::show::<ClientView>(api, screen, &path, &self.list_flags, "no clients")
    }
}

impl SetClient {
    fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let named = [("url", &self.hook), ("name", &self.name)];
        let changes = named.into_iter().filter_map(|(field, to)| Some((field, to.clone()?)));
        let mut changes: Map<String, Value> =
            changes.map(|(field, to)| (field.to_owned(), to.into())).collect();
        if let Some(notices) = self.notices {
            changes.insert("notices".to_owned(), notices.into());
        }
        let client = api.patch(&of(&self.id), &changes)?;
        screen.show(&client, || Ok(api.read::<ClientView>(&client)?.facts()))
    }
}

fn switch(id: &str, enabled: bool, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
    let client = api.patch(&of(id), &serde_json::json!({ "enabled": enabled }))?;
    let now = if enabled { "enabled" } else { "disabled" };
    screen.show(&client, || Ok(format!("{} {now}\n", plain(id))))
}

fn test(id: &str, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
    let answer = api.call(&below(id, "test"))?;
    let attempt: TestAttempt = api.read(&answer)?;
    screen.show(&answer, || Ok(attempt.sentence()))?;
    if attempt.is_success() {
        Ok(())
    } else {
        Err(CommandFailure::Incomplete(format!("{id} did not take the test; look at its URL and at its log")))
    }
}

fn of(id: &str) -> ApiPath {
    ApiPath::of(&["clients", id])
}

fn below(id: &str, what: &str) -> ApiPath {
    ApiPath::of(&["clients", id, what])
}
