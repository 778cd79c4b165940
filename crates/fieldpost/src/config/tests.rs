//! The settings from outside: which texts are accepted and what they come to, which are refused and
//! what is then said.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStringExt;

use super::*;

const DEFAULT_FILE: &str = include_str!("default.toml");

fn load(file: &str, variables: &[(&str, &str)]) -> Result<Settings, ConfigErrors> {
    let mut layers = Layers::of_defaults();
    layers.add_text(Path::new("f.toml"), file);
    layers.add_variables(variables.iter().map(|(name, value)| (name.into(), value.into())));
    let (settings, from) = Settings::read(layers);
    from.finish(settings)
}

fn no_file(_: &Tls) -> Vec<Fault> {
    Vec::new()
}

/// The file is accepted, and `expect` says in what the settings differ from the defaults.
fn check(file: &str, variables: &[(&str, &str)], expect: impl FnOnce(&mut Settings)) {
    let mut settings = load("", &[]).expect("the defaults are right");
    expect(&mut settings);
    assert_eq!(load(file, variables).as_ref().map_err(ToString::to_string), Ok(&settings), "{file}");
}

/// The file is refused in these words.
fn check_refused(file: &str, variables: &[(&str, &str)], says: &str) {
    let told = load(file, variables).map(|_| ()).map_err(|errors| errors.to_string());
    assert_eq!(told, Err(says.to_owned()), "{file}");
}

#[test]
fn the_defaults_are_those_of_the_contract() {
    let seconds = Duration::from_secs;
    let expect = Settings {
        data_dir: "./fieldpost-data".into(),
        auth: Auth::default(),
        tls: None,
        http: Http {
            listen: ([127, 0, 0, 1], 8080).into(),
            connections_max: 16_384,
            hosts: Vec::new(),
            origins: Vec::new(),
        },
        mqtt: Mqtt {
            listen: Some(([127, 0, 0, 1], 1883).into()),
            connections_max: 65_536,
            connections_per_login_max: 65_536,
            mirror: true,
        },
        grpc: Grpc { listen: Some(([127, 0, 0, 1], 8081).into()), connections_max: 16_384 },
        lmstfy: Lmstfy { listen: None, admin_listen: None },
        amqp: Amqp {
            url: None,
            queue: QueueName::new("sensors-queue").expect("a name"),
            prefetch: NonZeroU16::new(1_000).expect("not 0"),
        },
        devices: Devices {
            id_max_len: 16,
            id_chars: DeviceIdAlphabet::Alnum,
            unknown: UnknownDevice::Reject,
            report_interval: seconds(3_600),
            loss_grace: seconds(0),
            restart_grace: seconds(120),
        },
        notify: Notify {
            retry_base: seconds(30),
            retry_max: seconds(3_600),
            stale_probe: seconds(3_600),
            max_attempts: 10,
            timeout: seconds(10),
            per_client_in_flight: 16,
            allow_private: false,
        },
        commands: CommandSettings::default(),
        history: History { readings: 90 * DAY, events: 400 * DAY, deliveries: 90 * DAY },
        quarantine: Quarantine { bytes_max: 256_000_000, age_max: 30 * DAY },
        jobs: Jobs { resident_max: 65_536 },
        durability: Durability::Always,
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
            history = { readings = "90d", events = "400d", deliveries = "90d" }
            quarantine = { max_bytes = "256MB", max_age = "30d" }
            durability = { sync = "always", sync_interval = "1s" }
            jobs.resident_max = 65536
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
    assert_eq!(keys.len(), 44, "the contract's keys, and the four of connections");
}

#[test]
fn names_of_hosts_and_origins_are_lists() {
    let names = |settings: &mut Settings| {
        settings.http.hosts = vec!["depot.example".to_owned(), "b".to_owned()];
        settings.http.origins = vec![HeaderValue::from_static("https://c.example")];
    };
    let file = r#"http = { hosts = ["Depot.example", "b"], origins = ["https://c.example"] }"#;
    check(file, &[], names);
    let variables =
        [("FIELDPOST_HTTP__HOSTS", "depot.example, b"), ("FIELDPOST_HTTP__ORIGINS", "https://c.example")];
    check("", &variables, names);
    check_refused(
        r#"http.origins = ["https://c.example/"]"#,
        &[],
        "f.toml:1:6: http.origins: \"https://c.example/\" cannot be one; write a list of at most 64, such as \
         [\"https://console.example\"], without a path",
    );
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
        settings.devices.unknown = UnknownDevice::Register;
        settings.devices.report_interval = SECOND;
        settings.devices.loss_grace = HOUR + 30 * MINUTE;
        settings.notify.retry_base = 250 * MS;
        settings.notify.allow_private = true;
    });
}

