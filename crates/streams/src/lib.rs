//! Streams: the form of messages and blocks, and the rules of saving, closing, keeping and once
//! only.
//!
//! The rules decide over settings, counts and times alone; where chunks and blocks are kept is
//! known elsewhere. Nothing here reads a clock: every time is an argument.
//!
//! ```text
//!   append -> open block -> closed block -> stored block -> dropped
//!             chunks         chunks          one file
//! ```
//!
//! | module | rule |
//! |---|---|
//! | [`message`] | a message, borrowed from wherever it lies |
//! | [`codec`] | messages as bytes; chunks |
//! | [`block`] | the file of a closed block |
//! | [`origins`] | which message of a block has which external id |
//! | [`external_ids`] | which numbers each source has ever given |
//! | [`settings`] | ranges of settings, and bounds that follow from them |
//! | [`open_block`] | when a block is closed |
//! | [`saving`] | when messages are saved, and when their callers are answered |
//! | [`tail`] | how far a stream has come, and which ids are reserved |
//! | [`moving`] | when a block goes to another storage, and to which |
//! | [`free_space`] | how much room the disk has left for streams |
//! | [`retention`] | which blocks go, and whether an append fits |
//! | [`subscriptions`] | how far the reader of a subscription has come |
//! | [`own_origins`] | what messages are called that were given no source |
//! | [`copying`] | how far a copy has come, and which of its messages goes next |
//! | [`transfer`] | messages as copies send them |

pub mod block;
pub mod codec;
pub mod copying;
pub mod external_ids;
pub mod free_space;
pub mod message;
pub mod moving;
pub mod open_block;
pub mod origins;
pub mod own_origins;
pub mod retention;
#[cfg(test)]
mod sample;
pub mod saving;
pub mod settings;
pub mod subscriptions;
pub mod tail;
pub mod transfer;
mod varint;

pub use block::{BlockError, BlockIndex, BlockName, BlockWriter, ClosedBlock};
pub use codec::{BadMessage, ChunkWriter, MessageReader};
pub use copying::{CopiedSpan, CopyLane, CopyProgress, PeerIdentity};
pub use external_ids::{ExternalNumbers, IntervalRowChange, NumberInterval, StoredIntervals, text_hash};
pub use free_space::{DiskBounds, FreeSpace};
pub use message::{
    EXTERNAL_NUMBER_MAX, ExternalId, MessageHeaders, MessageOrigin, StreamMessage, StreamPayload,
};
pub use open_block::{OpenBlock, ReachedBound};
pub use origins::BlockOrigins;
pub use retention::{SpaceRequest, StreamRoom};
pub use saving::{AnswerTime, UnsavedMessages};
pub use subscriptions::{StreamIds, SubscriptionStart};
pub use tail::SavedMessages;
pub use transfer::{TransferReader, TransferWriter};
