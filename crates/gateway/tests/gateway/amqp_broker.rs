//! The server's side of AMQP 0-9-1, byte by byte, as far as a consumer needs it. So a test says
//! when something is delivered, and sees what it is told and in which order.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::PATIENCE;

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const FRAME_END: u8 = 0xce;
const HANDSHAKE_BYTES: usize = 8;
const CONSUMER: &[u8] = b"c";

/// Class and method of what is exchanged.
type Method = (u16, u16);
const CONNECTION_START: Method = (10, 10);
const CONNECTION_START_OK: Method = (10, 11);
const CONNECTION_TUNE: Method = (10, 30);
const CONNECTION_TUNE_OK: Method = (10, 31);
const CONNECTION_OPEN: Method = (10, 40);
const CONNECTION_OPEN_OK: Method = (10, 41);
const CONNECTION_CLOSE: Method = (10, 50);
const CONNECTION_CLOSE_OK: Method = (10, 51);
const CHANNEL_OPEN: Method = (20, 10);
const CHANNEL_OPEN_OK: Method = (20, 11);
const CHANNEL_CLOSE: Method = (20, 40);
const CHANNEL_CLOSE_OK: Method = (20, 41);
const QUEUE_DECLARE: Method = (50, 10);
const QUEUE_DECLARE_OK: Method = (50, 11);
const BASIC_QOS: Method = (60, 10);
const BASIC_QOS_OK: Method = (60, 11);
const BASIC_CONSUME: Method = (60, 20);
const BASIC_CONSUME_OK: Method = (60, 21);
const BASIC_CANCEL: Method = (60, 30);
const BASIC_CANCEL_OK: Method = (60, 31);
const BASIC_DELIVER: Method = (60, 60);
const BASIC_ACK: Method = (60, 80);
const BASIC_NACK: Method = (60, 120);

/// Waits for consumers.
pub(crate) struct Broker(TcpListener);

/// A consumer's connection.
pub(crate) struct Link {
    stream: TcpStream,
    last_tag: u64,
    /// What a look at the queue is told: messages and consumers.
    pub(crate) queue: (u32, u32),
}

/// What the consumer said, in the order in which it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConsumerAction {
    /// It looked at the queue, and was answered.
    Looked,
    /// Everything up to this delivery is acknowledged.
    Acknowledged(u64),
    /// Everything up to this delivery is rejected without requeue.
    Rejected(u64),
    /// It wants no more deliveries.
    Cancelled,
    /// It closed the channel.
    ClosedChannel,
    /// It closed the connection.
    Closed,
}

impl Broker {
    pub(crate) async fn listen() -> Self {
        Self(TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port"))
    }

    pub(crate) fn url(&self) -> String {
        format!("amqp://{}", self.0.local_addr().expect("bound"))
    }

    /// The next connection, before its handshake.
    pub(crate) async fn accept(&self) -> TcpStream {
        timeout(PATIENCE, self.0.accept()).await.expect("in time").expect("a connection").0
    }

    /// The next connection, when it consumes a queue that looks so.
    pub(crate) async fn consumer(&self, queue: (u32, u32)) -> Link {
        let mut link = Link { stream: self.accept().await, last_tag: 0, queue };
        let mut handshake = [0; HANDSHAKE_BYTES];
        link.stream.read_exact(&mut handshake).await.expect("a handshake");
        link.say(0, CONNECTION_START, &[&[0, 9], &long(b""), &long(b"PLAIN"), &long(b"en_US")]).await;
        link.hear(CONNECTION_START_OK).await;
        link.say(0, CONNECTION_TUNE, &[&2_047_u16.to_be_bytes(), &131_072_u32.to_be_bytes(), &[0, 0]]).await;
        link.hear(CONNECTION_TUNE_OK).await;
        link.answer(0, CONNECTION_OPEN, CONNECTION_OPEN_OK, &[&short(b"")]).await;
        link.answer(1, CHANNEL_OPEN, CHANNEL_OPEN_OK, &[&long(b"")]).await;
        assert_eq!(link.next().await, ConsumerAction::Looked);
        link.answer(1, BASIC_QOS, BASIC_QOS_OK, &[]).await;
        link.answer(1, BASIC_CONSUME, BASIC_CONSUME_OK, &[&short(CONSUMER)]).await;
        link
    }
}

impl Link {
    /// Delivers a message; the first one has tag 1.
    pub(crate) async fn deliver(&mut self, body: &str) {
        self.last_tag += 1;
        let tag = self.last_tag.to_be_bytes();
        self.say(1, BASIC_DELIVER, &[&short(CONSUMER), &tag, &[0], &short(b""), &short(b"q")]).await;
        let size = (body.len() as u64).to_be_bytes();
        self.write(HEADER, 1, &[&[0, 60, 0, 0], &size[..], &[0, 0]].concat()).await;
        self.write(BODY, 1, body.as_bytes()).await;
    }

