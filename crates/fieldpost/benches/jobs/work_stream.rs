//! A lean worker on a gRPC `Work` stream: messages stay bytes, of which only what has to be known
//! is looked at.
//!
//! Field numbers are those of `crates/grpc/proto`. Decoding every job into structures would make
//! the client, not the server, the one that is measured.

use std::net::SocketAddr;

use bytes::{Buf, Bytes};
use tokio::sync::{mpsc, watch};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Streaming};

use super::Failure;
use super::protobuf::{AsBytes, put_bytes, put_number};

/// Room for jobs that were sent and not yet read.
const WINDOW_BYTES: u32 = 4 << 20;
/// A message of so many jobs is not too large.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Reservations last longer than any round.
const TTR_S: u64 = 3_600;

/// A stream that is open.
pub(super) struct WorkStream {
    says: mpsc::Sender<Bytes>,
    hears: Streaming<Bytes>,
}

impl WorkStream {
    /// Opens a connection and a stream on it for one queue of the namespace `bench`, and gives its
    /// first credits.
    pub(super) async fn open(address: SocketAddr, queue: &str, credits: u64) -> Result<Self, Failure> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?
            .initial_connection_window_size(WINDOW_BYTES)
            .initial_stream_window_size(WINDOW_BYTES)
            .tcp_nodelay(true);
        let channel: Channel = endpoint.connect().await?;
        let (says, said) = mpsc::channel(16);
        let said = futures_util::stream::unfold(said, |mut said| async { Some((said.recv().await?, said)) });
        let mut client = Grpc::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        client.ready().await?;
        let path = PathAndQuery::from_static("/fieldpost.v1.Jobs/Work");
        let hears = client.streaming(Request::new(said), path, AsBytes).await?.into_inner();
        says.send(opening(queue, credits)).await?;
        Ok(Self { says, hears })
    }

    pub(super) async fn hear(&mut self) -> Result<Heard, Failure> {
        let message = self.hears.message().await?.ok_or("the stream ended")?;
        Heard::read(message)
    }

    /// Acknowledges all jobs of a message, and gives their credits back.
    pub(super) async fn done(&self, heard: &Heard) -> Result<(), Failure> {
        let mut reservations = Vec::with_capacity(64 * heard.jobs.len());
        for job in &heard.jobs {
            put_bytes(&mut reservations, 2, &job.reservation);
        }
        let mut message = Vec::with_capacity(reservations.len() + 16);
        put_number(&mut message, 2, heard.jobs.len() as u64);
        put_bytes(&mut message, 3, &reservations);
        Ok(self.says.send(message.into()).await?)
    }

    /// Keeps the jobs of a message, and gives credits for as many more.
    async fn keep(&self, jobs: u64) -> Result<(), Failure> {
        let mut message = Vec::new();
        put_number(&mut message, 2, jobs);
        Ok(self.says.send(message.into()).await?)
    }
}

/// What a worker does with its jobs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkedTo {
    /// It keeps them.
    Leased,
    /// It acknowledges them.
    Done,
}

/// Works on a queue of the namespace `bench`, together with others, until no job is left.
pub(super) async fn work_off(
    address: SocketAddr,
    queue: &'static str,
    credits: u64,
    worked_to: WorkedTo,
    left: watch::Sender<u64>,
) -> Result<(), Failure> {
    let mut stream = WorkStream::open(address, queue, credits).await?;
    let mut over = left.subscribe();
    let mut acked = 0;
    loop {
        let heard = tokio::select! {
            heard = stream.hear() => heard?,
            _ = over.wait_for(|left| *left == 0) => return Ok(()),
        };
        let taken = heard.jobs.len() as u64;
        if taken > 0 {
            match worked_to {
                WorkedTo::Leased => stream.keep(taken).await?,
                WorkedTo::Done => stream.done(&heard).await?,
            }
        }
        let more = match worked_to {
            WorkedTo::Leased => taken,
            // A message with jobs alone counts none.
            WorkedTo::Done => heard.acked.saturating_sub(acked),
        };
        acked += more;
        left.send_if_modified(|left| {
            *left -= more;
            *left == 0
        });
    }
}

/// `WorkRequest { open, credits }`.
fn opening(queue: &str, credits: u64) -> Bytes {
    let mut ttr = Vec::new();
    put_number(&mut ttr, 1, TTR_S);
    let mut open = Vec::new();
    put_bytes(&mut open, 1, b"bench");
    put_bytes(&mut open, 2, queue.as_bytes());
    put_bytes(&mut open, 3, &ttr);
    let mut message = Vec::new();
    put_bytes(&mut message, 1, &open);
    put_number(&mut message, 2, credits);
    message.into()
}

/// What a message of the server says.
pub(super) struct Heard {
    pub(super) jobs: Vec<Job>,
    /// Acknowledgements that held, counted since the stream began.
    pub(super) acked: u64,
}

/// Of a job, what is needed to measure.
pub(super) struct Job {
    pub(super) payload: Bytes,
    reservation: Bytes,
}

impl Heard {
    fn read(message: Bytes) -> Result<Self, Failure> {
        let mut heard = Self { jobs: Vec::new(), acked: 0 };
        let mut rest = message;
        while rest.has_remaining() {
            match next_field(&mut rest)? {
                (1, Field::Bytes(job)) => heard.jobs.push(Job::read(job)?),
                (2, Field::Number(acked)) => heard.acked = acked,
                (3, Field::Bytes(refusal)) => {
                    return Err(format!("something was refused: {refusal:?}").into());
                }
                _ => {}
            }
        }
        Ok(heard)
    }
}

impl Job {
    fn read(mut rest: Bytes) -> Result<Self, Failure> {
        let mut job = Self { payload: Bytes::new(), reservation: Bytes::new() };
        while rest.has_remaining() {
            match next_field(&mut rest)? {
                (3, Field::Bytes(payload)) => job.payload = payload,
                (7, Field::Bytes(reservation)) => job.reservation = reservation,
                _ => {}
            }
        }
        Ok(job)
    }
}

enum Field {
    Number(u64),
    Bytes(Bytes),
}

fn next_field(message: &mut Bytes) -> Result<(u64, Field), Failure> {
    let tag = number(message)?;
    let field = match tag & 7 {
        0 => Field::Number(number(message)?),
        2 => {
            let bytes = number(message)? as usize;
            if bytes > message.remaining() {
                return Err("a field is cut off".into());
            }
            Field::Bytes(message.split_to(bytes))
        }
        other => return Err(format!("a field of the form {other}").into()),
    };
    Ok((tag >> 3, field))
}

fn number(message: &mut Bytes) -> Result<u64, Failure> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = message.try_get_u8()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err("a number without an end".into())
}