#[test]
fn a_variable_overrides_the_file() {
    check(
        "data_dir = \"a\"\nnotify.max_attempts = 3\nnotify.timeout = \"1s\"\nnotify.allow_private = true",
        &[
            ("FIELDPOST_DATA_DIR", "b"),
            ("FIELDPOST_NOTIFY__MAX_ATTEMPTS", "7"),
            ("FIELDPOST_NOTIFY__ALLOW_PRIVATE", "false"),
            ("FIELDPOST_MQTT__LISTEN", ""),
        ],
        |settings| {
            settings.data_dir = "b".into();
            settings.notify.max_attempts = 7;
            settings.notify.timeout = SECOND;
            settings.mqtt.listen = None;
        },
    );
}

#[test]
fn the_flag_overrides_the_variable() {
    let variable = ("FIELDPOST_DATA_DIR".into(), "b".into());
    let settings = Settings::load(None, [variable], Some(Path::new("c")), no_file).expect("right settings");
    assert_eq!(settings.data_dir, Path::new("c"));
}

#[test]
fn variables_that_are_not_settings_are_ignored() {
    let variables =
        [("FIELDPOST_LOG", "debug"), ("FIELDPOST_HTTP_PORT", "x"), ("HTTP__LISTEN", "x"), ("PATH", "/bin")];
    check("", &variables, |_| {});
}

#[test]
fn an_unknown_variable_with_two_underscores_is_refused_by_name() {
    check_refused(
        "",
        &[("FIELDPOST_HTTP__LITSEN", "127.0.0.1:1")],
        "environment variable FIELDPOST_HTTP__LITSEN: http.litsen: unknown key; did you mean http.listen?",
    );
    check_refused(
        "",
        &[("FIELDPOST_http__listen", "127.0.0.1:1")],
        "environment variable FIELDPOST_http__listen: http__listen: unknown key; did you mean http.listen?",
    );
}

#[test]
fn a_variable_with_one_underscore_in_place_of_two_is_refused_with_its_right_name() {
    for (name, key, right) in [
        ("FIELDPOST_HTTP_LISTEN", "http.listen", "FIELDPOST_HTTP__LISTEN"),
        ("FIELDPOST_LMSTFY_ADMIN_LISTEN", "lmstfy.admin_listen", "FIELDPOST_LMSTFY__ADMIN_LISTEN"),
        ("FIELDPOST_notify_max_attempts", "notify.max_attempts", "FIELDPOST_NOTIFY__MAX_ATTEMPTS"),
    ] {
        let says = format!(
            "environment variable {name}: {key}: has one underscore between section and key, so it would be \
             ignored; write {right}, with two"
        );
        check_refused("", &[(name, "1")], &says);
    }
    // A key of the file that does not exist is its own mistake, and makes no variable right or
    // wrong.
    let told = load("http.port = 1", &[("FIELDPOST_HTTP_PORT", "1")]).expect_err("unknown").to_string();
    assert!(told.starts_with("f.toml:1:6: http.port: unknown key") && !told.contains('\n'), "{told}");
}

#[test]
fn a_wrong_variable_is_refused_by_name() {
    check_refused(
        "",
        &[("FIELDPOST_NOTIFY__TIMEOUT", "10")],
        "environment variable FIELDPOST_NOTIFY__TIMEOUT: notify.timeout: \"10\" is not a duration such as \"250ms\", \
         \"30s\" or \"1h30m\"; write a duration from \"1ms\" to \"10m\"",
    );
    let told = Settings::load(
        None,
        [("FIELDPOST_HTTP__LISTEN".into(), OsString::from_vec(vec![0xff]))],
        None,
        no_file,
    );
    let told = told.expect_err("not UTF-8").to_string();
    assert!(
        told.starts_with("environment variable FIELDPOST_HTTP__LISTEN: http.listen: is not UTF-8; "),
        "{told}"
    );
}

