//! The name of a stream.

use base::{PartitionId, Problem, hash};
use compact_str::CompactString;

use crate::name::QueueName;

/// A stream, by its namespace and its name there: letters, digits, `-` and `_`, up to 255 each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamName {
    namespace: CompactString,
    stream: CompactString,
}

impl StreamName {
    /// The name, if both parts may be one: the rule is that of queues.
    ///
    /// # Errors
    /// 422 `invalid_name` or `reserved_name`.
    pub fn new(namespace: &str, stream: &str) -> Result<Self, Problem> {
        QueueName::check("namespace", namespace)?;
        QueueName::check("stream", stream)?;
        Ok(Self::unchecked(namespace, stream))
    }

    /// A name that is known to be one: it was stored.
    #[must_use]
    pub fn unchecked(namespace: &str, stream: &str) -> Self {
        Self { namespace: CompactString::new(namespace), stream: CompactString::new(stream) }
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name within the namespace.
    #[must_use]
    pub fn stream(&self) -> &str {
        &self.stream
    }

    /// The partition that a stream is in, where there are so many.
    #[must_use]
    pub fn partition(&self, partitions: u16) -> PartitionId {
        hash::stream_partition(&self.namespace, &self.stream, partitions)
    }
}

impl std::fmt::Display for StreamName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.stream)
    }
}
