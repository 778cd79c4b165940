//! Everything that one step of a partition changes, kept whole or not at all.

use std::sync::Arc;

use base::{ClientId, DeviceId, EntityId, Incarnation, PartitionId, Timestamp, Value, WayIn};

use crate::{
    AnswerKey, Attempt, Client, Command, CommandKey, CommandState, Counts, CountsKey, DeadJob, Delivery,
    DeliveryKey, DeliveryProgress, DeviceProfile, DeviceSession, DeviceSlot, DeviceState, Event,
    FinishedCommand, JobHead, JobId, KeptAnswer, MemberPlace, MemberStatus, Notice, NoticeKey, NoticePost,
    OpenCommand, Operation, OperationState, Pair, ParkedJob, ParkedKey, PartitionHead, PortalToken,
    QuarantineKey, Quarantined, Queue, QueueCounts, QueueKey, ReportIds, Rollout, RolloutDevices,
    RolloutMember, RolloutState, TimelineEntry, Wish,
};

/// The changes of one step. Applied in order, atomically, once.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Whose step it was.
    pub partition: PartitionId,
    /// Counters and clocks after it; `head.seq` numbers the batch and `head.now` is the time of all
    /// its changes.
    pub head: PartitionHead,
    /// The changes.
    pub ops: Vec<Op>,
}

