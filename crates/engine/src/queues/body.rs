//! The stored form of what a job carries: bytes to everyone else.
//!
//! Version 1, in this order:
//! - The version.
//! - A byte that says what is there.
//! - The alias, the group, the cron expression and its zone, each a length and its text.
//! - The time to live in milliseconds.
//! - The attributes: a count, and then names and values.
//! - The payload, to the end.
//!
//! To change it, give it the next version and read this one as long as a data directory may hold
//! it.

use std::sync::Arc;
use std::time::Duration;

use base::Problem;
use compact_str::CompactString;

use super::{Attributes, JobPayload, NewJob, RecurrenceTerms};

const VERSION: u8 = 1;
const BYTES: u8 = 1 << 0;
const ALIAS: u8 = 1 << 1;
const GROUP: u8 = 1 << 2;
const CRON: u8 = 1 << 3;
const ZONE: u8 = 1 << 4;
const TTL: u8 = 1 << 5;
const ATTRIBUTES: u8 = 1 << 6;

/// What a job carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JobBody {
    pub(super) payload: JobPayload,
    pub(super) alias: Option<CompactString>,
    pub(super) group: Option<CompactString>,
    pub(super) cron: Option<Cron>,
    pub(super) ttl: Option<Duration>,
    pub(super) attributes: Attributes,
}

/// When a job comes again by a calendar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cron {
    pub(super) expression: CompactString,
    pub(super) zone: Option<CompactString>,
}

/// The body of a new job.
pub(super) fn write(job: &NewJob) -> Vec<u8> {
    let cron = match &job.recurs {
        Some(RecurrenceTerms::Cron { expression, zone, .. }) => {
            Some(Cron { expression: expression.clone(), zone: zone.clone() })
        }
        Some(RecurrenceTerms::Every { .. }) | None => None,
    };
    let parts = Parts {
        payload: &job.payload,
        alias: job.alias.as_deref(),
        group: job.group.as_deref(),
        cron: cron.as_ref(),
        ttl: job.ttl,
        attributes: &job.attributes,
    };
    parts.write()
}

impl JobBody {
    pub(super) fn write(&self) -> Vec<u8> {
        let parts = Parts {
            payload: &self.payload,
            alias: self.alias.as_deref(),
            group: self.group.as_deref(),
            cron: self.cron.as_ref(),
            ttl: self.ttl,
            attributes: &self.attributes,
        };
        parts.write()
    }
}

struct Parts<'a> {
    payload: &'a JobPayload,
    alias: Option<&'a str>,
    group: Option<&'a str>,
    cron: Option<&'a Cron>,
    ttl: Option<Duration>,
    attributes: &'a Attributes,
}

impl Parts<'_> {
    fn write(&self) -> Vec<u8> {
        let (payload, kind) = match self.payload {
            JobPayload::Json(text) => (text.as_bytes(), 0),
            JobPayload::Bytes(bytes) => (&**bytes, BYTES),
        };
        let zone = self.cron.and_then(|cron| cron.zone.as_deref());
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let mut out = Vec::with_capacity(payload.len() + 64);
        out.push(VERSION);
        out.push(
            kind | flag(self.alias.is_some(), ALIAS)
                | flag(self.group.is_some(), GROUP)
                | flag(self.cron.is_some(), CRON)
                | flag(zone.is_some(), ZONE)
                | flag(self.ttl.is_some(), TTL)
                | flag(!self.attributes.is_empty(), ATTRIBUTES),
        );
        let expression = self.cron.map(|cron| cron.expression.as_str());
        for text in [self.alias, self.group, expression, zone].into_iter().flatten() {
            put_text(&mut out, text);
        }
        if let Some(ttl) = self.ttl {
            out.extend_from_slice(&u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).to_le_bytes());
        }
        if !self.attributes.is_empty() {
            put_length(&mut out, self.attributes.len());
            for (name, value) in self.attributes {
                put_text(&mut out, name);
                put_text(&mut out, value);
            }
        }
        out.extend_from_slice(payload);
        out
    }
}

/// Texts are short: a longer one is a fault of the caller, and is cut where its length ends.
fn put_text(out: &mut Vec<u8>, text: &str) {
    put_length(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    debug_assert!(u16::try_from(length).is_ok(), "edges bound every text");
    out.extend_from_slice(&(length as u16).to_le_bytes());
}

/// Reads a body.
///
/// # Errors
/// 503: what is stored is damaged.
pub(super) fn read(bytes: &[u8]) -> Result<JobBody, Problem> {
    BodyReader(bytes)
        .body()
        .ok_or_else(|| Problem::unavailable("a job's payload is damaged; run `fieldpost check`"))
}

struct BodyReader<'a>(&'a [u8]);

impl BodyReader<'_> {
    fn body(mut self) -> Option<JobBody> {
        if self.take(1)? != [VERSION] {
            return None;
        }
        let flags = self.take(1)?[0];
        let mut text = |flag| if flags & flag == 0 { Some(None) } else { self.text().map(Some) };
        let (alias, group) = (text(ALIAS)?, text(GROUP)?);
        let (expression, zone) = (text(CRON)?, text(ZONE)?);
        let ttl = match flags & TTL {
            0 => None,
            _ => Some(Duration::from_millis(u64::from_le_bytes(self.take(8)?.try_into().ok()?))),
        };
        let mut attributes = Attributes::new();
        if flags & ATTRIBUTES != 0 {
            for _ in 0..self.length()? {
                attributes.push((self.text()?, self.text()?));
            }
        }
        let payload = match flags & BYTES {
            0 => JobPayload::Json(Arc::from(std::str::from_utf8(self.0).ok()?)),
            _ => JobPayload::Bytes(Arc::from(self.0)),
        };
        let cron = expression.map(|expression| Cron { expression, zone });
        Some(JobBody { payload, alias, group, cron, ttl, attributes })
    }

    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn length(&mut self) -> Option<usize> {
        Some(usize::from(u16::from_le_bytes(self.take(2)?.try_into().ok()?)))
    }

    fn text(&mut self) -> Option<CompactString> {
        let length = self.length()?;
        std::str::from_utf8(self.take(length)?).ok().map(CompactString::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> JobBody {
        JobBody {
            payload: JobPayload::Bytes(Arc::from(*b"\x00\xff")),
            alias: Some("order-7".into()),
            group: Some("g".into()),
            cron: Some(Cron { expression: "0 8 * * *".into(), zone: Some("Europe/Berlin".into()) }),
            ttl: Some(Duration::from_secs(9)),
            attributes: vec![("a".into(), "b".into()), ("c".into(), String::new().into())],
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let plain = NewJob::new(JobPayload::Json(Arc::from("{\"a\":1}")));
        let body = read(&write(&plain)).expect("it was just written");
        assert_eq!((body.payload.clone(), body.alias.clone()), (plain.payload, None));
        for body in [body, full()] {
            assert_eq!(read(&body.write()), Ok(body));
        }
    }

    #[test]
    fn version_1_is_these_bytes() {
        let job = NewJob { alias: Some("x".into()), ..NewJob::new(JobPayload::Json(Arc::from("1"))) };
        assert_eq!(write(&job), [1, ALIAS, 1, 0, b'x', b'1']);
    }

    #[test]
    fn what_ends_too_soon_is_damaged() {
        let bytes = full().write();
        // The payload has no length of its own: only what comes before it can be missed.
        for end in 0..bytes.len() - 2 {
            assert!(read(&bytes[..end]).is_err(), "{end}");
        }
    }
}
