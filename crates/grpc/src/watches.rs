//! Who watches the health of the server: so many of one sender, and so many of all. A watch has no
//! end of its own, so the oldest one makes room for a newcomer.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use base::address;
use base::locks::locked;
use tokio::sync::watch;

/// Watches of all senders.
const WATCHES_MAX: usize = 1_024;
/// Those of one sender: a balancer watches over few connections.
const WATCHES_OF_SENDER_MAX: usize = 64;

/// The watches under way.
#[derive(Debug, Default)]
pub(crate) struct Watches(Mutex<WatchTable>);

#[derive(Debug, Default)]
struct WatchTable {
    /// Oldest first. A sender that is dropped ends its watch.
    by_sender: HashMap<IpAddr, BTreeMap<u64, watch::Sender<()>>>,
    watches: usize,
    entered: u64,
}

/// A watch under way; over when this is dropped.
#[derive(Debug)]
pub(crate) struct Watching {
    watches: Arc<Watches>,
    sender: IpAddr,
    number: u64,
}

/// Tells a watch that another has its place.
#[derive(Clone, Debug)]
pub(crate) struct Replaced(watch::Receiver<()>);

impl Watches {
    /// Begins a watch of somebody at this address; another one may end for it.
    pub(crate) fn begin(self: &Arc<Self>, address: IpAddr) -> (Watching, Replaced) {
        let sender = address::sender(address);
        let (end, ended) = watch::channel(());
        let mut table = locked(&self.0);
        table.make_room(sender);
        table.entered += 1;
        table.watches += 1;
        let number = table.entered;
        table.by_sender.entry(sender).or_default().insert(number, end);
        (Watching { watches: Arc::clone(self), sender, number }, Replaced(ended))
    }
}

impl WatchTable {
    fn make_room(&mut self, newcomer: IpAddr) {
        let of_newcomer = self.by_sender.get(&newcomer).map_or(0, BTreeMap::len);
        let from = if of_newcomer >= WATCHES_OF_SENDER_MAX {
            Some(newcomer)
        } else if self.watches >= WATCHES_MAX {
            let most = self.by_sender.iter().max_by_key(|(_, of_sender)| of_sender.len());
            most.map(|(sender, _)| *sender)
        } else {
            None
        };
        let oldest = from.and_then(|from| Some((from, *self.by_sender.get(&from)?.keys().next()?)));
        if let Some((from, number)) = oldest {
            self.end(from, number);
        }
    }

    fn end(&mut self, sender: IpAddr, number: u64) {
        let Some(of_sender) = self.by_sender.get_mut(&sender) else { return };
        if of_sender.remove(&number).is_some() {
            self.watches -= 1;
        }
        if of_sender.is_empty() {
            self.by_sender.remove(&sender);
        }
    }
}

impl Replaced {
    /// Resolves when another watch has its place.
    pub(crate) async fn wait(&mut self) {
        while self.0.changed().await.is_ok() {}
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        locked(&self.watches.0).end(self.sender, self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures_util::FutureExt;

    use super::*;

    fn is_replaced((_, replaced): &(Watching, Replaced)) -> bool {
        replaced.clone().wait().now_or_never().is_some()
    }

    #[test]
    fn the_oldest_of_a_sender_that_has_its_share_ends() {
        let watches = Arc::new(Watches::default());
        let (one, other) = (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into());
        let honest = watches.begin(other);
        let held: Vec<_> = (0..2 * WATCHES_MAX).map(|_| watches.begin(one)).collect();
        assert!(!is_replaced(&honest));
        assert_eq!(held.iter().filter(|watch| !is_replaced(watch)).count(), WATCHES_OF_SENDER_MAX);
        assert!(is_replaced(&held[0]) && held.last().is_some_and(|last| !is_replaced(last)));
        drop((held, honest));
        assert!(locked(&watches.0).by_sender.is_empty() && locked(&watches.0).watches == 0);
    }

    #[test]
    fn who_has_most_makes_room_where_all_have_too_many() {
        let watches = Arc::new(Watches::default());
        let sender = |number: usize| Ipv4Addr::from_bits(0x0a00_0000 + number as u32).into();
        let full = WATCHES_MAX / WATCHES_OF_SENDER_MAX;
        let held: Vec<_> = (0..WATCHES_MAX).map(|number| watches.begin(sender(number % full))).collect();
        assert!(!held.iter().any(is_replaced));
        let honest: Vec<_> = (0..9).map(|number| watches.begin(sender(full + number))).collect();
        assert!(!honest.iter().any(is_replaced));
        assert_eq!(locked(&watches.0).watches, WATCHES_MAX);
    }
}
