//! Why a connection gave no answer, as far as a caller can do something about it.

use std::error::Error as StdError;
use std::io;

use crate::trust::TlsFault;

/// Why a connection gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionFault {
    /// No name server knows the host.
    NoSuchHost,
    /// Nobody listens there.
    Refused,
    /// It took too long to connect.
    TooSlow,
    /// It was closed where TLS was to begin.
    ClosedBeforeTls,
    /// TLS found something wrong with the server.
    Tls(TlsFault),
    /// The answer is not HTTP.
    NotHttp,
    /// It broke.
    Broken,
}

impl ConnectionFault {
    /// What stands behind an error while connecting.
    pub(crate) fn of_connecting(error: &(dyn StdError + 'static)) -> Self {
        if let Some(fault) = TlsFault::behind(error) {
            return Self::Tls(fault);
        }
        let io_errors = chain(error).filter_map(|error| error.downcast_ref::<io::Error>());
        // The library that connects has no other sign of it than its text.
        if chain(error).any(|error| error.to_string() == "dns error") {
            return Self::NoSuchHost;
        }
        io_errors.flat_map(kinds).find_map(Self::of_kind).unwrap_or(Self::Broken)
    }

    /// What stands behind an error on a connection that there was.
    pub(crate) fn of_exchange(error: &(dyn StdError + 'static)) -> Self {
        if let Some(fault) = TlsFault::behind(error) {
            return Self::Tls(fault);
        }
        let is_no_http = |error: &hyper::Error| error.is_parse();
        let is_no_http = |error: &&(dyn StdError + 'static)| error.downcast_ref().is_some_and(is_no_http);
        if chain(error).any(|error| is_no_http(&error)) { Self::NotHttp } else { Self::Broken }
    }

    fn of_kind(kind: io::ErrorKind) -> Option<Self> {
        match kind {
            io::ErrorKind::ConnectionRefused => Some(Self::Refused),
            io::ErrorKind::TimedOut => Some(Self::TooSlow),
            io::ErrorKind::UnexpectedEof => Some(Self::ClosedBeforeTls),
            _ => None,
        }
    }
}

/// The kind of an error of the stream, and of those that are wrapped into it: these are no sources
/// of it.
fn kinds(error: &io::Error) -> impl Iterator<Item = io::ErrorKind> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let error = next?;
        next = error.get_ref().and_then(|wrapped| wrapped.downcast_ref());
        Some(error.kind())
    })
}

/// An error and its causes, the last of which is where it began.
pub(crate) fn chain<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}
