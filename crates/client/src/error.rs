//! What can go wrong, as far as a caller can do something about it.
//!
//! The line that matters is between what was certainly not done and what nobody knows.
//! [`Error::Unreachable`] is the first. [`Error::Broken`], [`Error::TimedOut`] and a refusal with a
//! 5xx are the second.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

use crate::fault::{ConnectionFault, chain};
use crate::trust::TlsFault;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The status of a token or a queue that has no room now. Nothing was done.
const TOO_MANY_REQUESTS: u16 = 429;
/// What the server says of a reservation that holds no longer.
const STALE: &str = "stale_reservation";
/// Longer text of a stranger is cut.
const STRANGE_CHARS_MAX: usize = 200;

/// A call that did not end as it was meant to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server was asked and said no.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// There was nobody to ask; nothing was done.
    #[error("{server} cannot be reached")]
    Unreachable {
        /// Where it was looked for.
        server: String,
        /// Why not.
        #[source]
        cause: Cause,
    },
    /// The connection broke while the answer was awaited; it may have been done.
    #[error("the connection to {server} broke before it answered")]
    Broken {
        /// Who was asked.
        server: String,
        /// What broke.
        #[source]
        cause: Cause,
    },
    /// No answer in time; it may have been done.
    #[error("{server} did not answer within {limit:?}")]
    TimedOut {
        /// Who was asked.
        server: String,
        /// How long was waited.
        limit: Duration,
    },
    /// Something answered that is not a Fieldpost server, or one of another time.
    #[error("{server} does not answer as Fieldpost does: {what}")]
    Foreign {
        /// Who answered.
        server: String,
        /// What was wrong with it.
        what: String,
    },
    /// What was to be sent cannot be written as JSON; nothing was done.
    #[error("what is to be sent cannot be written as JSON")]
    Unwritable(#[from] serde_json::Error),
}

impl Error {
    /// What was wrong with the server, where TLS is why there is no answer.
    #[must_use]
    pub fn tls_fault(&self) -> Option<TlsFault> {
        match self.connection_fault() {
            Some(ConnectionFault::Tls(fault)) => Some(fault),
            _ => None,
        }
    }

    /// Why the connection gave no answer, where that is what went wrong.
    #[must_use]
    pub fn connection_fault(&self) -> Option<ConnectionFault> {
        match self {
            Self::Unreachable { cause, .. } => Some(ConnectionFault::of_connecting(&**cause)),
            Self::Broken { cause, .. } => Some(ConnectionFault::of_exchange(&**cause)),
            _ => None,
        }
    }

    /// Where the error began, below the libraries that passed it on.
    #[must_use]
    pub fn root_cause(&self) -> &(dyn std::error::Error + 'static) {
        chain(self).last().unwrap_or(self)
    }

    /// The error with what is behind it, for people. Where TLS is why there is no answer, what it
    /// found comes before the words of its library.
    #[must_use]
    pub fn explained(&self) -> String {
        let (text, cause) = (self.to_string(), self.root_cause().to_string());
        match self.tls_fault() {
            Some(fault) => format!("{text}: {}", fault.explained(&cause)),
            None if cause == text => text,
            None => format!("{text}: {cause}"),
        }
    }

    /// The status of a refusal.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.refusal().map(|refusal| refusal.status)
    }

    /// The stable code of a refusal, such as `alias_taken`.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.refusal()?.code.as_deref()
    }

    /// Whether a reservation was refused because it holds no longer: it ran out, or the job was
    /// cancelled or is done.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.code() == Some(STALE)
    }

    /// Whether the same may succeed in a while without anybody changing anything here.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Refused(refusal) => refusal.status == TOO_MANY_REQUESTS || refusal.status >= 500,
            Self::Unreachable { .. } | Self::Broken { .. } | Self::TimedOut { .. } => true,
            Self::Foreign { .. } | Self::Unwritable(_) => false,
        }
    }

    /// Whether it is certain that nothing was done.
    #[must_use]
    pub fn is_undone(&self) -> bool {
        match self {
            Self::Refused(refusal) => refusal.status < 500,
            Self::Unreachable { .. } | Self::Unwritable(_) => true,
            Self::Broken { .. } | Self::TimedOut { .. } | Self::Foreign { .. } => false,
        }
    }

    fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// How long the server asks to be left alone.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.refusal()?.retry_after
    }
}

