//! Where a record goes: the server's reports, one queue or one stream. Order holds within each.

use std::fmt;
use std::sync::Arc;

/// Longest name of a namespace, queue or stream that is taken, in bytes. Which of them are right,
/// the server decides.
const NAME_BYTES_MAX: usize = 255;

const REPORTS: &str = "reports";
const QUEUE: &str = "queue:";
const STREAM: &str = "stream:";

/// What kind of thing a destination is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DestinationKind {
    /// `POST /v1/reports`.
    Reports,
    /// `POST /v1/queues/{ns}/{queue}/jobs`.
    Queue,
    /// `POST /v1/streams/{ns}/{stream}/messages`.
    Stream,
}

/// A destination. Its text is `reports`, `queue:ns/q` or `stream:ns/s`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Destination(Arc<str>);

impl Destination {
    /// The reports of all devices.
    #[must_use]
    pub fn reports() -> Self {
        Self(REPORTS.into())
    }

    /// A queue; `None` where no queue can have these names.
    #[must_use]
    pub fn queue(namespace: &str, queue: &str) -> Option<Self> {
        Self::named(QUEUE, namespace, queue)
    }

    /// A stream; `None` where no stream can have these names.
    #[must_use]
    pub fn stream(namespace: &str, stream: &str) -> Option<Self> {
        Self::named(STREAM, namespace, stream)
    }

    fn named(prefix: &str, namespace: &str, name: &str) -> Option<Self> {
        let is_right = |name: &str| {
            (1..=NAME_BYTES_MAX).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/')
        };
        (is_right(namespace) && is_right(name)).then(|| Self(format!("{prefix}{namespace}/{name}").into()))
    }

    /// Reads the text of a destination.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text == REPORTS {
            return Some(Self::reports());
        }
        let of = |prefix| text.strip_prefix(prefix)?.split_once('/');
        match (of(QUEUE), of(STREAM)) {
            (Some((namespace, queue)), _) => Self::queue(namespace, queue),
            (_, Some((namespace, stream))) => Self::stream(namespace, stream),
            (None, None) => None,
        }
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> DestinationKind {
        if self.0.starts_with(QUEUE) {
            DestinationKind::Queue
        } else if self.0.starts_with(STREAM) {
            DestinationKind::Stream
        } else {
            DestinationKind::Reports
        }
    }

    /// Namespace and name of a queue or a stream.
    #[must_use]
    pub fn names(&self) -> Option<(&str, &str)> {
        self.0.split_once(':')?.1.split_once('/')
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_read_back_from_its_text() {
        let queue = Destination::queue("shop", "mail").expect("right names");
        assert_eq!(
            (queue.as_str(), queue.kind(), queue.names()),
            ("queue:shop/mail", DestinationKind::Queue, Some(("shop", "mail")))
        );
        let stream = Destination::stream("shop", "a:b").expect("right names");
        assert_eq!((stream.kind(), stream.names()), (DestinationKind::Stream, Some(("shop", "a:b"))));
        let reports = Destination::reports();
        assert_eq!((reports.kind(), reports.names()), (DestinationKind::Reports, None));
        for destination in [queue, stream, reports] {
            assert_eq!(Destination::parse(destination.as_str()), Some(destination));
        }
    }

    #[test]
    fn names_that_nothing_can_have_are_refused() {
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for name in ["", "a/b", "a b", "a\n", "é", &long] {
            assert_eq!(Destination::queue("ns", name), None, "{name}");
            assert_eq!(Destination::stream(name, "s"), None, "{name}");
        }
        for text in ["", "report", "queue:", "queue:a", "topic:a/b", "stream:a/b/c"] {
            assert_eq!(Destination::parse(text), None, "{text}");
        }
    }
}
