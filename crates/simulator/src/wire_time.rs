//! Times as the outside sees them: RFC 3339, UTC, with milliseconds.
//!
//! Inside the simulator a wall-clock time is a whole number of milliseconds since 1970. Reading is
//! strict: a server that writes any other form than the one it promises is found out here.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// `2026-11-21T01:02:03.456Z` and nothing shorter or longer.
const TEXT_BYTES: usize = 24;

/// Writes milliseconds since 1970 in the server's form.
///
/// # Panics
/// Outside the years -9999 to 9999, which no simulated clock reaches.
#[must_use]
pub fn format_ms(ms: i64) -> String {
    let time = Timestamp::from_millisecond(ms).expect("a simulated time lies within the calendar");
    format!("{time:.3}")
}

/// Reads a time in exactly the form that [`format_ms`] writes.
#[must_use]
pub fn parse_ms(text: &str) -> Option<i64> {
    if text.len() != TEXT_BYTES || !text.ends_with('Z') {
        return None;
    }
    text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}

/// Milliseconds since 1970 now.
#[must_use]
pub fn wall_now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis() as i64
}

/// Turns instants into wall-clock times without asking the system for each.
#[derive(Debug, Clone, Copy)]
pub struct WallClock {
    anchor: Instant,
    anchor_ms: i64,
}

impl WallClock {
    /// A clock that agrees with the system's now.
    #[must_use]
    pub fn start() -> Self {
        Self { anchor: Instant::now(), anchor_ms: wall_now_ms() }
    }

    /// The wall-clock time of `instant`; for one before the start, the start.
    #[must_use]
    pub fn at_ms(&self, instant: Instant) -> i64 {
        self.anchor_ms + instant.saturating_duration_since(self.anchor).as_millis() as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_795_222_923_456, "2026-11-21T01:02:03.456Z"),
            (951_782_400_007, "2000-02-29T00:00:00.007Z"),
        ] {
            assert_eq!(format_ms(ms), text);
            assert_eq!(parse_ms(text), Some(ms));
        }
    }

    #[test]
    fn any_other_form_is_refused() {
        for text in ["", "2026-11-21T01:02:03Z", "2026-11-21T01:02:03.4567Z", "2026-11-21T03:02:03.456+02:00"]
        {
            assert_eq!(parse_ms(text), None, "{text}");
        }
    }

    #[test]
    fn the_clock_moves_with_its_instants() {
        let clock = WallClock::start();
        let later = clock.anchor + Duration::from_millis(1500);
        assert_eq!(clock.at_ms(later) - clock.at_ms(clock.anchor), 1500);
    }
}
