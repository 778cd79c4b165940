//! The settings from outside: which texts are accepted and what they come to, which are refused and
//! what is then said.

mod amqp;
mod campaigns;
mod commands;
mod in_force;
mod listeners;
mod mistakes;
mod relay;
mod storages;
mod variables;

use std::collections::BTreeMap;

use super::*;

const DEFAULT_FILE: &str = include_str!("default.toml");

fn load(file: &str, variables: &[(&str, &str)]) -> Result<ServerSettings, ConfigErrors> {
    let mut layers = Layers::of_defaults();
    layers.add_text(Path::new("f.toml"), file);
    layers.add_variables(variables.iter().map(|(name, value)| (name.into(), value.into())));
    let (settings, from) = ServerSettings::read(layers);
    from.finish(settings)
}

fn no_file(_: &TlsSettings) -> Vec<Fault> {
    Vec::new()
}

/// The file is accepted, and `expect` says in what the settings differ from the defaults.
fn check(file: &str, variables: &[(&str, &str)], expect: impl FnOnce(&mut ServerSettings)) {
    let mut settings = load("", &[]).expect("the defaults are right");
    expect(&mut settings);
    assert_eq!(load(file, variables).as_ref().map_err(ToString::to_string), Ok(&settings), "{file}");
}

/// The file is refused in these words.
fn check_refused(file: &str, variables: &[(&str, &str)], says: &str) {
    let told = load(file, variables).map(|_| ()).map_err(|errors| errors.to_string());
    assert_eq!(told, Err(says.to_owned()), "{file}");
}

fn agreed_devices() -> DevicesSettings {
    DevicesSettings {
        id_max_len: 16,
        id_chars: DeviceIdAlphabet::Alnum,
        unknown: UnknownDeviceChoice::Reject,
        report_interval: Duration::from_secs(3_600),
        loss_grace: Duration::from_secs(0),
        restart_grace: Duration::from_secs(120),
    }
}

fn agreed_relay() -> RelaySettings {
    RelaySettings {
        database: None,
        table: ::relay::TableName::outbox("fieldpost_outbox").expect("a name"),
        on_refused: ::relay::OnRefused::Skip,
    }
}

#[test]
fn the_defaults_are_those_of_the_contract() {
    let seconds = Duration::from_secs;
    let notices = NoticesOfMachine { certificate_before: Some(14 * DAY), storage_free: Some(2_000_000_000) };
    let expect = ServerSettings {
        data_dir: "./fieldpost-data".into(),
        auth: AuthSettings::default(),
        tls: None,
        http: HttpSettings {
            listen: ([127, 0, 0, 1], 8080).into(),
            connections_max: 16_384,
            live_max: 256,
            hosts: Vec::new(),
            origins: Vec::new(),
            frame_ancestors: Vec::new(),
        },
        mqtt: MqttSettings {
            listen: Some(([127, 0, 0, 1], 1883).into()),
            connections_max: 65_536,
            connections_per_login_max: 65_536,
            mirror: true,
        },
        grpc: GrpcSettings { listen: Some(([127, 0, 0, 1], 8081).into()), connections_max: 16_384 },
        lmstfy: LmstfySettings { listen: None, admin_listen: None },
        amqp: AmqpSettings {
            url: None,
            queue: AmqpQueueName::new("sensors-queue").expect("a name"),
            prefetch: NonZeroU16::new(1_000).expect("not 0"),
        },
        relay: agreed_relay(),
        devices: agreed_devices(),
        place: Vec::new(),
        notify: NotifySettings {
            retry_base: seconds(30),
            retry_max: seconds(3_600),
            stale_probe: seconds(3_600),
            max_attempts: 10,
            timeout: seconds(10),
            per_client_in_flight: 16,
            allow_private: false,
        },
        commands: CommandSettings::default(),
        kinds: Arc::default(),
        operations: OperationSettings::default(),
        campaigns: CampaignSettings::default(),
        notices: engine::notices::NoticeSettings::default(),
        notices_of_machine: notices,
        history: HistorySettings { readings: 90 * DAY, events: 400 * DAY, deliveries: 90 * DAY },
        quarantine: QuarantineSettings { bytes_max: 256_000_000, age_max: 30 * DAY },
        jobs: JobsSettings { resident_max: 65_536 },
        storages: Vec::new(),
        node_name: None,
        streams_memory_bytes: 64_000_000,
        streams_disk_free_bytes: Some(512_000_000),
        coordination: engine::CoordinationSettings::default(),
        durability: Durability::Always,
        store_memory_bytes: 64 << 20,
        warnings: Vec::new(),
    };
    assert_eq!(load("", &[]).as_ref(), Ok(&expect));
}

