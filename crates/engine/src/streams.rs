//! Streams: append-only sequences of messages in blocks.
//!
//! A stream lives in a partition of its own kind, by a hash of namespace and name. Its machine
//! gives ids, keeps duplicates out, and decides when what was appended is written. The save mode of
//! a stream says when that is, and when the caller is answered. Readers see what callers were
//! answered, and never more.

mod append_run;
pub mod block_moving;
mod block_queue;
pub mod block_sweep;
pub mod block_worker;
mod calls;
mod checks;
pub(crate) mod context;
mod copy;
mod copy_lag;
pub(crate) mod copy_metrics;
mod effect;
mod growth;
mod handler_log;
mod holds;
mod index_cache;
pub mod input;
mod look_ups;
pub mod machine;
mod message;
mod name;
mod node_identity;
mod peer_asks;
mod pushes;
mod reading;
mod running_copies;
mod shown;
pub(crate) mod storage_watch;
mod stream_metrics;
mod subscription;
pub(crate) mod subscription_metrics;
mod tails;
pub(crate) mod unloading;

pub use ::streams::{
    CopyLane, CopyProgress, DiskBounds, FreeSpace, MessageHeaders as TransferHeaders,
    StreamMessage as TransferMessage, StreamPayload as TransferPayload, SubscriptionStart, TransferReader,
    TransferWriter, copying,
};
pub use append_run::{AppendRun, PlaceInRun};
pub use calls::{AppendTerms, OriginPage, PushPage, StreamCalls, TransferAppended, decode_transfer};
pub use checks::{check_message, is_label};
pub use context::StreamsContext;
pub use copy::{
    CopiedSpan, CopyFrom, CopyKey, CopyMove, CopyReport, CopyState, CopyStatus, CopyTarget, NewCopy,
    PeerIdentity, ReceiptOf, ReceiptStatus, ReportsTerms,
};
pub use effect::StreamsEffect;
pub use holds::SubscriptionHold;
pub use input::PutSubscriptionOutcome;
pub use input::StreamsInput;
pub use machine::StreamPartition;
pub use message::{AppendedMessage, MessagePayload, NewMessage, OwnedExternalId, OwnedMessage, SharedBytes};
pub use name::StreamName;
pub use peer_asks::PeerAsk;
pub use pushes::{PushFailure, PushKey, PushTarget};
pub use shown::{
    BlockStatus, HandlerKind, HandlerState, HandlerStatus, StreamList, StreamPage, StreamRead, StreamStatus,
};
pub use subscription::{
    NewSubscription, NewSubscriptionPush, PushStatus, ReaderCommit, SubscriptionFrom, SubscriptionRead,
    SubscriptionStatus,
};
