//! What the flags come to.

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    flags: Flags,
}

fn plan(line: &str) -> Result<SimulationPlan, String> {
    let words = std::iter::once("simulate").chain(line.split_whitespace());
    let line = Line::try_parse_from(words).map_err(|error| error.kind().to_string())?;
    line.flags.settle()
}

#[test]
fn without_flags_a_hundred_locks_report_over_mqtt_to_this_machine() {
    let plan = plan("").expect("nothing is needed");
    let dialect = MqttDialect { version: MqttVersion::V5, qos: Qos::AtLeastOnce, in_flight: 100 };
    assert_eq!((plan.way, plan.address.to_string().as_str()), (Way::MqttAs(dialect), MQTT_URL));
    assert_eq!((plan.devices.count(), plan.devices.kind(), plan.connections), (100, "lock", 16));
    assert_eq!((plan.reports_per_second, plan.end.after), (USUAL_RATE, Some(USUAL_DURATION)));
    let (registry, _) = plan.registering.expect("devices are registered");
    assert_eq!((registry.to_string().as_str(), plan.payload), (HTTP_URL, PayloadFormat::Dated));
}

#[test]
fn the_scheme_of_the_url_is_the_way_in_and_http_is_the_registry_too() {
    let plan = plan("--url http://127.0.0.1:9000 --in-flight 5").expect("a right line");
    assert_eq!(plan.way, Way::Http { lines: 5 });
    assert_eq!(plan.registering.expect("registered").0.to_string(), "http://127.0.0.1:9000");
    assert_eq!(self::plan("--via amqp").expect("a right line").way, Way::Amqp { in_flight: 100 });
}

#[test]
fn an_empty_token_is_none() {
    let token = |line| plan(line).expect("a right line").access.token;
    assert_eq!((token("--via http --token="), token("--via http --token t").is_some()), (None, true));
}

#[test]
fn an_interval_is_a_rate_and_reports_need_no_duration() {
    let plan = plan("--devices 50 --interval 10s --reports 7 --no-register").expect("a right line");
    assert_eq!(plan.reports_per_second, 5.0);
    assert_eq!(plan.end, TimetableEnd { reports: Some(7), after: None });
    assert!(plan.registering.is_none());
    let both = self::plan("--reports 7 --duration 2s").expect("a right line");
    assert_eq!(both.end, TimetableEnd { reports: Some(7), after: Some(Duration::from_secs(2)) });
}

#[test]
fn connections_are_no_more_than_devices() {
    let connections = |line| plan(line).expect("a right line").connections;
    assert_eq!(connections("--devices 3 --connections 50"), 3);
    assert_eq!(connections("--devices 3000 --connection-per-device"), 3000);
    assert_eq!(connections("--devices 3000 --via http"), 8);
}

#[test]
fn behaviour_and_dialect_are_taken_over() {
    let line = "--seed 7 --change-probability 1 --silence-probability 0.25 --silence-for 5s --bad-payloads 0.5 \
                --reconnects 0.125 --qos 2 --mqtt-version 3.1.1 --ids --login gate --password secret";
    let plan = plan(line).expect("a right line");
    let share = |share| Probability::new(share).expect("a share");
    let profile = TrafficProfile {
        seed: 7,
        change: Probability::ALWAYS,
        silence: share(0.25),
        silence_for: Duration::from_secs(5),
        flaw: share(0.5),
        cut: share(0.125),
    };
    assert_eq!(plan.profile, profile);
    let dialect = MqttDialect { version: MqttVersion::V311, qos: Qos::ExactlyOnce, in_flight: 100 };
    assert_eq!(plan.way, Way::MqttAs(dialect));
    assert!(matches!(plan.payload, PayloadFormat::Identified { .. }));
    assert_eq!(plan.access.login.as_ref().map(|login| login.name.as_str()), Some("gate"));
    assert!(!format!("{plan:?}").contains("secret"));
}

