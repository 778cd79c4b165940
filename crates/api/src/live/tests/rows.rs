//! Rollouts, campaigns, operations and clients over live streams, what portals see of anything, and
//! how often devices are sent.

use tokio::time::Instant;

use super::*;

fn none(message: Option<Message>) {
    let message = message.expect("all that there are");
    assert_eq!((message.ids(), &message.data["gone"]), (Vec::<&str>::new(), &Json::Null), "{message:?}");
}

/// Those that stand there, of the first message that has any.
async fn until_status(reader: &mut Reader, status: &str) -> Vec<Json> {
    loop {
        let message = reader.next().await.expect("it has not ended");
        let items = message.data["items"].as_array().expect("items");
        let standing: Vec<_> = items.iter().filter(|item| item["status"] == status).cloned().collect();
        if !standing.is_empty() {
            return standing;
        }
    }
}

fn ids(items: &[Json]) -> Vec<&str> {
    items.iter().map(|item| item["id"].as_str().expect("an id")).collect()
}

#[tokio::test]
async fn rollouts_come_as_they_go_on() {
    let rig = Rig::start(&[]).await;
    rig.device("d1").await;
    let mut all = rig.open("topics=rollouts", None, None).await;
    let mut named = rig.open("topics=rollouts&rollout=r2,none", None, None).await;
    none(all.next().await);
    none(named.next().await);
    for id in ["r1", "r2"] {
        rig.make(&format!("PUT /v1/rollouts/{id}"), r#"{"payload":1,"devices":["d1"]}"#).await;
        rig.make(&format!("POST /v1/rollouts/{id}/pause"), "").await;
        let paused = until_status(&mut all, "paused").await;
        assert_eq!(ids(&paused), [id], "the other did not change");
    }
    assert_eq!(ids(&until_status(&mut named, "paused").await), ["r2"]);
    rig.make("DELETE /v1/rollouts/r1", "").await;
    assert_eq!(ids(&until_status(&mut all, "cancelled").await), ["r1"]);
}

#[tokio::test]
async fn campaigns_come_without_what_may_be_large_and_again_when_that_changes() {
    let rig = Rig::start(&[]).await;
    let mut all = rig.open("topics=campaigns", None, None).await;
    none(all.next().await);
    let path = "/v1/campaigns/c1";
    let body = r#"{"payload":1,"devices":["d1","d2"],"count":1,"every":"1h"}"#;
    rig.make(&format!("PUT {path}"), body).await;
    let begun = until_status(&mut all, "running").await;
    let begun = &begun[0];
    assert_eq!((&begun["id"], &begun["device_count"], &begun["count"]), (&"c1".into(), &2.into(), &1.into()));
    assert_eq!((begun.get("payload"), begun.get("devices")), (None, None), "{begun}");
    rig.make(&format!("PATCH {path}"), r#"{"payload":2}"#).await;
    let changed = until_status(&mut all, "running").await;
    assert_ne!(changed[0]["revision"], begun["revision"]);
}

#[tokio::test]
async fn operations_come_to_whoever_may_see_them() {
    let rig = Rig::start(&[("admin", "admin"), ("commands", "commands")]).await;
    let mut all = rig.open("topics=operations", Some("admin"), None).await;
    let mut own = rig.open("topics=operations", Some("commands"), None).await;
    none(all.next().await);
    none(own.next().await);
    let body = r#"{"action":"commands.cancel","filter":{}}"#;
    rig.make("POST /v1/operations", body).await;
    let begun = until_status(&mut all, "running").await;
    let (status, _) = rig.send("POST /v1/operations", Some("commands"), None, body).await;
    assert_eq!(status, 201);
    let seen = until_status(&mut own, "running").await;
    assert_eq!((seen.len(), &seen[0]["by"]), (1, &"commands".into()));
    rig.make(&format!("DELETE /v1/operations/{}", ids(&begun)[0]), "").await;
    assert_eq!(ids(&until_status(&mut all, "cancelled").await), ids(&begun));
}

#[tokio::test]
async fn an_operation_that_is_forgotten_is_gone() {
    let mut settings = EngineSettings::for_tests();
    settings.operations.keep = Duration::from_secs(8);
    let rig = Rig::with(&[], 16, settings).await;
    let mut reader = rig.open("topics=operations", None, None).await;
    none(reader.next().await);
    rig.make("POST /v1/operations", r#"{"action":"commands.cancel","filter":{}}"#).await;
    let begun = until_status(&mut reader, "running").await;
    rig.make(&format!("DELETE /v1/operations/{}", ids(&begun)[0]), "").await;
    until_status(&mut reader, "cancelled").await;
    let gone = reader.until("operations").await;
    assert_eq!(gone.data["gone"], serde_json::json!(ids(&begun)), "{gone:?}");
}

#[tokio::test]
async fn a_client_comes_when_it_is_changed_and_goes_when_it_is_deleted() {
    let rig = Rig::start(&[]).await;
    rig.client("acme").await;
    let mut reader = rig.open("topics=client&client=acme", None, None).await;
    assert_eq!(reader.next().await.expect("it").data["items"][0]["enabled"], true);
    rig.make("PATCH /v1/clients/acme", r#"{"enabled":false}"#).await;
    assert_eq!(reader.next().await.expect("it").data["items"][0]["enabled"], false);
    rig.make("DELETE /v1/clients/acme", "").await;
    assert_eq!(reader.next().await.expect("it is gone").data["gone"], serde_json::json!(["acme"]));
}

/// Two clients with a device each and one that both are linked to.
async fn two_clients() -> Rig {
    let rig = Rig::start(&[("admin", "admin")]).await;
    for client in ["acme", "other"] {
        rig.client(client).await;
    }
    for (device, clients) in [("d0", &["acme"][..]), ("d1", &["other"]), ("both", &["acme", "other"])] {
        rig.device(device).await;
        for client in clients {
            rig.make(&format!("PUT /v1/devices/{device}/clients/{client}"), "").await;
        }
    }
    rig
}

#[tokio::test]
async fn two_portals_never_see_rows_of_each_other() {
    let rig = two_clients().await;
    for (client, others) in [("acme", "d1"), ("other", "d0")] {
        let (token, _) = rig.portal(client).await;
        for topics in ["overview", "commands", "notices", "rollouts", "operations", "devices&ids=d0"] {
            let (status, _) = rig.refused(&format!("topics={topics}&client={client}"), Some(&token)).await;
            assert_eq!(status, 403, "{topics}");
        }
        let foreign = if client == "acme" { "other" } else { "acme" };
        for query in
            ["topics=deliveries", "topics=events&device=both", &format!("topics=events&client={foreign}")]
        {
            assert_eq!(rig.refused(query, Some(&token)).await, (403, "forbidden".to_owned()), "{query}");
        }
        let query = format!("topics=deliveries,events,client&client={client}");
        let mut reader = rig.open(&query, Some(&token), None).await;
        for device in [others, "both"] {
            rig.report(device, 0..3).await;
        }
        let mut seen = 0;
        while seen < 3 {
            let message = reader.next().await.expect("its own");
            for item in message.data["items"].as_array().expect("items") {
                match message.event.as_str() {
                    "client" => assert_eq!(item["id"], client),
                    "deliveries" => assert_eq!(item["client_id"], client, "{item}"),
                    _ => {
                        assert_ne!(item["device_id"], others, "{item}");
                        seen += usize::from(item["device_id"] == "both");
                    }
                }
            }
        }
        drop(reader);
    }
}

#[tokio::test]
async fn a_stream_ends_when_its_portal_is_closed() {
    let rig = two_clients().await;
    let (token, id) = rig.portal("acme").await;
    let mut reader = rig.open("topics=deliveries&client=acme", Some(&token), None).await;
    assert_eq!(reader.next().await.expect("deliveries").event, "deliveries");
    rig.make(&format!("DELETE /v1/clients/acme/portal/{id}"), "").await;
    let end = reader.next().await.expect("the end");
    assert_eq!((end.event.as_str(), &end.data["code"]), ("end", &"unauthorized".into()));
    assert!(reader.next().await.is_none());
}

#[tokio::test]
async fn devices_that_report_all_the_time_are_sent_twice_a_second() {
    let rig = Rig::start(&[]).await;
    rig.device("d1").await;
    let mut reader = rig.open("topics=devices&ids=d1", None, None).await;
    let begun = Instant::now();
    let reports = async {
        for value in 0.. {
            rig.report("d1", value..value + 1).await;
        }
    };
    let messages = async {
        for _ in 0..4 {
            assert_eq!(reader.until("devices").await.ids(), ["d1"]);
        }
    };
    tokio::select! {
        () = reports => unreachable!("they go on"),
        () = messages => {}
    }
    // The first at once, the second with the next moment, the others each half a second later.
    assert!(begun.elapsed() >= Duration::from_millis(1_000), "{:?}", begun.elapsed());
}
