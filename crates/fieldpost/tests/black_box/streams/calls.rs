//! What comes back of what was given: messages, the stream, its blocks and handlers, and the list.

use serde_json::{Value, json};

use super::{S, append, append_numbers, ids, numbers, read, refused, set, stream};
use crate::contract::rig::{Rig, each};
use crate::wire;

/// The members of an object, in order of their names.
fn members(object: &Value) -> Vec<&str> {
    let mut names: Vec<_> = object.as_object().expect("an object").keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn a_message_comes_back_as_it_was_given() {
    let rig = Rig::start(&[]).await;
    let full = json!({
        "payload": {"order": 17, "lines": [1, 2]},
        "source": "till-4",
        "external_id": 1001,
        "segment": "eu.west",
        "ts": "2026-11-21T01:02:03+02:00",
        "headers": {"trace": "abc", "kind": "order"},
    });
    let answer = rig.json("POST", &format!("{S}/messages"), &full.to_string()).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.json(), json!({"messages": [{"id": "1", "duplicate": false}]}));
    append(&rig, &json!({"payload_base64": "AP8"})).await;
    let page = read(&rig, "").await;
    assert_eq!(members(&page), ["items", "next_after", "skipped"]);
    assert_eq!((&page["next_after"], &page["skipped"]), (&json!("2"), &json!(0)));
    let mut expect = full;
    expect["id"] = json!("1");
    expect["external_id"] = json!("1001");
    expect["ts"] = json!("2026-11-20T23:02:03.000Z");
    assert_eq!(page["items"][0], expect);
    let plain = &page["items"][1];
    assert_eq!(members(plain), ["external_id", "id", "payload_base64", "segment", "source", "ts"]);
    assert_eq!(plain["payload_base64"], "AP8=");
    assert_eq!(json!([plain["source"], plain["external_id"], plain["segment"]]), json!([null, null, null]));
    for item in page["items"].as_array().expect("items") {
        let id = item["id"].as_str().expect("an id");
        assert_eq!(rig.get(&format!("{S}/messages/{id}")).await, *item);
    }
}

