//! The settings of a server: read once at the start, checked whole, passed down as plain values.
//!
//! `default.toml` is the manual, and the one place where keys and defaults are declared. It is the
//! lowest layer, and a key that is not in it does not exist. A file, `FIELDPOST_` variables and
//! flags lie above it, in that order. Every mistake of every layer is found in one pass, each with
//! its file and line or the name of its variable.
//!
//! Nothing here opens a socket or makes a directory; what a setting means is told where it is used.
//! Files that settings name are checked too, those of a certificate as the caller says.

mod auth;
mod campaigns;
mod commands;
mod coordination;
mod entry;
mod http;
mod in_force;
mod kinds;
mod layers;
mod listeners;
mod mistake;
mod names;
mod notices;
mod operations;
mod reader;
mod relay;
pub(crate) mod secret_file;
mod shape;
mod storages;
mod streams;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::DeviceIdAlphabet;
use engine::notices::NoticeSettings;
use engine::{CampaignSettings, CommandSettings, OperationSettings};
use gateway::amqp::{AmqpQueueName, AmqpUrl};
use gateway::decode::kinds::KindForms;

pub(crate) use auth::AuthSettings;
pub(crate) use http::HttpSettings;
pub(crate) use in_force::InForce;
pub(crate) use mistake::ConfigErrors;
pub(crate) use relay::RelaySettings;
pub(crate) use storages::{StorageEntry, StorageEntryKind};

use layers::Layers;
use listeners::{connections_max, grpc_listen, lmstfy_listen, mqtt_listen};
use names::{LabelKey, NameList};
use notices::NoticesOfMachine;
use reader::SettingsReader;
use shape::{
    AmqpQueueShape, AmqpUrlOrOff, Bytes, DirectoryShape, DurationRange, FileOrNone, NodeName, Prefetch,
    Switch, Whole, Word,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
/// How long history may be kept.
const KEPT_FOR: DurationRange = DurationRange(DAY, Duration::from_secs(3_650 * 86_400));

/// Everything a server is told about itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServerSettings {
    /// Where everything is kept.
    pub data_dir: PathBuf,
    /// Who is let in.
    pub auth: AuthSettings,
    /// The server's certificate, if it speaks TLS.
    pub tls: Option<TlsSettings>,
    /// The REST API.
    pub http: HttpSettings,
    /// Jobs and reports over gRPC.
    pub grpc: GrpcSettings,
    /// The way in over MQTT.
    pub mqtt: MqttSettings,
    /// lmstfy's API.
    pub lmstfy: LmstfySettings,
    /// The way in over AMQP.
    pub amqp: AmqpSettings,
    /// The outbox relay inside the server.
    pub relay: RelaySettings,
    /// What holds for every device that does not say otherwise.
    pub devices: DevicesSettings,
    /// The labels that the segments of a place are: `[fleet] place`.
    pub place: Vec<String>,
    /// How clients are told.
    pub notify: NotifySettings,
    /// How commands go out: `[commands]`, and what `[kinds.NAME]` says of them.
    pub commands: CommandSettings,
    /// The topics and messages that kinds have of their own.
    pub kinds: Arc<KindForms>,
    /// `[operations]`
    pub operations: OperationSettings,
    /// `[campaigns]`, and what `[fleet]` and tokens say of picks.
    pub campaigns: CampaignSettings,
    /// `[notices]`
    pub notices: NoticeSettings,
    /// `[notices]`, of the machine.
    pub notices_of_machine: NoticesOfMachine,
    /// For how long things are kept.
    pub history: HistorySettings,
    /// What is kept of refused reports.
    pub quarantine: QuarantineSettings,
    /// `[jobs]`
    pub jobs: JobsSettings,
    /// `[node] name`; `None` is the lineage of the data.
    pub node_name: Option<Box<str>>,
    /// `[streams] memory`, in bytes.
    pub streams_memory_bytes: usize,
    /// `[streams] disk_free`, in bytes; `None` where the disk is not watched for streams.
    pub streams_disk_free_bytes: Option<u64>,
    /// `[[storages]]`
    pub storages: Vec<StorageEntry>,
    /// `[coordination]`
    pub coordination: engine::CoordinationSettings,
    /// What an answer may rest on.
    pub durability: Durability,
    /// `[store] memory`, in bytes.
    pub store_memory_bytes: usize,
    /// What is right and has no effect, a line each.
    pub warnings: Vec<String>,
}

