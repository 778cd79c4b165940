//! Moments as people write and read them: an RFC 3339 time, a day, or how long ago.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::{Timestamp, duration, time};

/// A moment on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct When(pub(super) Timestamp);

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        read(text, now())
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn read(text: &str, now: Timestamp) -> Result<When, String> {
    let moment = Timestamp::parse(text)
        .or_else(|error| Timestamp::parse(&format!("{text}T00:00:00Z")).map_err(|_| error));
    let ago = || duration::parse(text).map(|span| Timestamp(now.0.saturating_sub(time::millis(span))));
    moment.or_else(|_| ago()).map(When).map_err(|_| {
        "write a time (2026-11-21T01:02:03Z), a day (2026-11-21, in UTC) or how long ago (90s, 2h30m, 7d)"
            .to_owned()
    })
}

/// What this machine's clock says.
pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Timestamp(time::millis(since))
}

/// A time of the API without what only machines need: `2026-11-21 01:02:03Z`. Other text stays as
/// it is.
pub(super) fn to_second(text: &str) -> String {
    shown(text, |civil| civil.split('.').next().unwrap_or(civil).to_owned())
}

/// The same with milliseconds, for feeds in which many things happen in a second.
pub(super) fn to_millisecond(text: &str) -> String {
    shown(text, str::to_owned)
}

fn shown(text: &str, digits: impl Fn(&str) -> String) -> String {
    let Ok(moment) = Timestamp::parse(text) else { return text.to_owned() };
    let text = moment.to_string().replacen('T', " ", 1);
    format!("{}Z", digits(text.trim_end_matches('Z')))
}

/// A time of the API and how long ago that was: `2026-11-21 01:02:03Z (3m12s ago)`.
pub(super) fn with_age(text: &str) -> String {
    with_age_at(text, now())
}

/// How long ago a time of the API was: `3m12s`.
pub(super) fn age_of(text: &str) -> String {
    Timestamp::parse(text).map_or_else(|_| text.to_owned(), |moment| age(now().since(moment)))
}

fn with_age_at(text: &str, now: Timestamp) -> String {
    match Timestamp::parse(text) {
        Ok(moment) => format!("{} ({} ago)", to_second(text), age(now.since(moment))),
        Err(_) => text.to_owned(),
    }
}

/// A span in the two units that matter at its size.
fn age(span: Duration) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    let seconds = span.as_secs();
    let unit = match seconds {
        ..HOUR => 1,
        HOUR..DAY => MINUTE,
        DAY.. => HOUR,
    };
    duration::format(Duration::from_secs(seconds - seconds % unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-21T12:00:00.000Z";

    fn now() -> Timestamp {
        Timestamp::parse(NOW).expect("a time")
    }

    #[test]
    fn a_moment_is_a_time_a_day_or_how_long_ago() {
        for (text, means) in [
            ("2026-11-21T01:02:03.456Z", Some("2026-11-21T01:02:03.456Z")),
            ("2026-11-21 01:02:03Z", Some("2026-11-21T01:02:03.000Z")),
            ("2026-11-21T03:00:00+03:00", Some("2026-11-21T00:00:00.000Z")),
            ("2026-11-21", Some("2026-11-21T00:00:00.000Z")),
            ("1h30m", Some("2026-11-21T10:30:00.000Z")),
            ("0s", Some(NOW)),
            ("2026-11-21T01:02:03", None),
            ("yesterday", None),
            ("-1h", None),
            ("", None),
        ] {
            assert_eq!(read(text, now()).ok().map(|when| when.to_string()).as_deref(), means, "{text}");
        }
    }

    #[test]
    fn people_read_a_time_without_what_only_machines_need() {
        assert_eq!(to_second("2026-11-21T01:02:03.456Z"), "2026-11-21 01:02:03Z");
        assert_eq!(to_millisecond("2026-11-21T01:02:03.456Z"), "2026-11-21 01:02:03.456Z");
        assert_eq!(to_second("soon"), "soon");
    }

    #[test]
    fn an_age_has_the_units_that_matter_at_its_size() {
        for (then, shows) in [
            ("2026-11-21T12:00:00Z", "0s"),
            ("2026-11-21T12:00:09Z", "0s"),
            ("2026-11-21T11:56:48.500Z", "3m11s"),
            ("2026-11-21T08:59:30Z", "3h"),
            ("2026-11-19T06:30:00Z", "2d5h"),
        ] {
            let expect = format!("({shows} ago)");
            assert!(with_age_at(then, now()).ends_with(&expect), "{then}: {}", with_age_at(then, now()));
        }
    }
}