impl Batch {
    /// An empty batch; its head is filled in when it is sealed.
    #[must_use]
    pub fn new(partition: PartitionId) -> Self {
        Self { partition, head: PartitionHead::default(), ops: Vec::new() }
    }
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// A sign of life, with or without a reading: the hot one, and for an equal report the only
    /// one.
    Sign(Sign),
    /// A device's state is now this.
    PutState(DeviceSlot, DeviceState),
    /// A device is registered, or its profile is now this. Its links are its `clients`; the indexes
    /// by client, label and kind follow it.
    PutDevice(Box<DeviceProfile>),
    /// A device is gone, with its state, ids of reports, pairs, readings and events.
    DeleteDevice(DeviceId, DeviceSlot),
    /// The ids that a device's latest reports carried are now these.
    PutReportIds(DeviceSlot, Box<ReportIds>),
    /// An event happened.
    PutEvent(Box<Event>),
    /// What a client was not told of a device is now this.
    PutPair(Box<Pair>),
    /// A client was told all of a device.
    DeletePair(DeviceSlot, Incarnation),
    /// A delivery is new.
    PutDelivery(Box<Delivery>),
    /// A delivery has come this far. Without effect, as an attempt is, on one that is kept no
    /// longer.
    PutProgress(DeliveryKey, DeliveryProgress),
    /// An attempt was made.
    PutAttempt(Attempt),
    /// A job is new, or stands elsewhere.
    PutJob(Box<JobHead>),
    /// A job is done, dead or cancelled; its body goes with it. Not one that is parked.
    DeleteJob(JobId),
    /// A job is no longer one, but what it carries stays: it is a dead letter. Not one that is
    /// parked.
    DeleteJobHead(JobId),
    /// What a job carried is gone: its dead letter is.
    DeleteJobBody(JobId),
    /// A job is not resident from now on: nothing loads it. A resident one of the same id is gone,
    /// and its body stays.
    ParkJob(Box<ParkedJob>),
    /// A job is parked no longer; its body stays.
    UnparkJob(Box<ParkedKey>),
    /// A job carries this.
    PutJobBody(JobId, Arc<[u8]>),
    /// A queue is new, or its settings are now these.
    PutQueue(Box<Queue>),
    /// A queue is gone, with its counts. Its jobs and dead letters are deleted one by one.
    DeleteQueue(QueueKey),
    /// A queue has so many jobs that are not resident.
    PutQueueCounts(QueueKey, QueueCounts),
    /// A job failed for good.
    PutDead(Box<DeadJob>),
    /// A dead letter is gone: its queue, its number there and its id. What it carried is deleted
    /// apart.
    DeleteDead(QueueKey, u64, JobId),
    /// A request was answered that may be repeated.
    PutAnswer(Box<KeptAnswer>),
    /// An answer is kept no longer: its key, and when it was given.
    DeleteAnswer(AnswerKey, Timestamp),
    /// What was counted on a day is now this.
    PutCounts(CountsKey, Box<Counts>),
    /// A report was refused.
    PutQuarantined(Box<Quarantined>),
    /// A refused report is kept no longer.
    DeleteQuarantined(QuarantineKey),
    /// A command was given.
    PutCommand(Box<Command>),
    /// A command that is kept no longer: what its key does not say of it.
    DeleteCommand(CommandKey, DeviceSlot),
    /// A command has come this far.
    PutCommandState(CommandKey, Box<CommandState>),
    /// A command that has not ended stands here.
    PutOpenCommand(Box<OpenCommand>),
    /// A command stands here no longer: it has ended, or is put elsewhere.
    DeleteOpenCommand(Box<OpenCommand>),
    /// A command has ended.
    PutFinishedCommand(FinishedCommand),
    /// A command that had ended is kept no longer, or goes on.
    DeleteFinishedCommand(FinishedCommand),
    /// What is wished of a device is now this.
    PutWish(Box<Wish>),
    /// Nothing is wished, nor known, of an entry any more.
    DeleteWish(DeviceSlot, Box<str>),
    /// A session of a device began.
    PutDeviceSession(Box<DeviceSession>),
    /// No session of a device is open in the books.
    DeleteDeviceSession(DeviceSlot),
    /// Something happened to a device.
    PutTimelineEntry(Box<TimelineEntry>),
    /// A client is registered or changed. Registry partition only.
    PutClient(Box<Client>),
    /// A client is gone. Registry partition only.
    DeleteClient(ClientId),
    /// A rollout was asked for. Registry partition only, like all that follows.
    PutRollout(Box<Rollout>),
    /// A rollout is kept no longer. Its devices are deleted one by one.
    DeleteRollout(Box<str>),
    /// A rollout has come this far.
    PutRolloutState(Box<RolloutState>),
    /// A rollout names these devices.
    PutRolloutDevices(Box<RolloutDevices>),
    /// It has looked for those of this number.
    DeleteRolloutDevices(Incarnation, u32),
    /// A device belongs to a rollout, and stands here.
    PutRolloutMember(Box<RolloutMember>),
    /// A device of a rollout stands here no longer.
    DeleteRolloutMember(Box<MemberPlace>, MemberStatus),
    /// An operation was asked for.
    PutOperation(Box<Operation>),
    /// An operation is kept no longer, nor how far it came.
    DeleteOperation(EntityId),
    /// An operation has come this far.
    PutOperationState(Box<OperationState>),
    /// A portal is open.
    PutPortalToken(Box<PortalToken>),
    /// A portal is closed.
    DeletePortalToken(Incarnation),
    /// There is something to be told of the system.
    PutNotice(Box<Notice>),
    /// A notice is kept no longer.
    DeleteNotice(NoticeKey),
    /// A client is to be told of a notice, at that time.
    PutNoticePost(NoticePost),
    /// A client was told of a notice, or is not.
    DeleteNoticePost(Incarnation, NoticeKey),
}

/// A sign of life of a device. Its time is the batch's, its attended reading the head's for `way`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sign {
    /// The device.
    pub slot: DeviceSlot,
    /// The way it came in.
    pub way: WayIn,
    /// Readings kept of the device after it; with `reading`, the number of that reading.
    pub readings: u32,
    /// The newest `ts` that any report of the device carried, this one included.
    pub newest_ts: Option<Timestamp>,
    /// What was reported; `None` for a heartbeat or a refused report.
    pub reading: Option<SignReading>,
}

/// The reading in a sign of life.
#[derive(Clone, Debug, PartialEq)]
pub struct SignReading {
    /// The report's own `ts`; `None` is the time of receipt.
    pub ts: Option<Timestamp>,
    /// What was reported.
    pub value: Value,
    /// Whether it changed the device's value.
    pub changed: bool,
}