/// `[tls]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsSettings {
    /// The certificate, with those that lead from it to an authority behind it; PEM.
    pub cert: PathBuf,
    /// Its private key; PEM.
    pub key: PathBuf,
}

/// What keeps a certificate from being served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The key that names the file.
    pub key: &'static str,
    /// What is wrong.
    pub wrong: String,
    /// What would be right.
    pub right: &'static str,
}

/// `[grpc]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GrpcSettings {
    /// Where it listens; `None` when it is off.
    pub listen: Option<SocketAddr>,
    /// Connections at a time.
    pub connections_max: usize,
}

/// `[mqtt]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MqttSettings {
    /// Where it listens; `None` when this way in is off.
    pub listen: Option<SocketAddr>,
    /// Connections at a time.
    pub connections_max: usize,
    /// Connections and waiting sessions of one login.
    pub connections_per_login_max: usize,
    /// Whether subscribers receive copies of reports.
    pub mirror: bool,
}

/// `[lmstfy]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LmstfySettings {
    /// Where its API listens; `None` when it is off.
    pub listen: Option<SocketAddr>,
    /// Where its admin API listens; `None` when it is off.
    pub admin_listen: Option<SocketAddr>,
}

/// `[amqp]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AmqpSettings {
    /// The RabbitMQ server; `None` when this way in is off.
    pub url: Option<AmqpUrl>,
    /// The queue that is consumed.
    pub queue: AmqpQueueName,
    /// Messages that RabbitMQ may send ahead of their acknowledgement.
    pub prefetch: NonZeroU16,
}

/// `[devices]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DevicesSettings {
    /// Longest id that may be registered, in characters; never over
    /// `base::limits::DEVICE_ID_CHARS_MAX`.
    pub id_max_len: usize,
    /// The characters of ids that may be registered.
    pub id_chars: DeviceIdAlphabet,
    /// What a report of an unknown device does.
    pub unknown: UnknownDeviceChoice,
    /// How often a device gives a sign of life.
    pub report_interval: Duration,
    /// How much longer it may be silent before it is lost.
    pub loss_grace: Duration,
    /// After a start, how long silence is not counted.
    pub restart_grace: Duration,
}

/// What a report of an unknown device does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnknownDeviceChoice {
    /// It is refused.
    Reject,
    /// It makes the device.
    Register,
}

/// `[notify]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotifySettings {
    /// The delay after the first failed attempt; later ones grow with the logarithm of their
    /// number.
    pub retry_base: Duration,
    /// The longest delay between two attempts.
    pub retry_max: Duration,
    /// How often one notification tries a client whose newest ones have failed for good.
    pub stale_probe: Duration,
    /// Attempts before a notification is given up.
    pub max_attempts: u32,
    /// How long an attempt waits for the answer.
    pub timeout: Duration,
    /// Attempts under way to one client at a time.
    pub per_client_in_flight: usize,
    /// Whether private addresses may be called.
    pub allow_private: bool,
}

/// `[history]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HistorySettings {
    /// How long readings are kept.
    pub readings: Duration,
    /// How long events, and the counts of everything, are kept.
    pub events: Duration,
    /// How long notifications and their attempts are kept.
    pub deliveries: Duration,
}

/// `[jobs]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobsSettings {
    /// Most jobs of a partition that are in memory.
    pub resident_max: usize,
}

/// `[quarantine]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuarantineSettings {
    /// How much the refused reports of all devices may take together; the oldest go first.
    pub bytes_max: u64,
    /// How long a refused report is kept.
    pub age_max: Duration,
}

/// `[durability]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// What is answered is synced.
    Always,
    /// What is answered is synced at most so long afterwards.
    Interval(Duration),
}

impl ServerSettings {
    /// Reads all layers: the defaults, `file`, the variables that begin with `FIELDPOST_`,
    /// `--data-dir`.
    ///
    /// Pass `std::env::vars_os()`; other variables are ignored. `faults_of` says what is wrong with
    /// the files of a certificate.
    ///
    /// # Errors
    /// Every mistake of every layer, and every fault of the files that they name.
    pub(crate) fn load(
        file: Option<&Path>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        data_dir_flag: Option<&Path>,
        faults_of: impl Fn(&TlsSettings) -> Vec<Fault>,
    ) -> Result<Self, ConfigErrors> {
        Self::load_shown(file, variables, data_dir_flag, faults_of).map(|(settings, _)| settings)
    }

