//! What is kept: plain records, and the [`Batch`] that changes them.
//!
//! Rules make batches, the store keeps them. [`BySlot`] holds records in memory by a device's slot.
//! Nothing here knows how a record is encoded or why it changed. All times are engine-clock times
//! unless a field says otherwise.

mod answer;
mod batch;
mod by_slot;
mod campaign;
mod changes;
mod client;
mod command;
mod coordination;
mod copy;
mod counts;
mod delivery;
mod device;
mod event;
mod gathered;
mod head;
mod id_key;
mod job;
mod job_purpose;
mod notice;
mod operation;
mod portal;
mod quarantine;
mod queue;
mod report_ids;
mod retention;
mod rollout;
mod stream;
mod subscription;
mod task;
mod timeline;
mod weight;

pub use answer::{AnswerKey, KeptAnswer};
pub use batch::{Batch, Op, Sign, SignReading};
pub use by_slot::BySlot;
pub use campaign::{CampaignPace, CampaignRecord, CampaignState, MissedSlots};
pub use client::{Client, PreviousSecret};
pub use command::{
    Command, CommandCause, CommandKey, CommandPhase, CommandState, CommandStatus, CommandTerms, DesiredState,
    DeviceSession, FinishedCommand, LateAnswer, OpenCommand, OutcomeReceiver, PickCause, RolloutCause,
};
pub use coordination::{Lock, WorkState, WorkerControl};
pub use copy::{CopyBegin, CopyDirection, LiveLane, PeerNode, StreamCopy};
pub use counts::{CountedOf, CountsKey, HourlyCounts, Metric};
pub use delivery::{
    ANSWER_BYTES_MAX, Attempt, AttemptDetail, AttemptError, AttemptTimings, Delivery, DeliveryKey,
    DeliveryProgress, DeliveryStatus, Flight, NotificationState, PendingDelivery,
};
pub use device::{Connection, DeviceProfile, DeviceSlot, DeviceState, LastSeen, PaceOverride, Reading};
pub use event::{Event, EventKey, EventKind};
pub use gathered::{GatheredReport, GatheredReports, ReportsCopy};
pub use head::{AttendedReadings, PartitionHead};
pub use job::{
    AliasKey, GroupKey, HeadState, JobClock, JobHead, JobId, JobTerms, LeaseHolder, ParkedJob, ParkedKey,
    Parking, Process, QueueKey, Recurrence, RecurrenceRule, Reservation, Starts, Successor,
};
pub use job_purpose::{JobLine, JobPurpose, OutcomeLane, OutcomeOf};
pub use notice::{NOTICE_ID_PREFIX, Notice, NoticeKey, NoticeKind, NoticePost};
pub use operation::{
    Operation, OperationAction, OperationCounts, OperationError, OperationState, OperationStatus,
};
pub use portal::{PortalRights, PortalToken, TokenDigest};
pub use quarantine::{QuarantineKey, Quarantined};
pub use queue::{DeadJob, DeadReason, Queue, QueueCounts, QueueOrder, QueueSettings};
pub use report_ids::ReportIds;
pub use retention::KeptFrom;
pub use rollout::{
    MemberPlace, MemberStatus, Rollout, RolloutCommand, RolloutCounts, RolloutCursor, RolloutDevices,
    RolloutEntry, RolloutMember, RolloutStage, RolloutStanding, RolloutState, RolloutStop, RolloutWait,
    RolloutWindow, RolloutWork,
};
pub use stream::{
    BlockBounds, ExternalInterval, ExternalSpan, ExternalText, KeepBounds, LOCAL_STORAGE, SaveMode,
    StoredElsewhere, Stream, StreamBlock, StreamChunk, StreamDue, StreamMove, StreamOrigin, StreamSettings,
    StreamTail, WhenFull, block_folder,
};
pub use subscription::{StreamSubscription, SubscriptionPush};
pub use task::{
    CampaignSlot, DevicePlace, EndPost, Pick, PickClass, PickClock, PickCounts, PickEnd, PickKey, PickMinute,
    PickOutcome, PickShare, PickTerms, TaskRecord, TaskRelation, TaskStanding, TaskState, TokenPicks,
};
pub use timeline::{DisconnectReason, Happening, TimelineEntry, TimelineEntryKey};
