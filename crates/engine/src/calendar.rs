//! Cron expressions in a time zone: when a recurring job is due.
//!
//! What a pattern means on the wall clock is asked of `croner`. What that is in real time, where
//! clocks are put forward and back, is decided here, as Vixie cron does. A job whose minute or hour
//! (or second) begins with `*` follows the clock. It skips an hour that does not exist and runs in
//! both of an hour that comes twice. Any other names times of day, and runs once for each. It runs
//! at the end of a gap that it falls into, and in the first of two equal hours.
//!
//! The time zones are compiled in: a partition reads no file, and two machines agree. Not here:
//! when a job is told to run.

use std::sync::LazyLock;

use base::Timestamp;
use croner::Cron;
use croner::errors::CronError;
use croner::parser::{CronParser, Year};
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};

/// Fields of an expression without seconds, and how many of them, the last ones, are of dates.
const FIELDS: usize = 5;
const FIELDS_OF_DATES: usize = 3;
/// Longest expression, in bytes; a longer one is no calendar that somebody could check by reading
/// it.
const EXPRESSION_BYTES_MAX: usize = 256;
/// How often the search goes on behind a change of the zone's clock: some hundred years of a time
/// that it always leaves out.
const SEARCHES_MAX: usize = 256;
/// More than a clock was ever changed by, in seconds: behind it, a change cannot bring nearer what
/// the pattern says.
const CHANGE_MAX: i64 = 2 * 24 * 60 * 60;
/// Where it is tried whether a calendar ever has a moment. Any forty years would do: in as many the
/// rarest leap day returns.
const TRIED_YEARS: &str = "2026-2066";
/// Before those years, in seconds.
const TRIED_FROM: i64 = 1_767_000_000;

static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Whether this is a calendar; else what is wrong with it, and what would be right.
pub(super) fn check(expression: &str, zone: Option<&str>) -> Result<(), String> {
    let calendar = ZonedCron::read(expression, zone)?;
    let tried = ZonedCron { cron: in_tried_years(expression, &calendar.cron)?, ..calendar };
    match tried.first_after(TRIED_FROM) {
        Some(_) => Ok(()),
        None => Err(format!(
            "cron {expression:?} names a time that never comes; days of the month end with the month, such as \"0 3 28 2 *\""
        )),
    }
}

/// The first moment of the calendar after `now`; none when it has none that can be written down.
pub(super) fn first(expression: &str, zone: Option<&str>, now: Timestamp) -> Option<Timestamp> {
    let calendar = ZonedCron::read(expression, zone).ok()?;
    calendar.first_after(seconds(now)).map(moment)
}

/// The last moment of the calendar at or before `now`.
pub(super) fn latest(expression: &str, zone: Option<&str>, now: Timestamp) -> Option<Timestamp> {
    let calendar = ZonedCron::read(expression, zone).ok()?;
    calendar.last_until(seconds(now)).map(moment)
}

/// When a job that was due at `after` is due next: the latest moment up to `now`, into which
/// earlier missed ones fold. Where none was missed, it is the first one to come.
///
/// It is after `after` even where the wall clock was put back behind it: no moment is answered
/// twice.
pub(super) fn next(
    expression: &str,
    zone: Option<&str>,
    after: Timestamp,
    now: Timestamp,
) -> Option<Timestamp> {
    let calendar = ZonedCron::read(expression, zone).ok()?;
    let coming = calendar.first_after(seconds(after))?;
    let now = seconds(now);
    let missed = if coming > now { None } else { calendar.last_until(now) };
    Some(moment(missed.unwrap_or(coming)))
}

/// Moments in here are whole seconds since the Unix epoch.
fn seconds(moment: Timestamp) -> i64 {
    moment.0.div_euclid(1_000)
}

fn moment(seconds: i64) -> Timestamp {
    Timestamp(seconds * 1_000)
}

/// An expression that was read, where it holds.
struct ZonedCron {
    cron: Cron,
    zone: TimeZone,
    times_of_day: bool,
}

impl ZonedCron {
    fn read(expression: &str, zone: Option<&str>) -> Result<Self, String> {
        if expression.len() > EXPRESSION_BYTES_MAX {
            return Err(format!(
                "cron must be at most {EXPRESSION_BYTES_MAX} bytes, not {}",
                expression.len()
            ));
        }
        let cron = CronParser::builder()
            .year(Year::Disallowed)
            .build()
            .parse(expression)
            .map_err(|error| not_a_calendar(expression, error))?;
        let zone = match zone {
            None => TimeZone::UTC,
            Some(name) => ZONES.get(name).map_err(|_| {
                format!("tz {name:?} is not a zone of the IANA time zone database, such as \"Europe/Berlin\"")
            })?,
        };
        let times_of_day = names_times_of_day(&cron);
        Ok(Self { cron, zone, times_of_day })
    }

