//! Keys of rows, without the partition that each begins with in a table. Big-endian, so that the
//! order of the bytes is the order of what they stand for; signed numbers have their sign bit
//! flipped for that.
//!
//! Keys have no version byte: a key of another form is another table.

mod parked;
mod picks;
mod rollouts;
mod streams;
mod table_key;

use base::{ClientId, DeviceId, EntityId, Incarnation, Kind, PartitionId, Timestamp};
use records::{
    AliasKey, AnswerKey, CommandKey, CommandPhase, CountsKey, DeliveryKey, DeviceSlot, EventKey, GroupKey,
    JobId, NoticeKey, OpenCommand, QuarantineKey, QueueKey, TimelineEntryKey,
};

use super::CodecError;
pub(crate) use parked::ParkedPlace;
pub(crate) use picks::{
    campaign, device_of_campaign, device_place, ended_task, ended_tasks, pick, pick_clock, pick_from,
    pick_of_device, picked_at, result, slot_of_campaign, task_at_end_of, task_id, task_of_result,
};
pub(crate) use rollouts::{
    member, member_from, member_of_status, members_of_status, rollout, rollout_devices,
};
pub(crate) use streams::{
    external_number, external_span, external_text, in_stream, of_source, span_from, span_of_block,
    stream_due, stream_name, streams_of, subscription, texts,
};
pub(crate) use table_key::TableKey;

/// Bytes of a time and a number, the end of every key of a feed.
pub(crate) const FEED_ENTRY_BYTES: usize = 12;

/// The key of a row in a table: the partition, then the key within it.
pub(crate) fn in_partition(partition: PartitionId, key: &[u8]) -> TableKey {
    let mut out = TableKey::from_slice(&partition.0.to_be_bytes());
    out.extend_from_slice(key);
    out
}

/// Bytes that the partition takes at the front of a table's key.
pub(crate) const PARTITION_BYTES: usize = 2;

pub(crate) fn device(id: &DeviceId) -> TableKey {
    TableKey::from_slice(id.as_str().as_bytes())
}

pub(crate) fn client(id: &ClientId) -> TableKey {
    TableKey::from_slice(id.as_str().as_bytes())
}

pub(crate) fn slot(slot: DeviceSlot) -> TableKey {
    number(slot.0)
}

pub(crate) fn slice(slice: u32) -> TableKey {
    number(slice)
}

fn number(number: u32) -> TableKey {
    TableKey::from_slice(&number.to_be_bytes())
}

pub(crate) fn incarnation(incarnation: Incarnation) -> TableKey {
    TableKey::from_slice(&incarnation.0.to_be_bytes())
}

/// Gathered reports of a copy, in order of their numbers.
pub(crate) fn gathered(gather: Incarnation, first: u64) -> TableKey {
    let mut key = incarnation(gather);
    key.extend_from_slice(&first.to_be_bytes());
    key
}

/// The devices of a client, in order of id.
pub(crate) fn link(client: Incarnation, device: &[u8]) -> TableKey {
    let mut key = incarnation(client);
    key.extend_from_slice(device);
    key
}

/// The devices with a label of this hash, in order of id.
pub(crate) fn label(hash: u64, device: &[u8]) -> TableKey {
    let mut key = TableKey::from_slice(&hash.to_be_bytes());
    key.extend_from_slice(device);
    key
}

/// The devices of a kind, in order of id. A kind has no byte 0.
pub(crate) fn kind(kind: &Kind, device: &[u8]) -> TableKey {
    let mut key = TableKey::from_slice(kind.as_str().as_bytes());
    key.push(0);
    key.extend_from_slice(device);
    key
}

/// The counts of a day.
pub(crate) fn counts(of: CountsKey) -> TableKey {
    let mut key = day(of.day);
    let (kind, number) = super::counts::of_parts(of.of);
    key.push(kind);
    key.extend_from_slice(&number.to_be_bytes());
    key.push(super::counts::metric_byte(of.metric));
    key
}

/// What all counts of a day begin with.
pub(crate) fn day(day: u32) -> TableKey {
    number(day)
}

pub(crate) fn notification_state(device: DeviceSlot, client: Incarnation) -> TableKey {
    let mut key = slot(device);
    key.extend_from_slice(&client.0.to_be_bytes());
    key
}

pub(crate) fn job(id: JobId) -> TableKey {
    TableKey::from_slice(&id.0)
}

/// Bytes of a job's id in a key.
pub(crate) const JOB_BYTES: usize = 16;

pub(crate) fn queue(queue: QueueKey) -> TableKey {
    TableKey::from_slice(&queue.0.to_be_bytes())
}

/// Something by its name in a namespace. No namespace holds a byte 0.
pub(crate) fn named(namespace: &str, name: &str) -> TableKey {
    let mut key = TableKey::from_slice(namespace.as_bytes());
    key.push(0);
    key.extend_from_slice(name.as_bytes());
    key
}

