//! Cursors: where a list goes on, in a form that is of use only to the list that gave it.
//!
//! `version, key, check` in base64url. The check is a hash of the rest, seeded with the list's path
//! and filters. By it a cursor of another list, of other filters or with a flipped byte is told
//! from a good one. Nothing else is remembered: a cursor holds across a restart and for as long as
//! its list exists. It is no secret and gives no rights.

use base::{ClientId, DeviceId, EntityId, Incarnation, PartitionId, Problem, Timestamp, hash};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use engine::ReadingKey;
use engine::campaigns::CampaignResultKey;
use engine::coordination::CoordinationName;
use engine::queries::{FeedKey, TimelineKey};
use engine::queues::QueueName;
use engine::records::{CommandKey, DeliveryKey, EventKey, JobId, NoticeKey, QuarantineKey};
use engine::streams::StreamName;

/// Changes with the layout of any key.
const VERSION: u8 = 1;
const CHECK_BYTES: usize = 8;
/// Longer text is not looked at; the longest key is the name of a queue with its namespace.
const TEXT_BYTES_MAX: usize = 1_024;

/// The place of an item in its list.
pub(crate) trait CursorKey: Sized {
    fn write(&self, bytes: &mut Vec<u8>);
    fn read(bytes: &[u8]) -> Option<Self>;

    /// The place before every item, in a feed that can be followed from its beginning.
    fn before_all() -> Option<Self> {
        None
    }
}

/// The cursor behind the item at `key`, in the list with that fingerprint.
pub(crate) fn write(fingerprint: u64, key: &impl CursorKey) -> String {
    let mut bytes = vec![VERSION];
    key.write(&mut bytes);
    let check = hash::derived(fingerprint, &bytes);
    bytes.extend_from_slice(&check.to_be_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The key in a cursor that the list with that fingerprint gave.
///
/// # Errors
/// `invalid_cursor` for any other text.
pub(crate) fn read<K: CursorKey>(fingerprint: u64, text: &str) -> Result<K, Problem> {
    key_in(fingerprint, text).ok_or_else(|| {
        let detail = "cursor is not one that this list gave with these parameters; \
                      use next_cursor as it was given, with the parameters of the first page";
        Problem::new(400, "invalid_cursor", detail)
    })
}

fn key_in<K: CursorKey>(fingerprint: u64, text: &str) -> Option<K> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (content, check) = bytes.split_last_chunk::<CHECK_BYTES>()?;
    let (version, key) = content.split_first()?;
    let good = *version == VERSION && hash::derived(fingerprint, content) == u64::from_be_bytes(*check);
    if good { K::read(key) } else { None }
}

impl CursorKey for DeviceId {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.as_str().as_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        Self::new(std::str::from_utf8(bytes).ok()?)
    }
}

impl CursorKey for ClientId {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.as_str().as_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        Self::new(std::str::from_utf8(bytes).ok()?)
    }
}

impl CursorKey for QueueName {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.to_string().as_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (namespace, queue) = std::str::from_utf8(bytes).ok()?.split_once('/')?;
        (Self::is_name(namespace) && Self::is_name(queue)).then(|| Self::unchecked(namespace, queue))
    }
}

impl CursorKey for CoordinationName {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.to_string().as_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (namespace, name) = std::str::from_utf8(bytes).ok()?.split_once('/')?;
        Self::new(namespace, name).ok()
    }
}

/// The place of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamKey(pub StreamName);

impl CursorKey for StreamKey {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.0.to_string().as_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (namespace, stream) = std::str::from_utf8(bytes).ok()?.split_once('/')?;
        StreamName::new(namespace, stream).ok().map(Self)
    }
}

/// The place of something that is found by a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameKey(pub Box<str>);

impl CursorKey for NameKey {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.0.as_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        std::str::from_utf8(bytes).ok().map(|name| Self(name.into()))
    }
}

impl CursorKey for JobId {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.0);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

/// The place of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OperationKey(pub EntityId);

