//! Every limit that more than one crate keeps, with its unit and its reason.

use std::time::Duration;

/// Longest device id, in characters; the setting `devices.id_max_len` may ask for less.
pub const DEVICE_ID_CHARS_MAX: usize = 64;
/// Longest client id, in characters.
pub const CLIENT_ID_CHARS_MAX: usize = 64;
/// Longest kind, in characters.
pub const KIND_CHARS_MAX: usize = 32;
/// Longest name of a client and address of a device, in characters.
pub const TEXT_CHARS_MAX: usize = 256;
/// Longest URL of a client, in characters.
pub const URL_CHARS_MAX: usize = 2_048;
/// Most labels of a device.
pub const LABELS_MAX: usize = 16;
/// Longest key of a label, in characters.
pub const LABEL_KEY_CHARS_MAX: usize = 32;
/// Longest value of a label, in bytes.
pub const LABEL_VALUE_BYTES_MAX: usize = 128;
/// Most clients that one device is linked to: an event touches one pair for each.
pub const CLIENTS_PER_DEVICE_MAX: usize = 100;
/// Largest value of a device, as canonical JSON text, in bytes.
pub const VALUE_BYTES_MAX: usize = 4_096;
/// Longest line of an NDJSON body, in bytes.
pub const NDJSON_LINE_BYTES_MAX: usize = 64 * 1_024;
/// Largest JSON body, in bytes.
pub const JSON_BODY_BYTES_MAX: usize = 16 * 1_024 * 1_024;
/// Longest `id` of a report, in characters.
pub const REPORT_ID_CHARS_MAX: usize = 64;
/// How far ahead of the wall clock a report's `ts` may be, in milliseconds.
pub const REPORT_TS_AHEAD_MS_MAX: i64 = 5 * 60 * 1_000;
/// Most reports that cross to a partition in one slice; also the most records that one input may
/// touch.
pub const SLICE_REPORTS_MAX: usize = 1_000;
/// What a report takes in memory beside what it came in until it is durable, about, in bytes.
pub const REPORT_BYTES: usize = 256;
/// Largest whole number that a setting may be: up to it, every reader of JSON has each exactly.
pub const EXACT_NUMBER_MAX: u64 = 1 << 53;
/// Most items in one page of a list.
pub const PAGE_ITEMS_MAX: usize = 1_000;
/// Items in a page when `limit` is not given.
pub const PAGE_ITEMS_DEFAULT: usize = 100;
/// Shortest `report_interval`, in milliseconds.
pub const REPORT_INTERVAL_MS_MIN: u64 = 1_000;
/// Newest kinds of event that a notification names in `types`.
pub const NOTIFICATION_TYPES_MAX: usize = 8;
/// Longest payload that the quarantine keeps of a refused report, in bytes; the rest is cut off.
pub const QUARANTINED_PAYLOAD_BYTES_MAX: usize = 64 * 1_024;
/// Newest ids of a device's reports that are known, so that a repeat has no effect.
pub const REPORT_IDS_KEPT: usize = 8;
/// Rejections that an answer lists one by one; more are only counted.
pub const REJECTIONS_LISTED_MAX: usize = 1_000;
/// Longest name of a namespace or a queue, in characters.
pub const QUEUE_NAME_CHARS_MAX: usize = 255;
/// Largest payload of a job: its compact JSON text, or its decoded bytes.
pub const JOB_PAYLOAD_BYTES_MAX: usize = 1_024 * 1_024;
/// Most jobs that one call publishes or consumes.
pub const JOBS_PER_CALL_MAX: usize = 1_000;
/// How long a consumer may wait for jobs in one call: longer than that, things between it and the
/// server break the connection.
pub const CONSUME_WAIT_MAX: Duration = Duration::from_secs(5 * 60);
/// How long a job is reserved when `ttr` is not given.
pub const TTR_DEFAULT: Duration = Duration::from_secs(120);
/// Longest alias and group of a job, in bytes.
pub const JOB_NAME_BYTES_MAX: usize = 255;
/// Longest error that a worker may give for a job, in bytes; a longer one is cut.
pub const JOB_ERROR_BYTES_MAX: usize = 1_024;
/// Dead letters that a queue keeps when its users set nothing: what nobody looks at has a bound
/// too.
pub const DEAD_LETTERS_DEFAULT: u64 = 1_000_000;
/// Most tries of a job.
pub const JOB_TRIES_MAX: u32 = 1_000_000;
/// Most queues that one consumer asks in one call.
pub const QUEUES_PER_CONSUME_MAX: usize = 100;

const _: () = assert!(
    SLICE_REPORTS_MAX * (QUARANTINED_PAYLOAD_BYTES_MAX + 65_536) < u32::MAX as usize,
    "places in what was received of a slice fit into 32 bits, topics included"
);
const _: () = assert!(VALUE_BYTES_MAX < NDJSON_LINE_BYTES_MAX, "a line holds the largest value");
const _: () = assert!(NDJSON_LINE_BYTES_MAX < JSON_BODY_BYTES_MAX, "a body holds the longest line");
const _: () =
    assert!(CLIENTS_PER_DEVICE_MAX * 8 <= SLICE_REPORTS_MAX, "one event touches at most 1,000 records");
