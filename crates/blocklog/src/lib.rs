//! Append-only checksummed frames in segment files, on a disk that can be simulated.
//!
//! A [`Log`] appends payloads as frames and says which of them are durable. When it is opened again
//! it hands them out in order, cuts a torn tail, and refuses a log that was damaged. It goes to its
//! files only through the port [`Disk`]: [`RealDisk`] in production, `SimulatedDisk` (feature
//! `simulation`) in tests. What the frames mean, when to sync and how much to buffer is the
//! caller's business.

mod disk;
mod distance;
mod error;
mod format;
mod log;
mod position;
mod real_disk;
mod recovery;
mod segment;
#[cfg(any(test, feature = "simulation"))]
mod simulated_disk;
mod spare;

#[cfg(test)]
mod tests;

pub use disk::{Disk, DiskFile};
pub use error::{LogError, VisitError};
pub use format::PAYLOAD_BYTES_MAX;
pub use log::{Log, LogOptions, OpenedLog, SPARE_SEGMENTS_MAX};
pub use position::{LogId, Position};
pub use real_disk::RealDisk;
pub use recovery::{Frame, Tail};
#[cfg(any(test, feature = "simulation"))]
pub use simulated_disk::{DiskCounters, SimulatedDisk};
