//! How much patience a receiver asks for: `Retry-After`, in seconds or as a date.

use std::time::{Duration, SystemTime};

use base::Timestamp;
use hyper::StatusCode;
use hyper::header::{HeaderMap, RETRY_AFTER};

/// The patience asked for by an answer that may ask for it: 429 and 503. `now` is the wall clock. A date gone by asks for none.
pub(crate) fn retry_after(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    if !matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        return None;
    }
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit ask for more than anyone will wait.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Timestamp(base::time::millis(date)).since(now))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn check(status: StatusCode, text: &str, expect: Option<Duration>) {
        let now = Timestamp::parse("2026-11-21T01:02:03.500Z").expect("a time");
        let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_str(text).expect("a value"))]);
        assert_eq!(retry_after(status, &headers, now), expect, "{status} {text}");
    }

    #[test]
    fn seconds_and_dates_are_understood() {
        for status in [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE] {
            check(status, "0", Some(Duration::ZERO));
            check(status, " 120 ", Some(Duration::from_secs(120)));
            check(status, "99999999999999999999999", Some(Duration::from_secs(u64::MAX)));
            check(status, "Sat, 21 Nov 2026 01:02:13 GMT", Some(Duration::from_millis(9_500)));
            check(status, "Saturday, 21-Nov-26 01:02:13 GMT", Some(Duration::from_millis(9_500)));
            check(status, "Sat Nov 21 01:02:13 2026", Some(Duration::from_millis(9_500)));
            check(status, "Fri, 20 Nov 2026 01:02:13 GMT", Some(Duration::ZERO));
        }
    }

    #[test]
    fn anything_else_asks_for_nothing() {
        for text in ["", "soon", "-1", "1.5", "+1", "Sat, 21 Nov"] {
            check(StatusCode::SERVICE_UNAVAILABLE, text, None);
        }
        for status in [StatusCode::OK, StatusCode::GONE, StatusCode::INTERNAL_SERVER_ERROR, StatusCode::FOUND]
        {
            check(status, "120", None);
        }
    }
}
