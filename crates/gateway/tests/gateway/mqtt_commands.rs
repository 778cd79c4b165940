//! Commands over MQTT, from the engine to a device and back, and who counts as present and as
//! reachable.

use std::time::Duration;

use access::{Login, Logins};
use base::{DeviceId, EntityId, Timestamp};
use engine::commands::COMMAND_ID_PREFIX;
use engine::queries::TimelineItem;
use engine::records::{CommandStatus, DisconnectReason, Happening};
use engine::{NewCommand, TrackedCommand};
use gateway::decode::kinds::{JsonPointer, KindForms, KindTopics, RawForm, TopicTemplate};
use gateway::mqtt::MqttLimits;
use sha2::{Digest, Sha256};

use crate::PATIENCE;
use crate::raw_client::Version::{V5, V311};
use crate::raw_client::{Connect, RawClient, Version, packet, puback, publish, reason_of, subscribe, text};
use crate::rig::{LOCKS, METER, Rig};

const SUBACK: u8 = 0x90;
/// No command is sent again while a test lasts.
const LONG: Duration = Duration::from_secs(600);

fn id(device: &str) -> DeviceId {
    DeviceId::new(device).expect("an id")
}

fn command(payload: &str) -> NewCommand {
    NewCommand { ack_timeout: Some(LONG), ..NewCommand::new(payload.as_bytes().into()) }
}

async fn send(rig: &Rig, device: &str, command: NewCommand) -> EntityId {
    let sent = rig.engine.commands().send(id(device), command).await.expect("a device");
    sent.command.id
}

async fn ended(rig: &Rig, command: EntityId) -> TrackedCommand {
    rig.engine.commands().ended(command, PATIENCE).await.expect("a command").expect("in time")
}

fn named(version: Version, client_id: &str) -> Connect<'_> {
    Connect { client_id, ..Connect::new(version) }
}

/// A client with a subscription of QoS 1.
async fn subscriber(rig: &Rig, connect: Connect<'_>, filter: &str) -> RawClient {
    let mut client = RawClient::connect(rig.mqtt, connect).await;
    subscribed(&mut client, filter).await;
    client
}

async fn subscribed(client: &mut RawClient, filter: &str) {
    client.send(&subscribe(client.version, &[filter])).await;
    let ack = client.receive().await;
    assert_eq!((ack[0], ack.last()), (SUBACK, Some(&1)), "{filter}: {ack:x?}");
}

async fn unsubscribed(client: &mut RawClient, filter: &str) {
    let properties: &[u8] = if client.version == V5 { &[0] } else { &[] };
    client.send(&packet(0xa2, &[&[0, 7], properties, &text(filter)].concat())).await;
    assert_eq!(client.receive().await[0], 0xb0);
}

