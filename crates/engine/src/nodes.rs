//! Other nodes: where they are, how they are spoken to, and whether they answered last time. As
//! the registry partition last committed them, in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base::locks::locked;
use base::{Problem, Timestamp};
use records::PeerNode;

use crate::kernel::reply::{Answered, Reply};
use crate::registry::RegistryInput;

/// Nodes that a server knows at most.
pub const NODES_MAX: usize = 1_000;
/// Longest name of a node.
pub const NODE_NAME_CHARS_MAX: usize = 64;
/// The name that stands for the server itself.
pub const SELF_NODE: &str = records::StreamCopy::SELF;

/// A node to be put.
pub struct NewNode {
    /// Its name: 1 to 64 of `A-Z a-z 0-9 _ -`.
    pub name: Box<str>,
    /// The root of its API; checked by the edge.
    pub url: Box<str>,
    /// What is shown to it.
    pub token: Option<Box<str>>,
}

impl std::fmt::Debug for NewNode {
    /// Without the token: it is never to reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewNode").field("name", &self.name).field("url", &self.url).finish()
    }
}

/// An input of the registry about nodes.
#[derive(Debug)]
pub enum NodeInput {
    /// A node is made, or is reached in another way from now on.
    Put {
        /// As asked for.
        node: Box<NewNode>,
        /// Whether it is new.
        reply: Reply<Answered<bool>>,
    },
    /// A node goes.
    Delete {
        /// Its name.
        name: Box<str>,
        /// Whether it was done.
        reply: Reply<Answered<()>>,
    },
}

impl From<NodeInput> for RegistryInput {
    fn from(input: NodeInput) -> Self {
        Self::Nodes(input)
    }
}

/// A node, and what came of the latest contact.
#[derive(Clone, Debug)]
pub struct NodeStatus {
    /// As it was put.
    pub node: Arc<PeerNode>,
    /// What came of the contacts since the server started.
    pub contact: NodeContact,
}

/// What came of the contacts with a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeContact {
    /// Whether the latest one was answered.
    pub reachable: bool,
    /// When it last answered.
    pub last_contact_at: Option<Timestamp>,
    /// Why the latest one failed.
    pub error: Option<Box<str>>,
}

/// The nodes that there are.
#[derive(Debug, Default)]
pub struct KnownNodes {
    by_name: Mutex<BTreeMap<Box<str>, NodeStatus>>,
}

impl KnownNodes {
    /// A node.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<NodeStatus> {
        locked(&self.by_name).get(name).cloned()
    }

    /// Nodes behind the one of that name, in order of name.
    #[must_use]
    pub fn list(&self, after: Option<&str>, limit: usize) -> Vec<NodeStatus> {
        let known = locked(&self.by_name);
        let is_behind = |name: &str| after.is_none_or(|after| name > after);
        known.iter().filter(|(name, _)| is_behind(name)).take(limit).map(|(_, node)| node.clone()).collect()
    }

    /// A contact with a node, as it was then, was answered or failed.
    pub fn contacted(&self, node: &Arc<PeerNode>, outcome: Result<(), &str>, now: Timestamp) {
        let mut known = locked(&self.by_name);
        let Some(shown) = known.get_mut(&node.name).filter(|shown| Arc::ptr_eq(&shown.node, node)) else {
            return;
        };
        match outcome {
            Ok(()) => {
                let last_contact_at = Some(now);
                shown.contact = NodeContact { reachable: true, last_contact_at, error: None };
            }
            Err(error) => {
                shown.contact.reachable = false;
                if shown.contact.error.as_deref() != Some(error) {
                    shown.contact.error = Some(error.into());
                }
            }
        }
    }

    pub(crate) fn replace(&self, all: impl Iterator<Item = PeerNode>) {
        let mut known = locked(&self.by_name);
        known.clear();
        for node in all {
            known.insert(node.name.clone(), NodeStatus::of(node));
        }
    }

    pub(crate) fn put(&self, node: PeerNode) {
        locked(&self.by_name).insert(node.name.clone(), NodeStatus::of(node));
    }

    pub(crate) fn remove(&self, name: &str) {
        locked(&self.by_name).remove(name);
    }
}

impl NodeStatus {
    fn of(node: PeerNode) -> Self {
        Self { node: Arc::new(node), contact: NodeContact::default() }
    }
}

/// Whether a node may have this name.
///
/// # Errors
/// 422 `invalid_name`, also for `self`.
pub fn check_node_name(name: &str) -> Result<(), Problem> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !(1..=NODE_NAME_CHARS_MAX).contains(&name.len()) || !name.bytes().all(plain) {
        let detail = format!("the name of a node must be 1 to {NODE_NAME_CHARS_MAX} of A-Z a-z 0-9 _ and -");
        return Err(Problem::not_allowed("invalid_name", detail));
    }
    if name == SELF_NODE {
        return Err(Problem::not_allowed(
            "invalid_name",
            "self stands for this node itself; choose another name",
        ));
    }
    Ok(())
}

/// There is no such node.
#[must_use]
pub fn unknown_node(name: &str) -> Problem {
    Problem::unknown("unknown_node", format!("there is no node {name:?}; PUT /v1/nodes/NAME makes one"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contact_is_that_of_the_node_as_it_was() {
        let nodes = KnownNodes::default();
        let node = |url: &str| PeerNode {
            name: "dc1".into(),
            url: url.into(),
            token: Some("very-secret".into()),
            created_at: Timestamp(0),
        };
        nodes.put(node("http://a"));
        let before = nodes.get("dc1").expect("there").node;
        nodes.contacted(&before, Ok(()), Timestamp(5));
        nodes.contacted(&before, Err("refused"), Timestamp(6));
        let shown = nodes.get("dc1").expect("there");
        let expect = NodeContact {
            reachable: false,
            last_contact_at: Some(Timestamp(5)),
            error: Some("refused".into()),
        };
        assert_eq!(shown.contact, expect);
        nodes.put(node("http://b"));
        nodes.contacted(&before, Ok(()), Timestamp(7));
        assert_eq!(nodes.get("dc1").expect("there").contact, NodeContact::default());
        assert!(!format!("{nodes:?}").contains("very-secret"), "a token is never shown");
    }

    #[test]
    fn a_name_is_plain_and_not_self() {
        for (name, is_one) in [("dc1", true), ("a_B-9", true), ("self", false), ("", false), ("a.b", false)] {
            assert_eq!(check_node_name(name).is_ok(), is_one, "{name}");
        }
        assert!(check_node_name(&"n".repeat(65)).is_err());
    }
}
