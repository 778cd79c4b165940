//! Typed jobs and a worker loop for Fieldpost's delay queues, and streams of messages.
//!
//! There are also commands to devices, tasks and campaigns that ask some of many, and the locks,
//! limits, cache and channels that programs share.
//!
//! It knows the server only by its REST API, like any other program. The page below is the guide of
//! the docs; its examples are compiled.
#![doc = include_str!("../../../docs/client-rust.md")]

mod campaign;
mod campaign_change;
mod client;
mod command;
mod commands;
mod connection;
mod consumer;
mod coordination;
mod copy;
mod device;
mod error;
mod fault;
mod fleet;
mod id;
mod job;
mod message;
mod message_stream;
mod operation;
mod path;
mod picks;
mod producer;
mod proxy;
mod publish;
mod queue;
mod queue_control;
mod queue_stats;
mod request;
mod retry;
mod span;
mod stream_config;
mod subscription;
mod task;
mod transport;
mod trust;
mod worker;

pub use campaign::{
    Campaign, CampaignId, CampaignPlan, Campaigns, Coverage, CoverageItem, CoverageSummary, SlotSummary,
};
pub use campaign_change::{CampaignChange, CampaignField};
pub use client::{Builder, Client};
pub use command::{Command, CommandId, CommandStatus, DesiredEntry, LateAnswer, NewCommand, SentCommand};
pub use commands::{CommandFilter, Commands};
pub use consumer::{Acked, Consumer, Retry, Want};
pub use coordination::{
    ChannelSubscription, ChannelUpdate, LimitAnswer, Limiter, LockGuard, LockState, NamedLock, SharedCache,
    SharedChannels,
};
pub use copy::{CopySummary, CopyTerms, MessageCopy, MessageReceipt};
pub use device::Device;
pub use error::{Error, Refusal, SetupError};
pub use fault::ConnectionFault;
pub use fleet::{DeviceSelection, DeviceWeight, Fairness, Fleet, FleetCount, FleetCountItem};
/// The method of a [`Request`].
pub use hyper::Method;
pub use job::{DeadJob, Job, JobId, JobReservation, JobState, JobView, Payload};
pub use message::{AppendResult, MessageId, OutgoingMessage, ReceivedMessage, ReceivedPage, StreamReading};
pub use message_stream::{MessageStream, StoredSummary, StreamSummary};
pub use operation::{
    NewOperation, Operation, OperationCount, OperationId, OperationRefusal, OperationStatus, Operations,
};
pub use path::Path;
pub use picks::{CustomerClass, Picks};
pub use producer::{NodeAppend, ProducerError, StreamProducer};
pub use publish::{JobChange, NewJob, OnConflict, Published, Schedule};
pub use queue::{Alias, Queue, Which};
pub use queue_control::{ControlState, QueueControl};
pub use queue_stats::{Cursor, FeedPage, Page, QueueFlow, QueueOverview, QueueSettings, ReadyOrder};
pub use request::{Answer, Download, Request};
pub use stream_config::{BlockConfig, FullChoice, KeepConfig, MoveConfig, SaveChoice, StreamConfig};
pub use subscription::{
    MessageSubscription, PushSummary, SubscriptionReader, SubscriptionSummary, SubscriptionTerms,
};
pub use task::{DeviceOutcome, PickResult, Task, TaskId, TaskPlan, TaskStatus, Tasks};
/// What tells a handler that its job is lost.
pub use tokio_util::sync::CancellationToken;
pub use trust::{TlsFault, Trust};
pub use worker::{Failure, Worker, WorkerEvent};
