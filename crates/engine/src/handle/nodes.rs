//! Nodes: put, deleted, and looked up.

use base::Problem;

use super::Engine;
use crate::nodes::{KnownNodes, NewNode, NodeInput, check_node_name};

impl Engine {
    /// Makes a node, or has it reached in another way; it holds when this returns. Whether it is
    /// new.
    ///
    /// # Errors
    /// 422 `invalid_name`, 429 `too_many_nodes`; 503 when not accepting.
    pub async fn put_node(&self, node: NewNode) -> Result<bool, Problem> {
        check_node_name(&node.name)?;
        let node = Box::new(node);
        self.shared.registry.ask(|reply| NodeInput::Put { node, reply }.into()).await?
    }

    /// Deletes a node. Copies with it wait from then on.
    ///
    /// # Errors
    /// 404 `unknown_node`; 503 when not accepting.
    pub async fn delete_node(&self, name: &str) -> Result<(), Problem> {
        let name = name.into();
        self.shared.registry.ask(|reply| NodeInput::Delete { name, reply }.into()).await?
    }

    /// The nodes that there are.
    #[must_use]
    pub fn nodes(&self) -> &KnownNodes {
        self.shared.context.registry.nodes()
    }
}
