//! Every client, in memory, as the registry partition last committed it.
//!
//! URL, secret and `enabled` are read here at the moment of an attempt. Only durable batches feed
//! it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, RwLock};

use base::locks::{read_locked, write_locked};
use base::{ClientId, Incarnation};
use records::Client;
use tokio::sync::watch;

/// The clients.
#[derive(Debug)]
pub struct ClientDirectory {
    clients: RwLock<ClientMaps>,
    version: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct ClientMaps {
    by_id: BTreeMap<ClientId, Arc<Client>>,
    by_incarnation: HashMap<Incarnation, Arc<Client>>,
    /// Those that are told nothing.
    disabled: BTreeSet<ClientId>,
}

impl ClientMaps {
    fn put(&mut self, client: Arc<Client>) {
        self.remove(&client.id);
        if !client.enabled {
            self.disabled.insert(client.id.clone());
        }
        self.by_id.insert(client.id.clone(), Arc::clone(&client));
        self.by_incarnation.insert(client.incarnation, client);
    }

    fn remove(&mut self, id: &ClientId) {
        if let Some(old) = self.by_id.remove(id) {
            self.by_incarnation.remove(&old.incarnation);
            self.disabled.remove(id);
        }
    }
}

impl ClientDirectory {
    pub(crate) fn new() -> Self {
        Self { clients: RwLock::default(), version: watch::Sender::new(0) }
    }

    /// The client with that id.
    #[must_use]
    pub fn by_id(&self, id: &ClientId) -> Option<Arc<Client>> {
        self.read().by_id.get(id).cloned()
    }

    /// The client of that registration; `None` once it is deleted.
    #[must_use]
    pub fn get(&self, incarnation: Incarnation) -> Option<Arc<Client>> {
        self.read().by_incarnation.get(&incarnation).cloned()
    }

    /// Clients in order of id, behind `after`.
    #[must_use]
    pub fn page(&self, after: Option<&ClientId>, limit: usize) -> Vec<Arc<Client>> {
        use std::ops::Bound::{Excluded, Unbounded};
        let clients = self.read();
        let from = after.map_or(Unbounded, Excluded);
        clients
            .by_id
            .range::<ClientId, _>((from, Unbounded))
            .take(limit)
            .map(|(_, client)| Arc::clone(client))
            .collect()
    }

    /// Changes with every change of a client.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// The first so many clients that are disabled, in order of id.
    #[must_use]
    pub fn disabled(&self, limit: usize) -> Vec<ClientId> {
        self.read().disabled.iter().take(limit).cloned().collect()
    }

    /// How many clients there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().by_id.len()
    }

    /// Whether there is no client.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes these the clients, and no others: for whoever loads the registry partition. One that
    /// is as it was stays the very same: whoever sends to it has no other one.
    pub fn replace(&self, all: impl Iterator<Item = Client>) {
        {
            let mut clients = write_locked(&self.clients);
            let before = std::mem::take(&mut *clients);
            for client in all {
                let kept = before.by_id.get(&client.id).filter(|kept| ***kept == client);
                clients.put(kept.cloned().unwrap_or_else(|| Arc::new(client)));
            }
        }
        self.version.send_modify(|version| *version += 1);
    }

    pub(crate) fn put(&self, client: Client) {
        write_locked(&self.clients).put(Arc::new(client));
        self.version.send_modify(|version| *version += 1);
    }

    pub(crate) fn remove(&self, id: &ClientId) {
        write_locked(&self.clients).remove(id);
        self.version.send_modify(|version| *version += 1);
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, ClientMaps> {
        read_locked(&self.clients)
    }
}

#[cfg(test)]
mod tests {
    use base::Timestamp;

    use super::*;

    fn client(id: &str, incarnation: u64, enabled: bool) -> Client {
        Client {
            id: ClientId::new(id).expect("an id"),
            incarnation: Incarnation(incarnation),
            name: String::new(),
            url: String::new(),
            secret: Vec::new(),
            previous_secret: None,
            enabled,
            created_at: Timestamp(0),
            notices: false,
        }
    }

    #[test]
    fn disabled_clients_are_those_that_are_so_now() {
        let directory = ClientDirectory::new();
        let disabled = || directory.disabled(9).iter().map(|id| id.as_str().to_owned()).collect::<Vec<_>>();
        directory.replace([client("a", 1, false), client("b", 2, true)].into_iter());
        assert_eq!(disabled(), ["a"]);
        directory.put(client("a", 1, true));
        directory.put(client("b", 2, false));
        directory.put(client("c", 3, false));
        assert_eq!(disabled(), ["b", "c"]);
        assert_eq!(directory.disabled(1).len(), 1);
        directory.remove(&ClientId::new("b").expect("an id"));
        assert_eq!(disabled(), ["c"]);
        assert!(directory.get(Incarnation(2)).is_none() && directory.get(Incarnation(1)).is_some());
    }

    #[test]
    fn a_client_that_is_loaded_again_as_it_was_stays_the_same_one() {
        let directory = ClientDirectory::new();
        let known = || directory.get(Incarnation(1)).expect("there");
        directory.replace([client("a", 1, true)].into_iter());
        let first = known();
        directory.replace([client("a", 1, true), client("b", 2, true)].into_iter());
        assert!(Arc::ptr_eq(&first, &known()));
        directory.replace([client("a", 1, false)].into_iter());
        assert!(!known().enabled && directory.len() == 1);
        let disabled = known();
        directory.put(client("a", 1, false));
        assert!(!Arc::ptr_eq(&disabled, &known()), "it was changed, to what it was");
    }
}
