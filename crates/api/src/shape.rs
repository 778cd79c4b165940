//! What answers look like: small structs that borrow records and know nothing but names and text
//! forms.

mod caller;
mod campaign;
mod client;
mod command;
mod coordination;
mod copy;
mod coverage;
mod dead;
mod delivery;
mod desired;
mod device;
mod event;
mod fleet;
mod import;
mod job;
mod live;
mod members;
mod message;
mod message_page;
mod new_campaign;
mod new_command;
mod new_job;
mod new_message;
mod new_rollout;
mod new_task;
mod notice;
mod operation;
mod overview;
pub(crate) mod payload;
mod portal;
mod quarantined;
mod queue;
mod reading;
mod receiver;
mod relay;
mod rollout;
mod stats;
mod stream;
mod stream_settings;
mod subscription;
mod summary;
mod system;
mod task;
mod text;
pub(crate) mod timeline;

pub(crate) use caller::CallerShape;
pub(crate) use campaign::{CAMPAIGN_STATUSES, CampaignShape, LiveCampaignShape, SlotShape};
pub(crate) use client::{
    ClientShape, NewClientShape, SecretShape, change_of_client, client_changes_schema, new_client,
    new_client_schema,
};
pub(crate) use command::{CommandShape, NewCommandShape, PolledShape};
pub(crate) use coordination::{
    CachedValueShape, CachedValuesShape, ChannelReceiversShape, DeletedValuesShape, HeldLockShape,
    LimitShape, ListedLimitShape, ListedLockShape, LockShape, QueueControlShape, limit_asked,
    limit_asked_schema, lock_extended, lock_extended_schema, lock_released, lock_released_schema,
    lock_wanted, lock_wanted_schema, queue_control, queue_control_schema,
};
pub(crate) use copy::{
    CopyShape, NodeShape, ReceiptShape, TransferredShape, new_copy, new_copy_schema, new_node,
    new_node_schema,
};
pub(crate) use coverage::{CoverageShape, FairnessShape, WeightShape};
pub(crate) use dead::{DeadShape, RespawnedShape};
pub(crate) use delivery::{AttemptShape, AttemptedShape, DeliveryShape};
pub(crate) use desired::{WishShape, WishesShape};
pub(crate) use device::{
    DeviceShape, change_of_device, device_changes_schema, import_device, import_device_schema, new_device,
    new_device_schema,
};
pub(crate) use event::EventShape;
pub(crate) use fleet::FleetCountShape;
pub(crate) use import::ImportedShape;
pub(crate) use job::{AckedShape, ConsumedShape, JobShape, PublishedShape};
pub(crate) use live::{LiveBehindShape, LiveHelloShape, live_feed_schema, live_rows_schema};
pub(crate) use message::{
    AppendedLinesShape, AppendedShape, LinesBeforeShape, MessagePageShape, MessageShape, lines_before_schema,
};
pub(crate) use message_page::page_json;
pub(crate) use new_campaign::{
    campaign_changes_schema, change_of_campaign, new_campaign, new_campaign_schema, put_campaign_schema,
};
pub(crate) use new_command::{desired_value, desired_value_schema, new_command, new_command_schema};
pub(crate) use new_job::{change_of_job, job_changes_schema, new_jobs, new_jobs_schema};
pub(crate) use new_message::{
    NewMessages, message_in_line, new_message_schema, new_messages, new_messages_schema,
};
pub(crate) use new_rollout::{bulk_entries, bulk_entry_schema, new_rollout, new_rollout_schema};
pub(crate) use new_task::{new_task, new_task_schema};
pub(crate) use notice::NoticeShape;
pub(crate) use operation::{DryRunShape, OperationShape};
pub(crate) use overview::OverviewShape;
pub(crate) use portal::{NewPortalShape, PORTAL_RIGHTS, PortalShape, new_portal, new_portal_schema};
pub(crate) use quarantined::QuarantinedShape;
pub(crate) use queue::{QueueShape, queue_settings, queue_settings_schema};
pub(crate) use reading::ReadingShape;
pub(crate) use relay::{
    ANNOUNCED_STATES, ON_REFUSED, RELAY_STATES, RelayShape, relay_word, relay_word_schema,
};
pub(crate) use rollout::{BulkShape, NewBulkShape, NewRolloutShape, RolloutDeviceShape, RolloutShape};
pub(crate) use stats::StatsShape;
pub(crate) use stream::{BlockShape, HandlerShape, StreamShape};
pub(crate) use stream_settings::{stream_settings, stream_settings_schema};
pub(crate) use subscription::{
    SubscriptionShape, commit_schema, new_subscription, new_subscription_schema, reader_commit,
    subscription_read, subscription_read_schema,
};
pub(crate) use summary::SummaryShape;
pub(crate) use system::SystemShape;
pub(crate) use task::{CampaignResultShape, NewTaskShape, TaskResultShape, TaskShape};
pub(crate) use timeline::TimelineShape;