#[tokio::test]
async fn payloads_keep_their_numbers_their_escapes_and_their_order() {
    let mut rig = Rig::start(&[]).await;
    let payloads = [
        (
            r#"{"b": 1.50, "a":[1E+2, 12345678901234567890123]}"#,
            r#"{"b":1.50,"a":[1E+2,12345678901234567890123]}"#,
        ),
        (r#""\u00e9  é""#, r#""\u00e9  é""#),
        ("null", "null"),
        (r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2}"#),
    ];
    for (given, _) in payloads {
        let answer = rig.json("POST", &format!("{S}/messages"), &format!(r#"{{"payload":{given}}}"#)).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    rig.restart().await;
    let page = rig.ask("GET", &format!("{S}/messages"), "", "").await;
    for (_, shown) in payloads {
        assert!(page.body.contains(&format!(r#""payload":{shown}"#)), "{shown} is not in {}", page.body);
    }
}

#[tokio::test]
async fn many_are_appended_in_order_and_all_or_none() {
    let rig = Rig::start(&[]).await;
    let appended = append_numbers(&rig, 1, 1_000).await;
    assert_eq!(numbers(&appended, "id"), (1..=1_000).collect::<Vec<_>>());
    let wrong = json!({"messages": [{"payload": 1}, {"payload": 2, "segment": "a b"}]});
    let answer = rig.json("POST", &format!("{S}/messages"), &wrong.to_string()).await;
    assert_eq!(refused(&answer), (422, "invalid_name".to_owned()), "{answer:?}");
    assert_eq!(stream(&rig).await["last_id"], "1000");
    assert_eq!(ids(&append(&rig, &json!({"payload": 1})).await), ["1001"]);
}

#[tokio::test]
async fn an_append_may_say_what_it_expects_to_be_last() {
    let rig = Rig::start(&[]).await;
    for (expected, status) in [("3", 409), ("0", 201), ("0", 409), ("1", 201)] {
        let body = json!({"messages": [{"payload": expected}], "expect_last_id": expected});
        let answer = rig.json("POST", &format!("{S}/messages"), &body.to_string()).await;
        assert_eq!(answer.status, status, "{expected}: {answer:?}");
        assert!(status == 201 || answer.text("code") == "tail_moved", "{answer:?}");
    }
    append(&rig, &json!({"payload": "one", "expect_last_id": 2})).await;
    assert_eq!(each(read(&rig, "").await["items"].as_array().expect("items"), "payload"), ["0", "1", "one"]);
}

#[tokio::test]
async fn a_stream_shows_how_much_is_in_it() {
    let rig = Rig::start(&[]).await;
    append_numbers(&rig, 1, 3).await;
    let shown = stream(&rig).await;
    let expect = [
        "blocks",
        "bytes",
        "bytes_in_memory",
        "first_id",
        "last_id",
        "messages",
        "namespace",
        "settings",
        "storages",
        "stream",
    ];
    assert_eq!(members(&shown), expect);
    let of_it = json!([shown["namespace"], shown["stream"], shown["first_id"], shown["last_id"]]);
    assert_eq!(of_it, json!(["shop", "orders", "1", "3"]));
    assert_eq!((&shown["messages"], &shown["blocks"]), (&json!(3), &json!(1)), "{shown}");
    assert!(shown["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{shown}");
    assert_eq!(shown["storages"]["local"], json!({"blocks": 0, "bytes": 0}), "{shown}");
    let usual = json!({
        "save": "sync",
        "save_interval": "1s",
        "block": {"bytes": "1MB", "age": "1m", "messages": 10_000},
        "keep": {"age": "7d", "bytes": null, "until_copied": true},
        "when_full": "drop_oldest",
        "unload_after": "1m",
        "move": [],
    });
    assert_eq!(shown["settings"], usual);
    let blocks = rig.items(&format!("{S}/blocks")).await;
    let expect = ["bytes", "created_at", "first_id", "last_id", "loaded", "messages", "saved", "storage"];
    assert_eq!((blocks.len(), members(&blocks[0])), (1, expect.to_vec()));
    let of_it =
        json!([blocks[0]["first_id"], blocks[0]["last_id"], blocks[0]["messages"], blocks[0]["saved"]]);
    assert_eq!(of_it, json!(["1", "3", 3, true]), "what is answered is durable");
    let handlers = rig.get(&format!("{S}/handlers")).await;
    let handlers = handlers["items"].as_array().expect("items");
    for handler in handlers {
        let known = ["idle", "running", "waiting", "paused"];
        assert!(known.contains(&handler["state"].as_str().expect("a word")), "{handler}");
    }
    let names: Vec<_> = handlers.iter().map(|handler| handler["handler"].as_str().expect("a word")).collect();
    assert!(names.contains(&"unload") && names.contains(&"delete"), "{names:?}");
}

#[tokio::test]
async fn streams_are_listed_in_order_page_by_page() {
    let rig = Rig::start(&[]).await;
    let names = [("a", "z"), ("b", "a"), ("b", "b"), ("b-c", "a"), ("c", "x")];
    for (namespace, name) in names.into_iter().rev() {
        let path = format!("/v1/streams/{namespace}/{name}");
        let answer = if name == "b" {
            rig.json("PUT", &format!("{path}/settings"), "{}").await
        } else {
            rig.json("POST", &format!("{path}/messages"), r#"{"payload":1}"#).await
        };
        assert!(answer.status < 300, "{answer:?}");
    }
    let shown = |items: &[Value]| -> Vec<(String, String)> {
        let text = |item: &Value, name: &str| item[name].as_str().expect("a name").to_owned();
        items.iter().map(|item| (text(item, "namespace"), text(item, "stream"))).collect()
    };
    let all = names.map(|(namespace, name)| (namespace.to_owned(), name.to_owned()));
    assert_eq!(shown(&rig.items("/v1/streams").await), all);
    let (mut pages, mut next) = (Vec::new(), String::new());
    loop {
        let page = rig.get(&format!("/v1/streams?limit=2{next}")).await;
        pages.extend(page["items"].as_array().cloned().expect("items"));
        match page["next_cursor"].as_str() {
            Some(cursor) => next = format!("&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(shown(&pages), all, "page by page");
    assert_eq!(shown(&rig.items("/v1/streams?namespace=b").await), all[1..3]);
    assert_eq!(shown(&rig.items("/v1/streams?namespace=none").await), []);
}

#[tokio::test]
async fn a_stream_that_is_deleted_and_made_again_is_another() {
    let mut rig = Rig::start(&[]).await;
    set(&rig, &json!({"save": "wait", "save_interval": "10ms"})).await;
    append(&rig, &json!({"payload": "first", "source": "till-4", "external_id": 7})).await;
    assert_eq!(rig.json("DELETE", S, "").await.status, 204);
    for path in ["", "/messages", "/messages/1", "/blocks", "/handlers"] {
        let answer = rig.json("GET", &format!("{S}{path}"), "").await;
        assert_eq!(refused(&answer), (404, "unknown_stream".to_owned()), "{path}: {answer:?}");
    }
    assert_eq!(refused(&rig.json("DELETE", S, "").await), (404, "unknown_stream".to_owned()));
    let again = append(&rig, &json!({"payload": "second", "source": "till-4", "external_id": 7})).await;
    assert_eq!(again, [json!({"id": "1", "duplicate": false})]);
    rig.restart().await;
    assert_eq!(each(read(&rig, "").await["items"].as_array().expect("items"), "payload"), ["second"]);
    assert_eq!(stream(&rig).await["settings"]["save"], "sync", "settings went with it");
}

#[tokio::test]
async fn a_key_of_idempotency_appends_once() {
    let rig = Rig::start(&[]).await;
    let address = rig.site.http.address().await;
    for payload in ["1", "1", "2"] {
        let body = format!(r#"{{"payload":{payload}}}"#);
        let headers = [("Idempotency-Key", "k")];
        let answer = wire::ask(address, "POST", &format!("{S}/messages"), &headers, body.as_bytes()).await;
        match payload {
            "1" => assert_eq!((answer.status, &answer.json()["messages"][0]["id"]), (201, &json!("1"))),
            _ => assert_eq!(refused(&answer), (422, "idempotency_key_reused".to_owned())),
        }
    }
    assert_eq!(stream(&rig).await["messages"], 1);
}

#[tokio::test]
async fn a_key_does_not_outlive_its_message() {
    let mut rig = Rig::start(&[]).await;
    set(&rig, &json!({"save": "memory"})).await;
    for is_restarted in [false, true] {
        if is_restarted {
            rig.restart().await;
            assert_eq!(read(&rig, "").await["items"], json!([]), "the crash lost it");
        }
        for _ in 0..2 {
            let address = rig.site.http.address().await;
            let headers = [("Idempotency-Key", "k")];
            let answer =
                wire::ask(address, "POST", &format!("{S}/messages"), &headers, br#"{"payload":1}"#).await;
            assert_eq!(answer.status, 201, "{answer:?}");
            let items = read(&rig, "").await["items"].clone();
            assert_eq!(items.as_array().map(Vec::len), Some(1), "{items}");
            assert_eq!(answer.json()["messages"][0]["id"], items[0]["id"]);
        }
    }
}
