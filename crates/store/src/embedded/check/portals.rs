//! What the tokens of portals say of clients.

use records::PortalToken;

use super::rows::{CheckedPartition, RowCheck};

impl RowCheck<'_, '_> {
    /// A token is of a client that is there. The clients must have been gone through.
    pub(super) fn portals(&mut self, within: &CheckedPartition) {
        self.indexed(within.partition, |check, token: &PortalToken| {
            check.registered.was(token.id)?;
            match check.registered.clients.contains(&token.client) {
                true => Ok(()),
                false => Err(format!("its client, of incarnation {}, is missing", token.client.0)),
            }
        });
    }
}
