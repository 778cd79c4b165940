//! Shares of what all callers have together, one for each token: nobody can take all of it. Where
//! there are no tokens, a share is an address's (of IPv6, of a network of 56 bits).

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, Weak};

use axum::extract::ConnectInfo;
use axum::http::Extensions;
use base::answers::{TakenFrom, Wanted};
use base::locks::locked;
use base::{CallerName, Problem, address};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// As many shares are known before those that nobody uses are forgotten.
const KNOWN_MIN: usize = 64;

/// Callers of one token that may wait for the ends of commands, at each edge. All of them may be
/// in one partition, which holds 4,096: they leave places to others.
pub const COMMAND_WAITS_SHARE: usize = 1_024;
/// Polls of one token that may wait. All of them may be in one partition, which holds 4,096: many
/// devices may share a token, but they leave places to others.
pub const POLLS_SHARE: usize = 3_072;

/// By what senders are told apart that have shares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum SenderKey {
    /// Of a token.
    Token(Arc<str>),
    /// Of an address.
    Address(IpAddr),
    /// Nobody said who calls.
    #[default]
    Unknown,
}

impl SenderKey {
    /// Of a caller with a token of this name, or of this address where none is asked for.
    #[must_use]
    pub fn of_caller(token: &str, address: IpAddr) -> Self {
        if token.is_empty() { Self::of_address(address) } else { Self::Token(token.into()) }
    }

    /// Of an address, or the network that stands for it.
    #[must_use]
    pub fn of_address(address: IpAddr) -> Self {
        Self::Address(address::sender(address))
    }

    /// Of who makes a request.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Self {
        if let Some(CallerName(name)) = extensions.get() {
            return Self::Token(Arc::clone(name));
        }
        let peer = extensions.get::<ConnectInfo<SocketAddr>>();
        peer.map_or(Self::Unknown, |ConnectInfo(peer)| Self::of_address(peer.ip()))
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
pub struct SenderShares {
    permits: usize,
    known: Mutex<KnownShares>,
}

#[derive(Debug)]
struct KnownShares {
    shares: HashMap<SenderKey, (Weak<Semaphore>, Wanted)>,
    forget_at: usize,
}

impl SenderShares {
    /// Shares of so many permits.
    #[must_use]
    pub fn new(permits: usize) -> Self {
        let known = KnownShares { shares: HashMap::new(), forget_at: KNOWN_MIN };
        Self { permits, known: Mutex::new(known) }
    }

    /// The share.
    #[must_use]
    pub fn of(&self, sender: &SenderKey) -> Share {
        let mut known = locked(&self.known);
        if let Some((free, wanted)) = known.shares.get(sender)
            && let Some(free) = free.upgrade()
        {
            return Share { free, wanted: wanted.clone() };
        }
        if known.shares.len() >= known.forget_at {
            known.shares.retain(|_, (free, _)| free.strong_count() > 0);
            known.forget_at = KNOWN_MIN.max(2 * known.shares.len());
        }
        let share = Share::new(self.permits);
        known.shares.insert(sender.clone(), (Arc::downgrade(&share.free), share.wanted.clone()));
        share
    }
}

/// Each token's share of those who wait for something that may be long in coming. Where there are
/// no tokens, only the bound of all counts.
#[derive(Debug)]
pub struct WaitShares {
    shares: SenderShares,
    permits: usize,
    what: &'static str,
}

impl WaitShares {
    /// So many may wait with one token; `what` says for what.
    #[must_use]
    pub fn new(permits: usize, what: &'static str) -> Self {
        Self { shares: SenderShares::new(permits), permits, what }
    }

    /// A place of this token's share.
    ///
    /// # Errors
    /// 503 `too_many_waiting`.
    pub fn try_take(&self, sender: &SenderKey) -> Result<Option<OwnedSemaphorePermit>, Problem> {
        let SenderKey::Token(_) = sender else { return Ok(None) };
        let full = || {
            let Self { permits, what, .. } = self;
            let detail =
                format!("{permits} callers with this token wait for {what} already; ask without wait");
            Problem::new(503, "too_many_waiting", detail)
        };
        self.shares.of(sender).try_take(1).map(Some).ok_or_else(full)
    }
}

/// So much of something for all, and so much of it for one sender.
#[derive(Debug)]
pub struct SharedPool {
    all: Share,
    shares: SenderShares,
}

/// What is taken: of the sender's share, and of all.
pub type Taken = ([OwnedSemaphorePermit; 2], TakenFrom);

impl SharedPool {
    /// So many permits, and so many of them for one sender.
    #[must_use]
    pub fn new(permits: usize, permits_of_sender: usize) -> Self {
        Self { all: Share::new(permits), shares: SenderShares::new(permits_of_sender) }
    }