#[test]
fn what_does_not_go_together_is_refused() {
    for line in [
        "--via http --url mqtt://127.0.0.1",
        "--via http --qos 1",
        "--via amqp --mqtt-version 5",
        "--http mqtt://127.0.0.1",
        "--rate 1 --interval 1s",
        "--rate 0",
        "--interval 0s",
        "--duration 10",
        "--devices 0",
        "--qos 3",
        "--bad-payloads 2",
        "--kind Lock",
        "--id-prefix a/b",
        "--id-prefix sim+",
        "--url tcp://127.0.0.1",
        "--connections 2 --connection-per-device",
        "--no-register --client acme",
        "--no-register --places",
        "--mute 0.1",
        "--take-commands --via http",
        "--take-commands --leave 0.6 --silent 0.5",
    ] {
        assert!(plan(line).is_err(), "{line}");
    }
}

#[test]
fn devices_may_take_commands_of_others_and_have_places() {
    let plan = plan("--take-commands --leave 0.25 --leave-for 1s --mute 0.5 --places --seed 7");
    let plan = plan.expect("a right line");
    let commands = plan.commands.expect("devices take commands");
    let profile = ResponseProfile {
        leave: Probability::new(0.25).expect("a share"),
        leave_for: Duration::from_secs(1),
        mute: Probability::new(0.5).expect("a share"),
        late_by: Duration::from_secs(10),
        seed: 7,
        ..ResponseProfile::default()
    };
    assert_eq!((commands.per_second, commands.profile), (None, profile));
    let (_, registration) = plan.registering.expect("registered");
    assert_eq!(registration.places, Some(FleetPlaces::seeded(7)));
}

const PAGE: &str = include_str!("../../../../../docs/simulate.md");

#[test]
fn the_page_names_every_flag_and_no_other() {
    let command = <Line as clap::CommandFactory>::command();
    let longs = command.get_arguments().filter_map(clap::Arg::get_long).map(|long| format!("--{long}"));
    let flags: std::collections::BTreeSet<String> = longs.filter(|long| long != "--help").collect();
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `--")?.split_once('`'));
    let told: std::collections::BTreeSet<String> = rows.map(|(flag, _)| format!("--{flag}")).collect();
    assert_eq!(told, flags);
}

#[test]
fn the_examples_of_the_page_are_right_lines() {
    let examples = PAGE.lines().filter_map(|line| line.strip_prefix("fieldpost simulate"));
    let examples: Vec<&str> = examples.map(|line| line.split('#').next().unwrap_or_default()).collect();
    assert!(examples.len() >= 4, "{examples:?}");
    for example in examples {
        assert!(plan(example).is_ok(), "fieldpost simulate{example}: {:?}", plan(example));
    }
}

#[test]
fn commands_are_sent_over_http_and_answered_by_shares() {
    let line = "--commands-per-second 50 --refuse 0.25 --silent 0.5 --answer-after 20ms --seed 7 --http http://127.0.0.1:9000";
    let commands = plan(line).expect("a right line").commands.expect("commands are sent");
    let http = commands.http.to_string();
    assert_eq!((commands.per_second, http.as_str()), (Some(50.0), "http://127.0.0.1:9000"));
    let profile = ResponseProfile {
        answer_after: Duration::from_millis(20),
        refuse: Probability::new(0.25).expect("a share"),
        silent: Probability::new(0.5).expect("a share"),
        late_by: Duration::from_secs(10),
        leave_for: Duration::from_secs(10),
        seed: 7,
        ..ResponseProfile::default()
    };
    assert_eq!(commands.profile, profile);
    assert!(plan("").expect("a right line").commands.is_none());
    for (line, says) in [
        ("--commands-per-second 5 --via http", "for MQTT alone"),
        ("--commands-per-second 5 --refuse 0.6 --silent 0.6", "more than 1 together"),
        ("--refuse 0.5", "required arguments were not provided"),
    ] {
        let told = plan(line).expect_err(line);
        assert!(told.contains(says), "{told}");
    }
}
