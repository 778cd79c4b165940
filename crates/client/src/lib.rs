//! Typed jobs and a worker loop for Fieldpost's delay queues, and commands to its devices.
//!
//! It knows the server only by its REST API, like any other program. The page below is the guide of
//! the docs; its examples are compiled.
#![doc = include_str!("../../../docs/client-rust.md")]

mod client;
mod command;
mod commands;
mod connection;
mod consumer;
mod device;
mod error;
mod fault;
mod id;
mod job;
mod operation;
mod path;
mod proxy;
mod publish;
mod queue;
mod queue_stats;
mod request;
mod retry;
mod span;
mod transport;
mod trust;
mod worker;

pub use client::{Builder, Client};
pub use command::{Command, CommandId, CommandStatus, DesiredEntry, LateAnswer, NewCommand, SentCommand};
pub use commands::{CommandFilter, Commands};
pub use consumer::{Acked, Consumer, Retry, Want};
pub use device::Device;
pub use error::{Error, Refusal, SetupError};
pub use fault::ConnectionFault;
/// The method of a [`Request`].
pub use hyper::Method;
pub use job::{DeadJob, Held, Job, JobId, Payload, Seen, State};
pub use operation::{
    NewOperation, Operation, OperationCount, OperationId, OperationRefusal, OperationStatus, Operations,
};
pub use path::Path;
pub use publish::{Change, NewJob, OnConflict, Published, Schedule};
pub use queue::{Alias, Queue, Which};
pub use queue_stats::{Cursor, Figures, Order, Page, Settings};
pub use request::{Answer, Download, Request};
/// What tells a handler that its job is lost.
pub use tokio_util::sync::CancellationToken;
pub use trust::{TlsFault, Trust};
pub use worker::{Event, Failure, Worker};
