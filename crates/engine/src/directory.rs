//! Every client, in memory, as the registry partition last committed it.
//!
//! URL, secret and `enabled` are read here at the moment of an attempt. Only durable batches feed
//! it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use base::{ClientId, Incarnation};
use records::Client;
use tokio::sync::watch;

/// The clients.
#[derive(Debug)]
pub struct Directory {
    clients: RwLock<ClientMaps>,
    version: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct ClientMaps {
    by_id: BTreeMap<ClientId, Arc<Client>>,
    by_incarnation: HashMap<Incarnation, Arc<Client>>,
}

impl Directory {
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

    /// Makes these the clients, and no others: for whoever loads the registry partition.
    pub fn replace(&self, all: impl Iterator<Item = Client>) {
        {
            let mut clients = self.clients.write().unwrap_or_else(PoisonError::into_inner);
            *clients = ClientMaps::default();
            for client in all.map(Arc::new) {
                clients.by_incarnation.insert(client.incarnation, Arc::clone(&client));
                clients.by_id.insert(client.id.clone(), client);
            }
        }
        self.version.send_modify(|version| *version += 1);
    }

    pub(crate) fn put(&self, client: Client) {
        {
            let mut clients = self.clients.write().unwrap_or_else(PoisonError::into_inner);
            let client = Arc::new(client);
            if let Some(old) = clients.by_id.insert(client.id.clone(), Arc::clone(&client)) {
                clients.by_incarnation.remove(&old.incarnation);
            }
            clients.by_incarnation.insert(client.incarnation, client);
        }
        self.version.send_modify(|version| *version += 1);
    }

    pub(crate) fn remove(&self, id: &ClientId) {
        {
            let mut clients = self.clients.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(old) = clients.by_id.remove(id) {
                clients.by_incarnation.remove(&old.incarnation);
            }
        }
        self.version.send_modify(|version| *version += 1);
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, ClientMaps> {
        self.clients.read().unwrap_or_else(PoisonError::into_inner)
    }
}
