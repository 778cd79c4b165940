//! The calls that forward records: which go together, and what makes each take effect once. Pure.
//!
//! - A report gets an `id`; the server knows the last 8 ids of a device, so a call has no more of
//!   one device.
//! - A message gets `source` and `external_id`.
//! - Jobs have neither: their call has an `Idempotency-Key`, and is made again with the very same
//!   jobs. The spool is its `Idempotency-Source`, so that the newest call is known for long. With
//!   fewer jobs it would be another call: what is given up of one is given up as a whole.
//!
//! What the caller gave stays, but that the time in the spool counts for `delay` and `ttl`.

use std::borrow::Cow;
use std::collections::HashMap;

use base::Timestamp;
use base::limits::REPORT_IDS_KEPT;
use fieldpost_client::{Method, Path, Request};
use serde_json::value::RawValue;

use crate::destination::DestinationKind;
use crate::items::KnownFields;
use crate::log::StoredRecord;
use crate::record::SpoolRecord;
use crate::state::CallInFlight;

mod job_times;

/// A clock that says an earlier time was never set: such a time is not sent.
const CLOCK_RIGHT_FROM: Timestamp = Timestamp(1_735_689_600_000);

/// How many of these records the next call takes; they are in order and of one destination.
/// `in_flight_end` is the last one of a call whose outcome is not known. Records up to
/// `alone_until` go one by one, because a call with several of them was refused.
pub(crate) fn count_of_next_call(
    kind: DestinationKind,
    records: &[StoredRecord],
    in_flight_end: Option<u64>,
    alone_until: u64,
) -> usize {
    let Some(first) = records.first().map(|stored| &stored.record) else { return 0 };
    if first.entry.key.is_some() || first.number <= alone_until {
        return 1;
    }
    if kind == DestinationKind::Reports {
        let mut of_device = HashMap::new();
        let fits = |stored: &&StoredRecord| {
            let count = of_device.entry(device_of(&stored.record)).or_insert(0);
            *count += 1;
            *count <= REPORT_IDS_KEPT
        };
        return records.iter().take_while(fits).count();
    }
    let end = in_flight_end.filter(|end| *end >= first.number).unwrap_or(u64::MAX);
    let together = |stored: &&StoredRecord| {
        stored.record.entry.key.is_none()
            && stored.record.number <= end
            && stored.record.identity == first.identity
    };
    records.iter().take_while(together).count()
}

/// How many of these records belong to the call whose outcome is not known.
pub(crate) fn count_of_call(records: &[StoredRecord], in_flight: Option<CallInFlight>) -> usize {
    let end = in_flight.map_or(0, |call| call.end);
    records.iter().take_while(|stored| stored.record.number <= end).count()
}

/// How many of these records are left of a call whose outcome is not known and that has lost some;
/// 0 where it is whole.
pub(crate) fn count_of_broken_call(records: &[StoredRecord], in_flight: Option<CallInFlight>) -> usize {
    let count = count_of_call(records, in_flight);
    let is_broken = |call: CallInFlight| call.records != 0 && call.records as usize != count;
    if in_flight.is_some_and(is_broken) { count } else { 0 }
}

/// How many of these records are given up because of their age. A call whose outcome is not known
/// is made again until all of its records are old.
pub(crate) fn count_of_old(
    records: &[StoredRecord],
    in_flight: Option<CallInFlight>,
    is_old: impl Fn(&SpoolRecord) -> bool,
) -> usize {
    let old = records.iter().take_while(|stored| is_old(&stored.record)).count();
    if old < count_of_call(records, in_flight) { 0 } else { old }
}

/// Whom a report is from, as far as that can be read.
fn device_of(record: &SpoolRecord) -> Option<String> {
    let fields = KnownFields::of(&record.entry.body)?;
    serde_json::from_str(fields.device_id.or(fields.sensor_id)?.get()).ok()
}

/// What the time does to a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallTimes {
    /// What has no time gets that of its receipt; else that is the server's.
    pub(crate) stamped: bool,
    /// When the call was first made. A repeat is the very same only if it has the same.
    pub(crate) begun: Timestamp,
}

