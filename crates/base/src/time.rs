//! Moments and attended time, in whole milliseconds.
//!
//! A [`Timestamp`] is a moment; whether it was read from the engine clock, the wall clock or a
//! device is said where it is stored. An [`Attended`] reading is not a moment: it is how long a way
//! in has been listening, and the two cannot be mixed up.

use std::fmt;
use std::time::Duration;

use jiff::fmt::temporal::{DateTimeParser, DateTimePrinter};

/// A moment: milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Later than every moment that can be written down.
    pub const MAX: Self = Self(i64::MAX);
    /// The first moment of the year 1, in milliseconds.
    pub const WRITABLE_MIN: i64 = -62_135_596_800_000;
    /// The latest moment that RFC 3339 can write (year 9999), in milliseconds.
    const WRITABLE_MAX: i64 = 253_402_207_199_999;

    /// The moment `span` later; saturates.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(millis(span)))
    }

    /// The time `span` earlier; saturates.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(millis(span)))
    }

    /// How long after `earlier` this is; zero if it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Reads an RFC 3339 time with any offset; finer digits than milliseconds are cut off. What is
    /// read can be written.
    ///
    /// # Errors
    /// When the text is not an RFC 3339 time with an offset, or one before the year 1.
    pub fn parse(text: &str) -> Result<Self, NotATime> {
        Self::read(text).ok().filter(|moment| moment.0 >= Self::WRITABLE_MIN).ok_or(NotATime)
    }

    /// The same from a device, whose clock may never have been set: a time of the year 0 is the
    /// beginning of the year 1.
    ///
    /// # Errors
    /// When the text is not an RFC 3339 time with an offset.
    pub fn parse_of_device(text: &str) -> Result<Self, NotATime> {
        Self::read(text).map(|moment| moment.max(Self(Self::WRITABLE_MIN)))
    }

    fn read(text: &str) -> Result<Self, NotATime> {
        static PARSER: DateTimeParser = DateTimeParser::new();
        let (civil, fraction, offset) = parts(text).ok_or(NotATime)?;
        let parsed = match fraction.get(..DIGITS_MAX) {
            Some(read) if fraction.len() > DIGITS_MAX => {
                PARSER.parse_timestamp(format!("{civil}.{read}{offset}"))
            }
            _ => PARSER.parse_timestamp(text),
        };
        match parsed {
            Ok(moment) => Ok(Self(moment.as_millisecond())),
            // The last hours of the year 9999 are beyond what is computed with, and mean "no end".
            Err(_) if PARSER.parse_datetime(civil).is_ok_and(|time| time.year() == YEAR_MAX) => {
                Ok(Self(Self::WRITABLE_MAX))
            }
            Err(_) => Err(NotATime),
        }
    }
}

/// The last year that RFC 3339 can write.
const YEAR_MAX: i16 = 9_999;
/// Digits of a second that the parser reads at most.
const DIGITS_MAX: usize = 9;

/// Date and time of day, digits of a fraction, and offset of a text that has the form of RFC 3339.
/// A space may stand for the `T`. The parser takes more: times without seconds, years of six
/// digits, offsets of a day.
fn parts(text: &str) -> Option<(&str, &str, &str)> {
    const CIVIL: &str = "0000-00-00T00:00:00";
    let (civil, rest) = text.split_at_checked(CIVIL.len())?;
    let fits = |(form, byte): (u8, u8)| match form {
        b'0' => byte.is_ascii_digit(),
        b'T' => matches!(byte, b'T' | b't' | b' '),
        other => byte == other,
    };
    let (fraction, offset) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.find(|digit: char| !digit.is_ascii_digit())?),
        None => ("", rest),
    };
    let is_whole = rest.starts_with('.') != fraction.is_empty();
    let has_form = CIVIL.bytes().zip(civil.bytes()).all(fits) && is_whole && is_offset(offset.as_bytes());
    has_form.then_some((civil, fraction, offset))
}

fn is_offset(text: &[u8]) -> bool {
    match text {
        b"Z" | b"z" => true,
        [b'+' | b'-', tens, ones, b':', b'0'..=b'5', b'0'..=b'9'] => {
            tens.is_ascii_digit() && ones.is_ascii_digit() && (*tens, *ones) < (b'2', b'4')
        }
        _ => false,
    }
}

