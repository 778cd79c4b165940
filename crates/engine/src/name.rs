//! The name of a queue. Streams, subscriptions and copies are named by the same rule.

use base::limits::QUEUE_NAME_CHARS_MAX;
use base::{PartitionId, Problem, hash};
use compact_str::CompactString;

/// A queue, by its namespace and its name there: letters, digits, `-` and `_`, up to 255 each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName {
    namespace: CompactString,
    queue: CompactString,
}

impl QueueName {
    /// The name, if both parts may be one. A name of the server's own, which begins with `_`, is
    /// refused.
    ///
    /// # Errors
    /// 422 `invalid_name` or `reserved_name`.
    pub fn new(namespace: &str, queue: &str) -> Result<Self, Problem> {
        Self::check("namespace", namespace)?;
        Self::check("queue", queue)?;
        Ok(Self::unchecked(namespace, queue))
    }

    /// Refuses what may not be the name of a namespace, of a queue, or of anything named like one.
    pub(crate) fn check(what: &str, name: &str) -> Result<(), Problem> {
        if !Self::is_name(name) {
            let detail = format!(
                "{what} must be 1 to {QUEUE_NAME_CHARS_MAX} letters, digits, '-' or '_', not {:?}",
                name.chars().take(QUEUE_NAME_CHARS_MAX).collect::<String>()
            );
            return Err(Problem::not_allowed("invalid_name", detail));
        }
        if name.starts_with('_') {
            let detail = format!("{what} must not begin with '_': such names are the server's own");
            return Err(Problem::not_allowed("reserved_name", detail));
        }
        Ok(())
    }

    /// Whether this has the form of a name, the server's own included.
    #[must_use]
    pub fn is_name(name: &str) -> bool {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        (1..=QUEUE_NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(plain)
    }

    /// A name that is known to be one: stored, or in a form of its own that an edge has checked.
    #[must_use]
    pub fn unchecked(namespace: &str, queue: &str) -> Self {
        Self { namespace: CompactString::new(namespace), queue: CompactString::new(queue) }
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name within the namespace.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.queue
    }

    pub(crate) fn partition(&self, partitions: u16) -> PartitionId {
        hash::queue_partition(&self.namespace, &self.queue, partitions)
    }
}

impl std::fmt::Display for QueueName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.queue)
    }
}
