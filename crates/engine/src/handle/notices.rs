//! Notices: signalled, and posted to clients.

use base::{ClientId, Incarnation};
use records::NoticeKey;

use super::Engine;
use crate::kernel::partition_handle::NotAccepting;
use crate::notices::{NoticeDue, NoticeInput, NoticeLease, PostOutcome, Signal};

impl Engine {
    /// A subject is in another condition. Whether and when that is told, the registry decides.
    pub fn signal(&self, signal: Signal) {
        self.shared.context.signal(signal);
    }

    /// Clients that operators were told fail, and not that they recovered: at the start of the
    /// process those of the process before.
    #[must_use]
    pub fn clients_told_failing(&self) -> Vec<ClientId> {
        self.shared.context.clients_told_failing()
    }

    /// Returns when notices may be due to clients.
    pub async fn notices_due(&self) {
        self.shared.context.notices.due().await;
    }

    /// Leases notices that are due to clients, one of each client at most.
    ///
    /// # Errors
    /// When the server is not accepting.
    pub async fn lease_notices(&self, wanted: NoticeLease) -> Result<Vec<NoticeDue>, NotAccepting> {
        self.shared.registry.ask(|reply| NoticeInput::Lease { wanted, reply }.into()).await
    }

    /// Records what came of posting a notice to a client.
    ///
    /// # Errors
    /// When the server is not accepting.
    pub async fn notice_tried(
        &self,
        client: Incarnation,
        notice: NoticeKey,
        outcome: PostOutcome,
    ) -> Result<(), NotAccepting> {
        self.shared.registry.ask(|reply| NoticeInput::Tried { client, notice, outcome, reply }.into()).await
    }
}
