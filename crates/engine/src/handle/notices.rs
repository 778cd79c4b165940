//! Notices: signalled, and posted to clients.

use base::Incarnation;
use records::NoticeKey;

use super::Engine;
use crate::kernel::partition_handle::NotAccepting;
use crate::notices::{NoticeDue, NoticeInput, PostOutcome, Signal};

impl Engine {
    /// A subject is in another condition. Whether and when that is told, the registry decides.
    pub fn signal(&self, signal: Signal) {
        self.shared.context.notices.signal(signal);
    }

    /// Returns when notices may be due to clients.
    pub async fn notices_due(&self) {
        self.shared.context.notices.due().await;
    }

    /// Leases up to `max` notices that are due to clients; fewer when there are no more.
    ///
    /// # Errors
    /// When the server is not accepting.
    pub async fn lease_notices(&self, max: usize) -> Result<Vec<NoticeDue>, NotAccepting> {
        self.shared.registry.ask(|reply| NoticeInput::Lease { max, reply }.into()).await
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