/// The call that forwards these records.
pub(crate) fn call(kind: DestinationKind, records: &[StoredRecord], times: CallTimes) -> Option<Request> {
    let first = &records.first()?.record;
    let path = match (kind, first.entry.destination.names()) {
        (DestinationKind::Queue, Some((ns, queue))) => Path::of(&["queues", ns, queue, "jobs"]),
        (DestinationKind::Stream, Some((ns, stream))) => Path::of(&["streams", ns, stream, "messages"]),
        _ => Path::of(&["reports"]),
    };
    let mut request = Request::new(Method::POST, path);
    if kind == DestinationKind::Queue {
        request = request.idempotency_source(&source_of(first)).ok()?;
    }
    if let Some(key) = &first.entry.key {
        return request.json(first.entry.body.clone()).idempotency_key(key).ok();
    }
    let bodies = records.iter().map(|stored| forwarded(kind, &stored.record, times));
    if kind == DestinationKind::Reports {
        let mut lines = Vec::new();
        for body in bodies {
            // The server counts no blank line: with this one it refuses the report.
            lines.extend_from_slice(if body.trim_ascii().is_empty() { b"null" } else { &body });
            lines.push(b'\n');
        }
        return Some(request.json_lines(lines));
    }
    let name = if kind == DestinationKind::Queue { "jobs" } else { "messages" };
    let mut document = format!("{{\"{name}\":[").into_bytes();
    for (place, body) in bodies.enumerate() {
        if place > 0 {
            document.push(b',');
        }
        document.extend_from_slice(&body);
    }
    document.extend_from_slice(b"]}");
    let request = request.json(document);
    if kind == DestinationKind::Queue {
        let last = records.last().map_or(0, |stored| stored.record.number);
        let key = format!("{}-{}-{last}", source_of(first), first.number);
        return request.idempotency_key(&key).ok();
    }
    Some(request)
}

/// What a spool calls itself.
pub(crate) fn name_of(identity: u64) -> String {
    format!("spool-{identity:016x}")
}

/// What the spool that gave the number of a record calls itself.
fn source_of(record: &SpoolRecord) -> String {
    name_of(record.identity)
}

/// Whether a message is forwarded with a source and an external id of the spool's.
pub(crate) fn gets_source(record: &SpoolRecord) -> bool {
    record.entry.key.is_none()
        && KnownFields::of(&record.entry.body).is_some_and(|fields| lacks_source(&fields))
}

/// Whether a message has neither a source nor an external id.
fn lacks_source(fields: &KnownFields<'_>) -> bool {
    fields.source.is_none() && fields.external_id.is_none()
}

/// A body with what makes it take effect once, and with its time of receipt, where it has none.
fn forwarded(kind: DestinationKind, record: &SpoolRecord, times: CallTimes) -> Cow<'_, [u8]> {
    let body: &[u8] = &record.entry.body;
    if kind == DestinationKind::Queue {
        return job_times::without_time_waited(record, times.begun);
    }
    let Some(fields) = KnownFields::of(body) else {
        // In a list of messages, text that is no JSON could be several of them, or end the list.
        // In place of it the server refuses this one.
        let stays = kind == DestinationKind::Reports || is_json(body);
        return Cow::Borrowed(if stays { body } else { &b"null"[..] });
    };
    let mut added = String::new();
    let (identity, number) = (record.identity, record.number);
    if kind == DestinationKind::Reports && fields.id.is_none() {
        added.push_str(&format!("\"id\":\"{identity:016x}-{number}\","));
    }
    if kind == DestinationKind::Stream && lacks_source(&fields) {
        added.push_str(&format!("\"source\":\"{}\",\"external_id\":{number},", source_of(record)));
    }
    if times.stamped && fields.ts.is_none() && record.received >= CLOCK_RIGHT_FROM {
        added.push_str(&format!("\"ts\":\"{}\",", record.received));
    }
    with_members(body, &added)
}

/// Whether it is one value, and nothing besides.
fn is_json(body: &[u8]) -> bool {
    serde_json::from_slice::<&RawValue>(body).is_ok()
}

/// The object with these members, each with a comma behind it, in front of its own. It has none of
/// them, or null.
fn with_members<'a>(object: &'a [u8], members: &str) -> Cow<'a, [u8]> {
    let Some(inner) = object.trim_ascii_start().strip_prefix(b"{") else { return Cow::Borrowed(object) };
    if members.is_empty() {
        return Cow::Borrowed(object);
    }
    if let Some(others) = without_nulls(object, members) {
        let members = if others.is_empty() { members.trim_end_matches(',') } else { members };
        return Cow::Owned(format!("{{{members}{others}}}").into_bytes());
    }
    let is_empty = inner.trim_ascii_start().first() == Some(&b'}');
    let members = if is_empty { members.trim_end_matches(',') } else { members };
    Cow::Owned([b"{", members.as_bytes(), inner].concat())
}

