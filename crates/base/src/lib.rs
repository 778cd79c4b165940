//! What every crate may speak of: ids, time, values, limits, refusals, and the sources of time and
//! chance.
//!
//! Nothing here knows what a device or a job does. Types are small, plain and cheap to copy. Text
//! forms that the outside sees (durations, sizes, times, ids) are parsed and printed here so that
//! they read the same everywhere.

pub mod address;
pub mod answers;
pub mod caller;
pub mod clock;
pub mod clock_steps;
mod debug;
pub mod duration;
pub mod hash;
pub mod id;
pub mod invariant;
pub mod limits;
pub mod locks;
pub mod log_limit;
pub mod machine;
mod names;
pub mod problem;
pub mod random;
pub mod size;
pub mod time;
pub mod value;

pub use arcstr::ArcStr;
pub use caller::CallerName;
pub use clock::{Clock, SystemClock};
pub use clock_steps::ClockSteps;
pub use id::{
    ClientId, DeviceId, DeviceIdAlphabet, DeviceIdForm, EntityId, Incarnation, Kind, Lineage, PartitionId,
    WayIn,
};
pub use log_limit::LogLimit;
pub use problem::Problem;
pub use time::{Attended, Timestamp};
pub use value::Value;
