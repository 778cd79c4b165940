//! Messages that come whole, in pieces, slowly and not at all, by a clock that is moved.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;

use futures_util::future::poll_immediate;
use net::memory_budget::PART_BYTES;
use prost::Message as _;
use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;
use tokio::time::{Instant, advance, pause, timeout};
use tonic::Code;

use super::call_memory::while_called;
use super::call_messages::CallBody;
use super::*;
use crate::MESSAGE_BYTES_MAX;
use crate::proto::new_stream_message::Payload;
use crate::proto::{AppendRequest, NewStreamMessage};

fn framed(bytes: usize) -> Vec<u8> {
    let mut message = vec![0];
    message.extend((bytes as u32).to_be_bytes());
    message.resize(HEAD_BYTES + bytes, 7);
    message
}

/// A body whose pieces come when they are sent.
struct Pieces {
    ready: VecDeque<Bytes>,
    come: mpsc::UnboundedReceiver<Bytes>,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(piece) = self.ready.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        self.come.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// The largest message, and how many of it the budget, a sender and a connection have memory for.
const LARGE: usize = 16 << 20;
const LARGE_MAX: usize = PART_BYTES / LARGE;
const LARGE_OF_SENDER_MAX: usize = SENDER_BYTES / LARGE;
const LARGE_OF_CONNECTION_MAX: usize = CONNECTION_BYTES / LARGE;

fn places() -> MessageMemory {
    MessageMemory::new(&MemoryBudget::default(), &GrpcMetrics::default())
}

impl MessageMemory {
    /// How much of the budget messages have, in bytes.
    fn held(&self) -> usize {
        PART_BYTES - self.memory.free_bytes()
    }
}

type Client = mpsc::UnboundedSender<Bytes>;

/// A call of somebody else each time that has sent this much, in frames.
fn call(connection: &ConnectionPlaces, sends: Sends, sent: &[u8]) -> (Client, Guarded<Pieces>) {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let token = CALLS.fetch_add(1, Ordering::Relaxed).to_string();
    call_of(&token, connection, sends, sent)
}

fn call_of(
    token: &str,
    connection: &ConnectionPlaces,
    sends: Sends,
    sent: &[u8],
) -> (Client, Guarded<Pieces>) {
    let (client, come) = mpsc::unbounded_channel();
    let ready = sent.chunks(FREE_BYTES).map(Bytes::copy_from_slice).collect();
    (client, connection.guard(Pieces { ready, come }, sends, SenderKey::Token(token.into())))
}

/// Reads until nothing more is there: the code of a refusal, if it comes to that.
async fn read(call: &mut Guarded<Pieces>) -> Option<Code> {
    loop {
        match poll_fn(|cx| Pin::new(&mut *call).poll_frame(cx)).await {
            Some(Ok(_)) => {}
            Some(Err(status)) => return Some(status.code()),
            None => return None,
        }
    }
}

async fn waits(call: &mut Guarded<Pieces>) -> bool {
    timeout(Duration::ZERO, read(call)).await.is_err()
}

#[test]
fn the_size_of_a_message_is_known_as_soon_as_its_head_is() {
    let stream = [framed(3), framed(0), framed(10)].concat();
    for cut in 1..stream.len() {
        let mut message = Message::default();
        for piece in stream.chunks(cut) {
            message.passes(piece);
            assert!([0, 3, 10].contains(&message.bytes) && message.came() <= message.bytes, "{cut}");
        }
        assert!(!message.is_begun(), "{cut}");
    }
    let mut message = Message::default();
    assert!(message.passes(&framed(300)[..1]) && message.is_begun());
    assert!(message.passes(&framed(300)[1..HEAD_BYTES]));
    assert!(!message.passes(&[7; 299]));
    assert_eq!((message.bytes, message.left, message.came()), (300, 1, 299));
}

#[tokio::test]
async fn announcing_large_messages_holds_up_nobody() {
    let places = places();
    let mut held = Vec::new();
    for _ in 0..2 * LARGE_MAX {
        let (sender, mut call) = call(&places.of_connection(), Sends::One, &framed(16 << 20)[..15]);
        assert!(waits(&mut call).await);
        held.push((sender, call));
    }
    let honest = framed(MEDIUM_BYTES_MAX + 1);
    let (sender, mut call) = call(&places.of_connection(), Sends::One, &honest);
    drop(sender);
    assert_eq!(read(&mut call).await, None, "it is all there");
}

#[tokio::test]
async fn a_connection_takes_a_share_of_the_memory() {
    for bytes in [MEDIUM_BYTES_MAX, LARGE] {
        let places = places();
        let (greedy, mut held) = (places.of_connection(), Vec::new());
        for _ in 0..2 * CONNECTION_BYTES / bytes {
            let (sender, mut call) = call(&greedy, Sends::One, &framed(bytes)[..2 * FREE_BYTES]);
            assert!(waits(&mut call).await);
            held.push((sender, call));
        }
        assert_eq!(places.held(), CONNECTION_BYTES, "{bytes}");
        drop(held);
        assert_eq!((places.held(), places.begun_bytes.load(Ordering::Relaxed)), (0, 0));
    }
}

#[tokio::test]
async fn who_has_a_place_and_sends_nothing_loses_it_to_who_waits() {
    pause();
    let places = places();
    let large = framed(LARGE);
    let mut held: Vec<_> = Vec::new();
    for _ in 0..LARGE_MAX {
        let (sender, mut call) = call(&places.of_connection(), Sends::One, &large[..2 * FREE_BYTES]);
        assert!(waits(&mut call).await);
        held.push((sender, tokio::spawn(async move { read(&mut call).await })));
    }
    let start = Instant::now();
    let (sender, mut honest) = call(&places.of_connection(), Sends::One, &framed(MEDIUM_BYTES_MAX + 1));
    drop(sender);
    assert_eq!(read(&mut honest).await, None);
    assert!(start.elapsed() <= 2 * RECEIVING.every, "{:?}", start.elapsed());
}

#[tokio::test]
async fn who_does_not_end_its_call_loses_its_memory_to_who_waits() {
    pause();
    let (places, large) = (places(), framed(LARGE));
    let (connection, mut held) = (places.of_connection(), Vec::new());
    for _ in 0..LARGE_OF_CONNECTION_MAX {
        let (client, mut body) = call(&connection, Sends::One, &large);
        let mut called = Box::pin(until_answered(async move { read(&mut body).await }));
        assert!(poll_immediate(&mut called).await.is_none(), "its end does not come");
        held.push((client, tokio::spawn(called)));
    }
    assert_eq!(places.held(), CONNECTION_BYTES);
    let start = Instant::now();
    let (client, mut next) = call(&connection, Sends::One, &framed(MEDIUM_BYTES_MAX + 1));
    drop(client);
    assert_eq!(read(&mut next).await, None);
    assert!(start.elapsed() <= 2 * RECEIVING.every, "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_message_that_has_begun_comes_in_time_or_not_at_all() {
    pause();
    let places = places();
    for (sends, sent, expect) in [
        (Sends::One, &framed(300)[..0], Some(30)),
        (Sends::One, &framed(300)[..2], Some(30)),
        (Sends::One, &framed(300)[..200], Some(30)),
        (Sends::One, &framed(300)[..], Some(30)),
        (Sends::One, &framed(32_768)[..200], Some(32)),
        (Sends::Stream, &framed(300)[..200], Some(30)),
        (Sends::Stream, &framed(300)[..0], None),
        (Sends::Stream, &framed(300)[..], None),
    ] {
        let start = Instant::now();
        let (sender, mut call) = call(&places.of_connection(), sends, sent);
        let ended = timeout(Duration::from_secs(86_400), read(&mut call)).await;
        let took = ended.is_ok().then(|| start.elapsed().as_secs());
        assert_eq!(took, expect, "{sends:?} {}", sent.len());
        assert_eq!(ended.ok().flatten(), expect.map(|_| Code::DeadlineExceeded));
        drop(sender);
    }
}

#[tokio::test]
async fn time_in_which_we_do_not_read_does_not_count() {
    pause();
    let places = places();
    let message = framed(300);
    let (sender, mut call) = call(&places.of_connection(), Sends::Stream, &message[..200]);
    assert!(waits(&mut call).await);
    advance(Duration::from_secs(3_600)).await;
    assert!(waits(&mut call).await, "nobody read meanwhile");
    sender.send(Bytes::copy_from_slice(&message[200..])).expect("it is read");
    drop(sender);
    assert_eq!(read(&mut call).await, None);
}

#[tokio::test]
async fn a_token_takes_a_share_of_the_memory_however_many_connections_it_has() {
    let places = places();
    let mut held = Vec::new();
    for _ in 0..2 * LARGE_MAX {
        let sent = &framed(LARGE)[..2 * FREE_BYTES];
        let (client, mut call) = call_of("one", &places.of_connection(), Sends::One, sent);
        assert!(waits(&mut call).await);
        held.push((client, call));
    }
    assert_eq!(places.held(), LARGE_OF_SENDER_MAX * LARGE);
    let honest = framed(MEDIUM_BYTES_MAX + 1);
    let (client, mut call) = call_of("other", &places.of_connection(), Sends::One, &honest);
    drop(client);
    assert_eq!(read(&mut call).await, None);
}

/// The messages of a call that has sent all it will.
fn all_messages(sent: &[u8]) -> CallMessages<AppendRequest, Pieces> {
    let (_, body) = call(&places().of_connection(), Sends::Stream, sent);
    messages_of(body)
}

fn messages_of(body: Guarded<Pieces>) -> CallMessages<AppendRequest, Pieces> {
    let body = CallBody::new(body);
    let streaming = CallMessages::streaming(&body, MESSAGE_BYTES_MAX);
    CallMessages { streaming, body: Some(body), bytes_max: MESSAGE_BYTES_MAX, large_bytes: 0 }
}

#[tokio::test]
async fn a_message_of_a_stream_has_its_memory_until_the_next_one_is_asked_for() {
    let places = places();
    let data = Some(Payload::Data(vec![7; 20 * FREE_BYTES].into()));
    let message = NewStreamMessage { payload: data, ..NewStreamMessage::default() };
    let append = AppendRequest { messages: vec![message], ..AppendRequest::default() }.encode_to_vec();
    let sent = [&[0][..], &(append.len() as u32).to_be_bytes(), &append[..]].concat();
    let (_client, body) = call(&places.of_connection(), Sends::Stream, &sent);
    let mut messages = messages_of(body);
    assert!(messages.message().await.expect("it can be read").is_some());
    assert!(places.held() >= 20 * FREE_BYTES);
    assert!(poll_immediate(std::pin::pin!(messages.message())).await.is_none());
    assert_eq!(places.held(), 0);
}

#[tokio::test]
async fn that_others_wait_for_the_memory_of_half_a_message_is_seen_while_nobody_reads_on() {
    let (places, large) = (places(), framed(LARGE));
    let half = &large[..2 * FREE_BYTES];
    let mut held = Vec::new();
    for _ in 1..LARGE_MAX {
        let (client, mut call) = call(&places.of_connection(), Sends::Stream, half);
        assert!(waits(&mut call).await);
        held.push((client, call));
    }
    let (_client, body) = call(&places.of_connection(), Sends::Stream, half);
    let mut messages = messages_of(body);
    let is_wanted = messages.memory_wanted();
    assert!(timeout(Duration::ZERO, messages.message()).await.is_err());
    assert!(!is_wanted(), "nobody waits");
    let (_other, mut waiting) = call(&places.of_connection(), Sends::One, half);
    assert!(waits(&mut waiting).await);
    assert!(is_wanted());
    drop(messages);
    assert!(!is_wanted(), "its call is over");
}

#[tokio::test]
async fn behind_a_message_that_cannot_be_read_nothing_is_kept() {
    let mut messages = all_messages(&[&[0][..], &4_u32.to_be_bytes(), &[0xff; 4]].concat());
    assert!(messages.message().await.is_err());
    assert!(messages.body.is_none(), "neither body nor buffer");
    assert!(messages.message().await.expect("it ends").is_none());
}

#[tokio::test]
async fn the_buffer_of_a_large_message_goes_with_it() {
    let append = |bytes: usize| {
        let message = NewStreamMessage {
            payload: Some(Payload::Data(vec![7; bytes].into())),
            ..NewStreamMessage::default()
        };
        AppendRequest { messages: vec![message], ..AppendRequest::default() }
    };
    let appends = [3, 20 * FREE_BYTES, 5, 0, 2 * FREE_BYTES].map(append);
    let framed = |append: &AppendRequest| {
        let message = append.encode_to_vec();
        [&[0][..], &(message.len() as u32).to_be_bytes(), &message[..]].concat()
    };
    let sent = appends.iter().flat_map(framed).collect::<Vec<_>>();
    let mut messages = all_messages(&sent);
    for expect in appends {
        let came = messages.message().await.expect("it can be read").expect("there is one");
        assert_eq!(came.encoded_len(), expect.encoded_len());
        let Some(Payload::Data(data)) = &came.messages[0].payload else { panic!("it has data") };
        if data.len() > FREE_BYTES {
            assert!(data.is_unique(), "it shares nothing with a buffer");
        }
    }
    assert!(messages.message().await.expect("it can be read").is_none());
}

#[tokio::test]
async fn who_waits_too_long_for_memory_is_refused() {
    pause();
    let (places, message) = (places(), framed(LARGE));
    let (connection, mut held) = (places.of_connection(), Vec::new());
    for _ in 0..LARGE_OF_CONNECTION_MAX {
        let (client, mut call) = call(&connection, Sends::One, &message[..2 * FREE_BYTES]);
        assert!(waits(&mut call).await);
        held.push((client, call));
    }
    let (_client, mut call) = call(&connection, Sends::Stream, &message[..2 * FREE_BYTES]);
    assert!(waits(&mut call).await);
    assert_eq!(connection.own.wanted().waiting(), 1, "it waits for its connection");
    let start = Instant::now();
    assert_eq!(read(&mut call).await, Some(Code::Unavailable));
    assert_eq!(start.elapsed(), WAIT_MAX);
    assert_eq!(connection.own.wanted().waiting(), 0);
}

#[tokio::test]
async fn a_call_has_the_memory_of_its_only_message_until_it_is_answered() {
    pause();
    let (places, large) = (places(), framed(LARGE));
    let (connection, mut unanswered) = (places.of_connection(), Vec::new());
    for _ in 0..LARGE_OF_CONNECTION_MAX {
        let (client, mut body) = call(&connection, Sends::One, &large);
        drop(client);
        let (answer, answered) = oneshot::channel();
        let mut called = Box::pin(until_answered(async move {
            assert_eq!(read(&mut body).await, None);
            drop(body);
            answered.await
        }));
        assert!(poll_immediate(&mut called).await.is_none());
        unanswered.push((answer, called));
    }
    assert_eq!(places.held(), CONNECTION_BYTES);
    let (_client, mut next) = call(&connection, Sends::One, &large[..2 * FREE_BYTES]);
    assert_eq!(read(&mut next).await, Some(Code::Unavailable));
    for (answer, called) in unanswered {
        answer.send(()).expect("it is waited for");
        assert_eq!(called.await, Ok(()));
    }
    assert_eq!((places.held(), connection.own.free()), (0, CONNECTION_BYTES / UNIT_BYTES));
}

#[tokio::test]
async fn a_call_with_memory_goes_on_when_its_caller_hangs_up() {
    let (places, large) = (places(), framed(LARGE));
    for gives_back in [false, true] {
        let (client, mut body) = call(&places.of_connection(), Sends::One, &large);
        drop(client);
        let (answer, answered) = oneshot::channel::<()>();
        let mut called = Box::pin(until_answered(async move {
            assert_eq!(read(&mut body).await, None);
            if gives_back {
                give_back();
            }
            answered.await
        }));
        assert!(poll_immediate(&mut called).await.is_none());
        drop(called);
        assert_eq!(places.held(), if gives_back { 0 } else { LARGE });
        assert_eq!(answer.send(()).is_ok(), !gives_back, "whether it goes on");
        while places.held() > 0 {
            yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_call_that_waits_for_others_gives_the_memory_of_its_message_back() {
    let (places, large) = (places(), framed(LARGE));
    let (client, mut body) = call(&places.of_connection(), Sends::One, &large);
    drop(client);
    let called = async {
        assert_eq!(read(&mut body).await, None);
        assert_eq!(places.held(), LARGE);
        give_back();
        places.held()
    };
    assert_eq!(while_called(called).await, 0);
}

#[tokio::test]
async fn another_large_message_of_a_call_with_one_is_refused() {
    let places = places();
    let sent = [&framed(MEDIUM_BYTES_MAX)[..], &framed(3), &framed(MEDIUM_BYTES_MAX)[..2 * FREE_BYTES]];
    let (_client, mut body) = call(&places.of_connection(), Sends::One, &sent.concat());
    let called = async { (read(&mut body).await, places.held()) };
    assert_eq!(while_called(called).await, (Some(Code::InvalidArgument), MEDIUM_BYTES_MAX));
}
