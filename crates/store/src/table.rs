//! The tables by name. Which there are is part of the format of a data directory: a new one is a new version of
//! `Directory`. How rows are kept is not known here.

/// What a table holds. The names in the file are fixed: they are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Table {
    /// What the data directory is; one row, and the only table whose key has no partition.
    Directory,
    /// partition -> the position in the log that its rows cover, and its head.
    Heads,
    /// id of a device -> profile.
    Devices,
    /// slot -> state.
    States,
    /// slice -> signs of life of its devices.
    Seen,
    /// client, id of a device -> nothing.
    DevicesByClient,
    /// hash of a label, id of a device -> nothing.
    DevicesByLabel,
    /// kind, 0, id of a device -> nothing.
    DevicesByKind,
    /// slot -> ids of its latest reports.
    ReportIds,
    /// slot, client -> pair.
    Pairs,
    /// time, number -> event.
    Events,
    /// slot, time, number -> nothing.
    EventsByDevice,
    /// time, number -> delivery as it was made.
    Deliveries,
    /// time, number -> its progress.
    Progress,
    /// client, time, number -> nothing.
    DeliveriesByClient,
    /// slot, time, number -> nothing.
    DeliveriesByDevice,
    /// time, number, attempt -> attempt.
    Attempts,
    /// id of a resident job -> head.
    JobHeads,
    /// id of a job -> what it carries.
    JobBodies,
    /// id of a client -> client.
    Clients,
    /// slice, day, sequence -> what is in the blob, and the blob if it is small.
    BlobIndex,
    /// slice, day, sequence, number -> a block of the blob.
    Blobs,
    /// UTC day, whose, metric -> counts by hour.
    Counts,
    /// time, number -> refused report.
    Quarantine,
    /// slot of a deleted device whose history is not swept yet -> nothing.
    Deleted,
    /// queue -> its name and settings.
    Queues,
    /// queue -> how much of it is not resident.
    QueueCounts,
    /// id of a job -> head, and what it waits for.
    ParkedJobs,
    /// clock, bucket of time, id of a job, time within the bucket -> nothing.
    ParkedByTime,
    /// queue, whether there is a group, group, time, number -> id of a job.
    ParkedByLine,
    /// queue, alias -> id of a job.
    ParkedAliases,
    /// queue, number -> dead letter.
    Dead,
    /// queue, id of a job -> number of its dead letter.
    DeadIds,
    /// key -> answer.
    Answers,
    /// time, key -> nothing.
    AnswersByTime,
}

impl Table {
    /// Every table, in order of declaration.
    pub(crate) const ALL: [Self; 35] = [
        Self::Directory,
        Self::Heads,
        Self::Devices,
        Self::States,
        Self::Seen,
        Self::DevicesByClient,
        Self::DevicesByLabel,
        Self::DevicesByKind,
        Self::ReportIds,
        Self::Pairs,
        Self::Events,
        Self::EventsByDevice,
        Self::Deliveries,
        Self::Progress,
        Self::DeliveriesByClient,
        Self::DeliveriesByDevice,
        Self::Attempts,
        Self::JobHeads,
        Self::JobBodies,
        Self::Clients,
        Self::BlobIndex,
        Self::Blobs,
        Self::Counts,
        Self::Quarantine,
        Self::Deleted,
        Self::Queues,
        Self::QueueCounts,
        Self::ParkedJobs,
        Self::ParkedByTime,
        Self::ParkedByLine,
        Self::ParkedAliases,
        Self::Dead,
        Self::DeadIds,
        Self::Answers,
        Self::AnswersByTime,
    ];

    /// How many halves of a row's memory count for when checkpoints are due. A job that is resident may be done before a checkpoint
    /// has to write it, and take it out again with the next; one that is parked is not needed for a while.
    pub(crate) fn weight_in_halves(self) -> usize {
        match self {
            Self::JobHeads | Self::JobBodies => 1,
            Self::ParkedJobs | Self::ParkedByTime | Self::ParkedByLine | Self::ParkedAliases => 16,
            _ => 2,
        }
    }

    /// Its name in the file, and in a backup.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::Heads => "heads",
            Self::Devices => "devices",
            Self::States => "states",
            Self::Seen => "seen",
            Self::DevicesByClient => "devices_by_client",
            Self::DevicesByLabel => "devices_by_label",
            Self::DevicesByKind => "devices_by_kind",
            Self::ReportIds => "report_ids",
            Self::Pairs => "pairs",
            Self::Events => "events",
            Self::EventsByDevice => "events_by_device",
            Self::Deliveries => "deliveries",
            Self::Progress => "delivery_progress",
            Self::DeliveriesByClient => "deliveries_by_client",
            Self::DeliveriesByDevice => "deliveries_by_device",
            Self::Attempts => "attempts",
            Self::JobHeads => "job_heads",
            Self::JobBodies => "job_bodies",
            Self::Clients => "clients",
            Self::BlobIndex => "reading_blob_index",
            Self::Blobs => "reading_blocks",
            Self::Counts => "counts",
            Self::Quarantine => "quarantine",
            Self::Deleted => "deleted_devices",
            Self::Queues => "queues",
            Self::QueueCounts => "queue_counts",
            Self::ParkedJobs => "parked_jobs",
            Self::ParkedByTime => "parked_by_time",
            Self::ParkedByLine => "parked_by_line",
            Self::ParkedAliases => "parked_aliases",
            Self::Dead => "dead",
            Self::DeadIds => "dead_ids",
            Self::Answers => "answers",
            Self::AnswersByTime => "answers_by_time",
        }
    }
}
