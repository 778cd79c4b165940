//! What the outside sees of a step of the registry: answers, the directory of clients, what
//! rollouts have to be done, and that operations begin.

use std::sync::Arc;

use base::{ClientId, Incarnation, PartitionId, Timestamp};
use records::{Batch, Client, NoticeKind, PeerNode, PortalToken, TokenDigest};

use crate::ClientDirectory;
use crate::followers::Followers;
use crate::followers::registry::RegistryUpdate;
use crate::kernel::machine::MachineContext;
use crate::kernel::reply::{Answered, Reply};
use crate::metrics::BatchMetrics;
use crate::nodes::KnownNodes;
use crate::notices::NoticeDue;
use crate::notices::links::{NoticeGivenUp, NoticeLinks};
use crate::operations::{OperationChanges, OperationEffect};
use crate::portals::OpenPortals;
use crate::rollouts::RolloutEffect;
use crate::rollouts::links::RolloutLinks;

/// What the outside may see once it is durable.
#[derive(Debug)]
pub enum RegistryEffect {
    /// A client was registered or changed, or that was refused.
    Client(Reply<Answered<Client>>, Answered<Box<Client>>),
    /// What a request that may come again is answered, in its form.
    Written(Reply<Answered<Arc<[u8]>>>, Answered<Arc<[u8]>>),
    /// Something was done, or refused.
    Done(Reply<Answered<()>>, Answered<()>),
    /// A client is now this.
    DirectoryPut(Box<Client>),
    /// A client is gone.
    DirectoryRemove(ClientId),
    /// A client is enabled again.
    Enabled(Incarnation),
    /// Something about notices is kept.
    Kept(Reply<()>),
    /// A notice was made.
    Noticed(NoticeKind),
    /// Nothing is told of a subject: there are too many.
    NoticeLeftOut,
    /// A client is not told of a notice any more.
    NoticeGivenUp(Box<NoticeGivenUp>),
    /// Notices are due to clients.
    NoticesDue,
    /// Notices may be posted to clients.
    NoticesLeased(Reply<Vec<NoticeDue>>, Vec<NoticeDue>),
    /// A portal was asked for, or that was refused.
    Portal(Reply<Answered<PortalToken>>, Answered<Box<PortalToken>>),
    /// A portal is open.
    PortalOpened(Box<PortalToken>),
    /// A portal is closed.
    PortalClosed(TokenDigest),
    /// A node was put, or that was refused.
    NodeMade(Reply<Answered<bool>>, Answered<bool>),
    /// A node is now this.
    NodePut(Box<PeerNode>),
    /// A node is gone.
    NodeRemove(Box<str>),
    /// Something about rollouts.
    Rollouts(RolloutEffect),
    /// Something about operations.
    Operations(OperationEffect),
}

/// What the registry reaches outside.
pub struct RegistryContext {
    /// The clients.
    pub directory: Arc<ClientDirectory>,
    portals: OpenPortals,
    nodes: KnownNodes,
    /// Called with a client that is enabled again.
    on_enabled: Box<dyn Fn(Incarnation) + Send + Sync>,
    rollouts: Arc<RolloutLinks>,
    /// Marked changed with operations.
    pub(crate) operations: OperationChanges,
    notices: Arc<NoticeLinks>,
    followers: Arc<Followers>,
    metrics: Arc<BatchMetrics>,
}

impl RegistryContext {
    pub(crate) fn new(
        directory: Arc<ClientDirectory>,
        on_enabled: Box<dyn Fn(Incarnation) + Send + Sync>,
        rollouts: Arc<RolloutLinks>,
        (notices, followers): (Arc<NoticeLinks>, Arc<Followers>),
        metrics: Arc<BatchMetrics>,
    ) -> Self {
        let (portals, operations) = (OpenPortals::default(), OperationChanges::default());
        let nodes = KnownNodes::default();
        Self { directory, portals, nodes, on_enabled, rollouts, operations, notices, followers, metrics }
    }

    /// The nodes that there are.
    #[must_use]
    pub fn nodes(&self) -> &KnownNodes {
        &self.nodes
    }

    /// The portals that are open.
    #[must_use]
    pub fn portals(&self) -> &OpenPortals {
        &self.portals
    }
}

impl MachineContext for RegistryContext {
    type Effect = RegistryEffect;
    type Update = RegistryUpdate;

    fn release(&self, effect: RegistryEffect) {
        match effect {
            RegistryEffect::Client(reply, answer) => reply.send(answer.map(|client| *client)),
            RegistryEffect::Written(reply, answer) => reply.send(answer),
            RegistryEffect::Done(reply, answer) => reply.send(answer),
            RegistryEffect::DirectoryPut(client) => self.directory.put(*client),
            RegistryEffect::DirectoryRemove(id) => self.directory.remove(&id),
            RegistryEffect::Enabled(client) => (self.on_enabled)(client),
            RegistryEffect::Kept(reply) => reply.send(()),
            RegistryEffect::Noticed(kind) => self.notices.noticed(kind),
            RegistryEffect::NoticeLeftOut => self.notices.left_out(),
            RegistryEffect::NoticeGivenUp(given_up) => {
                let client = self.directory.get(given_up.client);
                self.notices.given_up(&given_up, client.as_ref().map(|client| &client.id));
            }
            RegistryEffect::NoticesDue => self.notices.mark_due(),
            RegistryEffect::NoticesLeased(reply, due) => reply.send(due),
            RegistryEffect::Portal(reply, answer) => reply.send(answer.map(|token| *token)),
            RegistryEffect::PortalOpened(token) => self.portals.put(*token),
            RegistryEffect::PortalClosed(digest) => self.portals.remove(&digest),
            RegistryEffect::NodeMade(reply, answer) => reply.send(answer),
            RegistryEffect::NodePut(node) => self.nodes.put(*node),
            RegistryEffect::NodeRemove(name) => self.nodes.remove(&name),
            RegistryEffect::Rollouts(effect) => effect.release(&self.rollouts),
            RegistryEffect::Operations(effect) => effect.release(&self.operations),
        }
    }

    fn batch_made(&self, _: PartitionId, batch: &Batch) -> Option<RegistryUpdate> {
        self.metrics.batch();
        self.followers.registry_update(batch)
    }

    fn batch_durable(&self, _: Timestamp, update: Option<&RegistryUpdate>) {
        self.followers.registry_changed(update.copied().unwrap_or(RegistryUpdate::ANY));
    }
}

base::debug_as_name!(RegistryContext);
