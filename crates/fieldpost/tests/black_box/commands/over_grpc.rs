//! The service `Commands` of gRPC: the same commands as over HTTP.

use grpc::proto::commands_client::CommandsClient;
use grpc::proto::{
    CallRequest, CancelCommandRequest, Command, CommandStatus, GetCommandRequest, ListCommandsRequest,
    NewCommand, RetryCommandRequest, SendCommandRequest, new_command::Notify,
};
use serde_json::{Value, json};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::commands::device::{Device, Version};
use crate::commands::{shown, stands, with_locks};
use crate::contract::rig::Rig;

pub(crate) async fn channel(rig: &Rig) -> Channel {
    let text = std::fs::read(rig.site.log_path().with_file_name("ready.json")).expect("it was written");
    let ready: Value = serde_json::from_slice(&text).expect("one JSON object");
    let address = format!("http://{}", ready["grpc"].as_str().expect("gRPC is on"));
    let channel = Endpoint::from_shared(address).expect("an address").connect().await;
    channel.expect("it listens")
}

async fn client(rig: &Rig) -> CommandsClient<Channel> {
    CommandsClient::new(channel(rig).await)
}

pub(super) fn new(payload: &Value) -> NewCommand {
    NewCommand { payload: payload.to_string().into_bytes().into(), ..NewCommand::default() }
}

fn to(device: &str, command: NewCommand) -> SendCommandRequest {
    SendCommandRequest {
        device_id: device.to_owned(),
        command: Some(command),
        idempotency_key: String::new(),
    }
}

async fn send(client: &mut CommandsClient<Channel>, request: SendCommandRequest) -> Command {
    client.send(request).await.expect("sent").into_inner().command.expect("a command")
}

/// The status and the stable code of a refusal.
pub(crate) fn refused<T: std::fmt::Debug>(answer: Result<T, Status>) -> (Code, String) {
    let status = answer.expect_err("it is refused");
    let code = status.metadata().get("fieldpost-code").map(|code| code.to_str().expect("a word").to_owned());
    (status.code(), code.unwrap_or_default())
}

#[tokio::test]
async fn a_command_is_the_same_over_grpc_and_http() {
    let rig = with_locks().await;
    let mut commands = client(&rig).await;
    let command = NewCommand {
        origin: Some("plan 4".to_owned()),
        key: Some("door".to_owned()),
        priority: -5,
        max_attempts: Some(7),
        ttl: Some(prost_types::Duration { seconds: 3_600, nanos: 0 }),
        ..new(&json!({"open": [1.5, null]}))
    };
    let sent = send(&mut commands, to("0xA", command)).await;
    assert_eq!(sent.status(), CommandStatus::Scheduled);
    let over_http = shown(&rig, &sent.id).await;
    let expect = json!({"device_id": "0xA", "status": "scheduled", "payload": {"open": [1.5, null]},
        "origin": "plan 4", "key": "door", "priority": -5, "tries": 0, "max_attempts": 7});
    for (name, value) in expect.as_object().expect("an object") {
        assert_eq!(&over_http[name], value, "{name}");
    }
    assert!(over_http["expires_at"].is_string() && sent.expires_at.is_some());
    let got = commands.get(GetCommandRequest { id: sent.id.clone() }).await.expect("it is there");
    assert_eq!(got.into_inner().command.as_ref(), Some(&sent));
    let id = sent.id.clone();
    commands.cancel(CancelCommandRequest { id: id.clone() }).await.expect("cancelled");
    stands(&rig, &id, "cancelled").await;
    let twice = commands.cancel(CancelCommandRequest { id: id.clone() }).await;
    assert_eq!(refused(twice), (Code::FailedPrecondition, "finished".to_owned()));
    commands.retry(RetryCommandRequest { id: id.clone() }).await.expect("tried anew");
    stands(&rig, &id, "scheduled").await;
}

#[tokio::test]
async fn a_call_waits_for_the_answer_of_the_device() {
    let rig = with_locks().await;
    let mut commands = client(&rig).await;
    let mut device = Device::ready(&rig, Version::New, "0xA").await;
    let request = CallRequest {
        device_id: "0xA".to_owned(),
        command: Some(new(&json!("read"))),
        wait: Some(prost_types::Duration { seconds: 60, nanos: 0 }),
        ..CallRequest::default()
    };
    let answering = async {
        let (id, payload) = device.command().await;
        assert_eq!(payload, "read");
        device.answer(&id, true, &json!(21.5)).await;
    };
    let (called, ()) = tokio::join!(commands.call(request.clone()), answering);
    let ended = called.expect("answered").into_inner().command.expect("a command");
    assert_eq!((ended.status(), ended.result.as_deref()), (CommandStatus::Acknowledged, Some(&b"21.5"[..])));
    let shortly =
        CallRequest { wait: Some(prost_types::Duration { seconds: 0, nanos: 50_000_000 }), ..request };
    let present = commands.call(shortly).await.expect("answered").into_inner().command.expect("a command");
    assert_eq!((present.status(), present.tries), (CommandStatus::Published, 1));
}

