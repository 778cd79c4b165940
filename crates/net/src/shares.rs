//! Shares of what all callers have together, one for each token: nobody can take all of it. Where
//! there are no tokens, a share is an address's (of IPv6, of a network of 56 bits).

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::extract::ConnectInfo;
use axum::http::Extensions;
use base::answers::Wanted;
use base::{CallerName, address};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// As many shares are known before those that nobody uses are forgotten.
const KNOWN_MIN: usize = 64;

/// Whose a share is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Whose {
    /// Of a token.
    Token(Arc<str>),
    /// Of an address.
    Address(IpAddr),
    /// Nobody said who calls.
    #[default]
    Unknown,
}

impl Whose {
    /// Of who makes a request.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Self {
        if let Some(CallerName(name)) = extensions.get() {
            return Self::Token(Arc::clone(name));
        }
        let peer = extensions.get::<ConnectInfo<SocketAddr>>();
        peer.map_or(Self::Unknown, |ConnectInfo(peer)| Self::Address(address::sender(peer.ip())))
    }
}

/// What is free of something, and how many wait for it.
#[derive(Clone, Debug)]
pub struct Share {
    free: Arc<Semaphore>,
    wanted: Wanted,
}

impl Share {
    /// All of it is free.
    #[must_use]
    pub fn new(permits: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(permits)), wanted: Wanted::default() }
    }

    /// So much of it, once that is there.
    ///
    /// # Panics
    /// Never: a share is not closed.
    pub async fn take(&self, permits: u32) -> OwnedSemaphorePermit {
        if let Some(taken) = self.try_take(permits) {
            return taken;
        }
        let _waits = self.wanted.wait();
        let taken = Arc::clone(&self.free).acquire_many_owned(permits).await;
        taken.expect("a share is never closed")
    }

    /// So much of it, if that is there.
    #[must_use]
    pub fn try_take(&self, permits: u32) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).try_acquire_many_owned(permits).ok()
    }

    /// Who waits for it.
    #[must_use]
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// How much of it is free.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.available_permits()
    }
}

/// Shares of the same size, each known while it is used.
#[derive(Debug)]
pub struct Shares {
    permits: usize,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    shares: HashMap<Whose, (Weak<Semaphore>, Wanted)>,
    forget_at: usize,
}

impl Shares {
    /// Shares of so many permits.
    #[must_use]
    pub fn new(permits: usize) -> Self {
        let known = Known { shares: HashMap::new(), forget_at: KNOWN_MIN };
        Self { permits, known: Mutex::new(known) }
    }

    /// The share.
    #[must_use]
    pub fn of(&self, whose: &Whose) -> Share {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((free, wanted)) = known.shares.get(whose)
            && let Some(free) = free.upgrade()
        {
            return Share { free, wanted: wanted.clone() };
        }
        if known.shares.len() >= known.forget_at {
            known.shares.retain(|_, (free, _)| free.strong_count() > 0);
            known.forget_at = KNOWN_MIN.max(2 * known.shares.len());
        }
        let share = Share::new(self.permits);
        known.shares.insert(whose.clone(), (Arc::downgrade(&share.free), share.wanted.clone()));
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_known_while_it_is_used() {
        let shares = Shares::new(2);
        let token = Whose::Token("ops".into());
        let taken = shares.of(&token).try_take(2).expect("free");
        assert!(shares.of(&token).try_take(1).is_none());
        let held: Vec<_> = (0..100)
            .map(|n| shares.of(&Whose::Token(n.to_string().into())).try_take(1).expect("another's"))
            .collect();
        drop(held);
        for n in 0..10_000 {
            drop(shares.of(&Whose::Token(format!("other {n}").into())));
        }
        assert!(shares.known.lock().expect("unpoisoned").shares.len() <= 4 * KNOWN_MIN);
        assert!(shares.of(&token).try_take(1).is_none(), "it is still used");
        drop(taken);
        assert_eq!(shares.of(&token).free(), 2);
    }

    #[test]
    fn a_token_comes_before_an_address() {
        let mut extensions = Extensions::new();
        assert_eq!(Whose::of(&extensions), Whose::Unknown);
        let peer = SocketAddr::from(([10, 0, 0, 1], 4_711));
        extensions.insert(ConnectInfo(peer));
        assert_eq!(Whose::of(&extensions), Whose::Address(peer.ip()));
        extensions.insert(CallerName("ops".into()));
        assert_eq!(Whose::of(&extensions), Whose::Token("ops".into()));
    }
}
