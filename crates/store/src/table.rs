//! The tables, each declared once: its name, whose partitions have rows in it, how a checkpoint
//! writes it, and how long its rows live.
//!
//! Which tables there are is part of the format of a data directory. A new table stands at the end
//! of this list, and the first one after a release raises the version of `DataDirectory`. What a
//! table's records are found by is declared with their stored form, as a
//! [`Record`](crate::record::Record). How rows are kept is not known here.

use base::PartitionId;

/// Which partitions have rows in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TablePartitions {
    /// Those of devices, and the registry.
    Devices,
    /// The registry.
    Registry,
    /// Those of queues.
    Queues,
    /// That of campaigns.
    Campaigns,
    /// Those of streams.
    Streams,
    /// Every one.
    All,
    /// None: an opening moves the rows of earlier formats to other tables.
    Nobody,
}

impl TablePartitions {
    /// Whether a partition may have such rows.
    pub(crate) fn has(self, partition: PartitionId) -> bool {
        let is_of_queues = partition.queues_index().is_some();
        let is_of_streams = partition.streams_index().is_some();
        match self {
            Self::Devices => !is_of_queues && !is_of_streams && partition != PartitionId::CAMPAIGNS,
            Self::Registry => partition == PartitionId::REGISTRY,
            Self::Queues => is_of_queues,
            Self::Campaigns => partition == PartitionId::CAMPAIGNS,
            Self::Streams => is_of_streams,
            Self::All => true,
            Self::Nobody => false,
        }
    }
}

/// How a checkpoint writes a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteMode {
    /// Row by row, as the overlay has them.
    Rows,
    /// In a way of its own.
    Apart,
}

/// How long rows live that no change deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// Until a change deletes them, or what they belong to goes.
    Kept,
    /// As long as their device: their keys begin with its slot.
    Device,
    /// As long as their device, and no longer than events: behind the slot stands a time. There is
    /// one such table.
    DeviceAndEvents,
    /// As long as events: their keys begin with a time.
    Events,
    /// As long as events: their keys begin with a UTC day.
    EventDays,
    /// As long as deliveries: their keys begin with a time.
    Deliveries,
}

