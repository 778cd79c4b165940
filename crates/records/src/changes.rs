//! The one list of all changes. From it follow [`Op`](crate::Op) with its weight, and in the store
//! how a change is written into a frame and which rows it changes.

/// Hands every change besides a sign of life to the macro `$make`: its number, its parts, and what
/// it does.
///
/// The number is what a change is in a frame of the log: it is never given to another change, and
/// never changes. How parts are written is for the store to say. A new change takes the next number
/// behind the highest, below 128. The first one after a release raises the version of the frame.
///
/// What it does is one of:
/// - `puts R`: the part is a record, which says itself where it stands.
/// - `puts R at part`: the other part is a record, which stands there.
/// - `deletes R`: the parts are all by which the record is found.
/// - `deletes R at (part, part), S at part`: so are these of each record.
/// - `deletes R as part, S as part`: each part is the record, as it was put.
/// - `apart`: the store says it by hand. With `puts R` a record is among what it puts.
#[macro_export]
macro_rules! all_changes {
    ($make:ident) => {
        $make! {
            /// A device's state is now this.
            1 PutState(slot: DeviceSlot, state: DeviceState) { puts DeviceState at slot }
            /// A device is registered, or its profile is now this. Its links are its `clients`; the
            /// indexes by client, label and kind follow it.
            2 PutDevice(device: Box<DeviceProfile>) { puts DeviceProfile }
            /// A device is gone, with its state, ids of reports, notification states, readings and
            /// events.
            3 DeleteDevice(id: DeviceId, slot: DeviceSlot) { apart }
            /// The ids that a device's latest reports carried are now these.
            15 PutReportIds(slot: DeviceSlot, ids: Box<ReportIds>) { puts ReportIds at slot }
            /// An event happened.
            4 PutEvent(event: Box<Event>) { puts Event }
            /// What a client was not told of a device is now this.
            5 PutNotificationState(state: Box<NotificationState>) { puts NotificationState }
            /// A client was told all of a device.
            6 DeleteNotificationState(slot: DeviceSlot, client: Incarnation) { deletes NotificationState }
            /// A delivery is new.
            7 PutDelivery(delivery: Box<Delivery>) { apart puts Delivery }
            /// A delivery has come this far. Without effect, as an attempt is, on one that is kept
            /// no longer.
            8 PutProgress(key: DeliveryKey, progress: DeliveryProgress) { puts DeliveryProgress at key }
            /// An attempt was made.
            9 PutAttempt(attempt: Box<Attempt>) { puts Attempt }
            /// A job is new, or stands elsewhere.
            10 PutJob(job: Box<JobHead>) { puts JobHead }
            /// A job is done, dead or cancelled; its body goes with it. Not one that is parked.
            11 DeleteJob(id: JobId) { apart }
            /// A job is no longer one, but what it carries stays: it is a dead letter. Not one that
            /// is parked.
            19 DeleteJobHead(id: JobId) { deletes JobHead }
            /// What a job carried is gone: its dead letter is.
            20 DeleteJobBody(id: JobId) { apart }
            /// A job is not resident from now on: nothing loads it. A resident one of the same id
            /// is gone, and its body stays.
            21 ParkJob(job: Box<ParkedJob>) { apart puts ParkedJob }
            /// A job is parked no longer. Its body stays, unless it was parked with it.
            22 UnparkJob(key: Box<ParkedKey>) { deletes ParkedJob }
            /// A job carries this.
            12 PutJobBody(id: JobId, body: Arc<[u8]>) { apart }
            /// A queue is new, or its settings are now these.
            23 PutQueue(queue: Box<Queue>) { puts Queue }
            /// A queue is gone, with its counts. Its jobs and dead letters are deleted one by one.
            24 DeleteQueue(queue: QueueKey) { deletes Queue at queue, QueueCounts at queue }
            /// A queue has so many jobs that are not resident.
            25 PutQueueCounts(queue: QueueKey, counts: QueueCounts) { puts QueueCounts at queue }
            /// A job failed for good.
            26 PutDead(dead: Box<DeadJob>) { puts DeadJob }
            /// A dead letter is gone: its queue, its number there and its id. What it carried is
            /// deleted apart.
            27 DeleteDead(queue: QueueKey, number: u64, id: JobId) { deletes DeadJob }
            /// A request was answered that may be repeated.
            28 PutAnswer(answer: Box<KeptAnswer>) { puts KeptAnswer }
            /// An answer is kept no longer: its key, and when it was given.
            29 DeleteAnswer(key: AnswerKey, at: Timestamp) { deletes KeptAnswer }
            /// What was counted on a day is now this.
            16 PutCounts(key: CountsKey, counts: Box<HourlyCounts>) { puts HourlyCounts at key }
            /// A report was refused.
            17 PutQuarantined(report: Box<Quarantined>) { puts Quarantined }
            /// A refused report is kept no longer.
            18 DeleteQuarantined(key: QuarantineKey) { deletes Quarantined }
            /// A command was given.
            30 PutCommand(command: Box<Command>) { puts Command }
            /// A command that is kept no longer: what its key does not say of it.
            31 DeleteCommand(key: CommandKey, slot: DeviceSlot) {
                deletes Command at (key, slot), CommandState at key
            }
            /// A command has come this far.
            32 PutCommandState(key: CommandKey, state: Box<CommandState>) { puts CommandState at key }
            /// A command that has not ended stands here.
            33 PutOpenCommand(open: Box<OpenCommand>) { puts OpenCommand }
            /// A command stands here no longer: it has ended, or is put elsewhere.
            34 DeleteOpenCommand(open: Box<OpenCommand>) { deletes OpenCommand }
            /// A command has ended.
            35 PutFinishedCommand(finished: FinishedCommand) { puts FinishedCommand }
            /// A command that had ended is kept no longer, or goes on.
            36 DeleteFinishedCommand(finished: FinishedCommand) { deletes FinishedCommand }
            /// What is wished of a device is now this.
            37 PutDesiredState(desired_state: Box<DesiredState>) { puts DesiredState }
            /// Nothing is wished, nor known, of an entry any more.
            38 DeleteDesiredState(slot: DeviceSlot, key: Box<str>) { deletes DesiredState }
            /// A session of a device began.
            39 PutDeviceSession(session: Box<DeviceSession>) { puts DeviceSession }
            /// No session of a device is open in the books.
            40 DeleteDeviceSession(slot: DeviceSlot) { deletes DeviceSession }
            /// Something happened to a device.
            41 PutTimelineEntry(entry: Box<TimelineEntry>) { puts TimelineEntry }
            /// A client is registered or changed. Registry partition only.
            13 PutClient(client: Box<Client>) { puts Client }
            /// A client is gone. Registry partition only.
            14 DeleteClient(id: ClientId) { deletes Client }
            /// A rollout was asked for. Registry partition only, like all that follows.
            42 PutRollout(rollout: Box<Rollout>) { puts Rollout }
            /// A rollout is kept no longer. Its devices are deleted one by one.
            43 DeleteRollout(id: Box<str>) { deletes Rollout at id, RolloutState at id }
            /// A rollout has come this far.
            44 PutRolloutState(state: Box<RolloutState>) { puts RolloutState }
            /// A rollout names these devices.
            45 PutRolloutDevices(devices: Box<RolloutDevices>) { puts RolloutDevices }
            /// It has looked for those of this number.
            46 DeleteRolloutDevices(rollout: Incarnation, number: u32) { deletes RolloutDevices }
            /// A device belongs to a rollout, and stands here.
            47 PutRolloutMember(member: Box<RolloutMember>) { puts RolloutMember }
            /// A device of a rollout stands here no longer.
            48 DeleteRolloutMember(place: Box<MemberPlace>, status: MemberStatus) {
                deletes RolloutMember at (*place, status)
            }
            /// An operation was asked for.
            49 PutOperation(operation: Box<Operation>) { puts Operation }
            /// An operation is kept no longer, nor how far it came.
            50 DeleteOperation(id: EntityId) { deletes Operation at id, OperationState at id }
            /// An operation has come this far.
            51 PutOperationState(state: Box<OperationState>) { puts OperationState }
            /// A portal is open.
            52 PutPortalToken(token: Box<PortalToken>) { puts PortalToken }
            /// A portal is closed.
            53 DeletePortalToken(id: Incarnation) { deletes PortalToken }
            /// There is something to be told of the system.
            54 PutNotice(notice: Box<Notice>) { puts Notice }
            /// A notice is kept no longer.
            55 DeleteNotice(at: NoticeKey) { deletes Notice }
            /// A client is to be told of a notice, at that time.
            56 PutNoticePost(post: NoticePost) { puts NoticePost }
            /// A client was told of a notice, or is not.
            57 DeleteNoticePost(client: Incarnation, notice: NoticeKey) { deletes NoticePost }
            /// Picks have these terms. Partition of campaigns only, like all that follows.
            58 PutPickTerms(terms: Box<PickTerms>) { puts PickTerms }
            /// No campaign and no running task has the terms.
            59 DeletePickTerms(terms: Incarnation) { deletes PickTerms }
            /// A task was asked for, or a slot began.
            60 PutTask(task: Box<TaskRecord>) { puts TaskRecord }
            /// A task has come this far. Once it has ended it does not go on.
            61 PutTaskState(state: Box<TaskState>) { puts TaskState }
            /// A task is kept no longer: as it was put. Its picks are deleted one by one.
            62 DeleteTask(task: Box<TaskRecord>, state: Box<TaskState>) {
                deletes TaskRecord as task, TaskState as state
            }
            /// A device is picked, or what came of that. How it ended never changes.
            63 PutPick(pick: Box<Pick>) { puts Pick }
            /// A pick is kept no longer: as it was put.
            64 DeletePick(pick: Box<PickKey>) { deletes Pick }
            /// A device has had this of all picks.
            65 PutPickShare(share: PickShare) { puts PickShare }
            /// The device is gone.
            66 DeletePickShare(place: DevicePlace) { deletes PickShare }
            /// The clock of picks is set.
            67 PutPickClock(clock: Box<PickClock>) { puts PickClock }
            /// A campaign is made or changed.
            68 PutCampaign(campaign: Box<CampaignRecord>) { puts CampaignRecord }
            /// A campaign has come this far.
            69 PutCampaignState(state: Box<CampaignState>) { puts CampaignState }
            /// A campaign is gone, and how far it came. Its slots and their picks stay.
            70 DeleteCampaign(id: Box<str>) { deletes CampaignRecord at id, CampaignState at id }
            /// A stream is made, or its settings are now these; or it is deleted, and its name
            /// free. Partitions of streams only, like all that follows.
            71 PutStream(stream: Box<Stream>) { puts Stream }
            /// All that a deleted stream held is gone.
            72 DeleteStream(stream: Box<Stream>) { deletes Stream as stream }
            /// A stream has come this far.
            73 PutStreamTail(tail: Box<StreamTail>) { puts StreamTail }
            /// Nothing is known of how far a stream came.
            74 DeleteStreamTail(stream: Incarnation) { deletes StreamTail }
            /// Time does something to a stream then.
            75 PutStreamDue(due: StreamDue) { puts StreamDue }
            /// It does not, or has done so.
            76 DeleteStreamDue(due: StreamDue) { deletes StreamDue as due }
            /// Messages are durable.
            77 PutStreamChunk(chunk: Box<StreamChunk>) { puts StreamChunk }
            /// Messages are in a stored block, or gone: the first one's id.
            78 DeleteStreamChunk(stream: Incarnation, first: u64) { deletes StreamChunk }
            /// A block is stored.
            79 PutStreamBlock(block: Box<StreamBlock>) { puts StreamBlock }
            /// A block is gone: its first message's id.
            80 DeleteStreamBlock(stream: Incarnation, first: u64) { deletes StreamBlock }
            /// A source gave these numbers.
            81 PutExternalInterval(interval: Box<ExternalInterval>) { puts ExternalInterval }
            /// Another interval has these numbers, or the stream is gone: the lowest.
            82 DeleteExternalInterval(stream: Incarnation, source: Box<str>, from: u64) {
                deletes ExternalInterval
            }
            /// A stored block has numbers of a source.
            83 PutExternalSpan(span: Box<ExternalSpan>) { puts ExternalSpan }
            /// The block is gone.
            84 DeleteExternalSpan(span: Box<ExternalSpan>) { deletes ExternalSpan as span }
            /// A source gave this text.
            85 PutExternalText(text: Box<ExternalText>) { puts ExternalText }
            /// The message is gone.
            86 DeleteExternalText(text: Box<ExternalText>) { deletes ExternalText as text }
            /// A subscription is made, or is this from now on.
            87 PutSubscription(subscription: Box<StreamSubscription>) { puts StreamSubscription }
            /// A subscription is gone: its stream and its name.
            88 DeleteSubscription(stream: Incarnation, name: Box<str>) { apart }
            /// A copy is made, or is this from now on.
            95 PutStreamCopy(copy: Box<StreamCopy>) { puts StreamCopy }
            /// A copy is gone: its stream and its name.
            96 DeleteStreamCopy(stream: Incarnation, name: Box<str>) { deletes StreamCopy }
            /// A node is made, or is this from now on. Registry partition only.
            97 PutPeerNode(node: Box<PeerNode>) { puts PeerNode }
            /// A node is gone. Registry partition only.
            98 DeletePeerNode(name: Box<str>) { deletes PeerNode }
            /// Reports were accepted that a copy brings to another node. Partitions of devices
            /// only.
            99 PutGatheredReports(gathered: Box<GatheredReports>) { puts GatheredReports }
            /// The stream of the copy has them, or the copy is gone: the number of the first.
            100 DeleteGatheredReports(gather: Incarnation, first: u64) { deletes GatheredReports }
            /// A lock is held, or free. Partitions of queues only, like all that follows.
            89 PutLock(lock: Box<Lock>) { puts Lock }
            /// Nothing is known of a lock any more: its namespace and its name.
            90 DeleteLock(namespace: Box<str>, name: Box<str>) { apart }
            /// The workers of a queue are to do this.
            91 PutQueueControl(control: Box<WorkerControl>) { puts WorkerControl }
            /// Nothing is said to the workers of a queue: its namespace and its name.
            92 DeleteQueueControl(namespace: Box<str>, name: Box<str>) { apart }
        }
    };
}
