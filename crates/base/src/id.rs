//! Names and numbers of things: devices, clients, kinds, partitions, incarnations, and the ids
//! derived from them.
//!
//! An id that has been given out is never given out again. Devices and clients carry an
//! [`Incarnation`] that is new at every registration. A data directory carries a [`Lineage`] that a
//! restore renews. Both enter every [`EntityId`].

use std::fmt;

use compact_str::CompactString;

use crate::hash;
use crate::limits::{CLIENT_ID_CHARS_MAX, DEVICE_ID_CHARS_MAX, KIND_CHARS_MAX};
use crate::time::Timestamp;

/// A device's id: 1 to [`DEVICE_ID_CHARS_MAX`] ASCII letters, digits, `-`, `_`, `.` and `:`,
/// case-sensitive, but not dots alone, which are steps along a path. It never holds what means
/// something in a topic: `/`, `+`, `#`.
///
/// A new id has to be of the [`DeviceIdForm`] that the settings allow; one that was registered
/// under other settings stays an id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(CompactString);

impl DeviceId {
    /// The id, if `text` may be one.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let fits = (1..=DEVICE_ID_CHARS_MAX).contains(&text.len()) && text.bytes().any(|b| b != b'.');
        let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':');
        (fits && text.bytes().all(known)).then(|| Self(CompactString::new(text)))
    }

    /// The id's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The ids that devices may be registered with: the settings `devices.id_max_len` and
/// `devices.id_chars`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceIdForm {
    /// Longest id, in characters.
    pub chars_max: usize,
    /// The characters of an id.
    pub alphabet: DeviceIdAlphabet,
}

/// The characters of new device ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceIdAlphabet {
    /// ASCII letters and digits.
    Alnum,
    /// Those, and `-`, `_`, `.` and `:`, for serial numbers, MAC addresses and UUIDs.
    Extended,
}

impl DeviceIdAlphabet {
    /// The characters in words.
    #[must_use]
    pub fn as_words(self) -> &'static str {
        match self {
            Self::Alnum => "ASCII letters and digits",
            Self::Extended => "ASCII letters, digits, '-', '_', '.' and ':'",
        }
    }
}

impl DeviceIdForm {
    /// That of a server without any setting.
    pub const DEFAULT: Self = Self { chars_max: 16, alphabet: DeviceIdAlphabet::Alnum };

    /// Whether a device may be registered with this id.
    #[must_use]
    pub fn admits(self, id: &DeviceId) -> bool {
        let text = id.as_str();
        let known = match self.alphabet {
            DeviceIdAlphabet::Alnum => text.bytes().all(|b| b.is_ascii_alphanumeric()),
            // Every id is written in it.
            DeviceIdAlphabet::Extended => true,
        };
        known && text.len() <= self.chars_max
    }
}

/// A client's id: `[A-Za-z0-9_-]{1,64}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(CompactString);

impl ClientId {
    /// The id, if `text` may be one.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let fits = (1..=CLIENT_ID_CHARS_MAX).contains(&text.len());
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        (fits && text.bytes().all(plain)).then(|| Self(CompactString::new(text)))
    }

    /// The id's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A kind of device: `[a-z][a-z0-9_-]{0,31}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(CompactString);

impl Kind {
    /// The kind, if `text` may be one.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let fits = (1..=KIND_CHARS_MAX).contains(&text.len());
        let starts = text.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
        (fits && starts && text.bytes().all(plain)).then(|| Self(CompactString::new(text)))
    }

    /// The kind whose reports are the numbers 0 and 1 only; also the kind of a device registered
    /// without one.
    #[must_use]
    pub fn lock() -> Self {
        Self(CompactString::const_new("lock"))
    }

    /// Whether this is the kind `lock`.
    #[must_use]
    pub fn is_lock(&self) -> bool {
        self.0 == "lock"
    }

    /// The kind's name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! displays_as_text {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}
displays_as_text!(DeviceId, ClientId, Kind);

