//! Portals: opened, closed, and looked up.

use base::{ClientId, Incarnation, Problem};
use records::PortalToken;

use super::Engine;
use crate::portals::{NewPortal, OpenPortals, PORTAL_TTL_MAX, PORTAL_TTL_MIN, PortalInput};

impl Engine {
    /// Opens a portal; it holds when this returns.
    ///
    /// # Errors
    /// 404 for an unknown client, 409 `too_many_portals`, 422 `invalid_ttl`; 503 when not
    /// accepting.
    pub async fn open_portal(&self, portal: NewPortal) -> Result<PortalToken, Problem> {
        if !(PORTAL_TTL_MIN..=PORTAL_TTL_MAX).contains(&portal.ttl) {
            return Err(Problem::not_allowed("invalid_ttl", "ttl must be from 1m to 24h"));
        }
        let portal = Box::new(portal);
        self.shared.registry.ask(|reply| PortalInput::Open { portal, reply }.into()).await?
    }

    /// Closes a portal: its token opens nothing when this returns.
    ///
    /// # Errors
    /// 404 for an unknown client or portal; 503 when not accepting.
    pub async fn close_portal(&self, client: ClientId, id: Incarnation) -> Result<(), Problem> {
        self.shared.registry.ask(|reply| PortalInput::Close { client, id, reply }.into()).await?
    }

    /// The portals that are open.
    #[must_use]
    pub fn portals(&self) -> &OpenPortals {
        self.shared.context.registry.portals()
    }
}
