//! A portal: a short-lived token that shows one client to whoever holds it.

use std::fmt;

use base::{ClientId, Incarnation, Timestamp};

use crate::weight::{RECORD_BYTES, weighs};

/// The token of a portal as it is kept: never the token itself, only what recognises it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortalToken {
    /// New for every token.
    pub id: Incarnation,
    /// The client that it shows; the token goes with it.
    pub client: Incarnation,
    /// The client's id.
    pub client_id: ClientId,
    /// What recognises the token.
    pub digest: TokenDigest,
    /// What its holder may do.
    pub may: PortalRights,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it is worth nothing.
    pub expires_at: Timestamp,
    /// The name of the token that asked for it, where tokens are asked for.
    pub by: Option<Box<str>>,
}

weighs!(PortalToken: |_| RECORD_BYTES);

/// What the holder of a portal may do with its client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortalRights {
    /// To see it, its links, its deliveries and their attempts.
    pub read: bool,
    /// To have deliveries sent again, and tests.
    pub retry: bool,
    /// To change its URL, and to rotate its secret.
    pub url: bool,
}

/// The SHA-256 of a token.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenDigest(pub [u8; 32]);

impl fmt::Debug for TokenDigest {
    /// Not shown: who has it can try tokens against it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenDigest(..)")
    }
}
