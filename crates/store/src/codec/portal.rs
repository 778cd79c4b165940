//! The stored form of a portal's token.

use std::borrow::Cow;

use base::Incarnation;
use records::{PortalRights, PortalToken};

use super::field::{fields, stored};
use super::key;
use crate::record::record;

stored!(
    PortalToken, "a portal's token", version 1:
    id, client, client_id, digest, may, created_at, expires_at, by
);

fields! {
    PortalRights: read, retry, url;
}

record!(
    PortalToken: PortalTokens by Incarnation,
    key: |id| key::incarnation(*id),
    place: |token| Cow::Borrowed(&token.id),
);