#[test]
fn a_wrong_value_is_told_with_its_place_and_what_would_be_right() {
    let duration = "write a duration from";
    let id_len = "write a whole number from 1 to 64";
    let address = "write an IP address and a port, such as \"127.0.0.1:8080\" or \"[::1]:8080\"";
    for (file, says) in [
        ("devices.id_max_len = 65", format!("devices.id_max_len: 65 is out of range; {id_len}")),
        ("devices.id_max_len = -1", format!("devices.id_max_len: -1 is out of range; {id_len}")),
        ("devices.id_max_len = 1.5", format!("devices.id_max_len: is a number with a fraction, not a whole number; {id_len}")),
        ("devices.id_max_len = \"16\"", format!("devices.id_max_len: \"16\" is a text, not a number; {id_len}")),
        (
            "devices.id_max_len = 99999999999999999999",
            format!("devices.id_max_len: is a number that is far too large, not a whole number; {id_len}"),
        ),
        ("devices.id_chars = \"any\"", "devices.id_chars: \"any\" is not a known word; write \"alnum\" or \"extended\"".into()),
        ("devices.unknown = \"drop\"", "devices.unknown: \"drop\" is not a known word; write \"reject\" or \"register\"".into()),
        ("notify.timeout = 10", format!("notify.timeout: 10 has no unit; {duration} \"1ms\" to \"10m\"")),
        ("notify.timeout = \"0s\"", format!("notify.timeout: \"0s\" is out of range; {duration} \"1ms\" to \"10m\"")),
        ("notify.retry_max = \"11y\"", format!(
            "notify.retry_max: \"11y\" is not a duration such as \"250ms\", \"30s\" or \"1h30m\"; {duration} \"1ms\" to \"30d\""
        )),
        ("notify.max_attempts = 0", "notify.max_attempts: 0 is out of range; write a whole number from 1 to 1000".into()),
        ("notify.allow_private = \"true\"", "notify.allow_private: \"true\" is a text; write true or false, without quotes".into()),
        ("http.listen = \"localhost:80\"", format!("http.listen: \"localhost:80\" is not an IP address with a port; {address}")),
        ("http.listen = \"\"", format!("http.listen: \"\" is not an IP address with a port; {address}")),
        ("http.listen = 8080", format!("http.listen: is a number, not a text in quotes; {address}")),
        ("mqtt.listen = \"1883\"", format!("mqtt.listen: \"1883\" is not an IP address with a port; {address}, or \"\" for off")),
        ("data_dir = \"\"", "data_dir: is empty; write the path of a directory, such as \"./fieldpost-data\"".into()),
        ("amqp.prefetch = 70000", "amqp.prefetch: 70000 is out of range; write a whole number from 1 to 65535".into()),
        ("quarantine.max_bytes = \"1\"", "quarantine.max_bytes: \"1\" is not a size; write a size from \"64KB\" to \"1TB\", in B, KB, MB, GB, TB, KiB, MiB, GiB or TiB".into()),
    ] {
        let column = if file.starts_with("data_dir") { 3 } else { file.find('.').expect("a dotted key") + 4 };
        check_refused(&format!("\n  {file}"), &[], &format!("f.toml:2:{column}: {says}"));
    }
}

#[test]
fn unknown_keys_and_sections_are_told_with_what_was_probably_meant() {
    check_refused(
        "[htpp]\nlisten = \"\"\n[http]\nbanner = 1\ndata_dir = \"x\"\nlistn = \"\"\n[zzz]\n",
        &[],
        "f.toml:1:2: htpp: unknown section; did you mean [http]?\n\
         f.toml:4:1: http.banner: unknown key; the commented default file lists every key\n\
         f.toml:5:1: http.data_dir: unknown key; data_dir stands before the first [section]\n\
         f.toml:6:1: http.listn: unknown key; did you mean http.listen?\n\
         f.toml:7:2: zzz: unknown section; the sections are amqp, auth, commands, devices, durability, grpc, history, http, \
         jobs, kinds, lmstfy, mqtt, notify, quarantine, tls",
    );
    check_refused("http = 1", &[], "f.toml:1:1: http: unknown key; it is a section: write [http]");
}

