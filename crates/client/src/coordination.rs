//! Locks, limits, a cache and channels: what programs share beside their jobs.

mod cache;
mod channels;
mod limiter;
mod lock;

pub use cache::SharedCache;
pub use channels::{ChannelSubscription, ChannelUpdate, SharedChannels};
pub use limiter::{LimitAnswer, Limiter};
pub use lock::{LockGuard, LockState, NamedLock};
