//! What refusals leave in the log: a line each while they are few, and never more lines than they
//! are.

use std::fs;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::overload::raw::{Mqtt, packet, text};
use crate::overload::rig::Rig;

/// A device's login; `secret` is its password.
const LOGIN: &str = "[[auth.mqtt]]\nusername = \"gate\"\n\
    password_sha256 = \"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\"\ndevice = \"0xA\"\n";

fn connect(client_id: &str, username: &str, password: &str) -> Vec<u8> {
    let body =
        [&b"\0\x04MQTT\x04\xc2\0\x3c"[..], &text(client_id), &text(username), &text(password)].concat();
    packet(0x10, &body)
}

#[tokio::test]
async fn every_refusal_over_mqtt_leaves_one_line_that_names_the_peer() {
    let rig = Rig::start_with(LOGIN, &[("FIELDPOST_DEVICES__UNKNOWN", "reject")]).await;
    let client_id = "me\nforged \x1b[31m";
    let mut wrong = Mqtt::open(rig.mqtt).await.expect("connected");
    wrong.0.write_all(&connect(client_id, "gate\nforged", "wrong")).await.expect("sent");
    wrong.ended().await;
    let mut right = Mqtt::open(rig.mqtt).await.expect("connected");
    right.0.write_all(&connect(client_id, "gate", "secret")).await.expect("sent");
    for (topic, payload) in
        [("dev/lock/0xA/state", "1"), ("dev/lock/0xB/state", "1"), ("else\nforged/0xA", "1")]
    {
        let publish = [&text(topic)[..], &[0, 1], payload.as_bytes()].concat();
        right.0.write_all(&packet(0x32, &publish)).await.expect("sent");
    }
    right.0.write_all(b"\xe0\0").await.expect("sent");
    right.ended().await;
    let log = fs::read_to_string(rig.site.log_path()).expect("a log");
    for words in [
        ["refused an MQTT login", "bad_credentials", "gate"],
        ["refused a report", "unknown_device", "0xA"],
        ["refused a report", "not_allowed", "dev/lock/0xB/state"],
        ["refused a report", "not_allowed", "else"],
    ] {
        let named = |line: &&str| words.iter().all(|word| line.contains(word));
        let lines: Vec<_> = log.lines().filter(named).collect();
        assert_eq!(lines.len(), 1, "{words:?}: {log}");
        assert!(["mqtt", "127.0.0.1:", "gate"].iter().all(|word| lines[0].contains(word)), "{}", lines[0]);
    }
    assert!(!log.contains('\x1b') && !log.lines().any(|line| line.starts_with("forged")), "{log}");
    rig.stop().await;
}

#[tokio::test]
async fn a_login_that_has_all_its_connections_leaves_a_line_that_says_whose_they_are() {
    let rig = Rig::start_with(LOGIN, &[("FIELDPOST_MQTT__CONNECTIONS_PER_LOGIN_MAX", "1")]).await;
    let mut clients = Vec::new();
    for client_id in ["first", "second"] {
        let (mut client, mut connack) = (Mqtt::open(rig.mqtt).await.expect("connected"), [0; 4]);
        client.0.write_all(&connect(client_id, "gate", "secret")).await.expect("sent");
        client.0.read_exact(&mut connack).await.expect("answered");
        assert_eq!(connack, [0x20, 2, 0, 0], "{client_id}");
        clients.push(client);
    }
    let log = fs::read_to_string(rig.site.log_path()).expect("a log");
    let full: Vec<_> =
        log.lines().filter(|line| line.contains("an MQTT login has all its connections")).collect();
    let expect = [
        "its oldest ends",
        "way=\"mqtt\"",
        "username=\"gate\"",
        "client=\"second\"",
        "peer=127.0.0.1:",
        "code=\"outnumbered\"",
    ];
    assert!(full.len() == 1 && expect.iter().all(|part| full[0].contains(part)), "{log}");
    rig.stop().await;
}
