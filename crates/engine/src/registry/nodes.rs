//! The registry's part of nodes: which there are.

use std::collections::BTreeMap;

use base::Problem;
use records::{Op, PeerNode};
use store::{StoreError, View};

use super::{Registry, RegistryEffect, RegistryStep};
use crate::nodes::{NODES_MAX, NewNode, NodeInput, unknown_node};

/// All nodes.
#[derive(Debug, Default)]
pub(super) struct NodeTable {
    nodes: BTreeMap<Box<str>, PeerNode>,
}

impl NodeTable {
    pub(super) fn load(view: &dyn View) -> Result<Self, StoreError> {
        let nodes = view.peer_nodes(usize::MAX)?.into_iter().map(|node| (node.name.clone(), node));
        Ok(Self { nodes: nodes.collect() })
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &PeerNode> {
        self.nodes.values()
    }

    fn put(&mut self, new: NewNode, step: &mut RegistryStep<'_>) -> Result<bool, Problem> {
        let before = self.nodes.get(&new.name);
        if before.is_none() && self.nodes.len() >= NODES_MAX {
            let detail = format!("there are {NODES_MAX} nodes already");
            return Err(Problem::new(429, "too_many_nodes", detail));
        }
        let NewNode { name, url, token } = new;
        let (is_new, created_at) = (before.is_none(), before.map_or(step.now, |before| before.created_at));
        let node = PeerNode { name, url, token, created_at };
        step.push(Op::PutPeerNode(Box::new(node.clone())));
        step.emit(RegistryEffect::NodePut(Box::new(node.clone())));
        self.nodes.insert(node.name.clone(), node);
        Ok(is_new)
    }

    fn delete(&mut self, name: &str, step: &mut RegistryStep<'_>) -> Result<(), Problem> {
        let gone = self.nodes.remove(name).ok_or_else(|| unknown_node(name))?;
        step.push(Op::DeletePeerNode(gone.name.clone()));
        step.emit(RegistryEffect::NodeRemove(gone.name));
        Ok(())
    }
}

impl Registry {
    /// The nodes it loaded.
    pub fn nodes(&self) -> impl Iterator<Item = &PeerNode> {
        self.nodes.all()
    }

    pub(super) fn apply_to_nodes(&mut self, input: NodeInput, step: &mut RegistryStep<'_>) {
        // The outside knows a node before the caller is answered.
        let effect = match input {
            NodeInput::Put { node, reply } => {
                let put = self.nodes.put(*node, step);
                RegistryEffect::NodeMade(reply, put)
            }
            NodeInput::Delete { name, reply } => {
                let deleted = self.nodes.delete(&name, step);
                RegistryEffect::Done(reply, deleted)
            }
        };
        step.emit(effect);
    }
}
