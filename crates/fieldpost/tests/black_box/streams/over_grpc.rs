//! The service `Streams` of gRPC: the same streams as over HTTP.

use futures_util::stream;
use grpc::proto::new_stream_message::{ExternalId, Payload};
use grpc::proto::streams_client::StreamsClient;
use grpc::proto::{
    AppendRequest, NewStreamMessage, ReadRequest, ReadResponse, StreamMessage, stream_message,
};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::{Code, Streaming};

use super::{MODES, S, append, append_numbers, numbers, read_all, set};
use crate::commands::over_grpc::{channel, refused};
use crate::contract::rig::{PATIENCE, Rig};

fn message(number: u64) -> NewStreamMessage {
    NewStreamMessage {
        payload: Some(Payload::Json(number.to_string().into())),
        source: "till-4".to_owned(),
        external_id: Some(ExternalId::Number(number)),
        ..NewStreamMessage::default()
    }
}

/// A batch that names its stream.
fn batch(messages: Vec<NewStreamMessage>) -> AppendRequest {
    AppendRequest {
        namespace: "shop".to_owned(),
        stream: "orders".to_owned(),
        messages,
        expect_last_id: None,
    }
}

fn from_start() -> ReadRequest {
    ReadRequest { namespace: "shop".to_owned(), stream: "orders".to_owned(), ..ReadRequest::default() }
}

async fn next(pages: &mut Streaming<ReadResponse>) -> Option<ReadResponse> {
    timeout(PATIENCE, pages.message()).await.expect("in time").expect("it goes on")
}

/// All that a read has until it ends.
async fn whole(mut pages: Streaming<ReadResponse>) -> Vec<StreamMessage> {
    let mut messages = Vec::new();
    while let Some(page) = next(&mut pages).await {
        messages.extend(page.messages);
    }
    messages
}

#[tokio::test]
async fn batches_are_answered_in_their_order() {
    let mut rig = Rig::start(&[]).await;
    let mut streams = StreamsClient::new(channel(&rig).await);
    let batches = (0..50).map(|number| {
        let messages = (number * 100..number * 100 + 100).map(message).collect();
        // Only the first one names the stream.
        if number == 0 { batch(messages) } else { AppendRequest { messages, ..AppendRequest::default() } }
    });
    let mut answers =
        streams.append(stream::iter(batches.collect::<Vec<_>>())).await.expect("it begins").into_inner();
    let mut ids = Vec::new();
    while let Some(answer) = timeout(PATIENCE, answers.message()).await.expect("in time").expect("it goes on")
    {
        ids.extend(answer.messages.iter().map(|message| message.id.expect("an id")));
    }
    assert_eq!(ids, (1..=5_000).collect::<Vec<_>>());
    rig.restart().await;
    assert_eq!(numbers(&read_all(&rig).await, "payload"), (0..5_000).collect::<Vec<_>>());
    let mut streams = StreamsClient::new(channel(&rig).await);
    let again = batch(vec![
        message(7),
        NewStreamMessage { payload: Some(Payload::Data(vec![0].into())), ..message(8) },
    ]);
    let mut answers = streams.append(stream::iter([again])).await.expect("it begins").into_inner();
    let answer = answers.message().await.expect("answered").expect("one");
    let told: Vec<_> = answer.messages.iter().map(|m| (m.id, m.duplicate, m.conflict)).collect();
    assert_eq!(told, [(Some(8), true, false), (Some(9), true, true)]);
}

#[tokio::test]
async fn what_was_answered_outlives_a_kill_in_every_mode() {
    for mode in MODES {
        let mut rig = Rig::start(&[]).await;
        let block = json!({"age": "1h"});
        set(&rig, &json!({"save": mode, "save_interval": "20ms", "block": block})).await;
        let mut streams = StreamsClient::new(channel(&rig).await);
        let batches: Vec<_> = (0..20).map(|number| batch(vec![message(number)])).collect();
        let mut answers = streams.append(stream::iter(batches)).await.expect("it begins").into_inner();
        for _ in 0..20 {
            let answer = timeout(PATIENCE, answers.message()).await.expect("in time").expect("it goes on");
            assert_eq!(answer.expect("an answer").messages.len(), 1, "{mode}");
        }
        rig.restart().await;
        let all = numbers(&read_all(&rig).await, "payload");
        assert_eq!(all, (0..20).collect::<Vec<_>>(), "{mode}");
    }
}

#[tokio::test]
async fn an_answer_comes_while_the_call_goes_on() {
    let rig = Rig::start(&[]).await;
    let mut streams = StreamsClient::new(channel(&rig).await);
    let (sender, batches) = mpsc::channel(1);
    let batches = stream::unfold(batches, |mut batches| async move {
        let batch = batches.recv().await?;
        Some((batch, batches))
    });
    let mut answers = streams.append(batches).await.expect("it begins").into_inner();
    for number in 1..=3 {
        sender.send(batch(vec![message(number)])).await.expect("it takes them");
        let answer = timeout(PATIENCE, answers.message()).await.expect("in time").expect("answered");
        assert_eq!(answer.expect("one").messages[0].id, Some(number));
    }
    drop(sender);
    assert!(answers.message().await.expect("it ends well").is_none());
}