/// Largest payload of a command, in bytes of its compact JSON text.
pub const COMMAND_PAYLOAD_BYTES_MAX: usize = 256 * 1_024;
/// Longest key of a command, of a desired entry, and longest origin, in bytes.
pub const COMMAND_NAME_BYTES_MAX: usize = 255;
/// A command's priority is between this and its negative.
pub const COMMAND_PRIORITY_MAX: i8 = 100;
/// Most times that a command goes out.
pub const COMMAND_ATTEMPTS_MAX: u32 = 1_000;
/// Most commands of a device that may be unanswered at a time.
pub const COMMANDS_IN_FLIGHT_MAX: u32 = 1_000;
/// Longest of the least times from one publish to a device to the next, in milliseconds.
pub const COMMAND_GAP_MS_MAX: u64 = 60 * 60 * 1_000;
/// Largest progress that a device tells of a command, in bytes of its compact JSON text.
pub const COMMAND_PROGRESS_BYTES_MAX: usize = 1_024;
/// Largest result in a device's answer, in bytes of its compact JSON text.
pub const COMMAND_RESULT_BYTES_MAX: usize = 64 * 1_024;
/// Most desired entries of a device.
pub const DESIRED_STATES_PER_DEVICE_MAX: usize = 1_000;
/// Longest that a caller waits for the end of a command.
pub const COMMAND_WAIT_MAX: Duration = Duration::from_secs(5 * 60);
/// Longest that a device's poll waits for a command.
pub const POLL_WAIT_MAX: Duration = Duration::from_secs(60);
/// Largest payload of a message: its compact JSON text, or its decoded bytes.
pub const MESSAGE_PAYLOAD_BYTES_MAX: usize = 1_024 * 1_024;
/// Most messages that one call appends, all or none.
pub const MESSAGES_PER_CALL_MAX: usize = 1_000;
/// Most bytes of messages that one call appends: they become one batch.
pub const MESSAGE_BYTES_PER_CALL_MAX: usize = 16 * 1_024 * 1_024;
/// Most headers of a message.
pub const MESSAGE_HEADERS_MAX: usize = 16;
/// Longest name and value of a header together, in bytes.
pub const MESSAGE_HEADER_BYTES_MAX: usize = 1_024;
/// Longest source and segment of a message, in characters.
pub const STREAM_LABEL_CHARS_MAX: usize = 64;
/// Longest external id that is a text, in characters.
pub const EXTERNAL_ID_CHARS_MAX: usize = 64;
/// Most streams of a server.
pub const STREAMS_MAX: usize = 100_000;
/// Longest name of a lock, a limit, a cached value or a channel, in characters.
pub const COORDINATION_NAME_CHARS_MAX: usize = 255;
/// Longest owner of a lock, in bytes.
pub const LOCK_OWNER_BYTES_MAX: usize = 255;
/// How long a lock is held when `ttl` is not given.
pub const LOCK_TTL_DEFAULT: Duration = Duration::from_secs(10);
/// Longest that a lock is held without being extended.
pub const LOCK_TTL_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Longest that a caller waits for a lock.
pub const LOCK_WAIT_MAX: Duration = Duration::from_secs(5 * 60);
/// Largest cached value, in bytes.
pub const CACHED_BYTES_MAX: usize = 1_024 * 1_024;
/// Most keys of a call that gets or deletes cached values.
pub const CACHE_KEYS_PER_CALL_MAX: usize = 1_000;
/// Longest content type of a cached value, in bytes.
pub const CONTENT_TYPE_BYTES_MAX: usize = 255;
/// Longest span of time that a limit is over.
pub const LIMIT_PER_MAX: Duration = Duration::from_secs(31 * 24 * 60 * 60);
/// Largest message of a channel, in bytes of its JSON text.
pub const CHANNEL_MESSAGE_BYTES_MAX: usize = 1_024 * 1_024;
/// Most channels and beginnings of channels that one listener names.
pub const CHANNELS_PER_LISTENER_MAX: usize = 100;
/// Largest `data` of what is said to the workers of a queue, in bytes of its JSON text.
pub const CONTROL_DATA_BYTES_MAX: usize = 16 * 1_024;
/// Most queues of a partition whose workers are told something.
pub const CONTROLS_PER_PARTITION_MAX: usize = 10_000;
/// Bytes of `data` of all controls of a partition: each is in memory.
pub const CONTROLS_DATA_PER_PARTITION_MAX: usize = 4 << 20;
/// Most segments that one read names.
pub const SEGMENTS_PER_READ_MAX: usize = 64;
/// Most subscriptions of a stream.
pub const SUBSCRIPTIONS_PER_STREAM_MAX: usize = 100;
/// Most subscriptions of a server whose messages are pushed: each has a task of its own.
pub const PUSHED_SUBSCRIPTIONS_MAX: usize = 1_000;
/// Most messages of a push.
pub const MESSAGES_PER_PUSH_MAX: u32 = 1_000;
/// Most copies of a stream.
pub const COPIES_PER_STREAM_MAX: usize = 100;
/// Most copies of a server: each has a task of its own.
pub const COPIES_MAX: usize = 1_000;
/// Most copies of kind `reports` of a server: a report is written once more for each that wants it.
pub const REPORTS_COPIES_MAX: usize = 16;
/// How long a reader has a subscription after its last call: least, and most.
pub const READER_TTL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60 * 60));
/// Longest that a read waits for the first message.
pub const STREAM_WAIT_MAX: Duration = Duration::from_secs(60);
