//! Tokens of portals.

use base::Incarnation;
use records::PortalToken;

use crate::codec::key;
use crate::key_range::KeyRange;
use crate::port::{StoreError, View};

impl dyn View + '_ {
    /// Tokens of portals, in order of id; registry partition only.
    pub fn portal_tokens(
        &self,
        after: Option<Incarnation>,
        limit: usize,
    ) -> Result<Vec<PortalToken>, StoreError> {
        let range = KeyRange::of(&[]).after(after.map(key::incarnation));
        self.records(range, true)?.take(limit).collect()
    }
}