/// What the server refused, and why (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The status of the answer.
    pub status: u16,
    /// Stable, for programs; `None` where somebody in between answered.
    pub code: Option<String>,
    /// What was wrong with which field, and what would be right.
    pub detail: String,
    /// How long to wait before it may be tried again.
    pub retry_after: Option<Duration>,
    /// The server's problem document as it came; `None` where somebody in between answered.
    pub document: Option<String>,
}

#[derive(Deserialize)]
struct Document {
    code: String,
    detail: String,
}

impl Refusal {
    /// The refusal that an answer with this status and this body is. A body that is no problem
    /// document is its detail, cut short.
    #[must_use]
    pub fn read(status: u16, retry_after: Option<Duration>, body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        match serde_json::from_str(&text) {
            Ok(Document { code, detail }) => {
                let document = Some(text.trim().to_owned());
                Self { status, code: Some(code), detail, retry_after, document }
            }
            Err(_) => {
                let detail = text.trim().chars().take(STRANGE_CHARS_MAX).collect();
                Self { status, code: None, detail, retry_after, document: None }
            }
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.code {
            Some(code) => write!(f, "{} ({} {code})", self.detail, self.status),
            None => write!(f, "refused with {}: {}", self.status, self.detail),
        }
    }
}

/// Why no client can be made of what it was given.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The URL leads to no server.
    #[error("{url:?} is not the URL of a server: {what}")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The token has characters that no header can carry. It is not repeated here.
    #[error("the token has characters that no header can carry")]
    Token,
    /// The system has no certificate authorities to trust.
    #[error("the system's certificate authorities cannot be read: {0}")]
    Authorities(String),
    /// The certificates that are to be trusted cannot be read.
    #[error("the certificates to trust cannot be read: {0}")]
    Certificates(String),
    /// A producer wants no node, or more than it has.
    #[error("{wanted} of {nodes} nodes cannot be appended to: it must be 1 to {nodes}")]
    Nodes {
        /// Nodes that are wanted.
        wanted: usize,
        /// Nodes that it has.
        nodes: usize,
    },
    /// A producer needs a name that nobody else has, and the system has no chance to give.
    #[error("the system gives no random number")]
    Chance,
    /// The TLS library refuses its own settings.
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, body: &str) -> Error {
        Error::Refused(Box::new(Refusal::read(status, None, body.as_bytes())))
    }

    #[test]
    fn a_refusal_is_read_leniently() {
        let error = refused(409, r#"{"status":409,"code":"stale_reservation","detail":"it ran out"}"#);
        assert!(error.is_stale());
        assert_eq!((error.status(), error.code()), (Some(409), Some("stale_reservation")));
        assert_eq!(error.to_string(), "it ran out (409 stale_reservation)");
        let stranger = refused(502, &"<html>".repeat(1_000));
        assert_eq!(stranger.code(), None);
        assert!(stranger.to_string().len() < 300);
    }

    #[test]
    fn what_tls_found_is_told_before_the_words_of_its_library() {
        let found = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let unreachable = |cause: std::io::Error| Error::Unreachable {
            server: "https://a".to_owned(),
            cause: cause.into(),
        };
        let expect =
            format!("https://a cannot be reached: TLS failed: its certificate is not trusted ({found})");
        assert_eq!(unreachable(std::io::Error::other(found)).explained(), expect);
        let refused = unreachable(std::io::Error::other("nobody listens")).explained();
        assert_eq!(refused, "https://a cannot be reached: nobody listens");
        let alone = Error::TimedOut { server: "https://a".to_owned(), limit: Duration::from_secs(1) };
        assert_eq!(alone.explained(), "https://a did not answer within 1s");
    }

    #[test]
    fn what_nobody_knows_is_told_from_what_was_not_done() {
        let server = || "http://a".to_owned();
        let cause = || "x".into();
        for (error, may_pass, undone) in [
            (refused(404, ""), false, true),
            (refused(429, ""), true, true),
            (refused(503, ""), true, false),
            (Error::Unreachable { server: server(), cause: cause() }, true, true),
            (Error::Broken { server: server(), cause: cause() }, true, false),
            (Error::TimedOut { server: server(), limit: Duration::from_secs(1) }, true, false),
            (Error::Foreign { server: server(), what: String::new() }, false, false),
        ] {
            assert_eq!((error.may_pass(), error.is_undone()), (may_pass, undone), "{error}");
        }
    }
}