    /// The first moment after `moment`.
    fn first_after(&self, moment: i64) -> Option<i64> {
        let mut from = moment + 1;
        for _ in 0..SEARCHES_MAX {
            let span = OffsetSpan::at(&self.zone, from)?;
            if span.start == Some(from) && self.falls_into_gap(&span) {
                return Some(from);
            }
            let wall = span.wall(from)?.max(self.earliest_in(&span)?);
            let found = span.moment(self.cron.find_next_occurrence(&wall, true).ok()?)?;
            match span.end {
                Some(end) if found >= end => from = end.max(found - CHANGE_MAX),
                _ => return Some(found),
            }
        }
        None
    }

    /// The last moment at or before `moment`.
    fn last_until(&self, moment: i64) -> Option<i64> {
        let mut until = moment;
        for _ in 0..SEARCHES_MAX {
            let span = OffsetSpan::at(&self.zone, until)?;
            let wall = self.cron.find_previous_occurrence(&span.wall(until)?, true).ok()?;
            let found = span.moment(wall)?;
            if wall >= self.earliest_in(&span)? {
                return Some(found);
            }
            let start = span.start?;
            if self.falls_into_gap(&span) {
                return Some(start);
            }
            until = (start - 1).min(found + CHANGE_MAX);
        }
        None
    }

    /// Where the wall clock first counts in a span: at its start. For times of day, it is at the
    /// end of what came before.
    fn earliest_in(&self, span: &OffsetSpan) -> Option<DateTime> {
        let Some(start) = span.start else { return Some(DateTime::MIN) };
        let wall = span.wall(start)?;
        Some(if self.times_of_day { wall.max(span.wall_before(start)?) } else { wall })
    }

    /// Whether a time of day is in the gap at the start of a span.
    fn falls_into_gap(&self, span: &OffsetSpan) -> bool {
        let gap = || {
            let start = span.start?;
            let (gone, back) = (span.wall_before(start)?, span.wall(start)?);
            (gone < back).then_some(())?;
            let found = self.cron.find_next_occurrence(&gone, true).ok()?;
            Some(found < back)
        };
        self.times_of_day && gap().unwrap_or(false)
    }
}

/// What lies between two changes of a zone's clock: in here clock and time run alike.
struct OffsetSpan {
    /// The first moment; none where the zone knows of no change before.
    start: Option<i64>,
    /// The first moment behind it.
    end: Option<i64>,
    offset: Offset,
    offset_before: Offset,
}

impl OffsetSpan {
    fn at(zone: &TimeZone, moment: i64) -> Option<Self> {
        let here = jiff::Timestamp::from_second(moment).ok()?;
        let behind = jiff::Timestamp::from_second(moment + 1).ok()?;
        let start = zone.preceding(behind).next().map(|change| change.timestamp());
        let end = zone.following(here).next().map(|change| change.timestamp());
        let offset = zone.to_offset(here);
        let before = start.and_then(|start| jiff::Timestamp::from_second(start.as_second() - 1).ok());
        Some(Self {
            start: start.map(jiff::Timestamp::as_second),
            end: end.map(jiff::Timestamp::as_second),
            offset,
            offset_before: before.map_or(offset, |before| zone.to_offset(before)),
        })
    }

    /// The clock on the wall at a moment.
    fn wall(&self, moment: i64) -> Option<DateTime> {
        Some(self.offset.to_datetime(jiff::Timestamp::from_second(moment).ok()?))
    }

    /// What the clock on the wall would show at a moment if it had not been changed.
    fn wall_before(&self, moment: i64) -> Option<DateTime> {
        Some(self.offset_before.to_datetime(jiff::Timestamp::from_second(moment).ok()?))
    }

    /// When the clock on the wall shows this.
    fn moment(&self, wall: DateTime) -> Option<i64> {
        Some(self.offset.to_timestamp(wall).ok()?.as_second())
    }
}

/// The same in [`TRIED_YEARS`] alone, so that what never comes is not searched for in all years to
/// come.
fn in_tried_years(expression: &str, cron: &Cron) -> Result<Cron, String> {
    let seconds = if cron.as_str().split_whitespace().count() == FIELDS { "0 " } else { "" };
    CronParser::new()
        .parse(&format!("{seconds}{} {TRIED_YEARS}", cron.as_str()))
        .map_err(|error| not_a_calendar(expression, error))
}

/// Whether neither second, minute nor hour begins with `*`.
fn names_times_of_day(cron: &Cron) -> bool {
    let fields: Vec<_> = cron.as_str().split_whitespace().collect();
    let of_the_clock = fields.len().saturating_sub(FIELDS_OF_DATES);
    !fields.iter().take(of_the_clock).any(|field| field.starts_with('*'))
}

fn not_a_calendar(expression: &str, error: CronError) -> String {
    let why = match error {
        CronError::InvalidPattern(why)
        | CronError::IllegalCharacters(why)
        | CronError::ComponentError(why) => why,
        CronError::EmptyPattern => "it is empty".to_owned(),
        other => other.to_string(),
    };
    let why = why.trim_end_matches('.');
    format!(
        "cron {expression:?} is not a calendar ({why}); it has five fields, of minute, hour, day of the month, month and day of \
         the week, such as \"30 2 * * 1-5\", or six with the second first, or is @hourly, @daily, @weekly, @monthly or @yearly"
    )
}

#[cfg(test)]
mod tests;
