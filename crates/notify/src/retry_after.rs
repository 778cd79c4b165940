//! How much patience a receiver asks for: `Retry-After`, in seconds or as a date.

use std::time::{Duration, SystemTime};

use base::Timestamp;

/// The patience that `text` asks for. `now` is the wall clock. A date gone by asks for none.
pub(crate) fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit ask for more than anyone will wait.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Timestamp(base::time::millis(date)).since(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<Duration>) {
        let now = Timestamp::parse("2026-11-21T01:02:03.500Z").expect("a time");
        assert_eq!(retry_after(text, now), expect, "{text}");
    }

    #[test]
    fn seconds_and_dates_are_understood() {
        check("0", Some(Duration::ZERO));
        check(" 120 ", Some(Duration::from_secs(120)));
        check("99999999999999999999999", Some(Duration::from_secs(u64::MAX)));
        check("Sat, 21 Nov 2026 01:02:13 GMT", Some(Duration::from_millis(9_500)));
        check("Saturday, 21-Nov-26 01:02:13 GMT", Some(Duration::from_millis(9_500)));
        check("Sat Nov 21 01:02:13 2026", Some(Duration::from_millis(9_500)));
        check("Fri, 20 Nov 2026 01:02:13 GMT", Some(Duration::ZERO));
    }

    #[test]
    fn anything_else_asks_for_nothing() {
        for text in ["", "soon", "-1", "1.5", "+1", "Sat, 21 Nov"] {
            check(text, None);
        }
    }
}
