//! Everyday coordination: locks, limits, a cache and channels.
//!
//! [`LockTable`] is the rule of locks: who holds what, who waits, and which number ("fence") a
//! holder has. It has no clock, and says what to store. [`LimitTable`], [`ByteCache`] and
//! [`Channels`] are memory, bounded, and gone with the process. Nothing here knows a socket, a file
//! or a partition.
//!
//! # The life of a lock
//! ```text
//!              acquire: fence + 1                release, or its ttl is over, and nobody waits
//!   free ------------------------------> held ------------------------------------------> free
//!                                        |  ^
//!             its owner again, extend:   |  |   release, or its ttl is over, and somebody waits:
//!             same fence, a new ttl      '--'   the one that came first holds it, with fence + 1
//! ```

mod cache;
mod channels;
mod limits;
mod locks;
mod name;

pub use cache::{ByteCache, CacheStats, CachedValue};
pub use channels::{ChannelEvent, ChannelListener, ChannelPatterns, Channels, TooManyListeners};
pub use limits::{LimitDecision, LimitKind, LimitPage, LimitRequest, LimitStatus, LimitTable, TooManyLimits};
pub use locks::{LockBounds, LockGrant, LockRefused, LockRequest, LockStatus, LockStep, LockTable};
pub use name::CoordinationName;
