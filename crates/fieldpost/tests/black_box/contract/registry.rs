//! Clients, devices and links.

use serde_json::{Value, json};

use crate::contract::rig::Rig;

/// Path, body; status and code.
type Row = (&'static str, Value, u16, &'static str);

fn client_rows() -> Vec<Row> {
    let url = "https://example.com/hook";
    let client = |id: &str, url: &str| json!({"id": id, "name": "x", "url": url});
    vec![
        ("/v1/clients", client("Az_-09", url), 201, ""),
        ("/v1/clients", client("Az_-09", url), 409, "exists"),
        ("/v1/clients", client("AZ_-09", url), 201, ""),
        ("/v1/clients", client(&"a".repeat(64), url), 201, ""),
        ("/v1/clients", client(&"a".repeat(65), url), 422, "invalid_id"),
        ("/v1/clients", client("", url), 422, "invalid_id"),
        ("/v1/clients", client("a b", url), 422, "invalid_id"),
        ("/v1/clients", client("ä", url), 422, "invalid_id"),
        ("/v1/clients", json!({"name": "x"}), 422, "missing_field"),
        ("/v1/clients", json!({"url": url}), 422, "missing_field"),
        ("/v1/clients", json!({"name": 1, "url": url}), 422, "wrong_type"),
        ("/v1/clients", json!({"name": "ä".repeat(256), "url": url}), 201, ""),
        ("/v1/clients", json!({"name": "ä".repeat(257), "url": url}), 422, "too_long"),
        ("/v1/clients", json!({"name": "x", "url": url, "colour": 1}), 422, "unknown_field"),
        ("/v1/clients", json!({"name": "x", "url": url, "secret": "whsec_AAAA"}), 422, "invalid_secret"),
        ("/v1/clients", client("u1", "ftp://example.com/"), 422, "invalid_url"),
        ("/v1/clients", client("u2", "example.com"), 422, "invalid_url"),
        ("/v1/clients", client("u3", "http://127.1/"), 422, "private_address"),
        ("/v1/clients", client("u4", "http://0.0.0.0/"), 422, "private_address"),
        ("/v1/clients", client("u5", "http://[::]/"), 422, "private_address"),
        ("/v1/clients", client("u6", "http://2130706433/"), 422, "private_address"),
        ("/v1/clients", client("u7", "http://0x7f.1/"), 422, "private_address"),
        ("/v1/clients", client("u8", "http://[::ffff:10.0.0.1]/"), 422, "private_address"),
        ("/v1/clients", client("u9", "http://169.254.169.254/"), 422, "private_address"),
    ]
}

fn device_rows() -> Vec<Row> {
    let labels =
        |count: usize| (0..count).map(|at| (format!("k{at}"), json!("v"))).collect::<serde_json::Map<_, _>>();
    vec![
        ("/v1/devices", json!({"id": "0xA"}), 201, ""),
        ("/v1/devices", json!({"id": "0xA"}), 409, "exists"),
        ("/v1/devices", json!({"id": "0xa"}), 201, ""),
        ("/v1/devices", json!({"id": "0123456789abcdefg"}), 422, "invalid_id"),
        ("/v1/devices", json!({"id": "a/b"}), 422, "invalid_id"),
        ("/v1/devices", json!({"id": 1}), 422, "wrong_type"),
        ("/v1/devices", json!({}), 422, "missing_field"),
        ("/v1/devices", json!({"id": "k1", "kind": "m".repeat(32)}), 201, ""),
        ("/v1/devices", json!({"id": "k2", "kind": "m".repeat(33)}), 422, "invalid_kind"),
        ("/v1/devices", json!({"id": "k3", "kind": "Meter"}), 422, "invalid_kind"),
        ("/v1/devices", json!({"id": "a1", "address": "x".repeat(257)}), 422, "too_long"),
        ("/v1/devices", json!({"id": "l1", "labels": labels(16)}), 201, ""),
        ("/v1/devices", json!({"id": "l2", "labels": labels(17)}), 422, "too_many_labels"),
        ("/v1/devices", json!({"id": "l3", "labels": {"A": "v"}}), 422, "invalid_label"),
        ("/v1/devices", json!({"id": "l4", "labels": {"a": "ä".repeat(64)}}), 201, ""),
        ("/v1/devices", json!({"id": "l5", "labels": {"a": "ä".repeat(65)}}), 422, "invalid_label"),
        ("/v1/devices", json!({"id": "l6", "labels": {"a": 1}}), 422, "wrong_type"),
        ("/v1/devices", json!({"id": "i1", "report_interval": "1s"}), 201, ""),
        ("/v1/devices", json!({"id": "i2", "report_interval": "999ms"}), 422, "invalid_interval"),
        ("/v1/devices", json!({"id": "i3", "report_interval": 60}), 422, "wrong_type"),
        ("/v1/devices", json!({"id": "s1", "state": {}}), 422, "unknown_field"),
    ]
}

