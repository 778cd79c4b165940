//! Durations as people write them: `250ms`, `30s`, `2m`, `1h`, `90d`.
//!
//! A duration is one or more whole numbers, each followed by a unit, largest unit first (`1h30m`).
//! Zero needs a unit too (`0s`). Longest: ten years.

use std::time::Duration;

const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// The longest duration that is accepted anywhere: ten years.
pub const DURATION_MAX: Duration = Duration::from_secs(10 * 365 * 86_400 + 3 * 86_400);

/// Why a text is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotADuration {
    /// It does not have the form at all.
    #[error("not a duration such as \"250ms\", \"30s\" or \"1h30m\"")]
    Form,
    /// It is longer than ten years.
    #[error("longer than ten years")]
    TooLong,
}

/// Reads a duration.
///
/// # Errors
/// When the text does not have the form or is longer than [`DURATION_MAX`].
pub fn parse(text: &str) -> Result<Duration, NotADuration> {
    let mut rest = text;
    let mut total: u64 = 0;
    let mut next_unit = 0;
    while !rest.is_empty() || next_unit == 0 {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or(NotADuration::Form)?;
        let number: u64 = rest[..digits].parse().map_err(|_| NotADuration::Form)?;
        rest = &rest[digits..];
        let unit_end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (index, (_, factor)) = UNITS
            .iter()
            .enumerate()
            .skip(next_unit)
            .find(|(_, (name, _))| *name == &rest[..unit_end])
            .ok_or(NotADuration::Form)?;
        total =
            number.checked_mul(*factor).and_then(|ms| total.checked_add(ms)).ok_or(NotADuration::TooLong)?;
        next_unit = index + 1;
        rest = &rest[unit_end..];
    }
    let span = Duration::from_millis(total);
    if span > DURATION_MAX { Err(NotADuration::TooLong) } else { Ok(span) }
}

/// Writes a duration so that [`parse`] reads it back: exact to the millisecond, shortest form.
#[must_use]
pub fn format(span: Duration) -> String {
    use std::fmt::Write;
    let mut rest = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    if rest == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (name, factor) in UNITS {
        let number = rest / factor;
        rest %= factor;
        if number > 0 {
            let written = write!(text, "{number}{name}");
            debug_assert!(written.is_ok(), "a String takes every write");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written_back() {
        for (text, ms) in [
            ("0s", 0),
            ("250ms", 250),
            ("30s", 30_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("1h30m", 5_400_000),
            ("1s250ms", 1_250),
            ("90d", 7_776_000_000),
        ] {
            let span = parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(span, Duration::from_millis(ms), "{text}");
            assert_eq!(format(span), text);
        }
        assert_eq!(format(parse("60s").expect("a duration")), "1m");
    }

    #[test]
    fn what_is_not_a_duration_is_refused() {
        for text in ["", "1", "s", "1 s", "-1s", "1.5s", "1m1h", "1s1s", "1w", "99999999999999999999s"] {
            assert_eq!(parse(text), Err(NotADuration::Form), "{text}");
        }
        assert_eq!(parse("5000d"), Err(NotADuration::TooLong));
        assert_eq!(parse("18446744073709551615d"), Err(NotADuration::TooLong));
    }
}
