//! Refused callers: the reason, a counter, and log lines with a limit.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use base::{LogLimit, address};
use tracing::field::display;
use tracing::info;

/// Most of a name that the log shows, in characters.
const SHOWN_CHARS_MAX: usize = 64;

/// Why somebody is not let in: the word for it in metrics and in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Missing,
    Malformed,
    Unknown,
    /// Known, but not for this.
    Forbidden,
    /// Unknown, and more of them wait for their answer than may.
    TooMany,
}

impl Reason {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::Unknown => "unknown",
            Self::Forbidden => "forbidden",
            Self::TooMany => "too_many",
        }
    }
}

/// Somebody who is not let in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefusedCaller<'a> {
    pub(crate) why: Reason,
    /// The name of a token that may not do this.
    pub(crate) login: Option<&'a str>,
}

impl From<Reason> for RefusedCaller<'_> {
    fn from(why: Reason) -> Self {
        Self { why, login: None }
    }
}

/// The log of refusals: few lines a minute for each address and reason.
#[derive(Debug, Default)]
pub(crate) struct RefusalLog(LogLimit<(Option<IpAddr>, &'static str)>);

impl RefusalLog {
    /// Writes a line; tokens are in none.
    pub(crate) fn write(
        &self,
        way: &'static str,
        refusal: RefusedCaller<'_>,
        namespace: Option<&str>,
        peer: Option<SocketAddr>,
    ) {
        let RefusedCaller { why, login } = refusal;
        let sender = peer.map(|peer| address::sender(peer.ip()));
        let Some(left_out) = self.0.take((sender, why.as_str()), Instant::now()) else { return };
        let (code, namespace, peer) = (why.as_str(), namespace.map(shown), peer.map(display));
        info!(way, login, code, peer, namespace, left_out, "refused a caller");
    }
}

/// The beginning of a name, which its caller may have made up.
pub(crate) fn shown(name: &str) -> String {
    name.chars().take(SHOWN_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_the_log_is_cut() {
        assert_eq!(shown(&"\u{20ac}".repeat(200)).chars().count(), SHOWN_CHARS_MAX);
    }
}
