//! A client: an owner's application, and where it wants to be told.

use base::{ClientId, Incarnation, Timestamp};

use crate::weight::{RECORD_BYTES, weighs};

/// A client as it is kept in the registry partition.
#[derive(Clone, PartialEq, Eq)]
pub struct Client {
    /// The id, unique among the registered.
    pub id: ClientId,
    /// New at every registration.
    pub incarnation: Incarnation,
    /// For people.
    pub name: String,
    /// Where notifications are posted.
    pub url: String,
    /// The key of the signature: the decoded bytes behind `whsec_`.
    pub secret: Vec<u8>,
    /// The one before it, with which attempts are signed too for a while.
    pub previous_secret: Option<PreviousSecret>,
    /// A disabled client's notifications stay pending.
    pub enabled: bool,
    /// Whether it is told of notices.
    pub notices: bool,
    /// When it was registered.
    pub created_at: Timestamp,
}

weighs!(Client: |_| 63 * RECORD_BYTES);

/// A secret that was rotated away.
#[derive(Clone, PartialEq, Eq)]
pub struct PreviousSecret {
    /// The decoded bytes behind `whsec_`.
    pub secret: Vec<u8>,
    /// Until when it is signed with, on the engine clock.
    pub until: Timestamp,
}

impl std::fmt::Debug for PreviousSecret {
    /// Leaves the secret out: it must never reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PreviousSecret").field("until", &self.until).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Client {
    /// Leaves the secret out: it must never reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("id", &self.id)
            .field("incarnation", &self.incarnation)
            .field("name", &self.name)
            .field("url", &self.url)
            .field("enabled", &self.enabled)
            .finish_non_exhaustive()
    }
}