/// A partition's number. The partitions of which there is one are [`PartitionId::REGISTRY`] and
/// [`PartitionId::CAMPAIGNS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u16);

impl PartitionId {
    /// The partition of clients and other small global things.
    pub const REGISTRY: Self = Self(u16::MAX);
    /// The partition of tasks, campaigns, and the picks of both.
    pub const CAMPAIGNS: Self = Self(u16::MAX - 1);
    /// Partitions of devices are below, those of queues from here on: as many of these as of those.
    const QUEUES: u16 = 1 << 15;
    /// Those of streams: again as many.
    const STREAMS: u16 = Self::QUEUES | 1 << 14;
    /// Most partitions of devices.
    pub const DEVICES_MAX: u16 = (1 << 14) - 2;

    /// A partition of queues, by its index.
    #[must_use]
    pub fn of_queues(index: u16) -> Self {
        Self(Self::QUEUES | index)
    }

    /// The index among the partitions of queues, if it is one.
    #[must_use]
    pub fn queues_index(self) -> Option<u16> {
        (Self::QUEUES..Self::STREAMS).contains(&self.0).then_some(self.0 & !Self::QUEUES)
    }

    /// A partition of streams, by its index.
    #[must_use]
    pub fn of_streams(index: u16) -> Self {
        Self(Self::STREAMS | index)
    }

    /// The index among the partitions of streams, if it is one.
    #[must_use]
    pub fn streams_index(self) -> Option<u16> {
        (Self::STREAMS..Self::CAMPAIGNS.0).contains(&self.0).then_some(self.0 & !Self::STREAMS)
    }
}

const _: () = assert!(
    PartitionId::STREAMS | (PartitionId::DEVICES_MAX - 1) < PartitionId::CAMPAIGNS.0,
    "the last partition of streams is before those of which there is one"
);

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.queues_index(), self.streams_index()) {
            _ if *self == Self::REGISTRY => f.write_str("registry"),
            _ if *self == Self::CAMPAIGNS => f.write_str("campaigns"),
            (Some(index), _) => write!(f, "queues {index}"),
            (_, Some(index)) => write!(f, "streams {index}"),
            (None, None) => write!(f, "{}", self.0),
        }
    }
}

/// A number that is new at every registration of a device or client and never used again.
///
/// A device's is unique within its partition, a client's within the data directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

impl Incarnation {
    /// Bits of the number within its partition, where the index of the partition is above it.
    pub const IN_PARTITION_BITS: u32 = 48;

    /// One that no other partition gives: streams name their files by it.
    #[must_use]
    pub fn in_partition(index: u16, number: u64) -> Self {
        Self(u64::from(index) << Self::IN_PARTITION_BITS | number)
    }

    /// The index of the partition of one that was made so.
    #[must_use]
    pub fn partition_index(self) -> u16 {
        (self.0 >> Self::IN_PARTITION_BITS) as u16
    }
}

/// The random number of a data directory; a restore gives a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lineage(pub u64);

impl Lineage {
    /// The lineage where the data directory was given a number of its own, `mark`. One that was
    /// copied has the lineage of the first, and another number.
    #[must_use]
    pub fn marked(self, mark: Option<u64>) -> Self {
        mark.map_or(self, |mark| Self(hash::derived(self.0, &mark.to_le_bytes())))
    }
}

/// A way by which reports come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WayIn {
    /// The MQTT listener.
    Mqtt,
    /// `POST /v1/reports`.
    Http,
    /// The AMQP consumer.
    Amqp,
}

crate::names! {
    /// Every way, in the order of [`WayIn::index`].
    pub WayIn: Mqtt = "mqtt", Http = "http", Amqp = "amqp"
}

impl WayIn {
    /// A dense index, from 0; part of the stored format.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Mqtt => 0,
            Self::Http => 1,
            Self::Amqp => 2,
        }
    }
}