    /// So many for this sender, once they are there. Who waits for its own share holds nothing that
    /// others wait for.
    pub async fn take(&self, sender: &SenderKey, permits: u32) -> Taken {
        let own = self.shares.of(sender);
        let taken = [own.take(permits).await, self.all.take(permits).await];
        (taken, self.from(&own))
    }

    /// So many for this sender, if they are there.
    #[must_use]
    pub fn try_take(&self, sender: &SenderKey, permits: u32) -> Option<Taken> {
        let own = self.shares.of(sender);
        let taken = [own.try_take(permits)?, self.all.try_take(permits)?];
        Some((taken, self.from(&own)))
    }

    /// Whether so many are there for this sender. It takes none of them, so another may be quicker.
    #[must_use]
    pub fn has(&self, sender: &SenderKey, permits: u32) -> bool {
        self.shares.of(sender).free().min(self.all.free()) >= permits as usize
    }

    /// Whether others wait for what this sender takes: for its share, or for what all have.
    #[must_use]
    pub fn is_wanted(&self, sender: &SenderKey) -> bool {
        self.from(&self.shares.of(sender)).is_wanted()
    }

    /// As many of these as are there.
    pub fn take_available(&self, sender: &SenderKey, permits: u32) -> Taken {
        let own = self.shares.of(sender);
        let mut permits = permits.min(own.free() as u32).min(self.all.free() as u32);
        loop {
            if let Some(taken) = own.try_take(permits).zip(self.all.try_take(permits)) {
                return (taken.into(), self.from(&own));
            }
            // Somebody else was quicker. Nothing at all is always there.
            permits /= 2;
        }
    }

    /// How many are free.
    #[must_use]
    pub fn free(&self) -> usize {
        self.all.free()
    }

    fn from(&self, own: &Share) -> TakenFrom {
        TakenFrom([own.wanted().clone(), self.all.wanted().clone()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_known_while_it_is_used() {
        let shares = SenderShares::new(2);
        let token = SenderKey::Token("ops".into());
        let taken = shares.of(&token).try_take(2).expect("free");
        assert!(shares.of(&token).try_take(1).is_none());
        let held: Vec<_> = (0..100)
            .map(|n| shares.of(&SenderKey::Token(n.to_string().into())).try_take(1).expect("another's"))
            .collect();
        drop(held);
        for n in 0..10_000 {
            drop(shares.of(&SenderKey::Token(format!("other {n}").into())));
        }
        assert!(shares.known.lock().expect("unpoisoned").shares.len() <= 4 * KNOWN_MIN);
        assert!(shares.of(&token).try_take(1).is_none(), "it is still used");
        drop(taken);
        assert_eq!(shares.of(&token).free(), 2);
    }

    #[test]
    fn a_token_has_a_share_of_those_who_wait() {
        let waits = WaitShares::new(2, "polls");
        let [own, other] = ["a", "b"].map(|name| SenderKey::Token(name.into()));
        let mut held: Vec<_> = (0..2).map(|_| waits.try_take(&own).expect("of its share")).collect();
        let refused = waits.try_take(&own).expect_err("there is no more");
        assert_eq!((refused.status, refused.code), (503, "too_many_waiting"));
        assert!(waits.try_take(&other).is_ok_and(|place| place.is_some()));
        assert!(waits.try_take(&SenderKey::Unknown).is_ok_and(|place| place.is_none()));
        held.pop();
        assert!(waits.try_take(&own).is_ok());
    }

    #[test]
    fn a_token_comes_before_an_address() {
        let mut extensions = Extensions::new();
        assert_eq!(SenderKey::of(&extensions), SenderKey::Unknown);
        let peer = SocketAddr::from(([10, 0, 0, 1], 4_711));
        extensions.insert(ConnectInfo(peer));
        assert_eq!(SenderKey::of(&extensions), SenderKey::Address(peer.ip()));
        extensions.insert(CallerName("ops".into()));
        assert_eq!(SenderKey::of(&extensions), SenderKey::Token("ops".into()));
    }

    #[test]
    fn one_sender_leaves_permits_to_others_and_all_of_them_have_so_many() {
        let pool = SharedPool::new(3, 2);
        let take = |text: &str| pool.try_take(&SenderKey::of_address(text.parse().expect("an address")), 1);
        let (one, same, other) = ("2001:db8::1", "2001:db8:0:9::1", "10.0.0.1");
        let mut taken = vec![take(one), take(same), take(one), take(other)];
        let given: Vec<_> = taken.iter().map(Option::is_some).collect();
        assert_eq!(given, [true, true, false, true]);
        assert!(take(other).is_none(), "there are three");
        taken.truncate(1);
        let has = |permits| pool.has(&SenderKey::of_address(one.parse().expect("an address")), permits);
        assert_eq!([has(1), has(2), has(1)], [true, false, true], "to look takes nothing");
        assert!(take(same).is_some());
        taken.clear();
        assert_eq!(pool.free(), 3);
    }
}
