//! `fieldpost device`: what is watched, and what became of what it said.

mod change;
mod desired;
mod export;
mod feed_tail;
mod timeline;
mod view;
mod watch;

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};

use super::api::{ApiPath, ServerApi};
use super::failure::CommandFailure;
use super::feed::FeedFlags;
use super::import::{self, ImportCount};
use super::list::{self, ListFlags};
use super::screen::Screen;
use super::table::plain;
use view::{DeviceView, EventView, ReadingView};

/// What can be done with devices.
#[derive(Debug, Subcommand)]
pub enum DeviceAction {
    /// Register a device.
    Add(change::AddDevice),
    /// List devices.
    Ls(ListDevices),
    /// Show a device, its state, and who is told of it.
    Show(OneDevice),
    /// Change a device.
    Set(change::SetDevice),
    /// Remove devices with their readings and events.
    Rm(SeveralDevices),
    /// Tell clients of a device from now on.
    Link(Link),
    /// Tell clients of a device no longer.
    Unlink(Link),
    /// Register or change devices from a file: one JSON object a line, with id, and what else there
    /// is to say.
    Import(ImportDevices),
    /// Write devices as lines that `device import` takes.
    Export(export::Export),
    /// Follow a device live: its state now, then every event and reading as it comes. Ctrl-C ends
    /// it.
    Watch(watch::WatchDevice),
    /// List what a device reported, the newest first.
    Readings(ListReadings),
    /// List changes, losses and restorations, the newest first.
    Events(ListEvents),
    /// List everything that happened to a device, the newest first: reports that changed something,
    /// losses, connects, every notification and every command.
    Timeline(timeline::TimelineFlags),
    /// Show what a device is to have and what it has confirmed, or change what it is to have.
    Desired(desired::Desired),
}

#[derive(Args, Debug)]
pub struct OneDevice {
    /// The device.
    #[arg(value_name = "DEVICE")]
    id: String,
}

#[derive(Args, Debug)]
pub struct SeveralDevices {
    /// The devices.
    #[arg(value_name = "DEVICE", required = true)]
    ids: Vec<String>,
}

/// Which devices.
#[derive(Args, Debug)]
pub(super) struct Filter {
    /// Only of this kind.
    #[arg(long)]
    kind: Option<String>,
    /// Only those that are online, lost or never seen.
    #[arg(long, value_enum)]
    connection: Option<ConnectionFlag>,
    /// Only with this label; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<Label>,
    /// Only those that a selector means: 'site=12,kind!=lock'.
    #[arg(long)]
    selector: Option<String>,
    /// Only those of this place, by the server's setting [fleet] place: CN_520000.
    #[arg(long)]
    place: Option<String>,
    /// Only those with a live MQTT session, or with =false those without.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    connected: Option<bool>,
    /// Only those with commands that have not ended, or with =false those without.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    waiting: Option<bool>,
}

#[derive(Args, Debug)]
pub struct ListDevices {
    #[command(flatten)]
    filter: Filter,
    /// Only those of which this client is told.
    #[arg(long, value_name = "CLIENT", conflicts_with_all = ["kind", "connection", "label", "selector", "place", "connected", "waiting"])]
    client: Option<String>,
    #[command(flatten)]
    list_flags: ListFlags,
}

#[derive(Args, Debug)]
pub struct Link {
    /// The device.
    #[arg(value_name = "DEVICE")]
    device: String,
    /// The clients.
    #[arg(value_name = "CLIENT", required = true)]
    clients: Vec<String>,
}

#[derive(Args, Debug)]
pub struct ImportDevices {
    /// The file, - for stdin.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Args, Debug)]
pub struct ListReadings {
    /// The device.
    #[arg(value_name = "DEVICE")]
    id: String,
    #[command(flatten)]
    feed: FeedFlags,
    #[command(flatten)]
    list_flags: ListFlags,
}

#[derive(Args, Debug)]
pub struct ListEvents {
    /// Only of this device.
    #[arg(value_name = "DEVICE")]
    device: Option<String>,
    /// Only of devices of which this client is told.
    #[arg(long)]
    client: Option<String>,
    /// Only of devices with this label; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<Label>,
    /// Only of this type.
    #[arg(long, value_enum, value_name = "TYPE")]
    r#type: Option<EventType>,
    #[command(flatten)]
    feed: FeedFlags,
    #[command(flatten)]
    list_flags: ListFlags,
}

/// Whether anything is heard of a device.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ConnectionFlag {
    /// It gives signs of life.
    Online,
    /// It fell silent.
    Lost,
    /// It never gave any.
    #[value(alias = "never_seen")]
    NeverSeen,
}

/// What happened.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum EventType {
    /// A new value.
    Changed,
    /// It fell silent.
    Lost,
    /// It was heard of again.
    Restored,
}