    /// The same, with the settings in force as they may be shown.
    ///
    /// # Errors
    /// See [`ServerSettings::load`].
    pub(crate) fn load_shown(
        file: Option<&Path>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        data_dir_flag: Option<&Path>,
        faults_of: impl Fn(&TlsSettings) -> Vec<Fault>,
    ) -> Result<(Self, InForce), ConfigErrors> {
        let mut layers = Layers::of_defaults();
        if let Some(path) = file {
            layers.add_file(path);
        }
        layers.add_variables(variables);
        if let Some(directory) = data_dir_flag {
            layers.add_data_dir_flag(directory);
        }
        let (settings, mut from) = Self::read(layers);
        for Fault { key, wrong, right } in settings.tls.iter().flat_map(faults_of) {
            from.refuse(key, &wrong, right);
        }
        storages::look(&settings.storages, &settings.data_dir, &mut from);
        let in_force = from.in_force();
        from.finish(settings).map(|settings| (settings, in_force))
    }

    /// What the layers say, and their mistakes so far. Files that they name are not looked at.
    fn read(layers: Layers) -> (Self, SettingsReader) {
        let mut from = SettingsReader::new(layers);
        let commands = commands::read(&mut from);
        let kinds = kinds::read(&mut from, commands.pace);
        let auth = auth::read(&mut from);
        let (http, warnings) = http::read(&mut from, !auth.tokens.is_empty());
        let settings = Self {
            data_dir: from.read("data_dir", &DirectoryShape).value,
            campaigns: campaigns::read(&mut from, &auth.tokens),
            auth,
            tls: tls(&mut from),
            http,
            grpc: GrpcSettings {
                listen: grpc_listen(&mut from),
                connections_max: connections_max(&mut from, "grpc.connections_max"),
            },
            mqtt: MqttSettings {
                listen: mqtt_listen(&mut from),
                connections_max: connections_max(&mut from, "mqtt.connections_max"),
                connections_per_login_max: connections_max(&mut from, "mqtt.connections_per_login_max"),
                mirror: from.read("mqtt.mirror", &Switch).value,
            },
            lmstfy: LmstfySettings {
                listen: lmstfy_listen(&mut from, "lmstfy.listen"),
                admin_listen: lmstfy_listen(&mut from, "lmstfy.admin_listen"),
            },
            amqp: amqp(&mut from),
            relay: relay::read(&mut from),
            devices: devices(&mut from),
            place: from.read("fleet.place", &NameList(LabelKey)).value,
            notify: notify(&mut from),
            commands: CommandSettings { by_kind: kinds.paces, ..commands },
            kinds: Arc::new(kinds.forms),
            operations: operations::read(&mut from),
            notices: notices::read(&mut from),
            notices_of_machine: notices::of_machine(&mut from),
            history: history(&mut from),
            quarantine: quarantine(&mut from),
            jobs: jobs(&mut from),
            node_name: from.read("node.name", &NodeName).value,
            streams_memory_bytes: memory_bytes(&mut from, "streams.memory"),
            streams_disk_free_bytes: streams::disk_free(&mut from),
            storages: storages::read(&mut from),
            coordination: coordination::read(&mut from),
            durability: durability(&mut from),
            store_memory_bytes: memory_bytes(&mut from, "store.memory"),
            warnings,
        };
        settings.listeners_are_apart(&mut from);
        (settings, from)
    }

