//! Times and durations between the protocol's forms and ours. Ours count in milliseconds.

use std::time::Duration;

use base::duration::DURATION_MAX;
use base::{Problem, Timestamp};

/// A moment as the protocol writes it.
pub(crate) fn moment(at: Timestamp) -> prost_types::Timestamp {
    let (seconds, millis) = (at.0.div_euclid(1_000), at.0.rem_euclid(1_000));
    prost_types::Timestamp { seconds, nanos: millis as i32 * 1_000_000 }
}

/// A duration as the protocol writes it.
pub(crate) fn span(span: Duration) -> prost_types::Duration {
    let seconds = i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    prost_types::Duration { seconds, nanos: span.subsec_millis() as i32 * 1_000_000 }
}

/// Reads a moment; `field` is what the refusal calls it.
pub(crate) fn read_moment(field: &str, at: &prost_types::Timestamp) -> Result<Timestamp, Problem> {
    /// The years 1 to 9999, which a timestamp of the protocol may name.
    const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
    if SECONDS.contains(&at.seconds) && (0..1_000_000_000).contains(&at.nanos) {
        return Ok(Timestamp(at.seconds * 1_000 + i64::from(at.nanos / 1_000_000)));
    }
    let detail = format!("{field} must be a time of the years 1 to 9999, with 0 to 999999999 nanos");
    Err(Problem::not_allowed("invalid_time", detail))
}

/// Reads a duration of at most ten years; `field` is what the refusal calls it.
pub(crate) fn read_span(field: &str, span: &prost_types::Duration) -> Result<Duration, Problem> {
    let nanos = u32::try_from(span.nanos).ok().filter(|nanos| *nanos < 1_000_000_000);
    let read = u64::try_from(span.seconds).ok().zip(nanos);
    let read = read.map(|(seconds, nanos)| Duration::new(seconds, nanos / 1_000_000 * 1_000_000));
    read.filter(|span| *span <= DURATION_MAX).ok_or_else(|| {
        let detail = format!("{field} must be a duration from 0 to ten years");
        Problem::not_allowed("invalid_duration", detail)
    })
}

/// Reads how long a call waits: `unsaid` if it does not say, and no longer than `most`.
pub(crate) fn read_wait(
    wait: Option<&prost_types::Duration>,
    unsaid: Duration,
    most: Duration,
) -> Result<Duration, Problem> {
    let wait = wait.map_or(Ok(unsaid), |wait| read_span("wait", wait))?;
    if wait <= most {
        return Ok(wait);
    }
    let detail = format!("wait must be at most {}", base::duration::format(most));
    Err(Problem::not_allowed("invalid_duration", detail))
}

/// Reads a duration that has to be something.
pub(crate) fn read_some_span(field: &str, span: &prost_types::Duration) -> Result<Duration, Problem> {
    let span = read_span(field, span)?;
    if span.is_zero() {
        return Err(Problem::not_allowed("invalid_duration", format!("{field} must be at least 1ms")));
    }
    Ok(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_read_as_it_is_written() {
        for at in [0, 1, 999, 1_000, -1, -1_000, -1_001, 1_763_686_923_456] {
            assert_eq!(read_moment("at", &moment(Timestamp(at))), Ok(Timestamp(at)));
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for (seconds, nanos) in [(i64::MAX, 0), (i64::MIN, 0), (0, -1), (0, 1_000_000_000)] {
            let refused = read_moment("at", &prost_types::Timestamp { seconds, nanos });
            assert_eq!(refused.map_err(|problem| problem.code), Err("invalid_time"), "{seconds} {nanos}");
        }
    }

    #[test]
    fn a_duration_is_not_negative_and_not_over_ten_years() {
        let read = |seconds, nanos| read_span("ttl", &prost_types::Duration { seconds, nanos }).ok();
        assert_eq!(read(1, 2_500_000), Some(Duration::from_millis(1_002)));
        assert_eq!(read(DURATION_MAX.as_secs() as i64, 0), Some(DURATION_MAX));
        for (seconds, nanos) in [(-1, 0), (0, -1), (DURATION_MAX.as_secs() as i64 + 1, 0), (0, i32::MAX)] {
            assert_eq!(read(seconds, nanos), None, "{seconds} {nanos}");
        }
    }
}
