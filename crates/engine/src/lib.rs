//! Partitions: the rules composed, their batches committed, and their effects let go only when that
//! is durable.
//!
//! Knows no protocol and no file. The edges see [`Engine`]. Reports go in through an [`Intake`],
//! requests and attempts as calls. Everything that is read comes from [`Queries`], which see
//! durable data only.
//!
//! `kernel` is what every partition shares. `devices`, `queues`, `registry`, `campaigns` and
//! `streams` are its machines, and none reaches into another.

pub mod campaigns;
pub mod commands;
pub mod coordination;
mod coordination_metrics;
pub mod devices;
pub mod fleet_index;
pub mod followers;
pub mod gathering;
mod gathering_metrics;
pub mod kernel;
pub mod nodes;
pub mod notices;
pub mod operations;
pub mod outcomes;
pub mod overview;
pub mod portals;
pub mod presence;
pub mod queries;
pub mod queues;
pub mod registry;
pub mod rollouts;
pub mod settings;
pub mod streams;

pub mod context;

mod calendar;
mod chosen_id;
mod device_orders;
mod directory;
mod handle;
mod jobs_part;
pub mod label_changes;
mod metrics;
mod name;
mod refusals;
mod retry_delay;
pub mod target_tasks;
mod version;

pub use commands::{CommandCalls, Downlink, NewCommand, PublishedCommand, TrackedCommand};
pub use coordination::{Coordination, CoordinationSettings};
pub use devices::input::ImportOutcome;
pub use devices::intake::{
    Intake, PendingSlice, Received, Rejection, Report, ReportContent, ReportId, Slice, SliceOutcome,
};
pub use devices::lanes::{AttemptDue, AttemptEnd, AttemptOutcome, DueLanes};
pub use devices::stats::DeviceStats;
pub use devices::{intake, lanes};
pub use directory::ClientDirectory;
pub use fleet::{self, ClientPatch, DevicePatch, ImportDevice, NewClient, NewDevice, PaceChange, Patch};
pub use fleet_index::FleetIndexes;
pub use handle::Engine;
pub use kernel::idempotency::AnswerForm;
pub use label_changes::LabelChanges;
pub use operations::{NewOperation, OperationCalls, TrackedOperation};
pub use presence::Presence;
pub use queries::Queries;
pub use queues::{Locks, QueueCalls};
pub use records;
pub use rollouts::{NewRollout, RolloutCall, Rollouts, TrackedRollout};
pub use settings::{CampaignSettings, CommandSettings, EngineSettings, OperationSettings};
pub use store::{Page, ReadingKey, Store, StoreError, StoreMetric};
pub use streams::StreamCalls;
pub use version::{ObjectVersion, OnlyIf};
