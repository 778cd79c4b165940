//! Portals: short-lived tokens that each show one client. Who shows one is looked up here, in
//! memory, as the registry partition last committed it.

use std::collections::HashMap;
use std::sync::{Arc, RwLock, RwLockReadGuard};
use std::time::Duration;

use base::locks::{read_locked, write_locked};
use base::{ClientId, Incarnation, Timestamp};
use records::{PortalRights, PortalToken, TokenDigest};

use crate::kernel::reply::{Answered, Reply};
use crate::registry::RegistryInput;

/// Shortest life of a portal.
pub const PORTAL_TTL_MIN: Duration = Duration::from_secs(60);
/// Longest life of a portal.
pub const PORTAL_TTL_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Open portals of a client at the same time: each person who looks at one gets a link.
pub const PORTALS_PER_CLIENT_MAX: usize = 64;

/// A portal as somebody asks for it.
#[derive(Debug)]
pub struct NewPortal {
    /// The client that it shows.
    pub client: ClientId,
    /// What recognises its token.
    pub digest: TokenDigest,
    /// How long it is open.
    pub ttl: Duration,
    /// What its holder may do.
    pub may: PortalRights,
    /// The name of the token that asks.
    pub by: Option<Box<str>>,
}

/// An input of the registry about portals.
#[derive(Debug)]
pub enum PortalInput {
    /// Open one.
    Open {
        /// As asked for.
        portal: Box<NewPortal>,
        /// Gets it.
        reply: Reply<Answered<PortalToken>>,
    },
    /// Close one.
    Close {
        /// Its client.
        client: ClientId,
        /// Which.
        id: Incarnation,
        /// Gets the outcome.
        reply: Reply<Answered<()>>,
    },
}

/// The portals that are open.
#[derive(Debug, Default)]
pub struct OpenPortals {
    by_digest: RwLock<HashMap<TokenDigest, Arc<PortalToken>>>,
}

impl OpenPortals {
    /// The portal that this token opens, if it does at `now`.
    #[must_use]
    pub fn get(&self, digest: &TokenDigest, now: Timestamp) -> Option<Arc<PortalToken>> {
        self.read().get(digest).filter(|token| now < token.expires_at).cloned()
    }

    /// The portals of a client, the oldest first.
    #[must_use]
    pub fn of_client(&self, client: Incarnation, now: Timestamp) -> Vec<Arc<PortalToken>> {
        let is_its = |token: &&Arc<PortalToken>| token.client == client && now < token.expires_at;
        let mut found: Vec<_> = self.read().values().filter(is_its).cloned().collect();
        found.sort_by_key(|token| token.id);
        found
    }

    /// How many there are, those included whose time is just over.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn replace(&self, all: impl Iterator<Item = PortalToken>) {
        let all = all.map(|token| (token.digest, Arc::new(token))).collect();
        *write_locked(&self.by_digest) = all;
    }

    pub(crate) fn put(&self, token: PortalToken) {
        let mut open = write_locked(&self.by_digest);
        open.insert(token.digest, Arc::new(token));
    }

    pub(crate) fn remove(&self, digest: &TokenDigest) {
        write_locked(&self.by_digest).remove(digest);
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<TokenDigest, Arc<PortalToken>>> {
        read_locked(&self.by_digest)
    }
}

impl From<PortalInput> for RegistryInput {
    fn from(input: PortalInput) -> Self {
        Self::Portals(input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portal_opens_nothing_from_its_end_on() {
        let open = OpenPortals::default();
        let token = PortalToken {
            id: Incarnation(1),
            client: Incarnation(2),
            client_id: ClientId::new("acme").expect("an id"),
            digest: TokenDigest([3; 32]),
            may: PortalRights::default(),
            created_at: Timestamp(0),
            expires_at: Timestamp(100),
            by: None,
        };
        open.put(token.clone());
        let seen = |at: i64| {
            let now = Timestamp(at);
            (open.get(&token.digest, now).is_some(), open.of_client(token.client, now).len())
        };
        assert_eq!([seen(99), seen(100)], [(true, 1), (false, 0)]);
        assert!(open.get(&TokenDigest([4; 32]), Timestamp(0)).is_none());
        assert!(open.of_client(Incarnation(9), Timestamp(0)).is_empty());
        assert!(!format!("{token:?}").contains("3, 3"), "a digest is not shown");
    }
}