#[tokio::test]
async fn what_may_be_registered_is_and_the_rest_is_refused() {
    let rig = Rig::start(&[]).await;
    for (path, body, status, code) in client_rows().into_iter().chain(device_rows()) {
        let answer = rig.json("POST", path, &body.to_string()).await;
        assert_eq!((answer.status, answer.text("code").as_str()), (status, code), "{body}: {answer:?}");
    }
}

#[tokio::test]
async fn a_patch_merges_and_null_clears() {
    let rig = Rig::start(&[]).await;
    rig.device(&json!({"id": "0xA", "address": "here", "labels": {"a": "1"}, "report_interval": "5m"})).await;
    let kept = |address: Value, labels: Value, interval: Value| (address, labels, interval);
    for (patch, expected) in [
        (json!({}), kept(json!("here"), json!({"a": "1"}), json!("5m"))),
        (json!({"labels": {"b": "2"}}), kept(json!("here"), json!({"a": "1", "b": "2"}), json!("5m"))),
        (json!({"labels": {"a": null}}), kept(json!("here"), json!({"b": "2"}), json!("5m"))),
        (json!({"address": null, "labels": null}), kept(json!(null), json!({}), json!("5m"))),
        (
            json!({"report_interval": null, "id": "0xA", "kind": "lock"}),
            kept(json!(null), json!({}), json!(null)),
        ),
    ] {
        let answer = rig.json("PATCH", "/v1/devices/0xA", &patch.to_string()).await;
        let device = answer.json();
        let found =
            kept(device["address"].clone(), device["labels"].clone(), device["report_interval"].clone());
        assert_eq!((answer.status, found), (200, expected), "{patch}");
    }
    for patch in [json!({"id": "0xB"}), json!({"kind": "meter"}), json!({"state": {}})] {
        assert_eq!(rig.json("PATCH", "/v1/devices/0xA", &patch.to_string()).await.status, 422, "{patch}");
    }
}

#[tokio::test]
async fn a_secret_is_shown_once() {
    let rig = Rig::start(&[]).await;
    let client = json!({"id": "acme", "name": "n", "url": "https://example.com/"});
    let made = rig.json("POST", "/v1/clients", &client.to_string()).await;
    assert!(made.text("secret").starts_with("whsec_"), "{made:?}");
    let patch = r#"{"name":"m","url":"https://example.com/2","enabled":false}"#;
    let patched = rig.json("PATCH", "/v1/clients/acme", patch).await.json();
    assert_eq!((&patched["name"], &patched["enabled"]), (&json!("m"), &json!(false)));
    for shown in
        [patched, rig.get("/v1/clients/acme").await, rig.get("/v1/clients").await["items"][0].clone()]
    {
        assert_eq!((&shown["id"], shown.get("secret")), (&json!("acme"), None), "{shown}");
    }
}

