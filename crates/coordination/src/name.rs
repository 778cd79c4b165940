//! The name of a lock, a limit, a cached value or a channel.

use base::limits::{COORDINATION_NAME_CHARS_MAX, QUEUE_NAME_CHARS_MAX};
use base::{PartitionId, Problem, hash};
use compact_str::CompactString;

/// A name within a namespace. Names are 1 to 255 letters, digits, `_`, `.`, `:` or `-`. A namespace
/// is one of queues.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoordinationName {
    namespace: CompactString,
    name: CompactString,
}

impl CoordinationName {
    /// The name, if both parts may be one.
    ///
    /// # Errors
    /// 422 `invalid_name`, or `reserved_name` for a namespace of the server's own.
    pub fn new(namespace: &str, name: &str) -> Result<Self, Problem> {
        Self::check_namespace(namespace)?;
        Self::check_name("name", name)?;
        Ok(Self::unchecked(namespace, name))
    }

    /// Refuses what may not be a namespace.
    ///
    /// # Errors
    /// 422 `invalid_name` or `reserved_name`.
    pub fn check_namespace(namespace: &str) -> Result<(), Problem> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if !(1..=QUEUE_NAME_CHARS_MAX).contains(&namespace.len()) || !namespace.bytes().all(plain) {
            let detail = format!(
                "namespace must be 1 to {QUEUE_NAME_CHARS_MAX} letters, digits, '-' or '_', not {:?}",
                namespace.chars().take(QUEUE_NAME_CHARS_MAX).collect::<String>()
            );
            return Err(Problem::not_allowed("invalid_name", detail));
        }
        if namespace.starts_with('_') {
            let detail = "namespace must not begin with '_': such names are the server's own".to_owned();
            return Err(Problem::not_allowed("reserved_name", detail));
        }
        Ok(())
    }

    /// Refuses what may not be the name of a `what`.
    ///
    /// # Errors
    /// 422 `invalid_name`.
    pub fn check_name(what: &str, name: &str) -> Result<(), Problem> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.:-".contains(&b);
        if (1..=COORDINATION_NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(plain) {
            return Ok(());
        }
        let detail = format!(
            "{what} must be 1 to {COORDINATION_NAME_CHARS_MAX} letters, digits, '_', '.', ':' or '-', not {:?}",
            name.chars().take(COORDINATION_NAME_CHARS_MAX).collect::<String>()
        );
        Err(Problem::not_allowed("invalid_name", detail))
    }

    /// A name that is known to be one.
    #[must_use]
    pub fn unchecked(namespace: &str, name: &str) -> Self {
        Self { namespace: CompactString::new(namespace), name: CompactString::new(name) }
    }

    /// What stands before every name of a namespace; no name itself.
    #[must_use]
    pub fn before_all_of(namespace: &str) -> Self {
        Self::unchecked(namespace, "")
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name within the namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The partition of queues that has the lock of this name.
    #[must_use]
    pub fn partition(&self, partitions: u16) -> PartitionId {
        hash::queue_partition(&self.namespace, &self.name, partitions)
    }

    /// About how many bytes it takes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.namespace.len() + self.name.len()
    }
}

impl std::fmt::Display for CoordinationName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_bounded() {
        for (namespace, name, code) in [
            ("shop", "user:7.a_B-c", None),
            ("shop", "", Some("invalid_name")),
            ("shop", "a b", Some("invalid_name")),
            ("shop", "a*", Some("invalid_name")),
            ("shop", "a,b", Some("invalid_name")),
            ("a.b", "x", Some("invalid_name")),
            ("_own", "x", Some("reserved_name")),
        ] {
            let refused = CoordinationName::new(namespace, name).err().map(|problem| problem.code);
            assert_eq!(refused, code, "{namespace}/{name}");
        }
        assert!(CoordinationName::new("s", &"x".repeat(255)).is_ok());
        assert!(CoordinationName::new("s", &"x".repeat(256)).is_err());
    }
}
