//! Calendars over changes of clocks, leap days and what is refused.

use base::Timestamp;

use super::{ZonedCron, check, first, next};

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).expect("the test writes times")
}

/// The first `expected.len()` moments after `from`.
#[track_caller]
fn runs(expression: &str, zone: &str, from: &str, expected: &[&str]) {
    let mut moments = Vec::new();
    let mut moment = at(from);
    for _ in expected {
        moment = first(expression, Some(zone), moment).expect("there is a next one");
        moments.push(moment.to_string());
    }
    assert_eq!(moments, expected, "{expression} in {zone} after {from}");
}

#[test]
fn a_calendar_without_a_zone_is_in_utc() {
    let run = first("30 2 * * *", None, at("2026-06-01T02:30:00Z"));
    assert_eq!(run, Some(at("2026-06-02T02:30:00Z")));
}

#[test]
fn a_calendar_runs_by_the_clock_of_its_zone() {
    runs("0 9 * * 1-5", "America/New_York", "2026-03-06T15:00:00Z", &["2026-03-09T13:00:00.000Z"]);
    runs("0 9 * * MON-FRI", "Europe/Berlin", "2026-03-27T09:00:00Z", &["2026-03-30T07:00:00.000Z"]);
}

#[test]
fn a_time_of_day_in_a_gap_runs_when_the_gap_ends() {
    let daily = "30 2 * * *";
    runs(
        daily,
        "Europe/Berlin",
        "2026-03-28T00:00:00Z",
        &["2026-03-28T01:30:00.000Z", "2026-03-29T01:00:00.000Z", "2026-03-30T00:30:00.000Z"],
    );
    runs(
        daily,
        "America/New_York",
        "2026-03-07T00:00:00Z",
        &["2026-03-07T07:30:00.000Z", "2026-03-08T07:00:00.000Z", "2026-03-09T06:30:00.000Z"],
    );
}

#[test]
fn times_of_day_that_fall_into_one_gap_run_once() {
    runs(
        "15,45 2,3 * * *",
        "Europe/Berlin",
        "2026-03-29T00:00:00Z",
        &["2026-03-29T01:00:00.000Z", "2026-03-29T01:15:00.000Z", "2026-03-29T01:45:00.000Z"],
    );
    // One that is at the end of the gap by itself is the same run.
    runs(
        "0 2,3 * * *",
        "Europe/Berlin",
        "2026-03-29T00:00:00Z",
        &["2026-03-29T01:00:00.000Z", "2026-03-30T00:00:00.000Z"],
    );
}

#[test]
fn a_time_of_day_that_comes_twice_runs_the_first_time() {
    runs(
        "30 2 * * *",
        "Europe/Berlin",
        "2026-10-24T22:00:00Z",
        &["2026-10-25T00:30:00.000Z", "2026-10-26T01:30:00.000Z"],
    );
    runs(
        "0,30 1 * * *",
        "America/New_York",
        "2026-11-01T00:00:00Z",
        &["2026-11-01T05:00:00.000Z", "2026-11-01T05:30:00.000Z", "2026-11-02T06:00:00.000Z"],
    );
}

#[test]
fn a_calendar_that_follows_the_clock_skips_a_gap() {
    runs(
        "*/30 * * * *",
        "Europe/Berlin",
        "2026-03-29T00:00:00Z",
        &["2026-03-29T00:30:00.000Z", "2026-03-29T01:00:00.000Z", "2026-03-29T01:30:00.000Z"],
    );
    runs("*/30 2 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", &["2026-03-30T00:00:00.000Z"]);
}

#[test]
fn a_calendar_that_follows_the_clock_runs_in_both_of_two_equal_hours() {
    runs(
        "@hourly",
        "America/New_York",
        "2026-11-01T04:30:00Z",
        &[
            "2026-11-01T05:00:00.000Z",
            "2026-11-01T06:00:00.000Z",
            "2026-11-01T07:00:00.000Z",
            "2026-11-01T08:00:00.000Z",
        ],
    );
    runs(
        "*/30 2 * * *",
        "Europe/Berlin",
        "2026-10-24T23:00:00Z",
        &[
            "2026-10-25T00:00:00.000Z",
            "2026-10-25T00:30:00.000Z",
            "2026-10-25T01:00:00.000Z",
            "2026-10-25T01:30:00.000Z",
            "2026-10-26T01:00:00.000Z",
        ],
    );
}

#[test]
fn a_day_that_a_zone_skipped_is_a_gap_like_any_other() {
    // Samoa went from the 29th straight to the 31st.
    runs(
        "0 12 * * *",
        "Pacific/Apia",
        "2011-12-29T20:00:00Z",
        &["2011-12-29T22:00:00.000Z", "2011-12-30T10:00:00.000Z", "2011-12-30T22:00:00.000Z"],
    );
}

#[test]
fn a_change_of_half_an_hour_is_one() {
    runs("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T15:00:00Z", &["2026-10-03T15:30:00.000Z"]);
    runs(
        "45 1 * * *",
        "Australia/Lord_Howe",
        "2026-04-04T14:00:00Z",
        &["2026-04-04T14:45:00.000Z", "2026-04-05T15:15:00.000Z"],
    );
}

#[test]
fn leap_days_come_in_leap_years() {
    runs(
        "0 0 29 2 *",
        "UTC",
        "2024-02-29T00:00:00Z",
        &["2028-02-29T00:00:00.000Z", "2032-02-29T00:00:00.000Z"],
    );
    runs("0 0 29 2 *", "Europe/Berlin", "2096-03-01T00:00:00Z", &["2104-02-28T23:00:00.000Z"]);
    runs(
        "0 0 L * *",
        "UTC",
        "2028-01-31T00:00:00Z",
        &["2028-02-29T00:00:00.000Z", "2028-03-31T00:00:00.000Z"],
    );
}

