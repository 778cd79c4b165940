//! Spans and moments as the API writes them: `"1h30m"`, and RFC 3339 in UTC with milliseconds.
//!
//! Outside they are [`Duration`] and [`SystemTime`]; nobody has to learn a library of dates for a
//! delay.

use std::fmt;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Units from the largest on, in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// A span, written as whole milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Milliseconds(pub(crate) Duration);

impl Milliseconds {
    /// A part of a millisecond counts as one: nothing comes before its time.
    fn millis(self) -> u128 {
        self.0.as_nanos().div_ceil(1_000_000)
    }
}

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.millis())
    }
}

impl Serialize for Milliseconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Milliseconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        read(&text).map(Self).ok_or_else(|| D::Error::custom(format!("{text:?} is not a duration")))
    }
}

/// Numbers with units, such as `1h30m`.
fn read(text: &str) -> Option<Duration> {
    let (mut rest, mut total) = (text, 0_u64);
    while !rest.is_empty() || total == 0 && text.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (_, factor) = UNITS.into_iter().find(|(unit, _)| *unit == &rest[..end])?;
        total = number.checked_mul(factor).and_then(|more| total.checked_add(more))?;
        rest = &rest[end..];
    }
    Some(Duration::from_millis(total))
}

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JsonTime(pub(crate) SystemTime);

impl Serialize for JsonTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let moment = Timestamp::try_from(self.0).map_err(serde::ser::Error::custom)?;
        serializer.collect_str(&format_args!("{moment:.3}"))
    }
}

impl<'de> Deserialize<'de> for JsonTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let moment: Timestamp = text.parse().map_err(D::Error::custom)?;
        Ok(Self(moment.into()))
    }
}

/// For `#[serde(with = ...)]` on a `SystemTime`.
pub(crate) mod moment {
    use super::{Deserialize, Deserializer, JsonTime, SystemTime};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
        JsonTime::deserialize(deserializer).map(|moment| moment.0)
    }
}

/// For `#[serde(with = ...)]` on an `Option<SystemTime>`.
pub(crate) mod maybe_moment {
    use super::{Deserialize, Deserializer, JsonTime, SystemTime};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<SystemTime>, D::Error> {
        Ok(Option::<JsonTime>::deserialize(deserializer)?.map(|moment| moment.0))
    }
}

/// A span that is always there.
pub(crate) mod sure_span {
    use super::{Deserialize, Deserializer, Duration, Milliseconds, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        Milliseconds(*span).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Milliseconds::deserialize(deserializer).map(|span| span.0)
    }
}

/// For `#[serde(with = ...)]` on an `Option<Duration>`.
pub(crate) mod maybe_span {
    use super::{Deserialize, Deserializer, Duration, Milliseconds, Serialize, Serializer};

    #[allow(clippy::ref_option, reason = "serde calls it so")]
    pub(crate) fn serialize<S: Serializer>(
        span: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        span.map(Milliseconds).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<Milliseconds>::deserialize(deserializer)?.map(|span| span.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_read_as_the_server_writes_it() {
        for (text, ms) in [
            ("\"0s\"", Some(0)),
            ("\"250ms\"", Some(250)),
            ("\"1h30m\"", Some(5_400_000)),
            ("\"2d5h\"", Some(190_800_000)),
            ("\"\"", None),
            ("\"5\"", None),
            ("\"5w\"", None),
            ("5", None),
        ] {
            let read = serde_json::from_str::<Milliseconds>(text).ok().map(|span| span.0.as_millis());
            assert_eq!(read, ms, "{text}");
        }
    }

    #[test]
    fn a_span_is_never_written_shorter_than_it_is() {
        for (micros, text) in [(0, "\"0ms\""), (1, "\"1ms\""), (1_000, "\"1ms\""), (1_500_001, "\"1501ms\"")]
        {
            let written =
                serde_json::to_string(&Milliseconds(Duration::from_micros(micros))).expect("a text");
            assert_eq!(written, text);
        }
    }

    #[test]
    fn a_moment_is_written_and_read_back() {
        let text = "\"2026-11-21T01:02:03.456Z\"";
        let moment: JsonTime = serde_json::from_str(text).expect("a moment");
        assert_eq!(serde_json::to_string(&moment).expect("a text"), text);
        assert!(serde_json::from_str::<JsonTime>("\"soon\"").is_err());
    }
}