/// A queue's dead letter of this number.
pub(crate) fn dead(in_queue: QueueKey, number: u64) -> TableKey {
    let mut key = queue(in_queue);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// A job by its id within its queue.
pub(crate) fn job_of(in_queue: QueueKey, id: JobId) -> TableKey {
    let mut key = queue(in_queue);
    key.extend_from_slice(&id.0);
    key
}

/// A job by its alias within its queue.
pub(crate) fn alias(in_queue: QueueKey, alias: AliasKey) -> TableKey {
    let mut key = queue(in_queue);
    key.extend_from_slice(&alias.0.to_be_bytes());
    key
}

/// A line of jobs that wait for a worker: those of a queue without a group, or those of one of its
/// groups.
pub(crate) fn line(in_queue: QueueKey, group: Option<GroupKey>) -> TableKey {
    let mut key = queue(in_queue);
    key.push(u8::from(group.is_some()));
    group.iter().for_each(|group| key.extend_from_slice(&group.0.to_be_bytes()));
    key
}

/// A place in a line: a time and a publish number.
pub(crate) fn place_in_line(
    in_queue: QueueKey,
    group: Option<GroupKey>,
    place: (Timestamp, u64),
) -> TableKey {
    let mut key = line(in_queue, group);
    key.extend_from_slice(&flipped(place.0).to_be_bytes());
    key.extend_from_slice(&place.1.to_be_bytes());
    key
}

pub(crate) fn answer(key: AnswerKey) -> TableKey {
    TableKey::from_slice(&key.0.to_be_bytes())
}

/// An answer by when it was given.
pub(crate) fn answer_at(at: Timestamp, key: AnswerKey) -> TableKey {
    let mut out = time(at);
    out.extend_from_slice(&key.0.to_be_bytes());
    out
}

/// What every key behind a time begins with.
pub(crate) fn time(at: Timestamp) -> TableKey {
    TableKey::from_slice(&flipped(at).to_be_bytes())
}

/// The answer and its time that [`answer_at`] stands for.
pub(crate) fn answer_from_key(key: &[u8]) -> Result<(Timestamp, AnswerKey), CodecError> {
    let invalid = CodecError::Invalid { what: "the key of an answer", at: 0 };
    let (at, key) = key.split_first_chunk::<8>().ok_or(invalid)?;
    let key: [u8; 16] = key.try_into().map_err(|_| invalid)?;
    let at = Timestamp((u64::from_be_bytes(*at) ^ SIGN).cast_signed());
    Ok((at, AnswerKey(u128::from_be_bytes(key))))
}

/// The dead letter of a number, where `job_of` is the key of its job within its queue.
pub(crate) fn dead_from(job_of: &[u8], number: &[u8]) -> Result<TableKey, CodecError> {
    let invalid = CodecError::Invalid { what: "the number of a dead letter", at: 0 };
    let queue = job_of.first_chunk::<8>().ok_or(invalid)?;
    let number = <[u8; 8]>::try_from(number).map_err(|_| invalid)?;
    Ok(dead(QueueKey(u64::from_be_bytes(*queue)), u64::from_be_bytes(number)))
}

/// The job whose id is all of `bytes`.
pub(crate) fn job_from(bytes: &[u8]) -> Result<JobId, CodecError> {
    bytes.try_into().map(JobId).map_err(|_| CodecError::Invalid { what: "a job id", at: 0 })
}

/// The key of an entry of a feed: a time and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FeedEntryKey {
    pub(crate) at: Timestamp,
    pub(crate) number: u32,
}

macro_rules! feed_entry_key_of {
    ($($key:ty),*) => {
        $(impl From<$key> for FeedEntryKey {
            fn from(key: $key) -> Self {
                Self { at: key.at, number: key.number }
            }
        })*
    };
}

feed_entry_key_of!(EventKey, DeliveryKey, QuarantineKey, NoticeKey, CommandKey, TimelineEntryKey);

impl FeedEntryKey {
    pub(crate) const LAST: Self = Self { at: Timestamp::MAX, number: u32::MAX };

    /// The first of a time.
    pub(crate) fn first_at(at: Timestamp) -> Self {
        Self { at, number: 0 }
    }

    pub(crate) fn put(self, key: &mut TableKey) {
        key.extend_from_slice(&flipped(self.at).to_be_bytes());
        key.extend_from_slice(&self.number.to_be_bytes());
    }

    /// The entry at the end of a feed's key.
    pub(crate) fn at_end_of(key: &[u8]) -> Result<Self, CodecError> {
        let what = "the key of a feed";
        let start =
            key.len().checked_sub(FEED_ENTRY_BYTES).ok_or(CodecError::Truncated { what, at: key.len() })?;
        let wide = |part: &[u8]| part.iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
        let at = Timestamp((wide(&key[start..start + 8]) ^ SIGN).cast_signed());
        Ok(Self { at, number: wide(&key[start + 8..]) as u32 })
    }