/// The PUBLISH of a command.
fn published(version: Version, device: &str, command: EntityId, payload: &str, packet_id: u16) -> Vec<u8> {
    let message_id = command.to_text(COMMAND_ID_PREFIX);
    let text = format!(r#"{{"message_id":"{message_id}","payload":{payload}}}"#);
    publish(version, packet_id, &format!("dev/lock/{device}"), &text)
}

fn answer(version: Version, device: &str, command: EntityId, fields: &str) -> Vec<u8> {
    let message_id = command.to_text(COMMAND_ID_PREFIX);
    let payload = format!(r#"{{"message_id":"{message_id}",{fields}}}"#);
    publish(version, 9, &format!("dev/lock/{device}/ack"), &payload)
}

pub(crate) fn is_connected(rig: &Rig, device: &str) -> bool {
    let device = rig.engine.queries().device(&id(device)).expect("readable");
    device.expect("registered").connected
}

/// Connects and disconnects of a device, oldest first: the reason of each end.
fn sessions(rig: &Rig, device: &str) -> Vec<Option<DisconnectReason>> {
    let page =
        engine::Page { from: Timestamp(0), to: Timestamp::MAX, ascending: true, after: None, limit: 1_000 };
    let timeline = rig.engine.queries().timeline(&id(device), page).expect("a device");
    let session = |item: TimelineItem| match item {
        TimelineItem::Entry(entry) => match entry.what {
            Happening::Connected { address } => {
                assert_eq!(address.as_deref(), Some("127.0.0.1"));
                Some(None)
            }
            Happening::Disconnected { reason, .. } => Some(Some(reason)),
            _ => None,
        },
        TimelineItem::Event(_) => None,
    };
    timeline.into_iter().filter_map(|(_, item)| session(item)).collect()
}

async fn sessions_become(rig: &Rig, device: &str, expect: &[Option<DisconnectReason>]) {
    let become_so = async {
        while sessions(rig, device) != expect {
            tokio::task::yield_now().await;
        }
    };
    let so = tokio::time::timeout(PATIENCE, become_so).await;
    so.unwrap_or_else(|_| panic!("{device} has {:?}, not {expect:?}", sessions(rig, device)));
}

#[tokio::test]
async fn a_command_goes_out_when_its_device_subscribes_and_ends_with_its_answer() {
    for version in [V311, V5] {
        let rig = Rig::start().await;
        let [first, second] = [send(&rig, "0xA", command("1")).await, send(&rig, "0xA", command("2")).await];
        let mut device = subscriber(&rig, named(version, "0xA"), "dev/lock/0xA").await;
        device.expect(&published(version, "0xA", first, "1", 1)).await;
        device.send(&puback(1)).await;
        device.send(&answer(version, "0xA", first, r#""ok":true,"result":{"took": 5}"#)).await;
        let mut seen = [device.receive().await, device.receive().await];
        seen.sort();
        assert_eq!(seen, [published(version, "0xA", second, "2", 2), puback(9)], "the next one goes out");
        let done = ended(&rig, first).await.state;
        assert_eq!((done.status, done.tries), (CommandStatus::Acknowledged, 1));
        assert_eq!(done.result.as_deref(), Some(r#"{"took":5}"#));
        device.send(&answer(version, "0xA", second, r#""ok":false"#)).await;
        assert_eq!(ended(&rig, second).await.state.status, CommandStatus::Failed);
        device.expect(&puback(9)).await;
        assert_eq!(rig.figure("fieldpost_mqtt_commands_sent_total"), 2);
        assert_eq!(rig.figure("fieldpost_mqtt_commands_unacknowledged"), 1, "the second one");
    }
}

#[tokio::test]
async fn a_puback_is_no_answer() {
    let rig = Rig::start().await;
    let mut device = subscriber(&rig, named(V5, "0xA"), "dev/lock/0xA").await;
    let again = NewCommand { ack_timeout: Some(Duration::from_millis(50)), ..command("1") };
    let sent = send(&rig, "0xA", again).await;
    for packet_id in [1, 2] {
        device.expect(&published(V5, "0xA", sent, "1", packet_id)).await;
        device.send(&puback(packet_id)).await;
    }
    device.send(&answer(V5, "0xA", sent, r#""progress":{"done":1}"#)).await;
    device.send(&answer(V5, "0xA", sent, r#""ok":1"#)).await;
    let mut refused = device.receive().await;
    while refused[0] != 0x40 || reason_of(&refused) == 0 {
        refused = device.receive().await;
    }
    assert!(String::from_utf8_lossy(&refused).contains("invalid_ok"), "{refused:x?}");
    assert!(rig.last_seen("0xA").is_some());
    assert_eq!(rig.quarantines(1).await[0].0, "invalid_ok");
}

#[tokio::test]
async fn wildcards_reach_devices_and_are_not_their_sessions() {
    for (filter, covers_other) in [
        ("#", true),
        ("dev/+/+", true),
        ("dev/lock/#", true),
        ("dev/+/0xA", false),
        ("dev/lock/0xA/#", false),
    ] {
        let rig = Rig::start().await;
        let mut gateway = subscriber(&rig, named(V311, "the gateway"), filter).await;
        let sent = send(&rig, "0xA", command("1")).await;
        gateway.expect(&published(V311, "0xA", sent, "1", 1)).await;
        assert!(!is_connected(&rig, "0xA"), "{filter}");
        let other = send(&rig, "0x1", command("2")).await;
        if covers_other {
            gateway.expect(&published(V311, "0x1", other, "2", 2)).await;
        }
        unsubscribed(&mut gateway, filter).await;
        let waits = send(&rig, "0xC", command("3")).await;
        gateway.send(&subscribe(V311, &["dev/meter/+"])).await;
        assert_eq!(gateway.receive().await[0], SUBACK, "nothing came in between");
        let state = rig.engine.queries().command(waits).expect("readable").expect("a command").state;
        assert_eq!(state.status, CommandStatus::Scheduled, "{filter}");
    }
}

#[tokio::test]
async fn the_topic_of_another_kind_is_not_the_devices() {
    let rig = Rig::start().await;
    let sent = send(&rig, "0xA", command("1")).await;
    let mut wrong = subscriber(&rig, named(V5, "0xA"), "dev/meter/0xA").await;
    let state = rig.engine.queries().command(sent).expect("readable").expect("a command").state;
    assert_eq!((state.status, state.tries), (CommandStatus::Scheduled, 0));
    subscribed(&mut wrong, "dev/lock/0xA").await;
    wrong.expect(&published(V5, "0xA", sent, "1", 1)).await;
}

#[tokio::test]
async fn a_session_is_a_devices_by_client_id_or_by_the_name_of_its_topic() {
    let rig = Rig::start().await;
    let mut by_id = RawClient::connect(rig.mqtt, named(V5, "0xA")).await;
    assert!(is_connected(&rig, "0xA"), "with the CONNACK");
    let mut by_name = subscriber(&rig, named(V5, "anything else"), "dev/lock/0x1").await;
    assert!(is_connected(&rig, "0x1"), "with the SUBACK");
    let _neither = subscriber(&rig, named(V5, "neither"), "dev/+/0xC").await;
    assert!(!is_connected(&rig, "0xC"));
    unsubscribed(&mut by_name, "dev/lock/0x1").await;
    assert!(is_connected(&rig, "0x1"), "as long as the session lives");
    by_id.send(b"\xe0\0").await;
    drop(by_name);
    sessions_become(&rig, "0xA", &[None, Some(DisconnectReason::ClientDisconnect)]).await;
    sessions_become(&rig, "0x1", &[None, Some(DisconnectReason::ConnectionLost)]).await;
    assert!(!is_connected(&rig, "0xA") && !is_connected(&rig, "0x1"));
}

#[tokio::test]
async fn the_reason_of_an_end_is_told() {
    let rig = Rig::start().await;
    let mut silent = RawClient::connect(rig.mqtt, Connect { keep_alive: 1, ..named(V5, "0xA") }).await;
    let mut wrong = RawClient::connect(rig.mqtt, named(V5, "0x1")).await;
    wrong.send(b"\xf0\0").await;
    wrong.rest().await;
    sessions_become(&rig, "0x1", &[None, Some(DisconnectReason::ProtocolError)]).await;
    silent.rest().await;
    sessions_become(&rig, "0xA", &[None, Some(DisconnectReason::KeepAlive)]).await;
    let _stopped = RawClient::connect(rig.mqtt, named(V5, "0xC")).await;
    rig.begin_to_stop();
    sessions_become(&rig, "0xC", &[None, Some(DisconnectReason::ServerStopped)]).await;
}

#[tokio::test]
async fn whoever_takes_over_goes_on_with_the_commands() {
    let rig = Rig::start().await;
    let connect = Connect { client_id: "0xA", ..Connect::lasting(V5) };
    let mut older = subscriber(&rig, connect, "dev/lock/0xA").await;
    let sent = send(&rig, "0xA", command("1")).await;
    older.expect(&published(V5, "0xA", sent, "1", 1)).await;
    let (mut newer, session_present) = RawClient::connect_to_session(rig.mqtt, connect).await;
    assert!(session_present && is_connected(&rig, "0xA"));
    newer.expect(&published(V5, "0xA", sent, "1", 1)).await;
    newer.send(&answer(V5, "0xA", sent, r#""ok":true"#)).await;
    assert_eq!(ended(&rig, sent).await.state.status, CommandStatus::Acknowledged);
    older.rest().await;
    let taken_over = Some(DisconnectReason::TakenOver);
    sessions_become(&rig, "0xA", &[None, taken_over, None]).await;
    assert!(is_connected(&rig, "0xA"));
}

#[tokio::test]
async fn a_session_whose_client_is_away_is_not_live_and_counts_again_when_it_is_back() {
    let rig = Rig::start().await;
    for version in [V311, V5] {
        let connect = Connect { client_id: "gateway", ..Connect::lasting(version) };
        let (mut client, _) = RawClient::connect_to_session(rig.mqtt, connect).await;
        subscribed(&mut client, "dev/lock/0xA").await;
        drop(client);
        rig.figure_becomes("fieldpost_mqtt_absent_sessions", 1).await;
        assert!(!is_connected(&rig, "0xA"));
        let sent = send(&rig, "0xA", command("1")).await;
        let state = rig.engine.queries().command(sent).expect("readable").expect("a command").state;
        assert_eq!((state.status, state.tries), (CommandStatus::Scheduled, 0));
        let (mut client, session_present) = RawClient::connect_to_session(rig.mqtt, connect).await;
        assert!(session_present && is_connected(&rig, "0xA"));
        client.expect(&published(version, "0xA", sent, "1", 1)).await;
        client.send(&answer(version, "0xA", sent, r#""ok":true"#)).await;
        ended(&rig, sent).await;
        client.send(b"\xe0\0").await;
        client.rest().await;
        let (_, session_present) =
            RawClient::connect_to_session(rig.mqtt, Connect { clean: true, ..connect }).await;
        assert!(!session_present);
    }
}

#[tokio::test]
async fn a_crowd_that_reconnects_at_once_loses_no_session_and_no_command() {
    const DEVICES: usize = 200;
    let rig = Rig::start().await;
    let ids: Vec<String> = (0..DEVICES).map(|number| format!("d{number}")).collect();
    for id in &ids {
        let device = engine::NewDevice { id: id.clone(), ..engine::NewDevice::default() };
        rig.engine.create_device(device).await.expect("a new device");
    }
    let connect = |id| Connect { client_id: id, ..Connect::lasting(V5) };
    let mut older = Vec::new();
    for id in &ids {
        older.push(subscriber(&rig, connect(id), &format!("dev/lock/{id}")).await);
    }
    let mut sent = Vec::new();
    for id in &ids {
        sent.push(send(&rig, id, command("1")).await);
    }
    let answered = ids.iter().zip(&sent).map(async |(id, sent)| {
        let (mut client, session_present) = RawClient::connect_to_session(rig.mqtt, connect(id)).await;
        assert!(session_present, "{id}");
        client.expect(&published(V5, id, *sent, "1", 1)).await;
        client.send(&answer(V5, id, *sent, r#""ok":true"#)).await;
        client.expect(&puback(9)).await;
        client
    });
    let newer = futures_util::future::join_all(answered).await;
    for (id, sent) in ids.iter().zip(&sent) {
        assert_eq!(ended(&rig, *sent).await.state.status, CommandStatus::Acknowledged, "{id}");
        assert!(is_connected(&rig, id), "{id}");
        sessions_become(&rig, id, &[None, Some(DisconnectReason::TakenOver), None]).await;
    }
    rig.figure_becomes("fieldpost_mqtt_connections", newer.len() as u64).await;
    assert_eq!(rig.figure("fieldpost_mqtt_commands_waiting_bytes"), 0);
}

fn logins() -> Logins {
    let mut logins = Logins::new();
    for (username, login) in [
        ("device", Login::Device(id("0xA"))),
        ("prefix", Login::Prefix("0x".into())),
        ("label", Login::Label { key: "site".into(), value: "12".into() }),
        ("meters", Login::Prefix("m".into())),
    ] {
        logins.add(username, Sha256::digest("secret").into(), login).expect("a new name");
    }
    logins
}

#[tokio::test]
async fn a_login_has_the_sessions_and_commands_of_its_own_devices() {
    let limits = MqttLimits { mirror: false, ..MqttLimits::default() };
    let rig = Rig::listening(limits, |listener| listener.with_logins(logins())).await;
    let labels = engine::Patch::Set(vec![("site".to_owned(), Some("12".to_owned()))]);
    let patch = engine::DevicePatch { labels, ..engine::DevicePatch::default() };
    rig.engine.patch_device(id("0xC"), patch, engine::OnlyIf::default()).await.expect("known");
    let login = |username, client_id| Connect {
        credentials: Some((username, "secret")),
        client_id,
        ..Connect::new(V5)
    };
    for (username, client_id, device, expect) in [
        ("device", "anything", "0xA", true),
        ("device", "0x1", "0x1", false),
        ("prefix", "0x1", "0x1", true),
        ("prefix", "m1", "m1", false),
        ("label", "0xC", "0xC", true),
        ("label", "0x1", "0x1", false),
    ] {
        let mut client = RawClient::connect(rig.mqtt, login(username, client_id)).await;
        assert_eq!(is_connected(&rig, device), expect, "{username} {client_id}");
        client.send(b"\xe0\0").await;
        client.rest().await;
        assert!(!is_connected(&rig, device));
    }
    for (username, filter, code) in [
        ("device", "dev/lock/0xA", 1),
        ("device", "dev/lock/0x1", 0x87),
        ("prefix", "dev/+/0x1", 1),
        ("prefix", "dev/lock/+", 0x87),
        ("label", "dev/lock/0xC", 1),
        ("label", "dev/lock/0x1", 0x87),
        ("label", "#", 0x87),
    ] {
        let mut client = RawClient::connect(rig.mqtt, login(username, "client")).await;
        client.send(&subscribe(V5, &[filter])).await;
        let ack = client.receive().await;
        assert_eq!(ack.last(), Some(&code), "{username} {filter}: {ack:x?}");
    }
    let sent = send(&rig, "0xA", command("1")).await;
    let mut device = subscriber(&rig, login("device", "d"), "dev/lock/0xA").await;
    device.expect(&published(V5, "0xA", sent, "1", 1)).await;
    let mut other = RawClient::connect(rig.mqtt, login("meters", "o")).await;
    other.send(&answer(V5, "0xA", sent, r#""ok":true"#)).await;
    assert_eq!(reason_of(&other.receive().await), 0x87, "nobody answers for others");
    device.send(&answer(V5, "0xA", sent, r#""ok":true"#)).await;
    assert_eq!(ended(&rig, sent).await.state.status, CommandStatus::Acknowledged);
}

#[tokio::test]
async fn what_a_slow_client_does_not_take_is_dropped_and_comes_again() {
    let rig = Rig::start().await;
    let mut slow = RawClient::open_narrow(rig.mqtt, V311).await;
    slow.send(&named(V311, "slow").bytes()).await;
    slow.receive().await;
    subscribed(&mut slow, "dev/#").await;
    let mut meter = RawClient::connect(rig.mqtt, named(V311, "other")).await;
    let payload = format!("\"{}\"", "x".repeat(250_000));
    let mut sent = Vec::new();
    for _ in 0..40 {
        for device in LOCKS {
            let short = Duration::from_millis(20);
            let large =
                NewCommand { ack_timeout: Some(short), attempts_max: Some(1_000), ..command(&payload) };
            sent.push(send(&rig, device, large).await);
        }
        if rig.figure("fieldpost_mqtt_commands_dropped_total{reason=\"slow\"}") > 0 {
            break;
        }
        let repeated = rig.engine.clock().now().after(Duration::from_millis(20));
        rig.engine.until(repeated).await;
    }
    assert!(rig.figure("fieldpost_mqtt_commands_dropped_total{reason=\"slow\"}") > 0);
    assert!(rig.figure("fieldpost_mqtt_commands_waiting_bytes") <= 2 * 1_024 * 1_024);
    meter.lock(1, LOCKS[0], 1).await;
    meter.expect(&puback(1)).await;
    let first = loop {
        let packet = slow.receive().await;
        if packet[0] & 0xf0 == 0x30 && packet.len() > 200_000 {
            break packet;
        }
    };
    let message_id = sent[0].to_text(COMMAND_ID_PREFIX);
    assert!(String::from_utf8_lossy(&first).contains(&message_id), "the oldest comes first");
}

/// Terminals with topics and messages of their own, as kind `meter`.
fn terminals() -> KindForms {
    let template = |text| Some(TopicTemplate::new(text).expect("a template"));
    let pointer = |text| JsonPointer::new(text).expect("a pointer");
    let raw = RawForm {
        id_path: pointer("/messageId"),
        ack_id_path: pointer("/messageId"),
        ack_ok_path: pointer("/code"),
        ack_ok_value: 200.into(),
    };
    let topics = KindTopics {
        down: template("mqtt/face/{id}"),
        ack: template("mqtt/face/{id}/Ack"),
        heartbeat: template("mqtt/face/{id}/heartbeat"),
        raw: Some(raw),
        ..KindTopics::default()
    };
    KindForms::new([(base::Kind::new("meter").expect("a kind"), topics)].into()).expect("one meaning each")
}

#[tokio::test]
async fn devices_with_a_form_of_their_own_are_spoken_to_in_it() {
    let mut logins = Logins::new();
    for (username, login) in [("m1", Login::Device(id(METER))), ("0xA", Login::Device(id("0xA")))] {
        logins.add(username, Sha256::digest("secret").into(), login).expect("a new name");
    }
    let rig = Rig::listening(MqttLimits::default(), |listener| {
        listener.with_logins(logins).with_kinds(terminals().into())
    });
    let rig = rig.await;
    let login = |username| Connect { credentials: Some((username, "secret")), ..named(V311, username) };
    let mut other = RawClient::connect(rig.mqtt, login("0xA")).await;
    other.send(&subscribe(V311, &["mqtt/face/m1", "dev/meter/m1", "mqtt/face/+"])).await;
    assert!(other.receive().await.ends_with(&[0x80, 0x80, 0x80]), "it is another's");
    let sent = send(&rig, METER, command(r#"{"operator":"open"}"#)).await;
    let mut terminal = subscriber(&rig, login("m1"), "mqtt/face/m1").await;
    let text = sent.to_text(COMMAND_ID_PREFIX);
    let down = format!(r#"{{"messageId":"{text}","operator":"open"}}"#);
    terminal.expect(&publish(V311, 1, "mqtt/face/m1", &down)).await;
    other.send(&publish(V311, 4, "mqtt/face/m1/Ack", &down)).await;
    other.expect(&puback(4)).await;
    let up = format!(r#"{{"messageId":"{text}","code":200,"info":"ok"}}"#);
    terminal.send(&publish(V311, 2, "mqtt/face/m1/heartbeat", "")).await;
    terminal.expect(&puback(2)).await;
    terminal.send(&publish(V311, 3, "mqtt/face/m1/Ack", &up)).await;
    let state = ended(&rig, sent).await.state;
    assert_eq!((state.status, state.result.as_deref()), (CommandStatus::Acknowledged, Some(&*up)));
    assert_eq!(rig.quarantines(1).await[0].0, "not_allowed", "nobody answers for others");
    let no_place = NewCommand { attempts_max: Some(1), ..command("[1]") };
    send(&rig, METER, no_place).await;
    rig.figure_becomes("fieldpost_mqtt_commands_dropped_total{reason=\"no_place\"}", 1).await;
}

#[tokio::test]
async fn an_entry_changed_at_the_device_is_taken() {
    let rig = Rig::start().await;
    let desired_state =
        rig.engine.commands().set_desired(id("0xA"), "door".into(), Some("\"open\"".into())).await;
    assert!(desired_state.expect("a device").command.is_some());
    let mut device = RawClient::connect(rig.mqtt, named(V5, "0xA")).await;
    device.send(&publish(V5, 3, "dev/lock/0xA/confirmed", r#"{"key":"door","value":"shut"}"#)).await;
    device.expect(&puback(3)).await;
    let desired_states = rig.engine.queries().desired_states(&id("0xA")).expect("a device");
    assert_eq!(desired_states.len(), 1);
    assert_eq!(desired_states[0].confirmed.as_deref(), Some("\"shut\""));
    assert_eq!(desired_states[0].desired, None, "what is newer clears the wish");
}