impl CursorKey for OperationKey {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.0.to_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(|bytes| Self(EntityId::from_bytes(bytes)))
    }
}

/// The place of something that has a number in its list: a dead letter, or a block, by the id of
/// its first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NumberKey(pub u64);

impl CursorKey for NumberKey {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.0.to_be_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(|number| Self(u64::from_be_bytes(number)))
    }
}

/// The place of a result among those of its task, by how many had ended before it; `None` is in
/// front of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResultKey(pub Option<u32>);

impl CursorKey for ResultKey {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.0.map(u32::to_be_bytes).into_iter().flatten());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [] => Some(Self(None)),
            number => number.try_into().ok().map(|number| Self(Some(u32::from_be_bytes(number)))),
        }
    }

    fn before_all() -> Option<Self> {
        Some(Self(None))
    }
}

/// The place of a slot: when it was due, and its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotKey(pub Timestamp, pub Incarnation);

impl CursorKey for SlotKey {
    fn write(&self, bytes: &mut Vec<u8>) {
        write_of_task(self.0, self.1, bytes);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (due_at, task, rest) = read_of_task(bytes)?;
        rest.is_empty().then_some(Self(due_at, task))
    }
}

impl CursorKey for CampaignResultKey {
    fn write(&self, bytes: &mut Vec<u8>) {
        write_of_task(self.at, self.task, bytes);
        bytes.extend_from_slice(&self.number.to_be_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (at, task, number) = read_of_task(bytes)?;
        Some(Self { at, task, number: u32::from_be_bytes(number.try_into().ok()?) })
    }

    fn before_all() -> Option<Self> {
        Some(Self { at: Timestamp(i64::MIN), task: Incarnation(0), number: 0 })
    }
}

fn write_of_task(at: Timestamp, task: Incarnation, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&at.0.to_be_bytes());
    bytes.extend_from_slice(&task.0.to_be_bytes());
}

fn read_of_task(bytes: &[u8]) -> Option<(Timestamp, Incarnation, &[u8])> {
    let (at, rest) = bytes.split_first_chunk()?;
    let (task, rest) = rest.split_first_chunk()?;
    Some((Timestamp(i64::from_be_bytes(*at)), Incarnation(u64::from_be_bytes(*task)), rest))
}

fn write_moment(at: Timestamp, number: u32, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&at.0.to_be_bytes());
    bytes.extend_from_slice(&number.to_be_bytes());
}

fn read_moment(bytes: &[u8]) -> Option<(Timestamp, u32, &[u8])> {
    let (at, rest) = bytes.split_first_chunk()?;
    let (number, rest) = rest.split_first_chunk()?;
    Some((Timestamp(i64::from_be_bytes(*at)), u32::from_be_bytes(*number), rest))
}

impl CursorKey for ReadingKey {
    fn write(&self, bytes: &mut Vec<u8>) {
        write_moment(self.ts, self.number, bytes);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (ts, number, rest) = read_moment(bytes)?;
        rest.is_empty().then_some(Self { ts, number })
    }

    fn before_all() -> Option<Self> {
        Some(Self { ts: Timestamp(i64::MIN), number: 0 })
    }
}

/// Where a summary of readings goes on, and the span that it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SummaryKey {
    pub from: Timestamp,
    pub to: Timestamp,
    pub after: ReadingKey,
}

impl CursorKey for SummaryKey {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.from.0.to_be_bytes());
        bytes.extend_from_slice(&self.to.0.to_be_bytes());
        self.after.write(bytes);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (from, rest) = bytes.split_first_chunk()?;
        let (to, rest) = rest.split_first_chunk()?;
        let [from, to] = [*from, *to].map(|at| Timestamp(i64::from_be_bytes(at)));
        Some(Self { from, to, after: ReadingKey::read(rest)? })
    }
}