/// A record without its texts and values, in bytes.
const PLAIN: usize = 128;

fn text(value: Option<&Value>) -> usize {
    match value {
        Some(Value::Text(text)) => text.len(),
        Some(Value::Number(_)) | None => 0,
    }
}

impl Op {
    /// About how many bytes it takes when it is written: what bounds a batch. Never much less than
    /// it really takes.
    #[must_use]
    pub fn weight(&self) -> usize {
        match self {
            Self::Sign(sign) => 32 + sign.reading.as_ref().map_or(0, |reading| text(Some(&reading.value))),
            Self::PutState(_, state) => 64 + text(state.value.as_ref()),
            Self::PutEvent(event) => 2 * PLAIN + text(event.value.as_ref()) + text(event.previous.as_ref()),
            Self::PutPair(pair) => {
                let flying = pair.in_flight.as_ref().and_then(|flight| flight.value.as_ref());
                2 * PLAIN + text(pair.previous.as_ref()) + text(flying)
            }
            Self::PutJobBody(_, body) => PLAIN + body.len(),
            Self::PutAttempt(attempt) => PLAIN + attempt.detail.answer.as_deref().map_or(0, <[u8]>::len),
            Self::PutAnswer(answer) => PLAIN + answer.answer.len(),
            Self::PutQueue(queue) => PLAIN + queue.namespace.len() + queue.name.len(),
            Self::PutDead(dead) => PLAIN + dead.error.as_ref().map_or(0, |error| error.len()),
            Self::ParkJob(_) => 2 * PLAIN,
            Self::PutDevice(_) | Self::PutClient(_) => 64 * PLAIN,
            Self::PutDelivery(_) | Self::DeleteDevice(..) | Self::PutJob(_) => 2 * PLAIN,
            Self::PutCommand(command) => 4 * PLAIN + command.payload.len(),
            Self::PutCommandState(_, state) => PLAIN + state.text_bytes(),
            Self::PutWish(wish) => 2 * PLAIN + wish.text_bytes(),
            Self::PutRollout(rollout) => 8 * PLAIN + rollout.work.bytes(PLAIN),
            Self::PutRolloutDevices(named) => PLAIN + named.bytes(),
            Self::PutOperation(operation) => 2 * PLAIN + operation.text_bytes(),
            Self::PutOperationState(state) => 2 * PLAIN + state.text_bytes(),
            Self::PutQuarantined(report) => report.cost() as usize,
            Self::PutNotice(notice) => PLAIN + notice.subject.len() + notice.detail.len(),
            Self::PutCounts(..) | Self::PutReportIds(..) => PLAIN,
            Self::DeleteQuarantined(_)
            | Self::PutProgress(..)
            | Self::DeletePair(..)
            | Self::DeleteJob(_)
            | Self::DeleteJobHead(_)
            | Self::DeleteJobBody(_)
            | Self::UnparkJob(_)
            | Self::DeleteQueue(_)
            | Self::PutQueueCounts(..)
            | Self::DeleteDead(..)
            | Self::DeleteAnswer(..)
            | Self::DeleteCommand(..)
            | Self::PutFinishedCommand(_)
            | Self::DeleteFinishedCommand(_)
            | Self::DeleteWish(..)
            | Self::DeleteDeviceSession(_)
            | Self::DeleteRollout(_)
            | Self::DeleteRolloutDevices(..)
            | Self::DeleteOperation(_)
            | Self::DeletePortalToken(_)
            | Self::DeleteNotice(_)
            | Self::PutNoticePost(_)
            | Self::DeleteNoticePost(..)
            | Self::DeleteClient(_) => PLAIN,
            Self::PutOpenCommand(_)
            | Self::DeleteOpenCommand(_)
            | Self::PutDeviceSession(_)
            | Self::PutRolloutState(_)
            | Self::PutPortalToken(_)
            | Self::PutRolloutMember(_)
            | Self::DeleteRolloutMember(..)
            | Self::PutTimelineEntry(_) => 2 * PLAIN,
        }
    }
}