#[test]
fn the_rarest_day_is_found() {
    // A leap day that is a Monday.
    runs(
        "0 0 29 2 +1",
        "UTC",
        "2024-03-01T00:00:00Z",
        &["2044-02-29T00:00:00.000Z", "2072-02-29T00:00:00.000Z", "2112-02-29T00:00:00.000Z"],
    );
    assert_eq!(check("0 0 29 2 +1", Some("Europe/Berlin")), Ok(()));
}

#[test]
fn a_sixth_field_in_front_is_seconds() {
    runs(
        "*/20 * * * * *",
        "UTC",
        "2026-06-01T00:00:19.999Z",
        &["2026-06-01T00:00:20.000Z", "2026-06-01T00:00:40.000Z", "2026-06-01T00:01:00.000Z"],
    );
    runs("5 30 2 * * *", "UTC", "2026-06-01T02:30:05Z", &["2026-06-02T02:30:05.000Z"]);
}

#[test]
fn a_restricted_day_of_the_month_or_of_the_week_is_enough() {
    runs(
        "0 0 13 * 5",
        "UTC",
        "2026-06-10T00:00:00Z",
        &["2026-06-12T00:00:00.000Z", "2026-06-13T00:00:00.000Z", "2026-06-19T00:00:00.000Z"],
    );
}

#[test]
fn missed_runs_fold_into_the_latest() {
    let due = at("2026-06-01T00:05:00Z");
    let late = next("*/5 * * * *", None, due, at("2026-06-03T10:12:00.500Z"));
    assert_eq!(late, Some(at("2026-06-03T10:10:00Z")));
    let on_the_dot = next("*/5 * * * *", None, due, at("2026-06-01T00:15:00Z"));
    assert_eq!(on_the_dot, Some(at("2026-06-01T00:15:00Z")));
    let in_time = next("*/5 * * * *", None, due, at("2026-06-01T00:06:00Z"));
    assert_eq!(in_time, Some(at("2026-06-01T00:10:00Z")));
}

#[test]
fn a_clock_put_back_repeats_no_run() {
    let due = at("2026-06-01T00:05:00Z");
    let run = next("*/5 * * * *", None, due, at("2026-05-31T23:00:00Z"));
    assert_eq!(run, Some(at("2026-06-01T00:10:00Z")));
}

#[test]
fn looking_back_finds_what_looking_ahead_found() {
    let calendars = [
        "30 2 * * *",
        "0 2,3 * * *",
        "*/20 * * * *",
        "*/30 2 * * *",
        "0 0,12 * * *",
        "15,45 1-2 * * 0",
        "7 7 7 * * *",
    ];
    let zones =
        ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia"];
    // Around changes of these zones' clocks.
    let begins = [
        "2026-03-06T00:00:00Z",
        "2026-03-27T00:00:00Z",
        "2026-10-24T00:00:00Z",
        "2026-10-31T00:00:00Z",
        "2011-12-29T00:00:00Z",
    ];
    for (expression, zone) in calendars.iter().flat_map(|expression| zones.map(|zone| (*expression, zone))) {
        let calendar = ZonedCron::read(expression, Some(zone)).expect("a calendar");
        for begin in begins.map(|begin| super::seconds(at(begin))) {
            let mut last = calendar.first_after(begin).expect("there is a first one");
            while last < begin + 4 * 86_400 {
                let coming = calendar.first_after(last).expect("there is a next one");
                for looked_from in [last, last + 1, coming - 1] {
                    let found = calendar.last_until(looked_from);
                    assert_eq!(found, Some(last), "{expression} in {zone}, back from {looked_from}");
                }
                last = coming;
            }
        }
    }
}

#[test]
fn a_time_that_never_comes_is_refused() {
    for expression in ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "* * * 31 6 *", "0 0 8 * +1#1"] {
        for zone in [None, Some("Europe/Berlin")] {
            let why = check(expression, zone).expect_err(expression);
            assert!(why.contains(expression) && why.contains("never comes"), "{why}");
        }
    }
    // Always inside the hour that is left out in spring.
    assert!(check("*/5 2 * 3 0L", Some("Europe/Berlin")).is_err());
    assert_eq!(check("*/5 2 * 3 0L", None), Ok(()));
}

#[test]
fn what_is_not_a_calendar_is_refused_with_what_would_be() {
    let wrong = [
        "",
        "now",
        "* * * *",
        "* * * * * * *",
        "61 * * * *",
        "0 24 * * *",
        "0 0 0 * *",
        "0 0 * 13 *",
        "0 0 * * 8",
        "@reboot",
        "*/0 * * * *",
        "5-1 * * * *",
        "0 0 ünf * *",
    ];
    for expression in wrong {
        let why = check(expression, None).expect_err(expression);
        assert!(why.contains("\"30 2 * * 1-5\""), "{expression}: {why}");
    }
    assert!(check(&"1,".repeat(200), None).expect_err("long").contains("256 bytes"));
}

#[test]
fn a_zone_that_does_not_exist_is_refused_by_name() {
    let why = check("0 0 * * *", Some("Mars/Olympus")).expect_err("no such zone");
    assert!(why.contains("Mars/Olympus") && why.contains("Europe/Berlin"), "{why}");
    for zone in ["UTC", "europe/berlin", "America/Argentina/Buenos_Aires"] {
        assert_eq!(check("0 0 * * *", Some(zone)), Ok(()));
    }
}