/// The id of an event or a delivery: 20 bytes that say where it is kept and can never repeat.
///
/// `routing` finds the partition. (`at`, `number`) is the key within it and the order of feeds.
/// `tag` is derived from lineage, incarnations and cause. So an older backup or a device registered
/// again never repeats an id that a receiver has seen. Printed as a prefix and 32 lower-case base32
/// characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId {
    /// The routing hash of the device it belongs to.
    pub routing: u32,
    /// When it was made; 48 bits of milliseconds.
    pub at: Timestamp,
    /// Its number among those of its partition, counted up at every use, modulo 2^32.
    pub number: u32,
    /// 48 bits derived from what caused it.
    pub tag: u64,
}

impl EntityId {
    /// Bytes of an id.
    pub const BYTES: usize = 20;
    const BITS_48: u64 = (1 << 48) - 1;

    /// An id for something that happened to a device. `cause` distinguishes it from everything else
    /// of this incarnation.
    #[must_use]
    pub fn derive(
        lineage: Lineage,
        routing: u32,
        incarnation: Incarnation,
        at: Timestamp,
        number: u32,
        cause: &[u64],
    ) -> Self {
        let mut bytes = [0_u8; 64];
        bytes[..8].copy_from_slice(&incarnation.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&number.to_le_bytes());
        for (chunk, part) in bytes[12..60].chunks_exact_mut(8).zip(cause) {
            chunk.copy_from_slice(&part.to_le_bytes());
        }
        let tag = hash::derived(lineage.0, &bytes) & Self::BITS_48;
        let at = Timestamp(at.0.clamp(0, Self::BITS_48.cast_signed()));
        Self { routing, at, number, tag }
    }

    /// The id as bytes, in the order of the fields, big-endian.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.routing.to_be_bytes());
        bytes[4..10].copy_from_slice(&self.at.0.to_be_bytes()[2..]);
        bytes[10..14].copy_from_slice(&self.number.to_be_bytes());
        bytes[14..].copy_from_slice(&self.tag.to_be_bytes()[2..]);
        bytes
    }

    /// Reads what [`EntityId::to_bytes`] wrote.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let wide = |part: &[u8]| part.iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
        Self {
            routing: wide(&bytes[..4]) as u32,
            at: Timestamp(wide(&bytes[4..10]).cast_signed()),
            number: wide(&bytes[10..14]) as u32,
            tag: wide(&bytes[14..]),
        }
    }

    /// The id's text behind `prefix`.
    #[must_use]
    pub fn to_text(self, prefix: &str) -> String {
        const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
        let bytes = self.to_bytes();
        let mut text = String::with_capacity(prefix.len() + 32);
        text.push_str(prefix);
        for chunk in bytes.chunks_exact(5) {
            let bits = chunk.iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
            text.extend((0..8).rev().map(|at| char::from(ALPHABET[(bits >> (at * 5) & 31) as usize])));
        }
        text
    }

    /// Reads what [`EntityId::to_text`] wrote with the same prefix.
    #[must_use]
    pub fn from_text(prefix: &str, text: &str) -> Option<Self> {
        let digits = text.strip_prefix(prefix)?.as_bytes();
        if digits.len() != 32 {
            return None;
        }
        let mut bytes = [0; Self::BYTES];
        for (group, out) in digits.chunks_exact(8).zip(bytes.chunks_exact_mut(5)) {
            let bits = group.iter().try_fold(0_u64, |all, digit| {
                let value = match digit {
                    b'a'..=b'z' => digit - b'a',
                    b'2'..=b'7' => digit - b'2' + 26,
                    _ => return None,
                };
                Some(all << 5 | u64::from(value))
            })?;
            out.copy_from_slice(&bits.to_be_bytes()[3..]);
        }
        Some(Self::from_bytes(&bytes))
    }
}

