//! What answers look like: small structs that borrow records and know nothing but names and text
//! forms.

mod caller;
mod client;
mod command;
mod dead;
mod delivery;
mod desired;
mod device;
mod event;
mod import;
mod job;
mod live;
mod members;
mod new_command;
mod new_job;
mod new_rollout;
mod notice;
mod operation;
mod overview;
pub(crate) mod payload;
mod portal;
mod quarantined;
mod queue;
mod reading;
mod receiver;
mod rollout;
mod stats;
mod summary;
mod system;
mod text;
pub(crate) mod timeline;

pub(crate) use caller::CallerShape;
pub(crate) use client::{
    ClientShape, NewClientShape, SecretShape, change_of_client, client_changes_schema, new_client,
    new_client_schema,
};
pub(crate) use command::{CommandShape, NewCommandShape, PolledShape};
pub(crate) use dead::{DeadShape, RespawnedShape};
pub(crate) use delivery::{AttemptShape, AttemptedShape, DeliveryShape};
pub(crate) use desired::{WishShape, WishesShape};
pub(crate) use device::{
    DeviceShape, change_of_device, device_changes_schema, import_device, import_device_schema, new_device,
    new_device_schema,
};
pub(crate) use event::EventShape;
pub(crate) use import::ImportedShape;
pub(crate) use job::{AckedShape, ConsumedShape, JobShape, PublishedShape};
pub(crate) use live::{LiveBehindShape, LiveHelloShape};
pub(crate) use new_command::{desired_value, desired_value_schema, new_command, new_command_schema};
pub(crate) use new_job::{change_of_job, job_changes_schema, new_jobs, new_jobs_schema};
pub(crate) use new_rollout::{bulk_entries, bulk_entry_schema, new_rollout, new_rollout_schema};
pub(crate) use notice::NoticeShape;
pub(crate) use operation::{DryRunShape, OperationShape};
pub(crate) use overview::OverviewShape;
pub(crate) use portal::{NewPortalShape, PORTAL_RIGHTS, PortalsShape, new_portal, new_portal_schema};
pub(crate) use quarantined::QuarantinedShape;
pub(crate) use queue::{QueueShape, queue_settings, queue_settings_schema};
pub(crate) use reading::ReadingShape;
pub(crate) use rollout::{BulkShape, NewBulkShape, NewRolloutShape, RolloutDeviceShape, RolloutShape};
pub(crate) use stats::StatsShape;
pub(crate) use summary::SummaryShape;
pub(crate) use system::SystemShape;
pub(crate) use timeline::TimelineShape;
