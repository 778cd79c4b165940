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
    /// Tasks and campaigns, and looking at the fleet as these see it.
    Tasks,
    /// What [`Scope::Commands`] may; besides reading everything, sending deliveries again,
    /// respawning dead letters, pausing and resuming. It registers, deletes and grants nothing.
    Operate,
    /// Everything with the queues of a namespace.
    Jobs(Namespace),
    /// Locks, limits, the cache and channels of a namespace, and what is said to the workers of its
    /// queues.
    Coordinate(Namespace),
    /// The streams of a namespace, as far as these rights go.
    Streams(Namespace, StreamRights),
    /// Reading a client's own devices and deliveries, and having the latter sent again.
    Client(ClientId),
}

impl Scope {
    /// What there is to choose from.
    pub const FORMS: &str = "admin, read, report, commands, tasks, operate, jobs:NAMESPACE, \
         coordinate:NAMESPACE, streams:NAMESPACE (with :read or :append for only that) or client:ID";

    /// The scope that is written so, if there is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match (text, text.split_once(':')) {
            ("admin", _) => Some(Self::Admin),
            ("read", _) => Some(Self::Read),
            ("report", _) => Some(Self::Report),
            ("commands", _) => Some(Self::Commands),
            ("tasks", _) => Some(Self::Tasks),
            ("operate", _) => Some(Self::Operate),
            (_, Some(("jobs", namespace))) => Namespace::new(namespace).map(Self::Jobs),
            (_, Some(("coordinate", namespace))) => Namespace::new(namespace).map(Self::Coordinate),
            (_, Some(("streams", which))) => streams(which),
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

    /// Whether it is enough to coordinate in a namespace.
    #[must_use]
    pub fn may_coordinate(&self, namespace: &str) -> bool {
        match self {
            Self::Admin => true,
            Self::Coordinate(own) => own.as_str() == namespace,
            _ => false,
        }
    }

    /// Whether it is enough for this with the streams of a namespace.
    #[must_use]
    pub fn may_stream(&self, namespace: &str, right: StreamRights) -> bool {
        match self {
            Self::Admin => true,
            Self::Read | Self::Operate => right == StreamRights::Read,
            Self::Streams(own, rights) => {
                own.as_str() == namespace
                    && match right {
                        StreamRights::Subscribe => {
                            matches!(rights, StreamRights::All | StreamRights::Read | StreamRights::Subscribe)
                        }
                        _ => *rights == StreamRights::All || *rights == right,
                    }
            }
            _ => false,
        }
    }
}

/// What a scope allows with the streams of its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamRights {
    /// Everything: reading, appending, setting and deleting.
    All,
    /// Reading.
    Read,
    /// Reading with a place that the server keeps. No scope is this: what reads one namespace's
    /// streams alone may subscribe to them.
    Subscribe,
    /// Appending.
    Append,
}

impl StreamRights {
    /// The scopes that are enough, for people.
    #[must_use]
    pub fn takes(self) -> &'static str {
        match self {
            Self::All => "admin, or streams:NAMESPACE of this namespace",
            Self::Read => {
                "admin, read, operate, or streams:NAMESPACE or streams:NAMESPACE:read of this namespace"
            }
            Self::Subscribe => "admin, or streams:NAMESPACE or streams:NAMESPACE:read of this namespace",
            Self::Append => "admin, or streams:NAMESPACE or streams:NAMESPACE:append of this namespace",
        }
    }

    /// What stands behind the namespace.
    fn suffix(self) -> &'static str {
        match self {
            Self::All => "",
            Self::Read | Self::Subscribe => ":read",
            Self::Append => ":append",
        }
    }
}

/// `NAMESPACE`, `NAMESPACE:read` or `NAMESPACE:append`.
fn streams(which: &str) -> Option<Scope> {
    let (namespace, rights) = match which.split_once(':') {
        None => (which, StreamRights::All),
        Some((namespace, "read")) => (namespace, StreamRights::Read),
        Some((namespace, "append")) => (namespace, StreamRights::Append),
        Some(_) => return None,
    };
    Namespace::new(namespace).map(|namespace| Scope::Streams(namespace, rights))
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admin => f.write_str("admin"),
            Self::Read => f.write_str("read"),
            Self::Report => f.write_str("report"),
            Self::Commands => f.write_str("commands"),
            Self::Tasks => f.write_str("tasks"),
            Self::Operate => f.write_str("operate"),
            Self::Jobs(namespace) => write!(f, "jobs:{}", namespace.as_str()),
            Self::Coordinate(namespace) => write!(f, "coordinate:{}", namespace.as_str()),
            Self::Streams(namespace, rights) => {
                write!(f, "streams:{}{}", namespace.as_str(), rights.suffix())
            }
            Self::Client(id) => write!(f, "client:{}", id.as_str()),
        }
    }
}

/// A namespace of users' queues and streams: letters, digits, `-` and `_`; those that begin with
/// `_` are the server's own.
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
        for text in [
            "admin",
            "read",
            "report",
            "commands",
            "tasks",
            "operate",
            "jobs:mail-1",
            "coordinate:shop",
            "streams:shop",
            "streams:shop:read",
            "streams:shop_2:append",
            "client:acme_2",
        ] {
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
            "coordinate",
            "coordinate:a b",
            "jobs:a b",
            "streams",
            "streams:",
            "streams::read",
            "streams:shop:",
            "streams:shop:write",
            "streams:shop:read:append",
            "streams:_own:read",
            "client:",
            "client:a/b",
        ] {
            assert_eq!(Scope::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_scope_of_streams_reaches_its_namespace_and_its_right() {
        use StreamRights::{All, Append, Read};

        for (scope, may) in [
            ("admin", [true, true, true]),
            ("read", [false, true, false]),
            ("operate", [false, true, false]),
            ("jobs:shop", [false; 3]),
            ("streams:shop", [true, true, true]),
            ("streams:shop:read", [false, true, false]),
            ("streams:shop:append", [false, false, true]),
            ("streams:shop2", [false; 3]),
        ] {
            let scope = Scope::parse(scope).expect("a scope");
            assert_eq!([All, Read, Append].map(|right| scope.may_stream("shop", right)), may, "{scope}");
        }
    }
}