    /// What the consumer says next; what wants an answer has one.
    pub(crate) async fn next(&mut self) -> ConsumerAction {
        let (method, arguments) = self.read_method().await;
        let tag = || u64::from_be_bytes(arguments[..8].try_into().expect("a tag"));
        match method {
            BASIC_ACK => {
                assert_eq!(arguments[8], 1, "multiple");
                ConsumerAction::Acknowledged(tag())
            }
            BASIC_NACK => {
                assert_eq!(arguments[8], 1, "multiple, without requeue");
                ConsumerAction::Rejected(tag())
            }
            QUEUE_DECLARE => {
                let (messages, consumers) = self.queue;
                let counts = [messages.to_be_bytes(), consumers.to_be_bytes()].concat();
                self.say(1, QUEUE_DECLARE_OK, &[&short(b"q"), &counts]).await;
                ConsumerAction::Looked
            }
            BASIC_CANCEL => {
                self.say(1, BASIC_CANCEL_OK, &[&short(CONSUMER)]).await;
                ConsumerAction::Cancelled
            }
            CHANNEL_CLOSE => {
                self.say(1, CHANNEL_CLOSE_OK, &[]).await;
                ConsumerAction::ClosedChannel
            }
            CONNECTION_CLOSE => {
                self.say(0, CONNECTION_CLOSE_OK, &[]).await;
                ConsumerAction::Closed
            }
            other => panic!("unexpected {other:?}"),
        }
    }

    /// What the consumer says next besides looking.
    pub(crate) async fn next_but_looks(&mut self) -> ConsumerAction {
        loop {
            match self.next().await {
                ConsumerAction::Looked => {}
                action => return action,
            }
        }
    }

    /// Two whole looks, and nothing else.
    pub(crate) async fn hears_only_looks(&mut self) {
        for _ in 0..6 {
            assert_eq!(self.next().await, ConsumerAction::Looked);
        }
    }

    async fn answer(&mut self, channel: u16, asked: Method, answer: Method, arguments: &[&[u8]]) {
        self.hear(asked).await;
        self.say(channel, answer, arguments).await;
    }

    async fn hear(&mut self, expect: Method) {
        assert_eq!(self.read_method().await.0, expect);
    }

    async fn read_method(&mut self) -> (Method, Vec<u8>) {
        let mut head = [0; 7];
        self.read(&mut head).await;
        let size = u32::from_be_bytes(head[3..].try_into().expect("four bytes")) as usize;
        let mut payload = vec![0; size + 1];
        self.read(&mut payload).await;
        assert_eq!((head[0], payload.pop()), (METHOD, Some(FRAME_END)));
        let number = |at: usize| u16::from_be_bytes([payload[at], payload[at + 1]]);
        ((number(0), number(2)), payload[4..].to_vec())
    }

    async fn read(&mut self, bytes: &mut [u8]) {
        timeout(PATIENCE, self.stream.read_exact(bytes))
            .await
            .expect("in time")
            .expect("the consumer is there");
    }

    async fn say(&mut self, channel: u16, (class, method): Method, arguments: &[&[u8]]) {
        let method = [class.to_be_bytes(), method.to_be_bytes()].concat();
        self.write(METHOD, channel, &[&method, &arguments.concat()[..]].concat()).await;
    }

    async fn write(&mut self, kind: u8, channel: u16, payload: &[u8]) {
        let head = [&[kind][..], &channel.to_be_bytes(), &(payload.len() as u32).to_be_bytes()].concat();
        let frame = [&head, payload, &[FRAME_END]].concat();
        self.stream.write_all(&frame).await.expect("the consumer is there");
    }
}

fn short(text: &[u8]) -> Vec<u8> {
    [&[text.len() as u8], text].concat()
}

fn long(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text].concat()
}
