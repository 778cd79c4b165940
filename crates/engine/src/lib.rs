//! Partitions: the rules composed, their batches committed, and their effects let go only when that is durable.
//!
//! Knows no protocol and no file. The edges see [`Engine`]: reports go in through an [`Intake`], requests and attempts as
//! calls, and everything that is read comes from [`Queries`], which see durable data only.

pub mod effect;
pub mod followers;
pub mod input;
pub mod intake;
pub mod lanes;
pub mod machine;
pub mod partition;
pub mod queries;
pub mod queues;
pub mod registry;
pub mod runner;
pub mod settings;
pub mod stale;
pub mod unsettled;

mod alarm;
mod directory;
mod driver;
mod feed_clock;
mod handle;
mod hashed;
mod metrics;
mod recent;
mod refusals;
mod repeats;
mod standing;
mod version;

pub use directory::Directory;
pub use fleet::{ClientPatch, DevicePatch, ImportDevice, NewClient, NewDevice, Patch};
pub use handle::Engine;
pub use input::Imported;
pub use intake::{Intake, Outcome, Pending, Received, Rejection, Report, ReportId, Said, Slice};
pub use lanes::{Answer, AttemptDue, AttemptEnd, DueLanes};
pub use queries::Queries;
pub use queues::Queues;
pub use records;
pub use repeats::Form;
pub use settings::Settings;
pub use standing::DeviceStanding;
pub use store::{Figure, Page, ReadingKey, Store, StoreError};
pub use version::{OnlyIf, Version};
