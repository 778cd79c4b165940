//! The flags of `fieldpost simulate`, and what they come to.
//!
//! [`Flags`] are what somebody writes; [`SimulationPlan`] is what is to be done, with every
//! default decided and everything that does not go together refused.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{ArgGroup, Args, ValueEnum};
use simulator::access::{BrokerQueue, ConnectOptions, NameAndPassword, Secret};
use simulator::address::{DeviceProtocol, ServerAddress};
use simulator::commands::ResponseProfile;
use simulator::fleet::{MqttDialect, MqttVersion, PayloadFormat, Qos, Way};
use simulator::places::FleetPlaces;
use simulator::random::Probability;
use simulator::registration::DeviceTemplate;
use simulator::traffic::{DeviceIds, TimetableEnd, TrafficProfile};

use super::commands::CommandOrder;

/// Where a server listens that was started without any setting.
const HTTP_URL: &str = "http://127.0.0.1:8080";
const MQTT_URL: &str = "mqtt://127.0.0.1:1883";
const AMQP_URL: &str = "amqp://127.0.0.1:5672";

/// Reports a second where nobody says how many.
const USUAL_RATE: f64 = 100.0;
/// How long it takes where nobody says how long, nor how many reports.
const USUAL_DURATION: Duration = Duration::from_secs(30);

/// More devices than a server is made for; each takes a few bytes here.
const DEVICES_MAX: i64 = 10_000_000;

/// The longest name of a kind.
const KIND_BYTES_MAX: usize = 32;

/// The ways in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Via {
    /// QoS 0, 1 or 2; with MQTT 5 a refusal says why.
    Mqtt,
    /// NDJSON.
    Http,
    /// To the queue that a server consumes.
    Amqp,
}

/// Versions of MQTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MqttVersionChoice {
    #[value(name = "3.1.1")]
    V311,
    #[value(name = "5")]
    V5,
}

/// A fleet of simulated devices against any server.
///
/// Devices report at an even pace whether or not the server keeps up; latencies count from when a
/// report was due. The same seed gives the same reports of each device. Exit code: 0 when all was
/// answered as it should be, 1 when not. It is 2 for a mistake on the command line, and 3 when the
/// server cannot be reached.
#[derive(Args, Debug)]
pub(crate) struct Flags {
    /// How many devices report.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=DEVICES_MAX))]
    pub devices: u32,
    /// The way in; by default that of --url, or MQTT.
    #[arg(long, value_enum)]
    pub via: Option<Via>,
    /// The server: mqtt[s]://HOST[:PORT], http[s]://... or, for a broker,
    /// amqp[s]://[USER:PASSWORD@]HOST[:PORT][/VHOST]; by default on this machine.
    #[arg(long, value_name = "URL")]
    pub url: Option<ServerAddress>,
    /// Where devices are registered; by default the same server as --url over HTTP, else
    /// http://127.0.0.1:8080.
    #[arg(long, value_name = "URL")]
    pub http: Option<ServerAddress>,

    #[command(flatten)]
    pub pace: PaceFlags,
    #[command(flatten)]
    pub behaviour: BehaviourFlags,
    #[command(flatten)]
    pub commands: CommandFlags,
    #[command(flatten)]
    pub identity: IdentityFlags,
    #[command(flatten)]
    pub connection: ConnectionFlags,