#[tokio::test]
async fn commands_are_listed_page_by_page() {
    let rig = with_locks().await;
    let mut commands = client(&rig).await;
    let mut ids = Vec::new();
    for n in 0..7 {
        let device = if n % 2 == 0 { "0xA" } else { "0xB" };
        ids.push(send(&mut commands, to(device, new(&json!(n)))).await.id);
    }
    let (mut listed, mut page) = (Vec::new(), bytes::Bytes::new());
    loop {
        let request =
            ListCommandsRequest { ascending: true, limit: Some(2), page, ..ListCommandsRequest::default() };
        let answer = commands.list(request).await.expect("a page").into_inner();
        assert!(answer.commands.len() <= 2);
        listed.extend(answer.commands.into_iter().map(|command| command.id));
        page = answer.next_page;
        if page.is_empty() {
            break;
        }
    }
    // Commands of one millisecond are in no order that their senders could know.
    let mut sent = ids.clone();
    sent.sort();
    listed.sort();
    assert_eq!(listed, sent, "none is missing, and none is there twice");
    let request = ListCommandsRequest {
        device_id: "0xB".to_owned(),
        status: CommandStatus::Scheduled.into(),
        ..ListCommandsRequest::default()
    };
    let newest_first = commands.list(request).await.expect("a page").into_inner().commands;
    let found: Vec<_> = newest_first.iter().map(|command| &command.id).collect();
    assert_eq!(found, [&ids[5], &ids[3], &ids[1]]);
}

#[tokio::test]
async fn a_repeat_over_grpc_sends_nothing_again() {
    let rig = with_locks().await;
    let mut commands = client(&rig).await;
    let keyed = |payload: i32| {
        let notify = Some(Notify::NotifyUrl("https://ops.example/done".to_owned()));
        let command = NewCommand { notify, ..new(&json!(payload)) };
        SendCommandRequest { idempotency_key: "k1".to_owned(), ..to("0xA", command) }
    };
    let first = commands.send(keyed(1)).await.expect("sent").into_inner();
    assert_eq!(first.notify_secret.len(), 32, "a secret is made");
    assert_eq!(commands.send(keyed(1)).await.expect("the same").into_inner(), first);
    let other = refused(commands.send(keyed(2)).await);
    assert_eq!(other, (Code::InvalidArgument, "idempotency_key_reused".to_owned()));
    assert_eq!(rig.items("/v1/commands").await.len(), 1);
}

#[tokio::test]
async fn what_is_refused_over_http_is_refused_over_grpc() {
    let rig = with_locks().await;
    let mut commands = client(&rig).await;
    let plain = new(&json!(1));
    for (request, code, word) in [
        (to("none", plain.clone()), Code::NotFound, "unknown_device"),
        (to("a b", plain.clone()), Code::NotFound, "unknown_device"),
        (to("0xA", NewCommand::default()), Code::InvalidArgument, "unreadable"),
        (to("0xA", NewCommand { priority: 101, ..plain.clone() }), Code::InvalidArgument, "invalid_number"),
        (to("0xA", NewCommand { priority: 1_000, ..plain.clone() }), Code::InvalidArgument, "invalid_number"),
        (
            to("0xA", NewCommand { key: Some(String::new()), ..plain.clone() }),
            Code::InvalidArgument,
            "invalid_name",
        ),
        (
            to("0xA", NewCommand { notify_secret: vec![7; 24].into(), ..plain.clone() }),
            Code::InvalidArgument,
            "conflicting_fields",
        ),
        (to("0xA", new(&json!("x".repeat(256 * 1_024)))), Code::InvalidArgument, "payload_too_large"),
    ] {
        assert_eq!(refused(commands.send(request).await), (code, word.to_owned()), "{word}");
    }
    let unknown = commands.get(GetCommandRequest { id: "cmd_x".to_owned() }).await;
    assert_eq!(refused(unknown), (Code::NotFound, "unknown_command".to_owned()));
    let long = CallRequest {
        device_id: "0xA".to_owned(),
        command: Some(plain),
        wait: Some(prost_types::Duration { seconds: 301, nanos: 0 }),
        ..CallRequest::default()
    };
    assert_eq!(refused(commands.call(long).await), (Code::InvalidArgument, "invalid_duration".to_owned()));
    assert!(rig.items("/v1/commands").await.is_empty());
}