/// In whatever form the default is written.
#[test]
fn every_key_of_the_contract_is_accepted_at_its_default() {
    check(
        r#"
            grpc.listen = "127.0.0.1:8081"
            lmstfy = { listen = "", admin_listen = "" }
            amqp = { url = "", queue = "sensors-queue", prefetch = 1000 }
            notify.stale_probe = "60m"
            commands = { ack_timeout = "5000ms", max_attempts = 5, in_flight = 1, gap = "0s", keep = "720h" }
            operations = { max_running = 8, max_rate = 1000, keep = "168h" }
            history = { readings = "90d", events = "400d", deliveries = "90d" }
            quarantine = { max_bytes = "256MB", max_age = "30d" }
            durability = { sync = "always", sync_interval = "1s" }
            jobs.resident_max = 65536
            streams.memory = "64MB"
            streams.disk_free = "512MB"
            store.memory = "64MiB"
            node.name = ""
            relay = { database = "", table = "fieldpost_outbox", on_refused = "skip" }
            [auth]
            [tls]
            [kinds]
        "#,
        &[],
        |_| {},
    );
}

#[test]
fn the_default_file_given_as_the_file_changes_nothing() {
    check(DEFAULT_FILE, &[], |_| {});
}

#[test]
fn every_key_of_the_default_file_has_a_comment_of_its_own() {
    let mut keys = BTreeMap::new();
    let mut above = "";
    for (line, text) in (1..).zip(DEFAULT_FILE.lines()) {
        if text.contains(" = ") && !text.starts_with('#') {
            keys.insert(line, above.starts_with("# "));
        }
        above = text;
    }
    let bare: Vec<_> = keys.iter().filter(|(_, commented)| !**commented).map(|(line, _)| line).collect();
    assert_eq!(bare, Vec::<&i32>::new(), "lines of default.toml without a comment above");
    let of = "the contract's keys, four of connections, three of operations, three of picks, ten of notices and frames, \
              two of streams, the store, the node, three of the relay, five of coordination";
    assert_eq!(keys.len(), 73, "{of}");
}

#[test]
fn a_file_changes_what_it_names() {
    let file = r#"
        data_dir = "/var/lib/fieldpost"
        [http]
        listen = "[::1]:0"
        [mqtt]
        listen = ""
        [devices]
        id_max_len = 64
        id_chars = "extended"
        unknown = "register"
        report_interval = "1s"
        loss_grace = "1h30m"
        [notify]
        retry_base = "250ms"
        allow_private = true
    "#;
    check(file, &[], |settings| {
        settings.data_dir = "/var/lib/fieldpost".into();
        settings.http.listen = "[::1]:0".parse().expect("an address");
        settings.mqtt.listen = None;
        settings.devices.id_max_len = 64;
        settings.devices.id_chars = DeviceIdAlphabet::Extended;
        settings.devices.unknown = UnknownDeviceChoice::Register;
        settings.devices.report_interval = SECOND;
        settings.devices.loss_grace = 90 * MINUTE;
        settings.notify.retry_base = 250 * MS;
        settings.notify.allow_private = true;
    });
}

#[test]
fn syncs_at_intervals_are_read_with_their_interval() {
    check("durability.sync = \"interval\"", &[], |settings| {
        settings.durability = Durability::Interval(SECOND);
    });
    let five = ("FIELDPOST_DURABILITY__SYNC_INTERVAL", "5ms");
    check("durability.sync = \"interval\"", &[five], |settings| {
        settings.durability = Durability::Interval(5 * MS);
    });
    check_refused(
        "[durability]\nsync = \"never\"\nsync_interval = \"2m\"\n",
        &[],
        "f.toml:2:1: durability.sync: \"never\" is not a known word; write \"always\" or \"interval\"\n\
         f.toml:3:1: durability.sync_interval: \"2m\" is out of range; write a duration from \"1ms\" to \"1m\"",
    );
}
