//! The scopes that a token may have, as the settings write them.

use std::fmt;

use base::ClientId;

/// Longest namespace, in characters.
const NAMESPACE_CHARS_MAX: usize = 255;

/// What a token may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    Admin,
    /// Reading everything.
    Read,
    /// Sending reports, polling for commands, and answering them.
    Report,
    /// Sending, cancelling and retrying commands, wishing, and looking at devices and their
    /// commands.
    Commands,
    /// What [`Scope::Commands`] may; besides reading everything, sending deliveries again,
    /// respawning dead letters, pausing and resuming. It registers, deletes and grants nothing.
    Operate,
    /// Everything with the queues of a namespace.
    Jobs(Namespace),
    /// Reading a client's own devices and deliveries, and having the latter sent again.
    Client(ClientId),
}

impl Scope {
    /// What there is to choose from.
    pub const FORMS: &str = "admin, read, report, commands, operate, jobs:NAMESPACE or client:ID";

    /// The scope that is written so, if there is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match (text, text.split_once(':')) {
            ("admin", _) => Some(Self::Admin),
            ("read", _) => Some(Self::Read),
            ("report", _) => Some(Self::Report),
            ("commands", _) => Some(Self::Commands),
            ("operate", _) => Some(Self::Operate),
            (_, Some(("jobs", namespace))) => Namespace::new(namespace).map(Self::Jobs),
            (_, Some(("client", id))) => ClientId::new(id).map(Self::Client),
            _ => None,
        }
    }

    /// Whether it is enough to publish to queues of a namespace.
    #[must_use]
    pub fn may_publish(&self, namespace: &str) -> bool {
        match self {
            Self::Admin => true,
            Self::Jobs(own) => own.as_str() == namespace,
            _ => false,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admin => f.write_str("admin"),
            Self::Read => f.write_str("read"),
            Self::Report => f.write_str("report"),
            Self::Commands => f.write_str("commands"),
            Self::Operate => f.write_str("operate"),
            Self::Jobs(namespace) => write!(f, "jobs:{}", namespace.as_str()),
            Self::Client(id) => write!(f, "client:{}", id.as_str()),
        }
    }
}

/// A namespace of users' queues: letters, digits, `-` and `_`; those that begin with `_` are the
/// server's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace(String);

impl Namespace {
    /// The namespace, if `text` may be one.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let fits = (1..=NAMESPACE_CHARS_MAX).contains(&text.len()) && !text.starts_with('_');
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        (fits && text.bytes().all(plain)).then(|| Self(text.to_owned()))
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_read_as_it_is_written() {
        for text in ["admin", "read", "report", "commands", "operate", "jobs:mail-1", "client:acme_2"] {
            assert_eq!(Scope::parse(text).map(|scope| scope.to_string()).as_deref(), Some(text));
        }
        for text in [
            "",
            "Admin",
            "admin ",
            "write",
            "commands:0xA",
            "jobs",
            "jobs:",
            "jobs:_own",
            "jobs:a b",
            "client:",
            "client:a/b",
        ] {
            assert_eq!(Scope::parse(text), None, "{text:?}");
        }
    }
}
