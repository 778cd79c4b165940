//! Commands: what is asked, what is asked again, and how their end is waited for.

use std::time::Duration;

use fieldpost_client::{CommandFilter, CommandId, CommandStatus, NewCommand};
use serde_json::{Value, json};

use crate::stage::{Reply, Stage, ok, refused};

fn command(status: &str) -> Value {
    json!({ "id": "cmd_1", "device_id": "face7", "status": status, "tries": 1, "payload": 1,
        "created_at": "2026-11-21T01:02:03.456Z" })
}

fn open() -> NewCommand {
    NewCommand::json(&json!({ "open": 1 })).expect("JSON")
}

#[tokio::test]
async fn a_command_whose_answer_is_lost_is_asked_again_under_its_key() {
    let stage = Stage::new(|asked| match asked.before {
        0 => Reply::Break,
        _ => Reply::Answer(201, json!({ "id": "cmd_1", "status": "scheduled" }).to_string()),
    })
    .await;
    let sent = stage.client().device("a/b").send(&open().key("door")).await.expect("sent at last");
    assert_eq!((sent.id.as_str(), sent.status), ("cmd_1", CommandStatus::Scheduled));
    let asked = stage.asked();
    let keys: Vec<_> = asked.iter().map(|asked| asked.header("idempotency-key").expect("a key")).collect();
    assert_eq!((keys.len(), keys[0]), (2, keys[1]));
    assert_eq!((asked[0].method.as_str(), asked[0].path.as_str()), ("POST", "/v1/devices/a%2Fb/commands"));
    assert_eq!(asked[0].json(), json!({ "payload": { "open": 1 }, "key": "door" }));
}

#[tokio::test]
async fn a_call_answers_how_it_ended() {
    let stage = Stage::new(|_| ok(&command("acknowledged"))).await;
    let ended = stage.client().device("face7").call(&open(), Duration::from_secs(30)).await.expect("an end");
    assert_eq!((ended.status, ended.tries), (CommandStatus::Acknowledged, 1));
    assert_eq!(stage.asked()[0].path, "/v1/devices/face7/commands?wait=30000ms");
}

#[tokio::test]
async fn a_command_is_waited_for_until_it_has_ended() {
    let statuses = ["scheduled", "published", "running", "failed"];
    let stage = Stage::new(move |asked| ok(&command(statuses[asked.before.min(3)]))).await;
    let commands = stage.client().commands();
    let id = CommandId::new("cmd_1");
    let ended = commands.wait(&id, Duration::from_secs(60)).await.expect("an end");
    assert_eq!((ended.status, stage.asked().len()), (CommandStatus::Failed, 4));
    let stage = Stage::new(|_| ok(&command("published"))).await;
    let waiting = stage.client().commands().wait(&id, Duration::ZERO).await.expect("a command");
    assert_eq!((waiting.status.has_ended(), stage.asked().len()), (false, 1));
}

#[tokio::test]
async fn a_cancellation_that_got_through_unseen_is_one() {
    for (now, is_done) in [("cancelled", true), ("acknowledged", false)] {
        let stage = Stage::new(move |asked| match (asked.method.as_str(), asked.before) {
            ("DELETE", 0) => Reply::Break,
            ("DELETE", _) => refused(409, "finished"),
            _ => ok(&command(now)),
        })
        .await;
        let cancelled = stage.client().commands().cancel(&CommandId::new("cmd_1")).await;
        assert_eq!(cancelled.is_ok(), is_done, "{now}: {cancelled:?}");
    }
}

#[tokio::test]
async fn lists_wishes_and_retries_ask_what_the_api_reads() {
    let stage = Stage::new(|asked| match asked.method.as_str() {
        "GET" if asked.path.ends_with("desired") => {
            ok(&json!({ "items": [{ "key": "lamp", "desired": null, "confirmed": "on", "pending": true }] }))
        }
        "GET" => ok(&json!({ "items": [command("failed")], "next_cursor": null })),
        _ => Reply::Answer(204, String::new()),
    })
    .await;
    let (commands, device) = (stage.client().commands(), stage.client().device("face7"));
    let filter = CommandFilter::all().status(CommandStatus::Failed).device("face7").origin("a b");
    assert_eq!(commands.list(&filter, None).await.expect("a page").items.len(), 1);
    commands.retry(&CommandId::new("cmd_1")).await.expect("tried anew");
    device.wish("lamp", "off").await.expect("wished");
    device.wish_deleted("lamp").await.expect("wished");
    let entry = device.desired().await.expect("entries").remove(0);
    assert!(entry.pending && entry.desired.is_none() && entry.confirmed.is_some(), "{entry:?}");
    let asked: Vec<_> =
        stage.asked().iter().map(|asked| format!("{} {}", asked.method, asked.path)).collect();
    assert_eq!(
        asked,
        [
            "GET /v1/commands?status=failed&device=face7&origin=a%20b",
            "POST /v1/commands/cmd_1/retry",
            "PUT /v1/devices/face7/desired/lamp",
            "DELETE /v1/devices/face7/desired/lamp",
            "GET /v1/devices/face7/desired",
        ]
    );
    assert_eq!(stage.asked()[2].json(), json!({ "value": "off" }));
}
