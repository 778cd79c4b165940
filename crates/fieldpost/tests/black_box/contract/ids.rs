//! Device ids with more than letters and digits: `devices.id_chars`, over every way in that needs
//! no other server.

use std::path::Path;

use rumqttc::{AsyncClient, Event, MqttOptions, Packet, QoS};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use simulator::api_client::ApiClient;
use simulator::server::Site;
use tokio::time::timeout;

use crate::contract::rig::{BINARY, PATIENCE, Rig};

const EXTENDED: [(&str, &str); 2] =
    [("FIELDPOST_DEVICES__ID_CHARS", "extended"), ("FIELDPOST_DEVICES__ID_MAX_LEN", "36")];
const SERIAL: &str = "SN_7.4-b";
const MAC: &str = "00:1B:44:11:3A:B7";
const UUID: &str = "123e4567-e89b-12d3-a456-426614174000";

/// Registers, imports, links, reports, reads and deletes under an id.
async fn live(rig: &Rig, id: &str) {
    rig.device(&json!({"id": id, "labels": {"site": "12"}})).await;
    let line = json!({"id": id, "address": "12 Harbour St"}).to_string();
    let imported = rig.ask("POST", "/v1/devices/import", "application/x-ndjson", &line).await.json();
    assert_eq!((&imported["updated"], &imported["rejected_count"]), (&json!(1), &json!(0)), "{imported}");
    rig.api.put(&format!("/v1/devices/{id}/clients/acme")).await.expect("linked");
    rig.report(id, 1).await;
    assert_eq!(rig.get(&format!("/v1/devices/{id}")).await["state"]["value"], 1);
    rig.feed(&format!("/v1/devices/{id}/readings"), 1).await;
    rig.feed(&format!("/v1/events?device={id}"), 1).await;
    rig.feed(&format!("/v1/deliveries?device={id}"), 1).await;
    let escaped = id.replace(':', "%3A").replace('.', "%2E").replace('-', "%2D");
    assert_eq!(rig.get(&format!("/v1/devices/{escaped}")).await["id"], id);
}

#[tokio::test]
async fn serial_numbers_macs_and_uuids_are_ids_where_the_setting_says_so() {
    let rig = Rig::start_telling(&EXTENDED).await;
    let body = json!({"id": "acme", "name": "A", "url": "http://127.0.0.1:9/"}).to_string();
    assert_eq!(rig.json("POST", "/v1/clients", &body).await.status, 201);
    let ids = [SERIAL, MAC, UUID, "-", "_x", "a.."];
    for id in ids {
        live(&rig, id).await;
    }
    let mut expect = ids.map(str::to_owned);
    expect.sort();
    let devices = rig.items("/v1/devices").await;
    assert_eq!(
        crate::contract::rig::each(&devices, "id"),
        expect.map(Value::from),
        "in the order of their bytes"
    );
    for id in ids {
        assert_eq!(rig.json("DELETE", &format!("/v1/devices/{id}"), "").await.status, 204, "{id}");
    }
    for id in ["a/b", "a+b", "#", "a b", ".", "..", &"x".repeat(37)] {
        let answer = rig.json("POST", "/v1/devices", &json!({"id": id}).to_string()).await;
        assert_eq!((answer.status, answer.text("code").as_str()), (422, "invalid_id"), "{id}");
        let setting = if id.len() > 36 { "devices.id_max_len" } else { "devices.id_chars" };
        assert!(answer.text("detail").contains(setting), "{answer:?}");
    }
}

#[tokio::test]
async fn by_default_they_are_refused_and_the_refusal_names_the_setting() {
    let rig = Rig::start(&[]).await;
    let names_it = |detail: &str| assert!(detail.contains("devices.id_chars"), "{detail}");
    let registered = rig.json("POST", "/v1/devices", &json!({"id": SERIAL}).to_string()).await;
    let reported = json!({"device_id": SERIAL, "data": 1}).to_string();
    let reported = rig.json("POST", "/v1/reports", &reported).await;
    for answer in [registered, reported] {
        assert_eq!((answer.status, answer.text("code").as_str()), (422, "invalid_id"), "{answer:?}");
        names_it(&answer.text("detail"));
    }
    let line = json!({"id": SERIAL}).to_string();
    let imported = rig.ask("POST", "/v1/devices/import", "application/x-ndjson", &line).await.json();
    names_it(imported["rejected"][0]["detail"].as_str().expect("one is rejected"));
}