    /// Every listener: the key of its address, and the address if it is on.
    pub(crate) fn listeners(&self) -> [(&'static str, Option<SocketAddr>); 5] {
        [
            ("http.listen", Some(self.http.listen)),
            ("grpc.listen", self.grpc.listen),
            ("mqtt.listen", self.mqtt.listen),
            ("lmstfy.listen", self.lmstfy.listen),
            ("lmstfy.admin_listen", self.lmstfy.admin_listen),
        ]
    }

    fn listeners_are_apart(&self, from: &mut SettingsReader) {
        let listeners = self.listeners();
        for (place, (key, address)) in listeners.iter().enumerate() {
            let Some(address) = address.filter(|address| address.port() != 0) else { continue };
            let same = listeners[..place].iter().find(|(_, earlier)| *earlier == Some(address));
            if let Some((other, _)) = same {
                let wrong = format!("is the address of {other} too");
                from.refuse(key, &wrong, "two listeners need two ports");
            }
        }
    }
}

fn tls(from: &mut SettingsReader) -> Option<TlsSettings> {
    let (cert, key) = (from.read("tls.cert", &FileOrNone), from.read("tls.key", &FileOrNone));
    let alone = match (cert.value, key.value) {
        (Some(cert), Some(key)) => return Some(TlsSettings { cert, key }),
        (None, None) => return None,
        (Some(_), None) => ("tls.cert", cert.origin),
        (None, Some(_)) => ("tls.key", key.origin),
    };
    let (wrong, right) = ("is given without the other", "write both tls.cert and tls.key, or neither");
    from.refuse_at(alone.1, alone.0, wrong.to_owned(), right.to_owned());
    None
}

fn amqp(from: &mut SettingsReader) -> AmqpSettings {
    AmqpSettings {
        url: from.read("amqp.url", &AmqpUrlOrOff).value,
        queue: from.read("amqp.queue", &AmqpQueueShape).value,
        prefetch: from.read("amqp.prefetch", &Prefetch).value,
    }
}

fn devices(from: &mut SettingsReader) -> DevicesSettings {
    let id_max_len = Whole { least: 1, most: base::limits::DEVICE_ID_CHARS_MAX as u64 };
    let id_chars = Word(&[("alnum", DeviceIdAlphabet::Alnum), ("extended", DeviceIdAlphabet::Extended)]);
    let unknown =
        Word(&[("reject", UnknownDeviceChoice::Reject), ("register", UnknownDeviceChoice::Register)]);
    let interval_min = Duration::from_millis(base::limits::REPORT_INTERVAL_MS_MIN);
    DevicesSettings {
        id_max_len: from.read("devices.id_max_len", &id_max_len).value as usize,
        id_chars: from.read("devices.id_chars", &id_chars).value,
        unknown: from.read("devices.unknown", &unknown).value,
        report_interval: from.read("devices.report_interval", &DurationRange(interval_min, 366 * DAY)).value,
        loss_grace: from.read("devices.loss_grace", &DurationRange(Duration::ZERO, 30 * DAY)).value,
        restart_grace: from.read("devices.restart_grace", &DurationRange(Duration::ZERO, DAY)).value,
    }
}

fn notify(from: &mut SettingsReader) -> NotifySettings {
    let attempts = Whole { least: 1, most: 1_000 };
    let in_flight = Whole { least: 1, most: 10_000 };
    NotifySettings {
        retry_base: from.read("notify.retry_base", &DurationRange(MS, DAY)).value,
        retry_max: from.read("notify.retry_max", &DurationRange(MS, 30 * DAY)).value,
        stale_probe: from.read("notify.stale_probe", &DurationRange(SECOND, 30 * DAY)).value,
        max_attempts: from.read("notify.max_attempts", &attempts).value as u32,
        timeout: from.read("notify.timeout", &DurationRange(MS, 10 * MINUTE)).value,
        per_client_in_flight: from.read("notify.per_client_in_flight", &in_flight).value as usize,
        allow_private: from.read("notify.allow_private", &Switch).value,
    }
}

fn history(from: &mut SettingsReader) -> HistorySettings {
    HistorySettings {
        readings: from.read("history.readings", &KEPT_FOR).value,
        events: from.read("history.events", &KEPT_FOR).value,
        deliveries: from.read("history.deliveries", &KEPT_FOR).value,
    }
}

fn quarantine(from: &mut SettingsReader) -> QuarantineSettings {
    QuarantineSettings {
        bytes_max: from.read("quarantine.max_bytes", &Bytes(64_000, 1_000_000_000_000)).value,
        age_max: from.read("quarantine.max_age", &DurationRange(MINUTE, KEPT_FOR.1)).value,
    }
}

fn jobs(from: &mut SettingsReader) -> JobsSettings {
    let resident = Whole { least: 1 << 10, most: 1 << 24 };
    JobsSettings { resident_max: from.read("jobs.resident_max", &resident).value as usize }
}

fn memory_bytes(from: &mut SettingsReader, key: &'static str) -> usize {
    let bytes = from.read(key, &Bytes(1_000_000, 1_000_000_000_000)).value;
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The interval is checked also where it is not used.
fn durability(from: &mut SettingsReader) -> Durability {
    let interval = from.read("durability.sync_interval", &DurationRange(MS, MINUTE)).value;
    let sync = Word(&[("always", Durability::Always), ("interval", Durability::Interval(Duration::ZERO))]);
    match from.read("durability.sync", &sync).value {
        Durability::Always => Durability::Always,
        Durability::Interval(_) => Durability::Interval(interval),
    }
}