/// A label and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl FromStr for Label {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or("write it as KEY=VALUE")?;
        Ok(Self { key: key.to_owned(), value: value.to_owned() })
    }
}

impl Label {
    /// Only what has this label.
    pub(super) fn narrow(&self, path: ApiPath) -> ApiPath {
        path.with(&format!("label.{}", self.key), &self.value)
    }
}

impl Filter {
    fn of(&self, path: ApiPath) -> ApiPath {
        let connection = self.connection.map(|connection| match connection {
            ConnectionFlag::Online => "online",
            ConnectionFlag::Lost => "lost",
            ConnectionFlag::NeverSeen => "never_seen",
        });
        let path = path
            .with_maybe("kind", self.kind.as_ref())
            .with_maybe("connection", connection)
            .with_maybe("selector", self.selector.as_ref())
            .with_maybe("place", self.place.as_ref())
            .with_maybe("connected", self.connected)
            .with_maybe("waiting", self.waiting);
        self.label.iter().fold(path, |path, label| label.narrow(path))
    }
}

impl DeviceAction {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        match self {
            Self::Add(add) => add.run(api, screen),
            Self::Ls(ls) => ls.run(api, screen),
            Self::Show(OneDevice { id }) => show(id, api, screen),
            Self::Set(set) => set.run(api, screen),
            Self::Rm(SeveralDevices { ids }) => screen.each(ids, "removed", |id| api.delete(&of(id))),
            Self::Link(link) => link.each(|path, device, client| {
                api.put(path)?;
                screen.tell(&format!("{client} is told of {device}\n"))
            }),
            Self::Unlink(link) => link.each(|path, device, client| {
                api.delete(path)?;
                screen.tell(&format!("{client} is no longer told of {device}\n"))
            }),
            Self::Import(ImportDevices { file }) => {
                let counts = [ImportCount::Created, ImportCount::Updated];
                import::run(api, screen, &ApiPath::of(&["devices", "import"]), file, &counts)
            }
            Self::Export(export) => export.run(api, screen),
            Self::Watch(watch) => watch.run(api, screen),
            Self::Readings(ListReadings { id, feed, list_flags }) => {
                feed.show::<ReadingView>(api, screen, below(id, "readings"), list_flags, "no readings")
            }
            Self::Events(events) => events.run(api, screen),
            Self::Timeline(timeline) => timeline.run(api, screen),
            Self::Desired(desired) => desired.run(api, screen),
        }
    }
}

impl ListDevices {
    fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let path = match &self.client {
            Some(client) => ApiPath::of(&["clients", client, "devices"]),
            None => self.filter.of(ApiPath::of(&["devices"])),
        };
        list::show::<DeviceView>(api, screen, &path, &self.list_flags, "no devices")
    }
}

impl Link {
    fn each(
        &self,
        mut act: impl FnMut(&ApiPath, &str, &str) -> Result<(), CommandFailure>,
    ) -> Result<(), CommandFailure> {
        self.clients.iter().try_for_each(|client| {
            let path = ApiPath::of(&["devices", &self.device, "clients", client]);
            act(&path, &plain(&self.device), &plain(client))
        })
    }
}

impl ListEvents {
    fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let kind = self.r#type.map(|kind| match kind {
            EventType::Changed => "device.changed",
            EventType::Lost => "device.lost",
            EventType::Restored => "device.restored",
        });
        let path = ApiPath::of(&["events"])
            .with_maybe("device", self.device.as_ref())
            .with_maybe("client", self.client.as_ref())
            .with_maybe("type", kind);
        let path = self.label.iter().fold(path, |path, label| label.narrow(path));
        self.feed.show::<EventView>(api, screen, path, &self.list_flags, "no events")
    }
}

/// People also see who is told of it, which the API lists apart.
fn show(id: &str, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
    let document = api.get(&of(id))?;
    let text = || {
        let device: DeviceView = api.read(&document)?;
        Ok(device.facts(&clients_of(id, api)?))
    };
    screen.show(&document, text)
}

/// The ids of the clients that are told of a device; it has a hundred at most.
fn clients_of(id: &str, api: &ServerApi) -> Result<Vec<String>, CommandFailure> {
    #[derive(serde::Deserialize)]
    struct Client {
        id: String,
    }
    let mut ids = Vec::new();
    list::each_page(api, &below(id, "clients"), &ListFlags::ALL, |clients| {
        for client in clients {
            ids.push(api.read::<Client>(client)?.id);
        }
        Ok(())
    })?;
    Ok(ids)
}

fn of(id: &str) -> ApiPath {
    ApiPath::of(&["devices", id])
}

fn below(id: &str, what: &str) -> ApiPath {
    ApiPath::of(&["devices", id, what])
}