#[tokio::test]
async fn a_rotated_secret_is_shown_once_and_a_key_repeats_its_answer() {
    let rig = Rig::start(&[]).await;
    let client = json!({"id": "acme", "name": "n", "url": "https://example.com/"});
    let made = rig.json("POST", "/v1/clients", &client.to_string()).await.text("secret");
    let address = rig.site.http.address().await;
    let rotate = async || {
        let key = [("Idempotency-Key", "k")];
        crate::wire::ask(address, "POST", "/v1/clients/acme/rotate-secret", &key, b"").await
    };
    let (first, again) = (rotate().await, rotate().await);
    assert!(first.status == 200 && first.text("secret").starts_with("whsec_"), "{first:?}");
    assert_eq!(first.body, again.body);
    assert_ne!(first.text("secret"), made);
    assert_eq!(rig.get("/v1/clients/acme").await.get("secret"), None);
}

#[tokio::test]
async fn devices_are_found_by_what_they_are() {
    let rig = Rig::start(&[]).await;
    rig.device(&json!({"id": "b", "labels": {"site": "12", "floor.no": "1"}})).await;
    rig.device(&json!({"id": "a", "kind": "meter", "labels": {"site": "12"}})).await;
    rig.device(&json!({"id": "C"})).await;
    rig.report("C", 1).await;
    for (query, found) in [
        ("", vec!["C", "a", "b"]),
        ("?kind=meter", vec!["a"]),
        ("?label.site=12", vec!["a", "b"]),
        ("?label.site=12&label.floor.no=1", vec!["b"]),
        ("?label.site=12&label.site=1", vec![]),
        ("?label.site=1", vec![]),
        ("?label.site=", vec![]),
        ("?label.none=1", vec![]),
        ("?connection=online", vec!["C"]),
        ("?connection=never_seen&kind=lock", vec!["b"]),
        ("?connection=lost", vec![]),
    ] {
        let devices = rig.items(&format!("/v1/devices{query}")).await;
        assert_eq!(crate::contract::rig::each(&devices, "id"), found, "{query}");
    }
}

#[tokio::test]
async fn both_sides_list_a_link_and_a_device_has_a_hundred_at_most() {
    let rig = Rig::start(&[]).await;
    rig.device(&json!({"id": "0xA"})).await;
    for at in 0..=100 {
        let client = json!({"id": format!("c{at:03}"), "name": "n", "url": "https://example.com/"});
        let _: Value = rig.api.post("/v1/clients", &client).await.expect("registered");
        let link = rig.json("PUT", &format!("/v1/devices/0xA/clients/c{at:03}"), "").await;
        let expected = if at < 100 { (204, "") } else { (409, "too_many_links") };
        assert_eq!((link.status, link.text("code").as_str()), expected, "{at}");
    }
    assert_eq!(rig.json("PUT", "/v1/devices/0xA/clients/c000", "").await.status, 204, "it is linked already");
    assert_eq!(rig.items("/v1/devices/0xA/clients").await.len(), 100);
    assert_eq!(rig.items("/v1/clients/c007/devices").await[0]["id"], "0xA");
    for (path, status) in [
        ("/v1/devices/0xA/clients/c007", 204),
        ("/v1/devices/0xA/clients/c007", 204),
        ("/v1/devices/0xA/clients/none", 404),
        ("/v1/devices/none/clients/c007", 404),
    ] {
        assert_eq!(rig.json("DELETE", path, "").await.status, status, "{path}");
    }
    assert!(rig.items("/v1/clients/c007/devices").await.is_empty());
}

#[tokio::test]
async fn a_device_that_is_registered_again_starts_anew() {
    let rig = Rig::start(&[]).await;
    rig.device(&json!({"id": "0xA"})).await;
    rig.report("0xA", 1).await;
    assert_eq!(rig.json("DELETE", "/v1/devices/0xA", "").await.status, 204);
    assert_eq!(rig.json("GET", "/v1/devices/0xA/readings", "").await.status, 404);
    rig.device(&json!({"id": "0xA"})).await;
    let state = rig.get("/v1/devices/0xA").await["state"].clone();
    let blank = json!({
        "value": null, "changed_at": null, "last_seen_at": null, "connection": "never_seen", "connected": false,
    });
    assert_eq!(state, blank);
    assert!(rig.items("/v1/devices/0xA/readings").await.is_empty());
    assert!(rig.items("/v1/events?device=0xA").await.is_empty());
}