macro_rules! feed_key {
    ($($key:ident),*) => {$(
        impl CursorKey for FeedKey<$key> {
            fn write(&self, bytes: &mut Vec<u8>) {
                write_moment(self.key.at, self.key.number, bytes);
                bytes.extend_from_slice(&self.partition.0.to_be_bytes());
            }

            fn read(bytes: &[u8]) -> Option<Self> {
                let (at, number, rest) = read_moment(bytes)?;
                let partition = PartitionId(u16::from_be_bytes(rest.try_into().ok()?));
                Some(Self { key: $key { at, number }, partition })
            }

            fn before_all() -> Option<Self> {
                Some(Self { key: $key { at: Timestamp(i64::MIN), number: 0 }, partition: PartitionId(0) })
            }
        }
    )*};
}
feed_key!(EventKey, DeliveryKey, QuarantineKey, CommandKey, NoticeKey);

impl CursorKey for TimelineKey {
    fn write(&self, bytes: &mut Vec<u8>) {
        write_moment(self.at, self.number, bytes);
        bytes.push(self.is_entry.into());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (at, number, rest) = read_moment(bytes)?;
        match rest {
            [is_entry @ (0 | 1)] => Some(Self { at, is_entry: *is_entry == 1, number }),
            _ => None,
        }
    }

    fn before_all() -> Option<Self> {
        Some(Self { at: Timestamp(i64::MIN), is_entry: false, number: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> DeviceId {
        DeviceId::new("0xA").expect("an id")
    }

    #[test]
    fn a_key_comes_back_from_its_own_list() {
        let event = EventKey { at: Timestamp(1_800_000_000_000), number: u32::MAX };
        let event = FeedKey { key: event, partition: PartitionId(15) };
        assert_eq!(read(7, &write(7, &event)), Ok(event));
        let reading = ReadingKey { ts: Timestamp(-1), number: 3 };
        assert_eq!(read(7, &write(7, &reading)), Ok(reading));
        assert_eq!(read(7, &write(7, &device())), Ok(device()));
        for is_entry in [false, true] {
            let item = TimelineKey { at: Timestamp(1_800_000_000_000), is_entry, number: 7 };
            assert_eq!(read(7, &write(7, &item)), Ok(item));
        }
        let queue = QueueName::unchecked(&"n".repeat(255), &"q".repeat(255));
        assert_eq!(read(7, &write(7, &queue)), Ok(queue));
        assert_eq!(read(7, &write(7, &JobId([7; 16]))), Ok(JobId([7; 16])));
        assert_eq!(read(7, &write(7, &NumberKey(8))), Ok(NumberKey(8)));
        for result in [ResultKey(None), ResultKey(Some(0)), ResultKey(Some(u32::MAX))] {
            assert_eq!(read(7, &write(7, &result)), Ok(result));
        }
        let (at, task) = (Timestamp(1_800_000_000_000), Incarnation(7));
        assert_eq!(read(7, &write(7, &SlotKey(at, task))), Ok(SlotKey(at, task)));
        let result = CampaignResultKey { at, task, number: 9 };
        assert_eq!(read(7, &write(7, &result)), Ok(result));
    }

    #[test]
    fn a_foreign_or_damaged_cursor_is_refused() {
        let good = write(7, &device());
        assert!(read::<DeviceId>(8, &good).is_err(), "of another list");
        assert!(read::<ReadingKey>(7, &good).is_err(), "of another kind");
        for text in ["", "A", "AQ", "not a cursor", "AAAAAAAAAAAAAAAA", &"A".repeat(10_000), "ééé"] {
            assert_eq!(read::<DeviceId>(7, text).map_err(|problem| problem.status), Err(400), "{text:.20}");
        }
    }

    #[test]
    fn no_character_of_a_cursor_can_be_another() {
        let good = write(7, &device());
        for at in 0..good.len() {
            let other = if &good[at..=at] == "A" { "B" } else { "A" };
            let damaged = format!("{}{other}{}", &good[..at], &good[at + 1..]);
            assert!(read::<DeviceId>(7, &damaged).is_err(), "{damaged}");
            assert!(read::<DeviceId>(7, &good[..at]).is_err(), "cut at {at}");
        }
    }
}
