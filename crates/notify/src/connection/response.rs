//! The head of an answer: what it says of the notification, and where the answer ends.

use std::time::Duration;

use httparse::{EMPTY_HEADER, Header, Status};

/// Most header fields of an answer.
const HEADERS_MAX: usize = 100;

/// An answer of which the head was read.
#[derive(Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status code.
    pub status: u16,
    /// `Retry-After`, of an answer that may ask for patience: 429 and 503.
    pub(crate) retry_after: Option<Box<str>>,
    /// How long the receiver says that it keeps an idle connection: `Keep-Alive: timeout=5`.
    pub(crate) keeps: Option<Duration>,
    /// Whether the receiver goes on reading behind it.
    pub(super) persists: bool,
    /// What follows the head.
    pub(super) rest: Rest,
}

/// How the end of an answer is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    Bytes(u64),
    Chunks,
    UntilClosed,
}

/// Bytes that are no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The head cannot be parsed.
    #[error("not HTTP: {0}")]
    Head(httparse::Error),
    /// It cannot be told how long the body is.
    #[error("an unreadable Content-Length, or two that differ")]
    Length,
    /// HTTP/1.0 knows no chunks.
    #[error("chunks in an answer of HTTP/1.0")]
    Encoding,
    /// The size of a chunk, or what ends it, is missing.
    #[error("no chunk where one should begin")]
    Chunk,
}

impl ResponseHead {
    /// The head at the beginning of `input` and how long it is, once all of it is there.
    pub(super) fn parse(input: &[u8]) -> Result<Option<(Self, usize)>, Malformed> {
        let mut headers = [EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        let Status::Complete(bytes) = response.parse(input).map_err(Malformed::Head)? else {
            return Ok(None);
        };
        let (status, minor) = (response.code.unwrap_or(0), response.version.unwrap_or(0));
        let fields = HeaderFields::of(response.headers)?;
        let has_patience = matches!(status, 429 | 503);
        let rest = fields.rest(status, minor)?;
        let parsed = Self {
            status,
            retry_after: fields.retry_after.filter(|_| has_patience).map(Box::from),
            keeps: fields.keeps,
            persists: if minor == 0 { fields.keep_alive } else { !fields.close } && status != 101,
            rest,
        };
        Ok(Some((parsed, bytes)))
    }

    /// Whether its connection may carry another post, if no more than so many bytes of a body are
    /// read.
    pub(super) fn may_be_followed(&self, body_bytes_max: u64) -> bool {
        let is_read = match self.rest {
            Rest::Bytes(bytes) => bytes <= body_bytes_max,
            Rest::Chunks => true,
            Rest::UntilClosed => false,
        };
        self.persists && is_read
    }

    /// Whether another answer follows, which is the one that counts.
    pub(super) fn is_interim(&self) -> bool {
        matches!(self.status, 100 | 102..=199)
    }
}

/// The header fields that matter.
#[derive(Default)]
struct HeaderFields<'a> {
    length: Option<u64>,
    /// Whether the last coding is chunked, if there is any.
    chunked: Option<bool>,
    close: bool,
    keep_alive: bool,
    keeps: Option<Duration>,
    retry_after: Option<&'a str>,
}

impl<'a> HeaderFields<'a> {
    fn of(headers: &[Header<'a>]) -> Result<Self, Malformed> {
        let mut fields = Self::default();
        for Header { name, value } in headers {
            let is = |other: &str| name.eq_ignore_ascii_case(other);
            let text = || std::str::from_utf8(value).ok().map(str::trim);
            if is("content-length") {
                let length = text().and_then(digits).ok_or(Malformed::Length)?;
                if fields.length.replace(length).is_some_and(|other| other != length) {
                    return Err(Malformed::Length);
                }
            } else if is("transfer-encoding") {
                let last = text().and_then(|text| text.rsplit(',').next());
                fields.chunked = Some(last.is_some_and(|last| last.trim().eq_ignore_ascii_case("chunked")));
            } else if is("connection") {
                for option in text().unwrap_or_default().split(',').map(str::trim) {
                    fields.close |= option.eq_ignore_ascii_case("close");
                    fields.keep_alive |= option.eq_ignore_ascii_case("keep-alive");
                }
            } else if is("keep-alive") {
                fields.keeps = fields.keeps.or_else(|| text().and_then(timeout));
            } else if is("retry-after") {
                fields.retry_after = fields.retry_after.or_else(text);
            }
        }
        Ok(fields)
    }

    /// What follows the head of an answer (RFC 9112, section 6.3).
    fn rest(&self, status: u16, minor: u8) -> Result<Rest, Malformed> {
        match (status, self.chunked, self.length) {
            (100..=199 | 204 | 304, ..) => Ok(Rest::Bytes(0)),
            (_, Some(_), _) if minor == 0 => Err(Malformed::Encoding),
            (_, Some(true), _) => Ok(Rest::Chunks),
            (_, None, Some(bytes)) => Ok(Rest::Bytes(bytes)),
            (_, Some(false), _) | (_, None, None) => Ok(Rest::UntilClosed),
        }
    }
}

fn digits(text: &str) -> Option<u64> {
    let are_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    are_digits.then(|| text.parse().ok())?
}

fn timeout(text: &str) -> Option<Duration> {
    let timeout = text.split(',').find_map(|part| part.trim().strip_prefix("timeout="))?;
    timeout.trim().parse().ok().map(Duration::from_secs)
}