#[test]
fn what_is_wrong_with_the_files_of_a_certificate_is_told_at_the_keys_that_name_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("f.toml");
    std::fs::write(&file, "[tls]\ncert = \"c.pem\"\nkey = \"k.pem\"\n").expect("written");
    let fault = |key, wrong: &str| Fault { key, wrong: wrong.to_owned(), right: "mend it" };
    let faults = |tls: &Tls| {
        assert_eq!(*tls, Tls { cert: "c.pem".into(), key: "k.pem".into() });
        vec![fault("tls.key", "is odd"), fault("tls.cert", "is not there")]
    };
    let told = Settings::load(Some(&file), [], None, faults).expect_err("two faults").to_string();
    let at = file.display();
    assert_eq!(
        told,
        format!("{at}:2:1: tls.cert: is not there; mend it\n{at}:3:1: tls.key: is odd; mend it")
    );
    let variable = ("FIELDPOST_TLS__CERT".into(), "c.pem".into());
    let told = Settings::load(Some(&file), [variable], None, faults).expect_err("two faults").to_string();
    assert!(told.contains("environment variable FIELDPOST_TLS__CERT: tls.cert: is not there"), "{told}");
}

#[test]
fn text_that_is_not_toml_is_told_with_its_place() {
    let told = load("[http]\nlisten = 127.0.0.1:1\n", &[]).expect_err("not TOML").to_string();
    assert!(told.starts_with("f.toml:2:"), "{told}");
    assert!(told.contains("not TOML"), "{told}");
    let told = load("[http]\nlisten = \"127.0.0.1:1\"\nlisten = \"127.0.0.1:2\"\n", &[])
        .expect_err("twice")
        .to_string();
    assert!(told.starts_with("f.toml:3:1: not TOML: duplicate key"), "{told}");
}

#[test]
fn a_file_that_cannot_be_read_is_told_by_name() {
    let told = Settings::load(Some(Path::new("/nowhere/f.toml")), [], None, no_file)
        .expect_err("no file")
        .to_string();
    assert!(told.starts_with("/nowhere/f.toml: cannot be read: No such file"), "{told}");
}

#[test]
fn commands_are_paced_as_a_whole_and_by_kind() {
    let file = "[commands]\nmax_attempts = 3\ngap = \"1s\"\n[kinds.face]\nin_flight = 4\n[kinds.gate-2]\n";
    check(file, &[("FIELDPOST_COMMANDS__ACK_TIMEOUT", "250ms")], |settings| {
        let pace = engine::settings::CommandPace { in_flight: 1, gap: SECOND };
        let kind = |name| base::Kind::new(name).expect("a kind");
        settings.commands.ack_timeout = 250 * MS;
        settings.commands.attempts_max = 3;
        settings.commands.pace = pace;
        settings
            .commands
            .by_kind
            .insert(kind("face"), engine::settings::CommandPace { in_flight: 4, ..pace });
        settings.commands.by_kind.insert(kind("gate-2"), pace);
    });
    check_refused(
        "[commands]\nin_flight = 0\nkeep = \"1s\"\n",
        &[],
        "f.toml:2:1: commands.in_flight: 0 is out of range; write a whole number from 1 to 1000\n\
         f.toml:3:1: commands.keep: \"1s\" is out of range; write a duration from \"1m\" to \"3650d\"",
    );
}