macro_rules! tables {
    ($(
        $(#[$doc:meta])* $table:ident = $name:literal, $partitions:ident, $write_mode:ident $(, $lifetime:ident)?;
    )*) => {
        /// What a table holds. The names in the file are fixed: they are part of the format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Table {
            $($(#[$doc])* $table,)*
        }

        impl Table {
            /// Every table, in order of declaration.
            pub(crate) const ALL: [Self; [$($name),*].len()] = [$(Self::$table),*];

            /// Its name in the file, and in a backup.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$table => $name),* }
            }

            /// Which partitions have rows in it.
            pub(crate) fn partitions(self) -> TablePartitions {
                match self { $(Self::$table => TablePartitions::$partitions),* }
            }

            /// How a checkpoint writes it.
            pub(crate) fn write_mode(self) -> WriteMode {
                match self { $(Self::$table => WriteMode::$write_mode),* }
            }

            /// How long its rows live: [`Lifetime::Kept`] if the list does not say.
            pub(crate) fn lifetime(self) -> Lifetime {
                match self {
                    $($(Self::$table => Lifetime::$lifetime,)?)*
                    _ => Lifetime::Kept,
                }
            }
        }
    };
}

tables! {
    /// What the data directory is; one row, and the only table whose key has no partition.
    Directory = "directory", All, Apart;
    /// partition -> the position in the log that its rows cover, and its head.
    Heads = "heads", All, Apart;
    /// id of a device -> profile.
    Devices = "devices", Devices, Apart;
    /// slot -> state.
    States = "states", Devices, Rows;
    /// slice -> signs of life of its devices.
    Seen = "seen", Devices, Apart;
    /// client, id of a device -> nothing.
    DevicesByClient = "devices_by_client", Devices, Apart;
    /// hash of a label, id of a device -> nothing.
    DevicesByLabel = "devices_by_label", Devices, Apart;
    /// kind, 0, id of a device -> nothing.
    DevicesByKind = "devices_by_kind", Devices, Apart;
    /// slot -> ids of its latest reports.
    ReportIds = "report_ids", Devices, Rows;
    /// slot, client -> notification state.
    NotificationStates = "pairs", Devices, Rows, Device;
    /// time, number -> event.
    Events = "events", Devices, Rows, Events;
    /// slot, time, number -> nothing.
    EventsByDevice = "events_by_device", Devices, Rows;
    /// time, number -> delivery as it was made.
    Deliveries = "deliveries", Devices, Rows, Deliveries;
    /// time, number -> its progress.
    Progress = "delivery_progress", Devices, Rows, Deliveries;
    /// client, time, number -> nothing.
    DeliveriesByClient = "deliveries_by_client", Devices, Rows;
    /// slot, time, number -> nothing.
    DeliveriesByDevice = "deliveries_by_device", Devices, Rows;
    /// time, number, attempt -> attempt.
    Attempts = "attempts", Devices, Rows, Deliveries;
    /// id of a resident job -> head.
    JobHeads = "job_heads", All, Rows;
    /// id of a job -> what it carries.
    JobBodies = "job_bodies", All, Rows;
    /// id of a client -> client.
    Clients = "clients", Registry, Rows;
    /// slice, day, sequence -> what is in the blob, and the blob if it is small.
    BlobIndex = "reading_blob_index", Devices, Apart;
    /// slice, day, sequence, number -> a block of the blob.
    Blobs = "reading_blocks", Devices, Apart;
    /// UTC day, whose, metric -> counts by hour.
    Counts = "counts", Devices, Rows, EventDays;
    /// time, number -> refused report.
    Quarantine = "quarantine", Devices, Rows;
    /// slot of a deleted device whose history is not swept yet -> nothing.
    Deleted = "deleted_devices", Devices, Rows;
    /// queue -> its name and settings.
    Queues = "queues", Queues, Rows;
    /// queue -> how much of it is not resident.
    QueueCounts = "queue_counts", Queues, Rows;
    /// id of a parked job -> job, up to format 7.
    ParkedJobs = "parked_jobs", Nobody, Rows;
    /// clock, bucket of time, id of a job, time within the bucket -> nothing, up to format 7.
    ParkedByTime = "parked_by_time", Nobody, Rows;
    /// queue, whether there is a group, group, time, number -> place of a parked job.
    ParkedByLine = "parked_by_line", Queues, Rows;
    /// queue, alias -> place of a parked job.
    ParkedAliases = "parked_aliases", Queues, Rows;
    /// queue, number -> dead letter.
    Dead = "dead", Queues, Rows;
    /// queue, id of a job -> number of its dead letter.
    DeadIds = "dead_ids", Queues, Rows;
    /// key -> answer.
    Answers = "answers", All, Rows;
    /// time, key -> nothing.
    AnswersByTime = "answers_by_time", All, Rows;
    /// time, number -> command as it was given.
    Commands = "commands", Devices, Rows;
    /// slot, time, number -> nothing.
    CommandsByDevice = "commands_by_device", Devices, Rows;
    /// time, number -> how far the command has come.
    CommandStates = "command_states", Devices, Rows;
    /// phase, slot, priority from the highest on, time, number -> open command.
    OpenCommands = "open_commands", Devices, Rows;
    /// when time does something to it, time, number -> phase, slot, priority.
    CommandsByDue = "commands_by_due", Devices, Rows;
    /// slot, hash of a command's key, time, number -> phase, slot, priority.
    CommandsByKey = "commands_by_key", Devices, Rows;
    /// when it ended, time, number -> finished command.
    FinishedCommands = "finished_commands", Devices, Rows;
    /// slot, key -> desired entry.
    Wishes = "wishes", Devices, Rows, Device;
    /// slot -> the session that is open in the books.
    DeviceSessions = "device_sessions", Devices, Rows, Device;
    /// slot, time, number -> entry.
    Timeline = "timeline", Devices, Rows, DeviceAndEvents;
    /// id -> rollout as it was asked for.
    Rollouts = "rollouts", Registry, Rows;
    /// id -> how far the rollout has come.
    RolloutStates = "rollout_states", Registry, Rows;
    /// rollout, number -> some of the devices that it names.
    RolloutDevices = "rollout_devices", Registry, Rows;
    /// rollout, rank, id of a device, 0, entry -> where the device stands.
    RolloutMembers = "rollout_members", Registry, Rows;
    /// rollout, status, rank, id of a device, 0, entry -> nothing.
    MembersByStatus = "rollout_members_by_status", Registry, Rows;
    /// id -> operation as it was asked for.
    Operations = "operations", Registry, Rows;
    /// id -> how far the operation has come.
    OperationStates = "operation_states", Registry, Rows;
    /// id of a portal's token -> token.
    PortalTokens = "portal_tokens", Registry, Rows;
    /// time, number -> notice.
    Notices = "notices", Registry, Rows;
    /// client, time, number -> notice on its way to the client.
    NoticePosts = "notice_posts", Registry, Rows;
    /// incarnation -> terms of picks.
    PickTerms = "pick_terms", Campaigns, Rows;
    /// incarnation -> task as it was asked for, or slot as it began.
    Tasks = "tasks", Campaigns, Rows;
    /// id of a task that is no slot -> its incarnation.
    TasksById = "tasks_by_id", Campaigns, Rows;
    /// campaign, when it was due, task -> nothing.
    SlotsByCampaign = "slots_by_campaign", Campaigns, Rows;
    /// task -> how far it has come.
    TaskStates = "task_states", Campaigns, Rows;
    /// running task -> nothing.
    RunningTasks = "running_tasks", Campaigns, Rows;
    /// task whose receiver is still to be told of its end -> nothing.
    UntoldTasks = "untold_tasks", Campaigns, Rows;
    /// whether it is a slot, when it ended, task -> nothing.
    EndedTasks = "ended_tasks", Campaigns, Rows;
    /// task, number -> pick.
    Picks = "picks", Campaigns, Rows;
    /// partition, slot, when it was picked, task -> number.
    PicksByDevice = "picks_by_device", Campaigns, Rows;
    /// task that is no slot, number among those that have ended -> number.
    PicksByEnd = "picks_by_end", Campaigns, Rows;
    /// campaign, when it ended, task, number among those that have ended -> number.
    PicksByCampaign = "picks_by_campaign", Campaigns, Rows;
    /// campaign, id of a device, 0, when it ended, task, number among those that have ended ->
    /// number.
    PicksByCampaignDevice = "picks_by_campaign_device", Campaigns, Rows;
    /// partition, slot -> what the device has had of all picks.
    PickShares = "pick_shares", Campaigns, Rows;
    /// nothing -> the clock of picks.
    PickClock = "pick_clock", Campaigns, Rows;
    /// id -> campaign.
    Campaigns = "campaigns", Campaigns, Rows;
    /// id -> how far the campaign has come.
    CampaignStates = "campaign_states", Campaigns, Rows;
    /// incarnation -> stream.
    Streams = "streams", Streams, Rows;
    /// namespace, 0, name of a stream that is not deleted -> its incarnation.
    StreamsByName = "streams_by_name", Streams, Rows;
    /// stream -> how far it has come.
    StreamTails = "stream_tails", Streams, Rows;
    /// when time does something to it, stream -> nothing else.
    StreamsByDue = "streams_by_due", Streams, Rows;
    /// stream, id of the first message -> messages.
    StreamChunks = "stream_chunks", Streams, Rows;
    /// stream, id of the first message -> block.
    StreamBlocks = "stream_blocks", Streams, Rows;
    /// stream, source, 0, lowest number -> interval.
    ExternalIntervals = "external_intervals", Streams, Rows;
    /// stream, source, 0, lowest number, block -> span.
    ExternalSpans = "external_spans", Streams, Rows;
    /// stream, block, source, 0, lowest number -> nothing.
    SpansByBlock = "external_spans_by_block", Streams, Rows;
    /// stream, source, 0, hash of a text, id of the message -> text.
    ExternalTexts = "external_texts", Streams, Rows;
    /// stream, id of the message -> the key of its text.
    TextsByMessage = "external_texts_by_message", Streams, Rows;
    /// stream, name -> subscription.
    Subscriptions = "subscriptions", Streams, Rows;
    /// stream, name of a subscription that is pushed -> nothing.
    PushedSubscriptions = "pushed_subscriptions", Streams, Rows;
    /// stream, name -> copy.
    StreamCopies = "stream_copies", Streams, Rows;
    /// name -> node.
    PeerNodes = "peer_nodes", Registry, Rows;
    /// namespace, 0, name -> lock.
    Locks = "locks", Queues, Rows;
    /// namespace, 0, name of a queue -> what its workers are to do.
    QueueControls = "queue_controls", Queues, Rows;
    /// copy of kind `reports`, number of the first -> accepted reports on their way to its stream.
    GatheredReports = "gathered_reports", Devices, Rows;
    /// place: clock, bucket of time, run, time within the bucket, rest of the id -> parked job.
    Parked = "parked", Queues, Rows;
    /// id of a parked job -> the rest of its place, queue.
    ParkedIds = "parked_ids", Queues, Rows;
}

impl Table {
    /// Those that hold rows of partitions.
    pub(crate) fn in_use() -> impl Iterator<Item = Self> {
        let is_in_use =
            |table: &Self| *table != Self::Directory && table.partitions() != TablePartitions::Nobody;
        Self::ALL.into_iter().filter(is_in_use)
    }

    /// Those whose rows go with their device: their keys begin with its slot.
    pub(crate) fn of_a_device() -> impl Iterator<Item = Self> {
        let goes = |lifetime| matches!(lifetime, Lifetime::Device | Lifetime::DeviceAndEvents);
        Self::ALL.into_iter().filter(move |table| goes(table.lifetime()))
    }

    /// How many halves of a row's memory count for when checkpoints are due. A resident job may be
    /// done, an open command may move on, and a session may end before the next checkpoint. Then no
    /// checkpoint writes it, and none takes it out again. Gathered reports are with their stream
    /// soon. A parked job is not needed for a while.
    pub(crate) fn weight_in_halves(self) -> usize {
        match self {
            Self::JobHeads | Self::JobBodies => 1,
            Self::OpenCommands | Self::CommandsByDue | Self::CommandsByKey | Self::DeviceSessions => 1,
            Self::RunningTasks | Self::UntoldTasks => 1,
            Self::StreamChunks | Self::StreamsByDue | Self::Locks | Self::GatheredReports => 1,
            Self::Parked | Self::ParkedIds | Self::ParkedByLine | Self::ParkedAliases => 16,
            _ => 2,
        }
    }
}