    /// Print the account as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// When reports are due, and until when.
#[derive(Args, Debug)]
#[command(next_help_heading = "Pace")]
pub(crate) struct PaceFlags {
    /// Reports a second of all devices together [default: 100].
    #[arg(long, value_name = "R", value_parser = rate, conflicts_with = "interval")]
    pub rate: Option<f64>,
    /// Time between two reports of a device.
    #[arg(long, value_name = "DURATION", value_parser = positive_duration)]
    pub interval: Option<Duration>,
    /// Ends after so long [default: 30s, unless --reports is given].
    #[arg(long, value_name = "DURATION", value_parser = positive_duration)]
    pub duration: Option<Duration>,
    /// Ends after so many reports.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub reports: Option<u64>,
    /// How long the last answers are awaited at the end.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = base::duration::parse)]
    pub patience: Duration,
}

/// What devices do, by chance.
#[derive(Args, Debug)]
#[command(next_help_heading = "Behaviour")]
pub(crate) struct BehaviourFlags {
    /// What is random depends on this alone; by default another one each time, which is told.
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// How often a value differs from the one before, 0 to 1.
    #[arg(long, value_name = "P", default_value = "0.1")]
    pub change_probability: Probability,
    /// How often a device falls silent after a report.
    #[arg(long, value_name = "P", default_value = "0")]
    pub silence_probability: Probability,
    /// How long it is silent then.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = base::duration::parse)]
    pub silence_for: Duration,
    /// How often a report is one that no server may accept. It is cut short, of a value that a lock
    /// cannot have, or an hour ahead of its time.
    #[arg(long, value_name = "P", default_value = "0")]
    pub bad_payloads: Probability,
    /// How often a device breaks the connection after a report, and repeats on the next what was
    /// not answered.
    #[arg(long, value_name = "P", default_value = "0")]
    pub reconnects: Probability,
}

/// Commands to the devices, beside their reports.
#[derive(Args, Debug)]
#[command(next_help_heading = "Commands")]
#[command(group = ArgGroup::new("commanded").multiple(true).args(["commands_per_second", "take_commands"]))]
pub(crate) struct CommandFlags {
    /// Commands a second that are sent over HTTP to the devices, which take and answer them over
    /// connections of their own. For MQTT alone.
    #[arg(long, value_name = "R", value_parser = rate)]
    pub commands_per_second: Option<f64>,
    /// Devices take and answer commands that come from elsewhere, such as a task or a campaign.
    #[arg(long)]
    pub take_commands: bool,
    /// How long a device takes for its answer.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = base::duration::parse, requires = "commanded")]
    pub answer_after: Duration,
    /// How often a device answers that it could not do it, 0 to 1.
    #[arg(long, value_name = "P", default_value = "0", requires = "commanded")]
    pub refuse: Probability,
    /// How often a device never answers.
    #[arg(long, value_name = "P", default_value = "0", requires = "commanded")]
    pub silent: Probability,
    /// How often a device answers twice.
    #[arg(long, value_name = "P", default_value = "0", requires = "commanded")]
    pub answer_twice: Probability,
    /// How often a device answers late.
    #[arg(long, value_name = "P", default_value = "0", requires = "commanded")]
    pub answer_late: Probability,
    /// How much later that is.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = base::duration::parse, requires = "commanded")]
    pub late_by: Duration,
    /// How often a device breaks its connection instead of answering; the other devices of the
    /// connection go with it.
    #[arg(long, value_name = "P", default_value = "0", requires = "commanded")]
    pub leave: Probability,
    /// How long it stays away then.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = base::duration::parse, requires = "commanded")]
    pub leave_for: Duration,
    /// The share of devices that never answer anything.
    #[arg(long, value_name = "SHARE", default_value = "0", requires = "commanded")]
    pub mute: Probability,
}

/// Who the devices are.
#[derive(Args, Debug)]
#[command(next_help_heading = "Devices")]
pub(crate) struct IdentityFlags {
    /// What they are. Locks say 0 or 1, all others a whole number below 100.
    #[arg(long, value_name = "KIND", default_value = "lock", value_parser = kind)]
    pub kind: String,
    /// Their ids begin with it, a number follows.
    #[arg(long, value_name = "TEXT", default_value = "sim", value_parser = id_prefix)]
    pub id_prefix: String,
    /// Give each report an id, so that a server recognises repeats.
    #[arg(long)]
    pub ids: bool,
    /// Register the devices first, over HTTP (this is the default).
    #[arg(long, overrides_with = "no_register")]
    pub register: bool,
    /// Take the devices for registered.
    #[arg(long)]
    pub no_register: bool,
    /// Register them with this report interval, by which the server tells silence [default: the
    /// server's].
    #[arg(long, value_name = "DURATION", value_parser = positive_duration, conflicts_with = "no_register")]
    pub report_interval: Option<Duration>,
    /// Register them as linked to this client; may be repeated.
    #[arg(long = "client", value_name = "ID", conflicts_with = "no_register")]
    pub clients: Vec<String>,
    /// Register them with labels of a fleet in the field, of skewed sizes: country, province, city
    /// and operator.
    #[arg(long, conflicts_with = "no_register")]
    pub places: bool,
}

/// How the server is spoken to.
#[derive(Args, Debug)]
#[command(next_help_heading = "Connections")]
pub(crate) struct ConnectionFlags {
    /// Connections, which share the devices [default: 16 for MQTT, 8 for HTTP, 2 for AMQP].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "connection_per_device")]
    pub connections: Option<u32>,
    /// Each device has a connection of its own.
    #[arg(long)]
    pub connection_per_device: bool,
    /// Reports without an answer on a connection, at most; for HTTP lines in a request [default:
    /// 100, for HTTP 1000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub in_flight: Option<u16>,
    /// MQTT's quality of service [default: 1].
    #[arg(long, value_name = "QOS", value_parser = clap::value_parser!(u8).range(0..=2))]
    pub qos: Option<u8>,
    /// MQTT's version [default: 5].
    #[arg(long, value_enum, value_name = "VERSION")]
    pub mqtt_version: Option<MqttVersionChoice>,
    /// The queue for AMQP.
    #[arg(long, value_name = "NAME", default_value = "sensors-queue")]
    pub queue: String,
    /// The name for MQTT or AMQP.
    #[arg(long, value_name = "NAME", requires = "password")]
    pub login: Option<String>,
    /// Its password; better given in FIELDPOST_PASSWORD, which no list of processes shows.
    #[arg(long, value_name = "PASSWORD", env = "FIELDPOST_PASSWORD", hide_env_values = true)]
    pub password: Option<Secret>,
    /// The token for HTTP; better given in FIELDPOST_TOKEN.
    #[arg(long, value_name = "TOKEN", env = "FIELDPOST_TOKEN", hide_env_values = true)]
    pub token: Option<Secret>,
    /// Trust the certificates in this PEM file, instead of those that this machine trusts.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

/// What is to be done.
#[derive(Debug, Clone)]
pub(crate) struct SimulationPlan {
    pub(super) devices: DeviceIds,
    pub(super) way: Way,
    pub(super) address: ServerAddress,
    pub(super) access: ConnectOptions,
    pub(super) ca: Option<PathBuf>,
    /// Where and how devices are registered, if they are.
    pub(super) registering: Option<(ServerAddress, DeviceTemplate)>,
    pub(super) payload: PayloadFormat,
    pub(super) profile: TrafficProfile,
    /// How commands are sent and answered, if they are.
    pub(super) commands: Option<CommandOrder>,
    pub(super) reports_per_second: f64,
    pub(super) end: TimetableEnd,
    pub(super) patience: Duration,
    pub(super) connections: u32,
    pub(super) json: bool,
}

impl Flags {
    /// Decides everything that was left open.
    ///
    /// # Errors
    /// Flags that do not go together, in words.
    pub(crate) fn settle(self) -> Result<SimulationPlan, String> {
        let via = self.way_in()?;
        let Self { devices, url, http, pace, behaviour, commands, identity, connection, json, .. } = self;
        let address = url.unwrap_or_else(|| usual_address(via));
        let way = connection.way(via)?;
        let profile = behaviour.profile();
        let commands = commands.settle(via, http.as_ref(), profile.seed)?;
        let registering = identity.registering(http, &address, profile.seed);
        let connections = if connection.connection_per_device { devices } else { connection.shared(via) };
        let interval_rate = |interval: Duration| f64::from(devices) / interval.as_secs_f64();
        let until = pace.duration.or(pace.reports.is_none().then_some(USUAL_DURATION));
        Ok(SimulationPlan {
            devices: DeviceIds::new(&identity.id_prefix, devices).of_kind(&identity.kind),
            way,
            address,
            ca: connection.ca.clone(),
            access: connection.access(),
            registering,
            payload: if identity.ids {
                PayloadFormat::Identified { run: now_ms() }
            } else {
                PayloadFormat::Dated
            },
            profile,
            commands,
            reports_per_second: pace.interval.map(interval_rate).or(pace.rate).unwrap_or(USUAL_RATE),
            end: TimetableEnd { reports: pace.reports, after: until },
            patience: pace.patience,
            connections: connections.min(devices),
            json,
        })
    }

