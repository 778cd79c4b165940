//! Bytes by name, in memory: the least valuable go first when there is no room.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use base::limits::CONTENT_TYPE_BYTES_MAX;
use base::locks::locked;
use base::{Problem, Timestamp, hash};
use bytes::Bytes;
use compact_str::CompactString;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::CoordinationName;

/// Writers of one name are one after the other; those of this many others go on meanwhile.
const STRIPES: usize = 64;
/// A value with its name and what the cache keeps of it, beside their bytes.
const ENTRY_BYTES: u64 = 128;
/// A value of about this size is expected, to size the tables.
const VALUE_BYTES_EXPECTED: u64 = 1_024;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedValue {
    /// The bytes.
    pub bytes: Bytes,
    /// What they are, as whoever put them said.
    pub content_type: Option<CompactString>,
    /// When it is gone; `None` for when there is no room.
    pub expires_at: Option<Timestamp>,
}

impl CachedValue {
    /// Reads a content type: visible ASCII, spaces and tabs, as a header can carry it.
    ///
    /// # Errors
    /// 422 `invalid_parameter` for other characters, `too_long` for more than 255 bytes.
    pub fn read_content_type(text: &[u8]) -> Result<CompactString, Problem> {
        let is_allowed = |byte: &u8| matches!(byte, b'\t' | b' '..=b'~');
        let text = str::from_utf8(text).ok().filter(|text| text.as_bytes().iter().all(is_allowed));
        let text = text.ok_or_else(|| {
            let detail = "the content type must be ASCII without control characters";
            Problem::not_allowed("invalid_parameter", detail)
        })?;
        if text.len() > CONTENT_TYPE_BYTES_MAX {
            let detail = format!("the content type must be at most {CONTENT_TYPE_BYTES_MAX} bytes");
            return Err(Problem::not_allowed("too_long", detail));
        }
        Ok(text.into())
    }
}

/// The cache.
#[derive(Debug)]
pub struct ByteCache {
    values: Cache<CoordinationName, CachedValue, ValueWeight>,
    /// What a value counts for, at most: a larger one would be thrown away at once.
    weight_max: u64,
    stripes: Vec<Mutex<()>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// How a cache does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Values in it.
    pub values: u64,
    /// Bytes that these count for.
    pub bytes: u64,
    /// Values that were asked for and there.
    pub hits: u64,
    /// Values that were asked for and not there.
    pub misses: u64,
}

/// Bytes of a part of the cache that is locked apart, at least: a value that is larger than its
/// part is not kept.
const SHARD_BYTES_MIN: u64 = 8 << 20;
/// Such parts, at most.
const SHARDS_MAX: usize = 64;
/// Share of a part for values that were asked for; no value takes more.
const HOT_SHARE: f64 = 0.97;

#[derive(Clone, Debug)]
struct ValueWeight;

impl Weighter<CoordinationName, CachedValue> for ValueWeight {
    fn weight(&self, name: &CoordinationName, value: &CachedValue) -> u64 {
        let content_type = value.content_type.as_ref().map_or(0, |text| text.len());
        ENTRY_BYTES + (name.bytes() + value.bytes.len() + content_type) as u64
    }
}

impl ByteCache {
    /// A cache of so many bytes, names included.
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        let expected = (bytes_max / (ENTRY_BYTES + VALUE_BYTES_EXPECTED)).max(1) as usize;
        let shards = usize::try_from(bytes_max / SHARD_BYTES_MIN).unwrap_or(SHARDS_MAX).clamp(1, SHARDS_MAX);
        // Not rounded up: each shard has room for the largest values.
        let shards = 1 << shards.ilog2();
        let mut options = OptionsBuilder::new();
        options.estimated_items_capacity(expected).weight_capacity(bytes_max).shards(shards);
        options.hot_allocation(HOT_SHARE);
        let options = options.build().expect("all that has no default is given");
        let (hashes, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        let values: Cache<CoordinationName, CachedValue, ValueWeight> =
            Cache::with_options(options, ValueWeight, hashes, lifecycle);
        Self {
            weight_max: (values.shard_capacity() as f64 * HOT_SHARE) as u64,
            values,
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// The value, if it is there.
    #[must_use]
    pub fn get(&self, name: &CoordinationName, now: Timestamp) -> Option<CachedValue> {
        let found = self.values.get(name).filter(|value| is_current(value, now));
        if found.is_some() { &self.hits } else { &self.misses }.fetch_add(1, Relaxed);
        found
    }

    /// Whether it is kept if it is put, until there is no room. One that is too large for the whole
    /// cache is not.
    #[must_use]
    pub fn can_hold(&self, name: &CoordinationName, value: &CachedValue) -> bool {
        ValueWeight.weight(name, value) <= self.weight_max
    }

    /// Puts a value. With `only_if_absent` not where one is there; whether it was put.
    pub fn put(
        &self,
        name: CoordinationName,
        value: CachedValue,
        only_if_absent: bool,
        now: Timestamp,
    ) -> bool {
        let _writing = self.writing(&name);
        if only_if_absent && self.values.peek(&name).is_some_and(|value| is_current(&value, now)) {
            return false;
        }
        self.values.insert(name, value);
        true
    }

    /// Takes a value out; whether it was there.
    pub fn delete(&self, name: &CoordinationName, now: Timestamp) -> bool {
        let _writing = self.writing(name);
        self.values.remove(name).is_some_and(|(_, value)| is_current(&value, now))
    }

    /// How it does.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        CacheStats {
            values: self.values.len() as u64,
            bytes: self.values.weight(),
            hits: self.hits.load(Relaxed),
            misses: self.misses.load(Relaxed),
        }
    }