/// Text that is not an RFC 3339 time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 time such as 2026-11-21T01:02:03.456Z")]
pub struct NotATime;

impl fmt::Display for Timestamp {
    /// RFC 3339, UTC, always three digits of milliseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        static PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
        let clamped = self.0.clamp(Self::WRITABLE_MIN, Self::WRITABLE_MAX);
        let moment = jiff::Timestamp::from_millisecond(clamped).map_err(|_| fmt::Error)?;
        PRINTER.print_timestamp(&moment, jiff::fmt::StdFmtWrite(f)).map_err(|_| fmt::Error)
    }
}

/// A reading of an attended clock: milliseconds for which a way in has been listening since the
/// data directory was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attended(pub i64);

impl Attended {
    /// The reading `span` later; saturates.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(millis(span)))
    }
}

/// A span in whole milliseconds, saturating.
#[must_use]
pub fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_printed_in_utc_with_milliseconds() {
        for (input, expect) in [
            ("2026-11-21T01:02:03.456Z", "2026-11-21T01:02:03.456Z"),
            ("2026-11-21T04:02:03+03:00", "2026-11-21T01:02:03.000Z"),
            ("2026-11-21t01:02:03.1239z", "2026-11-21T01:02:03.123Z"),
            ("2026-11-21T01:02:03.123456789012+00:30", "2026-11-21T00:32:03.123Z"),
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
            ("2026-11-21 01:02:03.5-00:30", "2026-11-21T01:32:03.500Z"),
            ("9999-12-31T23:59:59Z", "9999-12-30T21:59:59.999Z"),
        ] {
            let moment = Timestamp::parse(input).unwrap_or_else(|e| panic!("{input}: {e}"));
            assert_eq!(moment.to_string(), expect);
        }
    }

    #[test]
    fn text_without_an_offset_is_not_a_time() {
        for input in ["", "2026-11-21", "2026-11-21T01:02:03", "yesterday", "1700000000"] {
            assert_eq!(Timestamp::parse(input), Err(NotATime), "{input}");
        }
    }

    #[test]
    fn what_is_like_rfc_3339_is_not_a_time() {
        for input in [
            "2026-11-29T12:00Z",
            "2026-11-29T12Z",
            "20261129T120000Z",
            "2026-11-29T12:00:00,5Z",
            "2026-11-29T12:00:00.Z",
            "2026-11-29T12:00:00+24:00",
            "2026-11-29T12:00:00+23:60",
            "2026-11-29T12:00:00+0100",
            "2026-11-29T12:00:00+01",
            "2026-11-29T12:00:00+01:00:00",
            "2026-11-29T12:00:00Z[UTC]",
            "2026-11-29_12:00:00Z",
            "9999-12-31T23:59Z",
        ] {
            assert_eq!(Timestamp::parse(input), Err(NotATime), "{input}");
            assert_eq!(Timestamp::parse_of_device(input), Err(NotATime), "{input}");
        }
    }

    #[test]
    fn before_the_year_1_there_are_only_clocks_that_were_never_set() {
        for input in ["0000-01-01T00:00:00Z", "0000-06-01T00:00:00Z", "0001-01-01T00:00:00+23:59"] {
            assert_eq!(Timestamp::parse(input), Err(NotATime), "{input}");
            let moment = Timestamp::parse_of_device(input).expect("RFC 3339");
            assert_eq!(moment.to_string(), "0001-01-01T00:00:00.000Z", "{input}");
        }
    }

    #[test]
    fn what_is_read_is_what_is_told() {
        for input in ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z"] {
            let moment = Timestamp::parse(input).expect("RFC 3339");
            assert_eq!(Timestamp::parse(&moment.to_string()), Ok(moment), "{input}");
        }
        for input in ["-009999-03-01T00:00:00Z", "-000001-01-01T00:00:00Z", "+002026-11-21T01:02:03Z"] {
            assert_eq!(Timestamp::parse(input), Err(NotATime), "{input}");
        }
    }

    #[test]
    fn spans_saturate() {
        assert_eq!(Timestamp::MAX.after(Duration::from_secs(1)), Timestamp::MAX);
        assert_eq!(Timestamp(5).since(Timestamp(9)), Duration::ZERO);
    }
}