    fn way_in(&self) -> Result<Via, String> {
        let of_url = self.url.as_ref().map(|url| match url.protocol() {
            DeviceProtocol::Http => Via::Http,
            DeviceProtocol::Mqtt => Via::Mqtt,
            DeviceProtocol::Amqp => Via::Amqp,
        });
        if let Some(http) = self.http.as_ref().filter(|http| http.protocol() != DeviceProtocol::Http) {
            return Err(format!("--http {http}: devices are registered over http or https"));
        }
        match (self.via, of_url) {
            (Some(via), Some(of_url)) if via != of_url => {
                Err("--via and the scheme of --url name different ways in; leave out --via".to_owned())
            }
            (via, of_url) => Ok(via.or(of_url).unwrap_or(Via::Mqtt)),
        }
    }
}

impl BehaviourFlags {
    fn profile(&self) -> TrafficProfile {
        TrafficProfile {
            seed: self.seed.unwrap_or_else(now_ms),
            change: self.change_probability,
            silence: self.silence_probability,
            silence_for: self.silence_for,
            flaw: self.bad_payloads,
            cut: self.reconnects,
        }
    }
}

impl CommandFlags {
    fn settle(
        &self,
        via: Via,
        http: Option<&ServerAddress>,
        seed: u64,
    ) -> Result<Option<CommandOrder>, String> {
        if self.commands_per_second.is_none() && !self.take_commands {
            return Ok(None);
        }
        if via != Via::Mqtt {
            let what = "--commands-per-second and --take-commands are for MQTT alone";
            return Err(format!("{what}, over which devices take commands"));
        }
        let profile = ResponseProfile {
            answer_after: self.answer_after,
            refuse: self.refuse,
            silent: self.silent,
            twice: self.answer_twice,
            late: self.answer_late,
            late_by: self.late_by,
            leave: self.leave,
            leave_for: self.leave_for,
            mute: self.mute,
            seed,
        };
        if !profile.fit() {
            let shares = "--refuse, --silent, --answer-twice, --answer-late and --leave";
            return Err(format!("{shares} are shares of all commands, and are more than 1 together"));
        }
        let http = http.cloned().unwrap_or_else(|| usual_address(Via::Http));
        Ok(Some(CommandOrder { per_second: self.commands_per_second, profile, http }))
    }
}

impl IdentityFlags {
    fn registering(
        &self,
        http: Option<ServerAddress>,
        address: &ServerAddress,
        seed: u64,
    ) -> Option<(ServerAddress, DeviceTemplate)> {
        if self.no_register {
            return None;
        }
        let same = (address.protocol() == DeviceProtocol::Http).then(|| address.clone());
        let registration = DeviceTemplate {
            report_interval: self.report_interval,
            client_ids: self.clients.clone(),
            places: self.places.then(|| FleetPlaces::seeded(seed)),
        };
        Some((http.or(same).unwrap_or_else(|| usual_address(Via::Http)), registration))
    }
}

impl ConnectionFlags {
    fn way(&self, via: Via) -> Result<Way, String> {
        let in_flight = self.in_flight.unwrap_or(if via == Via::Http { 1_000 } else { 100 });
        if via != Via::Mqtt && (self.qos.is_some() || self.mqtt_version.is_some()) {
            return Err("--qos and --mqtt-version are for MQTT alone".to_owned());
        }
        let version = match self.mqtt_version {
            Some(MqttVersionChoice::V311) => MqttVersion::V311,
            Some(MqttVersionChoice::V5) | None => MqttVersion::V5,
        };
        let qos = match self.qos {
            Some(0) => Qos::AtMostOnce,
            Some(2) => Qos::ExactlyOnce,
            _ => Qos::AtLeastOnce,
        };
        Ok(match via {
            Via::Mqtt => Way::MqttAs(MqttDialect { version, qos, in_flight }),
            Via::Http => Way::Http { lines: in_flight },
            Via::Amqp => Way::Amqp { in_flight },
        })
    }