#[tokio::test]
async fn devices_that_are_registered_stay_when_the_setting_is_taken_back() {
    let mut rig = Rig::start(&EXTENDED).await;
    rig.device(&json!({"id": UUID})).await;
    rig.site.set("FIELDPOST_DEVICES__ID_CHARS", "alnum");
    rig.site.set("FIELDPOST_DEVICES__ID_MAX_LEN", "16");
    rig.restart().await;
    rig.report(UUID, 1).await;
    let batch = json!({"sensor_id": UUID, "data": 0}).to_string();
    let taken = rig.ask("POST", "/v1/reports", "application/x-ndjson", &batch).await.json();
    assert_eq!(taken["accepted"], 1, "{taken}");
    let changed = rig.json("PATCH", &format!("/v1/devices/{UUID}"), r#"{"address":"here"}"#).await;
    assert_eq!((changed.status, changed.text("address").as_str()), (200, "here"));
    let line = json!({"id": UUID, "address": "there"}).to_string();
    let imported = rig.ask("POST", "/v1/devices/import", "application/x-ndjson", &line).await.json();
    assert_eq!(imported["updated"], 1, "{imported}");
    let other = json!({"id": MAC}).to_string();
    let imported = rig.ask("POST", "/v1/devices/import", "application/x-ndjson", &other).await.json();
    assert_eq!(imported["rejected"][0]["code"], "invalid_id", "a new one is refused: {imported}");
    assert_eq!(rig.json("DELETE", &format!("/v1/devices/{UUID}"), "").await.status, 204);
    let again = rig.json("POST", "/v1/devices", &json!({"id": UUID}).to_string()).await;
    assert_eq!(again.text("code"), "invalid_id", "it would be a new device");
}

/// Publishes a report at QoS 1 and waits until it is acknowledged.
async fn publish(site: &Site, (username, password): (&str, &str), topic: &str, payload: &str) {
    let address = site.mqtt.address().await;
    let mut options = MqttOptions::new("ids", address.ip().to_string(), address.port());
    options.set_credentials(username, password);
    let (client, mut events) = AsyncClient::new(options, 10);
    client.publish(topic, QoS::AtLeastOnce, false, payload).await.expect("it is queued");
    let acknowledged = async {
        while !matches!(events.poll().await.expect("connected"), Event::Incoming(Packet::PubAck(_))) {}
    };
    timeout(PATIENCE, acknowledged).await.expect("in time");
}

fn logins() -> String {
    let sha256 = Sha256::digest(b"p").iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let login = |name: &str, whose: &str| {
        format!("[[auth.mqtt]]\nusername = \"{name}\"\npassword_sha256 = \"{sha256}\"\n{whose}\n")
    };
    login("one", &format!("device = \"{MAC}\"")) + &login("some", "prefix = \"SN_\"")
}

#[tokio::test]
async fn mqtt_topics_and_logins_know_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("f.toml");
    std::fs::write(&file, logins()).expect("written");
    let mut site = Site::new(Path::new(BINARY), &EXTENDED).expect("a directory");
    let with_file = format!("exec \"$@\" --config {}", file.display());
    site.start_through(["sh", "-c", &with_file, "sh"]);
    let server = site.start(PATIENCE).await.expect("ready");
    let api = ApiClient::new(site.http.clone(), PATIENCE);
    for id in [MAC, SERIAL, UUID] {
        let _device: Value = api.post("/v1/devices", &json!({"id": id})).await.expect("registered");
    }
    publish(&site, ("one", "p"), &format!("dev/lock/{MAC}/state"), "1").await;
    publish(&site, ("some", "p"), &format!("dev/lock/{SERIAL}/state"), r#"{"data":1}"#).await;
    publish(&site, ("some", "p"), "sensors", &json!({"sensor_id": SERIAL, "data": 0}).to_string()).await;
    publish(&site, ("one", "p"), &format!("dev/lock/{UUID}/state"), "1").await;
    let told = async |id: &str| -> Vec<Value> {
        let path = format!("/v1/devices/{id}/readings?order=asc");
        api.list::<Value>(&path).await.expect("a list").into_iter().map(|item| item["data"].clone()).collect()
    };
    assert_eq!(told(MAC).await, [json!(1)]);
    assert_eq!(told(SERIAL).await, [json!(1), json!(0)]);
    assert_eq!(told(UUID).await, [Value::Null; 0], "the login speaks for another device");
    server.kill().await.expect("killed");
}
