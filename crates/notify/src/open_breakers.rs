//! The clients whose breaker is open, for whoever shows what fails.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base::locks::locked;
use base::{ClientId, Timestamp};

use crate::breaker::BreakerEvent;
use crate::metrics::AttemptResult;

/// A client whose notifications wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenBreaker {
    /// The client.
    pub client: ClientId,
    /// Attempts that had failed in a row when it opened.
    pub failed: u32,
    /// How the last of them ended.
    pub last: &'static str,
    /// When it opened.
    pub since: Timestamp,
}

/// The open breakers. Bounded by the clients that there are. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct OpenBreakers(Arc<Mutex<BTreeMap<ClientId, OpenBreaker>>>);

impl OpenBreakers {
    pub(crate) fn note(&self, event: &BreakerEvent, now: Timestamp) {
        let mut open = locked(&self.0);
        match event {
            BreakerEvent::Opened { client, failed, last } => {
                let (id, last) = (client.id.clone(), AttemptResult::from(*last).as_str());
                open.insert(id.clone(), OpenBreaker { client: id, failed: *failed, last, since: now });
            }
            BreakerEvent::Closed { client, .. } => drop(open.remove(&client.id)),
        }
    }

    /// The clients, in order of id.
    pub(crate) fn clients(&self) -> impl Iterator<Item = ClientId> {
        let open = locked(&self.0);
        open.keys().cloned().collect::<Vec<_>>().into_iter()
    }

    /// So many of them at most, in order of id.
    #[must_use]
    pub fn some(&self, limit: usize) -> Vec<OpenBreaker> {
        let open = locked(&self.0);
        open.values().take(limit).cloned().collect()
    }
}