    /// Its key in the feed of those that have `prefix` in common.
    pub(crate) fn below(self, prefix: &[u8]) -> TableKey {
        let mut key = TableKey::from_slice(prefix);
        self.put(&mut key);
        key
    }
}

/// The key of an event or a delivery in the feed of its partition.
pub(crate) fn feed_entry(entry: impl Into<FeedEntryKey>) -> TableKey {
    entry.into().below(&[])
}

/// The key of an attempt: its delivery's, and its number.
pub(crate) fn attempt(delivery: DeliveryKey, attempt: u32) -> TableKey {
    let mut key = feed_entry(delivery);
    key.extend_from_slice(&attempt.to_be_bytes());
    key
}

/// What the keys of all open commands in a phase begin with.
pub(crate) fn open_phase(phase: CommandPhase) -> TableKey {
    TableKey::from_slice(&[phase as u8])
}

/// What the keys of a device's open commands in a phase begin with.
pub(crate) fn open_commands(phase: CommandPhase, device: DeviceSlot) -> TableKey {
    let mut key = open_phase(phase);
    key.extend_from_slice(&slot(device));
    key
}

/// What the keys of a device's open commands of one priority begin with, the highest first.
pub(crate) fn open_lane(open: &OpenCommand) -> TableKey {
    let mut key = open_commands(open.phase, open.slot);
    key.push((i16::from(i8::MAX) - i16::from(open.priority)) as u8);
    key
}

/// An open command, behind those of its device that go before it.
pub(crate) fn open_command(open: &OpenCommand) -> TableKey {
    FeedEntryKey::from(open.key).below(&open_lane(open))
}

/// The open command of which an index has a row that ends with its time and number, and that holds
/// the rest.
pub(crate) fn open_command_from(row: &[u8], lane: &[u8]) -> Result<TableKey, CodecError> {
    FeedEntryKey::at_end_of(row).map(|command| command.below(lane))
}

/// Behind every open command of a device in a phase.
pub(crate) fn behind_open_commands(phase: CommandPhase, device: DeviceSlot) -> TableKey {
    let mut key = open_commands(phase, device);
    key.push(u8::MAX);
    FeedEntryKey::LAST.below(&key)
}

/// The device whose open commands a key is among.
pub(crate) fn slot_of_open_command(key: &[u8]) -> Result<DeviceSlot, CodecError> {
    let slot = key.get(1..).and_then(<[u8]>::first_chunk);
    let slot = slot.ok_or(CodecError::Truncated { what: "the key of an open command", at: key.len() })?;
    Ok(DeviceSlot(u32::from_be_bytes(*slot)))
}

/// What the rows of a device's open commands begin with whose keys have this hash.
pub(crate) fn command_key(device: DeviceSlot, hash: u64) -> TableKey {
    let mut key = slot(device);
    key.extend_from_slice(&hash.to_be_bytes());
    key
}

/// A desired entry of a device.
pub(crate) fn desired_state(device: DeviceSlot, of: &str) -> TableKey {
    let mut key = slot(device);
    key.extend_from_slice(of.as_bytes());
    key
}

/// An operation by its id: the older ones come first.
pub(crate) fn operation(id: EntityId) -> TableKey {
    let (at, number) = (id.at.0.to_be_bytes(), id.number.to_be_bytes());
    TableKey::from_slice(&[&at[..], &number, &id.routing.to_be_bytes(), &id.tag.to_be_bytes()].concat())
}

/// The key of a blob of readings: slices, then days, then the order of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlobKey {
    pub(crate) slice: u32,
    pub(crate) day: i32,
    pub(crate) sequence: u32,
}

impl BlobKey {
    pub(crate) const BYTES: usize = 12;

    pub(crate) fn to_key(self) -> TableKey {
        let mut key = slice(self.slice);
        key.extend_from_slice(&(self.day.cast_unsigned() ^ DAY_SIGN).to_be_bytes());
        key.extend_from_slice(&self.sequence.to_be_bytes());
        key
    }

    pub(crate) fn from_key(key: &[u8]) -> Result<Self, CodecError> {
        let invalid = CodecError::Invalid { what: "the key of a blob", at: 0 };
        let key: &[u8; Self::BYTES] = key.try_into().map_err(|_| invalid)?;
        let part = |at: usize| u32::from_be_bytes([key[at], key[at + 1], key[at + 2], key[at + 3]]);
        Ok(Self { slice: part(0), day: (part(4) ^ DAY_SIGN).cast_signed(), sequence: part(8) })
    }
}

/// The key of a block of a blob.
pub(crate) fn block(blob: BlobKey, number: u32) -> TableKey {
    let mut key = blob.to_key();
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// Flips the sign bit, so that negative times come first.
const SIGN: u64 = 1 << 63;
const DAY_SIGN: u32 = 1 << 31;

fn flipped(at: Timestamp) -> u64 {
    at.0.cast_unsigned() ^ SIGN
}
