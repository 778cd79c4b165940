//! A job as lmstfy's clients know it: its id, and its JSON with the members in alphabetical order.

use base::Timestamp;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use engine::queues::{Attributes, Consumed, DeadView, JobPayload, JobView, id_from_text, id_text};
use engine::records::JobId;
use serde_json::to_writer;

/// An id has so many characters.
const ID_CHARS: usize = 26;

/// A job's id; `None` for what was never one.
///
/// The real server puts a digit in front of the id of a job with attributes; a client may have kept
/// one.
pub(crate) fn id(text: &str) -> Option<JobId> {
    let versioned = text.len() == ID_CHARS + 1 && text.starts_with(|first: char| first.is_ascii_digit());
    id_from_text(if versioned { &text[1..] } else { text })
}

/// What is shown of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown<'a> {
    id: JobId,
    payload: &'a JobPayload,
    attributes: &'a [Attribute],
    published_at: Timestamp,
    expires_at: Option<Timestamp>,
    tries_left: u32,
}

type Attribute = <Attributes as IntoIterator>::Item;

impl<'a> Shown<'a> {
    pub(crate) fn consumed(job: &'a Consumed) -> Self {
        Self {
            id: job.id,
            payload: &job.payload,
            attributes: &job.attributes,
            published_at: job.published_at,
            expires_at: job.expires_at,
            tries_left: job.tries.saturating_sub(job.attempt),
        }
    }

    /// A job that was looked at in its queue.
    pub(crate) fn at_the_head(job: &'a JobView) -> Self {
        Self { tries_left: job.tries.saturating_sub(job.attempt), ..Self::found(job) }
    }

    /// A job that was looked up by its id: the real server does not know there how many tries it
    /// has left.
    pub(crate) fn found(job: &'a JobView) -> Self {
        Self {
            id: job.id,
            payload: &job.payload,
            attributes: &job.attributes,
            published_at: job.published_at,
            expires_at: job.expires_at,
            tries_left: 0,
        }
    }

    /// A dead job, which does not expire any more.
    pub(crate) fn dead(job: &'a DeadView) -> Self {
        Self {
            id: job.dead.id,
            payload: &job.payload,
            attributes: &job.attributes,
            published_at: published_at(job.dead.id),
            expires_at: None,
            tries_left: 0,
        }
    }

    /// Writes it, with `msg` if there is one. Names are plain characters.
    pub(crate) fn write(
        &self,
        out: &mut Vec<u8>,
        namespace: &str,
        queue: &str,
        msg: Option<&str>,
        now: Timestamp,
    ) {
        out.extend_from_slice(b"{\"attributes\":");
        self.write_attributes(out);
        out.extend_from_slice(b",\"data\":\"");
        write_base64(out, self.payload);
        out.extend_from_slice(b"\",\"elapsed_ms\":");
        write_number(out, (now.0 - self.published_at.0).max(0).cast_unsigned());
        out.extend_from_slice(b",\"job_id\":\"");
        out.extend_from_slice(id_text(self.id).as_bytes());
        if let Some(msg) = msg {
            out.extend_from_slice(b"\",\"msg\":\"");
            out.extend_from_slice(msg.as_bytes());
        }
        out.extend_from_slice(b"\",\"namespace\":\"");
        out.extend_from_slice(namespace.as_bytes());
        out.extend_from_slice(b"\",\"queue\":\"");
        out.extend_from_slice(queue.as_bytes());
        out.extend_from_slice(b"\",\"remain_tries\":");
        write_number(out, self.tries_left.into());
        out.extend_from_slice(b",\"ttl\":");
        write_number(out, self.expires_at.map_or(0, |expires_at| seconds_left(expires_at, now)));
        out.push(b'}');
    }

    fn write_attributes(&self, out: &mut Vec<u8>) {
        if self.attributes.is_empty() {
            out.extend_from_slice(b"null");
            return;
        }
        for (place, (key, value)) in self.attributes.iter().enumerate() {
            out.push(if place == 0 { b'{' } else { b',' });
            to_writer(&mut *out, key.as_str()).expect("a Vec takes every write");
            out.push(b':');
            to_writer(&mut *out, value.as_str()).expect("a Vec takes every write");
        }
        out.push(b'}');
    }
}

/// When a job was published, which its id says.
fn published_at(id: JobId) -> Timestamp {
    Timestamp(id.0[..6].iter().fold(0, |time, byte| time << 8 | i64::from(*byte)))
}

/// To the nearest second, as the real server says it, but never 0 for what does expire.
fn seconds_left(expires_at: Timestamp, now: Timestamp) -> u64 {
    let left = (expires_at.0 - now.0).max(0).cast_unsigned();
    ((left + 500) / 1_000).max(1)
}

fn write_base64(out: &mut Vec<u8>, payload: &JobPayload) {
    let bytes = match payload {
        JobPayload::Json(text) => text.as_bytes(),
        JobPayload::Bytes(bytes) => bytes,
    };
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = BASE64_STANDARD.encode_slice(bytes, &mut out[start..]);
    debug_assert_eq!(written.ok(), Some(out.len() - start), "three bytes are four characters");
}

fn write_number(out: &mut Vec<u8>, number: u64) {
    to_writer(out, &number).expect("a Vec takes every write");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn an_id_may_have_a_digit_in_front() {
        let id_of = |text: &str| id(text).map(id_text);
        let text = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
        assert_eq!(id_of(text).as_deref(), Some(text));
        assert_eq!(id_of(&format!("1{text}")).as_deref(), Some(text));
        for wrong in ["", "x", &format!("x{text}"), &format!("11{text}"), "\u{20ac}1ARZ3NDEKTSV4RRFFQ69G5"] {
            assert_eq!(id(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn members_are_those_of_the_real_server_in_its_order() {
        let payload = JobPayload::Bytes(Arc::from(*b"hello"));
        let attributes = [("a".into(), "\"1\"".into()), ("b".into(), "2".into())];
        let shown = Shown {
            id: JobId([0, 0, 0, 0, 3, 232, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            payload: &payload,
            attributes: &attributes,
            published_at: Timestamp(1_000),
            expires_at: Some(Timestamp(11_000)),
            tries_left: 2,
        };
        let mut text = Vec::new();
        shown.write(&mut text, "n", "q", Some("new job"), Timestamp(1_700));
        let expect = r#"{"attributes":{"a":"\"1\"","b":"2"},"data":"aGVsbG8=","elapsed_ms":700,"job_id":"00000000Z80000000000000000","msg":"new job","namespace":"n","queue":"q","remain_tries":2,"ttl":9}"#;
        assert_eq!(String::from_utf8_lossy(&text), expect);
        text.clear();
        let json = JobPayload::Json(Arc::from("{}"));
        let dead = Shown { payload: &json, attributes: &[], expires_at: None, tries_left: 0, ..shown };
        dead.write(&mut text, "n", "q", None, Timestamp(1_000));
        let expect = r#"{"attributes":null,"data":"e30=","elapsed_ms":0,"job_id":"00000000Z80000000000000000","namespace":"n","queue":"q","remain_tries":0,"ttl":0}"#;
        assert_eq!(String::from_utf8_lossy(&text), expect);
    }

    #[test]
    fn a_ttl_is_told_to_the_nearest_second_and_is_not_zero() {
        for (left, expect) in [(10_000, 10), (9_501, 10), (9_499, 9), (400, 1), (0, 1), (-5, 1)] {
            assert_eq!(seconds_left(Timestamp(1_000 + left), Timestamp(1_000)), expect, "{left}");
        }
    }
}
