//! `delay` and `ttl` of a job count from when it was accepted: the time that it waited in the spool
//! is taken off. Pure.
//!
//! What waited is told by the spool's clock alone, so that the server's may be another one. A
//! repeat takes off as much as the first call did: it has to be the very same.

use std::borrow::Cow;
use std::time::Duration;

use base::{Timestamp, duration};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::CLOCK_RIGHT_FROM;
use crate::record::SpoolRecord;

/// What a job gets that has nothing left of its time to live. It is gone at once, as it would be if
/// it had waited at the server.
const TTL_LEAST: Duration = Duration::from_millis(1);

/// The times of a job, and what tells how its `ttl` counts.
#[derive(Deserialize)]
struct JobTimes<'a> {
    #[serde(borrow, default)]
    delay: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    ttl: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    every: Option<&'a RawValue>,
    #[serde(borrow, default)]
    cron: Option<&'a RawValue>,
}

/// The job as it is forwarded by a call that was first made at `begun`. What the server would
/// refuse stays as it is.
pub(super) fn without_time_waited(record: &SpoolRecord, begun: Timestamp) -> Cow<'_, [u8]> {
    let body = &record.entry.body;
    shifted(body, waited(record.received, begun)).map_or(Cow::Borrowed(body), Cow::Owned)
}

/// A clock that was never set tells nothing, and one that was set back as little.
fn waited(received: Timestamp, begun: Timestamp) -> Duration {
    if received >= CLOCK_RIGHT_FROM { begun.since(received) } else { Duration::ZERO }
}

/// `None` where nothing is to be changed.
fn shifted(body: &[u8], waited: Duration) -> Option<Vec<u8>> {
    if waited.is_zero() || body.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    let times: JobTimes<'_> = serde_json::from_slice(body).ok()?;
    let read = |text: Option<Cow<'_, str>>| text.and_then(|text| duration::parse(&text).ok());
    let delay = read(times.delay).filter(|delay| !delay.is_zero());
    // That of a recurring job counts from when each run is due.
    let recurs = times.every.or(times.cron).is_some();
    let ttl = read(times.ttl).filter(|ttl| !recurs && !ttl.is_zero());
    if delay.is_none() && ttl.is_none() {
        return None;
    }
    let mut members = members_of(body)?;
    let mut set = |name: &str, left: Option<Duration>| {
        let Some(left) = left else { return };
        let text = Value::from(duration::format(left)).to_string();
        for (_, value) in members.iter_mut().filter(|(member, _)| member == name) {
            *value = Cow::Owned(text.clone());
        }
    };
    set("delay", delay.map(|delay| delay.saturating_sub(waited)));
    set("ttl", ttl.map(|ttl| ttl.saturating_sub(waited).max(TTL_LEAST)));
    let written: Vec<_> =
        members.iter().map(|(name, value)| format!("{}:{value}", Value::from(&**name))).collect();
    Some(format!("{{{}}}", written.join(",")).into_bytes())
}

/// The members of an object in their order, the value of each as it was written.
pub(super) fn members_of(body: &[u8]) -> Option<Vec<(String, Cow<'_, str>)>> {
    struct Members<'a>(Vec<(String, Cow<'a, str>)>);

    impl<'de> Deserialize<'de> for Members<'de> {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_map(MembersVisitor)
        }
    }

    struct MembersVisitor;

    impl<'de> serde::de::Visitor<'de> for MembersVisitor {
        type Value = Members<'de>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = Vec::new();
            while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                members.push((name, Cow::Borrowed(value.get())));
            }
            Ok(Members(members))
        }
    }

    serde_json::from_slice::<Members<'_>>(body).ok().map(|members| members.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, waited: &str, expect: &str) {
        let waited = duration::parse(waited).expect("a duration");
        let shifted = shifted(body.as_bytes(), waited);
        let shown = shifted.map_or_else(|| body.to_owned(), |body| String::from_utf8(body).expect("text"));
        assert_eq!(shown, expect, "{body} after {waited:?}");
    }

    #[test]
    fn the_time_in_the_spool_is_taken_off() {
        let job = r#"{ "payload": {"a": 1.0, "delay": "9m"}, "delay":"10m", "ttl":"1h"}"#;
        check(job, "0s", job);
        check(job, "4m", r#"{"payload":{"a": 1.0, "delay": "9m"},"delay":"6m","ttl":"56m"}"#);
        check(job, "30m", r#"{"payload":{"a": 1.0, "delay": "9m"},"delay":"0s","ttl":"30m"}"#);
        check(job, "2h", r#"{"payload":{"a": 1.0, "delay": "9m"},"delay":"0s","ttl":"1ms"}"#);
        check(r#"{"d\u0065lay":"1m"}"#, "1s", r#"{"delay":"59s"}"#);
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        for job in [
            r#"{"payload":1}"#,
            r#"{"payload":{"delay":"1h"},"run_at":"2026-11-21T01:02:03Z"}"#,
            r#"{"payload":1,"delay":null,"ttl":null}"#,
            r#"{"payload":1,"delay":5}"#,
            r#"{"payload":1,"delay":"soon"}"#,
            r#"{"payload":1,"ttl":"1h","every":"1m"}"#,
            r#"{"payload":1,"delay":"1h","delay":"2h"}"#,
            "nonsense",
            "[1]",
        ] {
            check(job, "1m", job);
        }
        check(
            r#"{"ttl":"1h","delay":"2m","cron":"0 8 * * *"}"#,
            "1m",
            r#"{"ttl":"1h","delay":"1m","cron":"0 8 * * *"}"#,
        );
    }

    #[test]
    fn a_clock_that_is_wrong_takes_nothing_off() {
        let right = Timestamp(1_800_000_000_000);
        for (received, begun, expect) in [
            (right, right.after(Duration::from_secs(5)), 5),
            (right, right.before(Duration::from_secs(5)), 0),
            (right, Timestamp(0), 0),
            (Timestamp(5_000), right, 0),
        ] {
            assert_eq!(waited(received, begun), Duration::from_secs(expect), "{received} {begun}");
        }
    }
}
