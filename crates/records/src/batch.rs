//! Everything that one step of a partition changes, kept whole or not at all.

use std::sync::Arc;

use base::{ClientId, DeviceId, EntityId, Incarnation, PartitionId, Timestamp, Value, WayIn};

use crate::{
    AnswerKey, Attempt, CampaignRecord, CampaignState, Client, Command, CommandKey, CommandState, Counts,
    CountsKey, DeadJob, Delivery, DeliveryKey, DeliveryProgress, DevicePlace, DeviceProfile, DeviceSession,
    DeviceSlot, DeviceState, Event, ExternalInterval, ExternalSpan, ExternalText, FinishedCommand, JobHead,
    JobId, KeptAnswer, Lock, MemberPlace, MemberStatus, Notice, NoticeKey, NoticePost, OpenCommand,
    Operation, OperationState, Pair, ParkedJob, ParkedKey, PartitionHead, PeerNode, Pick, PickClock, PickKey,
    PickShare, PickTerms, PortalToken, QuarantineKey, Quarantined, Queue, QueueCounts, QueueKey, ReportIds,
    Rollout, RolloutDevices, RolloutMember, RolloutState, Stream, StreamBlock, StreamChunk, StreamCopy,
    StreamDue, StreamSubscription, StreamTail, TaskRecord, TaskState, TimelineEntry, Wish, WorkerControl,
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
    /// Picks have these terms. Partition of campaigns only, like all that follows.
    PutPickTerms(Box<PickTerms>),
    /// No campaign and no running task has the terms.
    DeletePickTerms(Incarnation),
    /// A task was asked for, or a slot began.
    PutTask(Box<TaskRecord>),
    /// A task has come this far. Once it has ended it does not go on.
    PutTaskState(Box<TaskState>),
    /// A task is kept no longer: as it was put. Its picks are deleted one by one.
    DeleteTask(Box<TaskRecord>, Box<TaskState>),
    /// A device is picked, or what came of that. How it ended never changes.
    PutPick(Box<Pick>),
    /// A pick is kept no longer: as it was put.
    DeletePick(Box<PickKey>),
    /// A device has had this of all picks.
    PutPickShare(PickShare),
    /// The device is gone.
    DeletePickShare(DevicePlace),
    /// The clock of picks is set.
    PutPickClock(Box<PickClock>),
    /// A campaign is made or changed.
    PutCampaign(Box<CampaignRecord>),
    /// A campaign has come this far.
    PutCampaignState(Box<CampaignState>),
    /// A campaign is gone, and how far it came. Its slots and their picks stay.
    DeleteCampaign(Box<str>),
    /// A stream is made, or its settings are now these; or it is deleted, and its name free.
    /// Partitions of streams only, like all that follows.
    PutStream(Box<Stream>),
    /// All that a deleted stream held is gone.
    DeleteStream(Box<Stream>),
    /// A stream has come this far.
    PutStreamTail(Box<StreamTail>),
    /// Nothing is known of how far a stream came.
    DeleteStreamTail(Incarnation),
    /// Time does something to a stream then.
    PutStreamDue(StreamDue),
    /// It does not, or has done so.
    DeleteStreamDue(StreamDue),
    /// Messages are durable.
    PutStreamChunk(Box<StreamChunk>),
    /// Messages are in a stored block, or gone: the first one's id.
    DeleteStreamChunk(Incarnation, u64),
    /// A block is stored.
    PutStreamBlock(Box<StreamBlock>),
    /// A block is gone: its first message's id.
    DeleteStreamBlock(Incarnation, u64),
    /// A source gave these numbers.
    PutExternalInterval(Box<ExternalInterval>),
    /// Another interval has these numbers, or the stream is gone: the lowest.
    DeleteExternalInterval(Incarnation, Box<str>, u64),
    /// A stored block has numbers of a source.
    PutExternalSpan(Box<ExternalSpan>),
    /// The block is gone.
    DeleteExternalSpan(Box<ExternalSpan>),
    /// A source gave this text.
    PutExternalText(Box<ExternalText>),
    /// The message is gone.
    DeleteExternalText(Box<ExternalText>),
    /// A subscription is made, or is this from now on.
    PutSubscription(Box<StreamSubscription>),
    /// A subscription is gone: its stream and its name.
    DeleteSubscription(Incarnation, Box<str>),
    /// A copy is made, or is this from now on.
    PutStreamCopy(Box<StreamCopy>),
    /// A copy is gone: its stream and its name.
    DeleteStreamCopy(Incarnation, Box<str>),
    /// A node is made, or is this from now on.
    PutPeerNode(Box<PeerNode>),
    /// A node is gone.
    DeletePeerNode(Box<str>),
    /// A lock is held, or free. Partitions of queues only, like all that follows.
    PutLock(Box<Lock>),
    /// Nothing is known of a lock any more: its namespace and its name.
    DeleteLock(Box<str>, Box<str>),
    /// The workers of a queue are to do this.
    PutQueueControl(Box<WorkerControl>),
    /// Nothing is said to the workers of a queue: its namespace and its name.
    DeleteQueueControl(Box<str>, Box<str>),
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
            Self::PutPickTerms(terms) => 2 * PLAIN + terms.text_bytes(),
            Self::PutPick(pick) => 3 * PLAIN + pick.text_bytes(),
            Self::PutStream(stream) => 2 * PLAIN + stream.text_bytes(),
            Self::PutStreamTail(tail) => PLAIN + tail.text_bytes(),
            Self::PutStreamChunk(chunk) => PLAIN + chunk.bytes.len(),
            Self::PutStreamBlock(block) => 2 * PLAIN + block.text_bytes(),
            Self::PutSubscription(subscription) => 2 * PLAIN + subscription.text_bytes(),
            Self::DeleteSubscription(_, name) => PLAIN + name.len(),
            Self::PutStreamCopy(copy) => 3 * PLAIN + copy.text_bytes(),
            Self::PutPeerNode(node) => PLAIN + node.text_bytes(),
            Self::PutPickClock(clock) => {
                let tokens = clock.token_picks.iter().map(|picks| picks.token.len() + 16);
                PLAIN + clock.minutes.len() * 16 + tokens.sum::<usize>()
            }
            Self::PutCampaign(campaign) => 2 * PLAIN + campaign.name.as_ref().map_or(0, |name| name.len()),
            Self::PutLock(lock) => PLAIN + lock.text_bytes(),
            Self::PutQueueControl(control) => PLAIN + control.text_bytes(),
            Self::DeleteLock(namespace, name) | Self::DeleteQueueControl(namespace, name) => {
                PLAIN + namespace.len() + name.len()
            }
            small => small.small_weight(),
        }
    }

    /// The same of what has no text of its own.
    fn small_weight(&self) -> usize {
        match self {
            Self::PutOpenCommand(_)
            | Self::DeleteOpenCommand(_)
            | Self::PutDeviceSession(_)
            | Self::PutRolloutState(_)
            | Self::PutPortalToken(_)
            | Self::PutRolloutMember(_)
            | Self::DeleteRolloutMember(..)
            | Self::PutTask(_)
            | Self::PutTaskState(_)
            | Self::DeleteTask(..)
            | Self::DeletePick(_)
            | Self::PutCampaignState(_)
            | Self::DeleteStream(_)
            | Self::PutExternalInterval(_)
            | Self::PutExternalSpan(_)
            | Self::DeleteExternalSpan(_)
            | Self::PutExternalText(_)
            | Self::DeleteExternalText(_)
            | Self::PutTimelineEntry(_) => 2 * PLAIN,
            _ => PLAIN,
        }
    }
}