/// What else the object has, where one of these members is null in it.
fn without_nulls(object: &[u8], members: &str) -> Option<String> {
    // Few have one, and only they are taken apart.
    object.windows(4).any(|word| word == b"null").then_some(())?;
    let own = job_times::members_of(object)?;
    let is_replaced =
        |(name, value): &(String, Cow<'_, str>)| value == "null" && members.contains(&format!("\"{name}\":"));
    own.iter().any(is_replaced).then(|| {
        let others = own.iter().filter(|member| !is_replaced(member));
        let texts: Vec<String> = others
            .map(|(name, value)| format!("{}:{value}", serde_json::Value::from(name.as_str())))
            .collect();
        texts.join(",")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destination::Destination;
    use crate::log::ReadPlace;
    use crate::record::SpoolEntry;

    fn stored(number: u64, destination: &Destination, body: &str, key: Option<&str>) -> StoredRecord {
        let entry = SpoolEntry {
            destination: destination.clone(),
            items: 1,
            key: key.map(Into::into),
            follow: None,
            body: body.to_owned().into(),
        };
        let record = SpoolRecord { identity: 0xab, number, received: Timestamp(1_800_000_000_000), entry };
        StoredRecord { record, bytes: 1, next: ReadPlace::START }
    }

    fn shown(kind: DestinationKind, body: &str, stamped: bool) -> String {
        let stored = stored(7, &Destination::reports(), body, None);
        let times = CallTimes { stamped, begun: Timestamp(1_800_000_000_000) };
        String::from_utf8_lossy(&forwarded(kind, &stored.record, times)).into_owned()
    }

    #[test]
    fn what_makes_it_take_effect_once_is_added_where_it_is_not_there() {
        let reports = DestinationKind::Reports;
        let (id, ts) = (r#""id":"00000000000000ab-7""#, r#""ts":"2027-01-15T08:00:00.000Z""#);
        assert_eq!(shown(reports, r#"{"data":1}"#, true), format!(r#"{{{id},{ts},"data":1}}"#));
        assert_eq!(shown(reports, r#"{"data":1}"#, false), format!(r#"{{{id},"data":1}}"#));
        assert_eq!(shown(reports, " { }", false), format!("{{{id} }}"));
        let own = r#"{"id":"x","ts":"2027-01-01T00:00:00Z"}"#;
        assert_eq!(shown(reports, own, true), own);
        assert_eq!(shown(reports, "nonsense", true), "nonsense");
        let nulls = r#"{"id":null, "data":null, "ts":null}"#;
        assert_eq!(shown(reports, nulls, true), format!(r#"{{{id},{ts},"data":null}}"#));
        assert_eq!(shown(reports, r#"{"ts":null,"id":"x"}"#, true), format!(r#"{{{ts},"id":"x"}}"#));
        assert_eq!(shown(reports, r#"{"id":null}"#, false), format!("{{{id}}}"));
        let source = r#""source":"spool-00000000000000ab","external_id":7"#;
        assert_eq!(
            shown(DestinationKind::Stream, r#"{"payload":1}"#, true),
            format!(r#"{{{source},{ts},"payload":1}}"#)
        );
        let own = r#"{"payload":1,"source":"s","external_id":"e"}"#;
        assert_eq!(shown(DestinationKind::Stream, own, false), own);
        assert_eq!(shown(DestinationKind::Queue, r#"{"payload":1}"#, true), r#"{"payload":1}"#);
    }

    #[test]
    fn a_message_gets_a_source_only_if_it_has_none_and_stands_alone() {
        let stream = Destination::stream("ns", "s").expect("right names");
        for (body, key, expect) in [
            (r#"{"payload":1}"#, None, true),
            (r#"{"payload":1,"source":null}"#, None, true),
            (r#"{"payload":1,"source":"s","external_id":1}"#, None, false),
            (r#"{"payload":1}"#, Some("k"), false),
            ("nonsense", None, false),
        ] {
            assert_eq!(gets_source(&stored(1, &stream, body, key).record), expect, "{body} {key:?}");
        }
    }

    #[test]
    fn a_call_has_no_more_reports_of_a_device_than_the_server_knows_ids() {
        let to = Destination::reports();
        let report = |number: u64| {
            let name = if number.is_multiple_of(3) { "sensor_id" } else { "device_id" };
            stored(number, &to, &format!(r#"{{"{name}":"d{}","data":1}}"#, number % 2), None)
        };
        let records: Vec<_> = (1..=40).map(report).collect();
        assert_eq!(count_of_next_call(DestinationKind::Reports, &records, None, 0), 16);
        let others: Vec<_> = (1..=40)
            .map(|number| stored(number, &to, &format!(r#"{{"device_id":"d{number}"}}"#), None))
            .collect();
        assert_eq!(count_of_next_call(DestinationKind::Reports, &others, None, 0), 40);
        assert_eq!(count_of_next_call(DestinationKind::Reports, &others, None, 7), 1);
    }

    #[test]
    fn a_report_of_nothing_is_one_that_the_server_refuses() {
        let records = [stored(1, &Destination::reports(), "", None)];
        let times = CallTimes { stamped: true, begun: Timestamp(0) };
        let request = call(DestinationKind::Reports, &records, times).expect("a call");
        assert!(format!("{request:?}").contains(r#"b"null\n""#), "{request:?}");
    }

    #[test]
    fn a_line_that_is_no_json_is_one_message_that_the_server_refuses() {
        let stream = Destination::stream("ns", "s").expect("right names");
        for body in [
            r#"{"payload":1},{"payload":2}"#,
            r#"{"payload":1}],"expect_last_id":"0","messages":[{"payload":2}"#,
            "1,2",
            "nonsense",
            "",
        ] {
            assert_eq!(shown(DestinationKind::Stream, body, true), "null", "{body}");
            let times = CallTimes { stamped: true, begun: Timestamp(0) };
            let request = call(DestinationKind::Stream, &[stored(7, &stream, body, None)], times);
            let request = format!("{:?}", request.expect("a call"));
            assert!(request.contains(r#"b"{\"messages\":[null]}""#), "{request}");
        }
        for other in ["[1]", "1", "\"text\"", r#"{"ts":1,"ts":2}"#] {
            assert_eq!(shown(DestinationKind::Stream, other, true), other, "the server says what is wrong");
        }
    }

    #[test]
    fn age_cuts_no_call_whose_outcome_is_not_known() {
        let to = Destination::queue("ns", "q").expect("right names");
        let records: Vec<_> = (3..=9).map(|number| stored(number, &to, "{}", None)).collect();
        let call = |end| Some(CallInFlight { end, begun: Timestamp(0), records: 0 });
        for (in_flight, old_until, expect) in
            [(None, 2, 0), (None, 5, 3), (call(6), 5, 0), (call(6), 6, 4), (call(6), 8, 6), (call(2), 5, 3)]
        {
            let old = count_of_old(&records, in_flight, |record| record.number <= old_until);
            assert_eq!(old, expect, "{in_flight:?} {old_until}");
        }
    }

    #[test]
    fn a_call_that_has_lost_some_of_its_records_is_broken() {
        let to = Destination::queue("ns", "q").expect("right names");
        let records: Vec<_> = (3..=9).map(|number| stored(number, &to, "{}", None)).collect();
        for (end, count, expect) in [(6, 4, 0), (6, 5, 4), (6, 0, 0), (2, 2, 0), (9, u32::MAX, 7)] {
            let call = CallInFlight { end, begun: Timestamp(0), records: count };
            assert_eq!(count_of_broken_call(&records, Some(call)), expect, "{end} {count}");
        }
        assert_eq!(count_of_broken_call(&records, None), 0);
    }

    #[test]
    fn a_call_of_jobs_is_made_again_with_the_same_jobs() {
        let to = Destination::queue("ns", "q").expect("right names");
        let mut records: Vec<_> = (1..=9).map(|number| stored(number, &to, "{}", None)).collect();
        let count = |records: &[StoredRecord], end, alone| {
            count_of_next_call(DestinationKind::Queue, records, end, alone)
        };
        assert_eq!(count(&records, None, 0), 9);
        assert_eq!(count(&records, Some(4), 0), 4);
        assert_eq!(count(&records[4..], Some(4), 0), 5, "that call is done");
        assert_eq!(count(&records, None, 3), 1);
        assert_eq!(count(&records[3..], None, 3), 6);
        records[2] = stored(3, &to, "{}", Some("own"));
        assert_eq!((count(&records, None, 0), count(&records[2..], None, 0)), (2, 1));
        assert_eq!(count(&[], None, 0), 0);
    }
}