#[tokio::test]
async fn a_refused_batch_ends_the_call_behind_those_before_it() {
    let rig = Rig::start(&[]).await;
    let mut streams = StreamsClient::new(channel(&rig).await);
    let wrong = |change: fn(&mut AppendRequest)| {
        let mut wrong = batch(vec![message(2)]);
        change(&mut wrong);
        wrong
    };
    for (number, (wrong, code)) in [
        (wrong(|batch| batch.messages[0].payload = None), "missing_field"),
        (wrong(|batch| batch.messages[0].external_id = None), "missing_field"),
        (wrong(|batch| batch.messages[0].segment = "a b".to_owned()), "invalid_name"),
        (wrong(|batch| batch.stream = "_own".to_owned()), "reserved_name"),
        (wrong(|batch| batch.messages.clear()), "missing_field"),
    ]
    .into_iter()
    .enumerate()
    {
        let good = batch(vec![message(1_000 + number as u64)]);
        let mut answers = streams.append(stream::iter([good, wrong])).await.expect("it begins").into_inner();
        let first = answers.message().await.expect("answered").expect("one");
        assert_eq!(first.messages[0].id, Some(number as u64 + 1), "{code}");
        assert_eq!(refused(answers.message().await), (Code::InvalidArgument, code.to_owned()));
    }
    let behind = AppendRequest { expect_last_id: Some(99), ..batch(vec![message(1)]) };
    let mut answers = streams.append(stream::iter([behind])).await.expect("it begins").into_inner();
    assert_eq!(refused(answers.message().await), (Code::FailedPrecondition, "tail_moved".to_owned()));
    let unnamed = AppendRequest { messages: vec![message(1)], ..AppendRequest::default() };
    let mut answers = streams.append(stream::iter([unnamed])).await.expect("it begins").into_inner();
    assert_eq!(refused(answers.message().await), (Code::InvalidArgument, "missing_field".to_owned()));
}

#[tokio::test]
async fn a_read_gives_everything_and_ends_or_goes_on() {
    let rig = Rig::start(&[]).await;
    set(&rig, &json!({"block": {"messages": 100}})).await;
    append_numbers(&rig, 0, 1_000).await;
    append(&rig, &json!({"payload": 1_000, "segment": "eu", "headers": {"k": "v"}})).await;
    append(&rig, &json!({"payload_base64": "AP8="})).await;
    let mut streams = StreamsClient::new(channel(&rig).await);
    let all = whole(streams.read(from_start()).await.expect("it begins").into_inner()).await;
    assert_eq!(all.iter().map(|message| message.id).collect::<Vec<_>>(), (1..=1_002).collect::<Vec<_>>());
    assert_eq!(all[1_001].payload, Some(stream_message::Payload::Data(vec![0, 255].into())));
    let of_segment = ReadRequest { segments: vec!["eu".to_owned()], ..from_start() };
    let of_segment = whole(streams.read(of_segment).await.expect("it begins").into_inner()).await;
    assert_eq!(of_segment, [all[1_000].clone()]);
    assert_eq!(of_segment[0].headers["k"], "v");
    let behind = ReadRequest { after: 1_002, follow: true, ..from_start() };
    let mut pages = streams.read(behind).await.expect("it begins").into_inner();
    for number in 0..3 {
        append(&rig, &json!({"payload": number})).await;
        let page = next(&mut pages).await.expect("a page");
        let payload = Some(stream_message::Payload::Json(number.to_string().into()));
        assert_eq!(page.messages[0].payload, payload);
        assert_eq!(page.next_after, 1_003 + number);
    }
    let deleted = rig.json("DELETE", S, "").await;
    assert_eq!(deleted.status, 204);
    let ended = timeout(PATIENCE, pages.message()).await.expect("in time");
    assert_eq!(refused(ended), (Code::NotFound, "unknown_stream".to_owned()));
}

#[tokio::test]
async fn a_read_that_cannot_be_is_refused() {
    let rig = Rig::start(&[]).await;
    let mut streams = StreamsClient::new(channel(&rig).await);
    let read = streams.read(from_start()).await.expect("it begins").into_inner().message().await;
    assert_eq!(refused(read), (Code::NotFound, "unknown_stream".to_owned()));
    for (request, code) in [
        (ReadRequest { stream: "a.b".to_owned(), ..from_start() }, "invalid_name"),
        (ReadRequest { segments: vec![String::new()], ..from_start() }, "invalid_name"),
    ] {
        assert_eq!(refused(streams.read(request).await), (Code::InvalidArgument, code.to_owned()));
    }
}