    fn shared(&self, via: Via) -> u32 {
        self.connections.unwrap_or(match via {
            Via::Mqtt => 16,
            Via::Http => 8,
            Via::Amqp => 2,
        })
    }

    fn access(self) -> ConnectOptions {
        let queue = BrokerQueue { name: self.queue, ..BrokerQueue::default() };
        let login = self.login.zip(self.password).map(|(name, password)| NameAndPassword { name, password });
        // A variable that is empty counts as not set.
        let token = self.token.filter(|token| !token.is_empty());
        ConnectOptions { login, token, tls: None, queue }
    }
}

fn usual_address(via: Via) -> ServerAddress {
    let url = match via {
        Via::Mqtt => MQTT_URL,
        Via::Http => HTTP_URL,
        Via::Amqp => AMQP_URL,
    };
    url.parse().expect("the usual addresses are constants and right")
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis() as u64
}

fn positive_duration(text: &str) -> Result<Duration, String> {
    match base::duration::parse(text) {
        Ok(Duration::ZERO) => Err("it has to be longer than nothing".to_owned()),
        other => other.map_err(|error| error.to_string()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (1e-6..=1e9).contains(rate));
    rate.ok_or_else(|| "not a number of reports a second, such as 100 or 0.5".to_owned())
}

fn kind(text: &str) -> Result<String, String> {
    let begins_well = text.starts_with(|first: char| first.is_ascii_lowercase());
    let rest_is_well = text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'));
    if begins_well && rest_is_well && text.len() <= KIND_BYTES_MAX {
        return Ok(text.to_owned());
    }
    Err(format!("a kind has up to {KIND_BYTES_MAX} small letters, digits, _ or -, and begins with a letter"))
}

fn id_prefix(text: &str) -> Result<String, String> {
    let is_well = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte));
    if is_well {
        Ok(text.to_owned())
    } else {
        Err("an id has ASCII letters, digits, -, _, . and : only".to_owned())
    }
}

#[cfg(test)]
mod tests;
