//! Typed jobs and a worker loop for Fieldpost's delay queues.
//!
//! It knows the server only by its REST API, like any other program. The page below is the guide of the docs; its examples are
//! compiled.
#![doc = include_str!("../../../docs/client-rust.md")]

mod call;
mod client;
mod consumer;
mod error;
mod fault;
mod figures;
mod job;
mod line;
mod path;
mod proxy;
mod publish;
mod queue;
mod request;
mod span;
mod transport;
mod trust;
mod worker;

pub use client::{Builder, Client};
pub use consumer::{Acked, Consumer, Retry, Want};
pub use error::{Error, Refusal, SetupError};
pub use fault::ConnectionFault;
pub use figures::{Cursor, Figures, Order, Page, Settings};
/// The method of a [`Request`].
pub use hyper::Method;
pub use job::{DeadJob, Held, Job, JobId, Payload, Seen, State};
pub use path::Path;
pub use publish::{Change, NewJob, OnConflict, Published, Schedule};
pub use queue::{Alias, Queue, Which};
pub use request::{Answer, Download, Request};
/// What tells a handler that its job is lost.
pub use tokio_util::sync::CancellationToken;
pub use trust::{TlsFault, Trust};
pub use worker::{Event, Failure, Worker};