/// What the text of an event's id begins with.
pub const EVENT_ID_PREFIX: &str = "evt_";
/// What the text of a delivery's id, the `webhook-id`, begins with.
pub const DELIVERY_ID_PREFIX: &str = "msg_";
/// What the text of a refused report's id in the quarantine begins with.
pub const QUARANTINE_ID_PREFIX: &str = "qua_";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_ids_are_letters_digits_and_four_other_characters() {
        for good in
            ["xa7v9Dfadr7H", "0xA", "0123456789aBcDeF", "00:1B:44:11:3A:B7", "-", "_.", &"a".repeat(64)]
        {
            assert_eq!(DeviceId::new(good).expect(good).as_str(), good);
        }
        for bad in ["", "a b", "ä", "a/b", "a+", "#", "$a", "a%", ".", "..", "...", &"a".repeat(65)] {
            assert_eq!(DeviceId::new(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_form_admits_ids_by_length_and_alphabet() {
        let (alnum, extended) = (DeviceIdAlphabet::Alnum, DeviceIdAlphabet::Extended);
        for (text, chars_max, alphabet, expect) in [
            ("0123456789aBcDeF", 16, alnum, true),
            ("0123456789aBcDeF0", 16, alnum, false),
            ("a-b", 16, alnum, false),
            ("a-b", 16, extended, true),
            ("00:1B:44:11:3A:B7", 16, extended, false),
            ("00:1B:44:11:3A:B7", 17, extended, true),
        ] {
            let id = DeviceId::new(text).expect("an id");
            assert_eq!(DeviceIdForm { chars_max, alphabet }.admits(&id), expect, "{text} {alphabet:?}");
        }
    }

    #[test]
    fn kinds_and_client_ids_keep_to_their_alphabets() {
        assert!(Kind::new("face_2-x").is_some() && Kind::lock().is_lock());
        for bad in ["", "Face", "1face", "-a", "a.b", &"a".repeat(33)] {
            assert_eq!(Kind::new(bad), None, "{bad}");
        }
        assert!(ClientId::new("gate_7-A").is_some());
        for bad in ["", "a b", "a.b", &"a".repeat(65)] {
            assert_eq!(ClientId::new(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_kind_of_a_partition_is_in_its_number() {
        let last = PartitionId::DEVICES_MAX - 1;
        for (partition, of_queues, of_streams, text) in [
            (PartitionId::REGISTRY, None, None, "registry".to_owned()),
            (PartitionId::CAMPAIGNS, None, None, "campaigns".to_owned()),
            (PartitionId(last), None, None, "16381".to_owned()),
            (PartitionId::of_queues(last), Some(last), None, "queues 16381".to_owned()),
            (PartitionId::of_streams(0), None, Some(0), "streams 0".to_owned()),
            (PartitionId::of_streams(last), None, Some(last), "streams 16381".to_owned()),
        ] {
            assert_eq!((partition.queues_index(), partition.streams_index()), (of_queues, of_streams));
            assert_eq!(partition.to_string(), text);
        }
    }

    #[test]
    fn an_entity_id_survives_its_text() {
        let id = EntityId::derive(
            Lineage(7),
            0xdead_beef,
            Incarnation(3),
            Timestamp(1_795_000_000_123),
            9,
            &[1, 2],
        );
        let text = id.to_text(EVENT_ID_PREFIX);
        assert_eq!(text.len(), 36);
        assert_eq!(EntityId::from_text(EVENT_ID_PREFIX, &text), Some(id));
        assert_eq!(EntityId::from_text(DELIVERY_ID_PREFIX, &text), None);
        assert_eq!(EntityId::from_text(EVENT_ID_PREFIX, &text[..35]), None);
        assert_eq!(EntityId::from_text(EVENT_ID_PREFIX, &text.to_uppercase()), None);
    }

    #[test]
    fn another_lineage_or_incarnation_gives_another_id() {
        let id = |lineage, incarnation| {
            EntityId::derive(Lineage(lineage), 1, Incarnation(incarnation), Timestamp(5), 9, &[1])
        };
        assert_ne!(id(1, 1), id(2, 1));
        assert_ne!(id(1, 1), id(1, 2));
        assert_eq!(id(1, 1), id(1, 1));
    }
}
