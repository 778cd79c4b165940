//! Shares of what callers take without a token: so many for all, and so many of them for one sender.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::address;

/// Places of a kind.
#[derive(Debug)]
pub(crate) struct Shares {
    taken: Mutex<Taken>,
    places_max: usize,
    of_sender_max: usize,
}

#[derive(Debug, Default)]
struct Taken {
    places: usize,
    by_sender: HashMap<IpAddr, usize>,
}

/// A place; free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    shares: Arc<Shares>,
    sender: IpAddr,
}

impl Shares {
    pub(crate) fn new(places_max: usize, of_sender_max: usize) -> Self {
        Self { taken: Mutex::default(), places_max, of_sender_max }
    }

    /// A place for somebody at this address, if there is one.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Option<Share> {
        let sender = address::sender(address);
        let mut taken = self.taken();
        let of_sender = taken.by_sender.get(&sender).copied().unwrap_or(0);
        if taken.places >= self.places_max || of_sender >= self.of_sender_max {
            return None;
        }
        taken.places += 1;
        taken.by_sender.insert(sender, of_sender + 1);
        Some(Share { shares: Arc::clone(self), sender })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.shares.taken();
        taken.places -= 1;
        if let Some(of_sender) = taken.by_sender.get_mut(&self.sender) {
            *of_sender -= 1;
            if *of_sender == 0 {
                taken.by_sender.remove(&self.sender);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sender_leaves_places_to_others_and_all_of_them_have_so_many() {
        let shares = Arc::new(Shares::new(3, 2));
        let address = |text: &str| text.parse().expect("an address");
        let (one, same) = (address("2001:db8::1"), address("2001:db8:0:9::1"));
        let other = address("10.0.0.1");
        let mut taken = vec![shares.take(one), shares.take(same), shares.take(one), shares.take(other)];
        let given: Vec<_> = taken.iter().map(Option::is_some).collect();
        assert_eq!(given, [true, true, false, true]);
        assert!(shares.take(other).is_none(), "there are three");
        taken.truncate(1);
        assert!(shares.take(same).is_some());
        taken.clear();
        assert!(shares.taken().by_sender.is_empty() && shares.taken().places == 0);
    }
}