#[test]
fn the_interval_of_syncs_is_free_while_they_are_not_at_intervals() {
    check("durability.sync_interval = \"5s\"", &[], |_| {});
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

#[test]
fn a_queue_of_rabbitmq_is_read() {
    let url = "amqp://user:s3cret@rabbit/site";
    let file = format!("[amqp]\nurl = \"{url}\"\nqueue = \"q\"\nprefetch = 65535");
    check(&file, &[], |settings| {
        settings.amqp = Amqp {
            url: Some(AmqpUrl::parse(url).expect("a URL")),
            queue: QueueName::new("q").expect("a name"),
            prefetch: NonZeroU16::MAX,
        };
    });
    let shown = format!("{:?}", load(&file, &[]).expect("right settings"));
    assert!(shown.contains("amqp://rabbit:5672/site") && !shown.contains("s3cret"), "{shown}");
}

#[test]
fn a_wrong_url_of_rabbitmq_is_told_without_its_password() {
    check_refused(
        "amqp.url = \"ampq://user:s3cret@rabbit\"",
        &[],
        "f.toml:1:6: amqp.url: does not begin with amqp:// or amqps://; write a URL such as \
         \"amqp://user:password@host:5672/vhost\" (amqps for TLS, the virtual host / as %2f), or \"\" for off",
    );
    let told = load("", &[("FIELDPOST_AMQP__URL", "amqp://user:s3cret@rabbit/%ff")]).expect_err("not UTF-8");
    assert!(!told.to_string().contains("s3cret"), "{told}");
}

#[test]
fn a_queue_has_a_name_and_a_prefetch_that_bounds() {
    let long = "q".repeat(256);
    for (file, wrong) in [
        ("amqp.queue = \"\"".to_owned(), "has 0 bytes; write a text in quotes of 1 to 255 bytes"),
        (format!("amqp.queue = \"{long}\""), "has 256 bytes; write a text in quotes of 1 to 255 bytes"),
        ("amqp.prefetch = 0".to_owned(), "0 is out of range; write a whole number from 1 to 65535"),
    ] {
        let told = load(&file, &[]).expect_err(&file).to_string();
        assert!(told.ends_with(wrong), "{told}");
    }
}

#[test]
fn what_is_wrong_with_a_kind_is_told_at_its_place() {
    check_refused(
        "[kinds.face]\nin_flight = 2\ngap = \"2h\"\nin_flihgt = 3\n[kinds.Gate]\n[kinds]\nlock = 1\n",
        &[("FIELDPOST_KINDS__FACE", "x")],
        "f.toml:3:1: kinds.face.gap: \"2h\" is out of range; write a duration from \"0s\" to \"1h\"\n\
         f.toml:4:1: kinds.face.in_flihgt: unknown key; did you mean in_flight?\n\
         f.toml:5:8: kinds.Gate: is not a kind; write a name such as [kinds.face]: a letter, then up to 31 of \
         a-z, 0-9, _ and -\n\
         f.toml:7:1: kinds.lock: is a number, not a section; write [kinds.lock] in a file\n\
         environment variable FIELDPOST_KINDS__FACE: kinds.face: is a section, which no variable can hold; write \
         [kinds.face] in a file",
    );
}

#[test]
fn a_listener_off_loopback_is_refused() {
    for address in ["0.0.0.0:1883", "[::]:1883", "192.168.1.5:1883", "[::ffff:10.0.0.1]:1883"] {
        check_refused(
            &format!("mqtt.listen = \"{address}\""),
            &[],
            &format!(
                "f.toml:1:6: mqtt.listen: {address} can be reached from other machines, and no [[auth.mqtt]] says who \
                 may do what; list them, or write a loopback address, such as 127.0.0.1:1883"
            ),
        );
    }
    for key in ["listen", "admin_listen"] {
        check_refused(
            &format!("lmstfy.{key} = \"0.0.0.0:7777\""),
            &[],
            &format!(
                "f.toml:1:8: lmstfy.{key}: 0.0.0.0:7777 can be reached from other machines, and no [[auth.tokens]] says \
                 who may do what; list them, or write a loopback address, such as 127.0.0.1:7777"
            ),
        );
    }
    for address in ["127.0.0.2:1883", "[::1]:1883", "[::ffff:127.0.0.1]:1883"] {
        check(&format!("mqtt.listen = \"{address}\""), &[], |settings| {
            settings.mqtt.listen = Some(address.parse().expect("an address"));
        });
    }
}

#[test]
fn two_listeners_do_not_share_an_address() {
    check_refused(
        "[mqtt]\nlisten = \"127.0.0.1:8080\"\n",
        &[],
        "f.toml:2:1: mqtt.listen: is the address of http.listen too; two listeners need two ports",
    );
    check_refused(
        "[lmstfy]\nlisten = \"127.0.0.1:7777\"\nadmin_listen = \"127.0.0.1:7777\"\n",
        &[],
        "f.toml:3:1: lmstfy.admin_listen: is the address of lmstfy.listen too; two listeners need two ports",
    );
    check(
        "http.listen = \"127.0.0.1:0\"\nmqtt.listen = \"127.0.0.1:0\"\nlmstfy.listen = \"127.0.0.1:0\"",
        &[],
        |settings| {
            settings.http.listen.set_port(0);
            settings.mqtt.listen = Some(settings.http.listen);
            settings.lmstfy.listen = Some(settings.http.listen);
        },
    );
}

#[test]
fn a_mistake_in_the_file_is_told_even_where_a_variable_overrides_it() {
    check_refused(
        "notify.max_attempts = 0",
        &[("FIELDPOST_NOTIFY__MAX_ATTEMPTS", "5")],
        "f.toml:1:8: notify.max_attempts: 0 is out of range; write a whole number from 1 to 1000",
    );
}