    fn writing(&self, name: &CoordinationName) -> MutexGuard<'_, ()> {
        let place = hash::derived(0, name.name().as_bytes()) as usize % STRIPES;
        locked(&self.stripes[place])
    }
}

fn is_current(value: &CachedValue, now: Timestamp) -> bool {
    value.expires_at.is_none_or(|at| at > now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> CoordinationName {
        CoordinationName::unchecked("a", name)
    }

    fn value(bytes: &'static [u8], expires_at: Option<i64>) -> CachedValue {
        let expires_at = expires_at.map(Timestamp);
        CachedValue { bytes: Bytes::from_static(bytes), content_type: None, expires_at }
    }

    #[test]
    fn a_value_is_there_until_its_time_is_over() {
        let cache = ByteCache::new(1 << 20);
        assert!(cache.put(name("k"), value(b"1", Some(10)), true, Timestamp(0)));
        assert!(!cache.put(name("k"), value(b"2", None), true, Timestamp(9)));
        assert_eq!(cache.get(&name("k"), Timestamp(9)).map(|found| found.bytes), Some(Bytes::from("1")));
        assert_eq!(cache.get(&name("k"), Timestamp(10)), None);
        assert!(cache.put(name("k"), value(b"2", None), true, Timestamp(10)));
        assert!(cache.delete(&name("k"), Timestamp(11)));
        assert!(!cache.delete(&name("k"), Timestamp(11)));
        let CacheStats { hits, misses, values, .. } = cache.stats();
        assert_eq!((hits, misses, values), (1, 1, 0));
    }

    #[test]
    fn the_largest_values_are_kept_on_any_machine() {
        const LARGE: &[u8] = &[7; base::limits::CACHED_BYTES_MAX];
        for bytes_max in [8_u64 << 20, 64_000_000, 1 << 30] {
            let cache = ByteCache::new(bytes_max);
            assert!(cache.put(name("k"), value(LARGE, None), true, Timestamp(0)));
            assert!(cache.get(&name("k"), Timestamp(0)).is_some(), "of {bytes_max} bytes");
            assert!(!cache.put(name("k"), value(b"2", None), true, Timestamp(0)));
        }
    }

    #[test]
    fn what_can_be_held_is_held_when_it_is_put() {
        const LARGE: &[u8] = &[7; base::limits::CACHED_BYTES_MAX];
        for bytes_max in [1_000_000_u64, 1_050_000, 1_081_000, 1_082_000, 1 << 21, 64_000_000] {
            let cache = ByteCache::new(bytes_max);
            let mut held = 0;
            for bytes in [1_000, 900_000, 969_000, 970_000, 1_000_000, LARGE.len()] {
                let large = value(&LARGE[..bytes], None);
                let can_hold = cache.can_hold(&name("k"), &large);
                cache.put(name("k"), large, false, Timestamp(0));
                let is_held = cache.get(&name("k"), Timestamp(0)).is_some();
                assert_eq!(is_held, can_hold, "{bytes} bytes in {bytes_max}");
                held += usize::from(is_held);
            }
            assert_eq!(held == 6, bytes_max > 1_081_000, "{bytes_max}: {held}");
        }
    }

    #[test]
    fn a_content_type_is_what_a_header_can_carry() {
        for (text, code) in [
            (&b"text/plain; charset=\"utf-8\""[..], None),
            (b"a\tb", None),
            (b"", None),
            (&[b'a'; CONTENT_TYPE_BYTES_MAX], None),
            (&[b'a'; CONTENT_TYPE_BYTES_MAX + 1], Some("too_long")),
            (b"a\r\nb: c", Some("invalid_parameter")),
            (b"a\x7f", Some("invalid_parameter")),
            ("\u{e4}".as_bytes(), Some("invalid_parameter")),
            (b"\xff", Some("invalid_parameter")),
        ] {
            let read = CachedValue::read_content_type(text);
            assert_eq!(read.as_ref().err().map(|problem| problem.code), code, "{read:?}");
            assert!(read.is_err() || read.is_ok_and(|read| read.as_bytes() == text));
        }
    }

    #[test]
    fn the_bytes_of_all_values_have_a_bound() {
        let cache = ByteCache::new(1 << 20);
        for number in 0..10_000 {
            cache.put(name(&number.to_string()), value(&[7; 1_000], None), false, Timestamp(0));
            assert!(cache.stats().bytes <= 1 << 20);
        }
        assert!(cache.stats().values > 500);
    }
}
