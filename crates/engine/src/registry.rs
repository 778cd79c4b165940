//! The registry partition: clients. A state machine like every other; what it commits feeds the [`Directory`](crate::Directory).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::{ClientId, Incarnation, PartitionId, Problem, Timestamp};
use fleet::{ClientPatch, Made, NewClient};
use records::{Batch, Client, Op, PartitionHead, PreviousSecret};
use store::{Resident, Store, StoreError};

use crate::effect::{Answered, Effect, Reply};
use crate::machine::{Machine, Moment, Step};
use crate::refusals::unknown_client;
use crate::settings::Settings;
use crate::unsettled::Fetch;

/// How long attempts are signed with the secret before, too, after it was rotated.
const SECRETS_OVERLAP: Duration = Duration::from_secs(24 * 3_600);

/// An input to the registry partition.
#[derive(Debug)]
pub enum RegistryInput {
    /// Register a client.
    Create {
        /// As asked for.
        client: Box<NewClient>,
        /// For what was left out.
        made: Box<Made>,
        /// Gets the client.
        reply: Reply<Answered<Client>>,
    },
    /// Change a client.
    Patch {
        /// The client.
        id: ClientId,
        /// What to change.
        patch: Box<ClientPatch>,
        /// Gets the client.
        reply: Reply<Answered<Client>>,
    },
    /// Give a client another secret.
    Rotate {
        /// The client.
        id: ClientId,
        /// The secret.
        secret: Box<[u8; 32]>,
        /// Gets the client.
        reply: Reply<Answered<Client>>,
    },
    /// A receiver said that it is gone for good: disable its client, unless that has another receiver by now.
    Disable {
        /// The client.
        client: Incarnation,
        /// Where the receiver is.
        url: String,
        /// Gets the outcome.
        reply: Reply<Answered<()>>,
    },
    /// Remove a client.
    Delete {
        /// The client.
        id: ClientId,
        /// Gets the client that was removed.
        reply: Reply<Answered<Client>>,
    },
}

/// The registry partition.
#[derive(Debug)]
pub struct Registry {
    settings: Arc<Settings>,
    head: PartitionHead,
    clients: BTreeMap<ClientId, Client>,
}

impl Registry {
    /// Loads the registry partition.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn load(store: &dyn Store, settings: &Arc<Settings>) -> Result<Self, StoreError> {
        let mut clients = BTreeMap::new();
        let head = store.load(PartitionId::REGISTRY, &mut |resident| {
            if let Resident::Client(client) = resident {
                clients.insert(client.id.clone(), *client);
            }
        })?;
        Ok(Self { settings: Arc::clone(settings), head, clients })
    }

    /// The clients it loaded.
    pub fn clients(&self) -> impl Iterator<Item = &Client> {
        self.clients.values()
    }

    fn apply(&mut self, now: Timestamp, input: RegistryInput, ops: &mut Vec<Op>, effects: &mut Vec<Effect>) {
        match input {
            RegistryInput::Create { client, made, reply } => {
                let answer = self.create(now, *client, &made);
                let answer = answer.map(|client| self.put(client, ops, effects));
                effects.push(Effect::Client(reply, answer));
            }
            RegistryInput::Patch { id, patch, reply } => {
                let rules = self.settings.registry_rules();
                let answer = self.known(&id).and_then(|present| patch.merged(&rules, present));
                let was = self.clients.get(&id).is_none_or(|client| client.enabled);
                let answer = answer.map(|client| self.put(client, ops, effects));
                if let Some(client) = answer.as_ref().ok().filter(|client| client.enabled && !was) {
                    effects.push(Effect::Reached(client.incarnation));
                }
                effects.push(Effect::Client(reply, answer));
            }
            RegistryInput::Rotate { id, secret, reply } => {
                let rotated = self.known(&id).map(|present| rotated(present, &secret[..], now));
                let answer = rotated.map(|client| self.put(client, ops, effects));
                effects.push(Effect::Client(reply, answer));
            }
            RegistryInput::Disable { client, url, reply } => {
                let is_meant = |present: &&Client| present.incarnation == client && present.url == url;
                if let Some(present) = self.clients.values().find(is_meant).filter(|present| present.enabled)
                {
                    let disabled = Client { enabled: false, ..present.clone() };
                    self.put(disabled, ops, effects);
                }
                effects.push(Effect::Done(reply, Ok(())));
            }
            RegistryInput::Delete { id, reply } => {
                let answer = self.clients.remove(&id).ok_or_else(|| unknown_client(&id));
                if answer.is_ok() {
                    ops.push(Op::DeleteClient(id.clone()));
                    effects.push(Effect::DirectoryRemove(id));
                }
                effects.push(Effect::Client(reply, answer.map(Box::new)));
            }
        }
    }

    fn create(&mut self, now: Timestamp, client: NewClient, made: &Made) -> Result<Client, Problem> {
        let incarnation = Incarnation(self.head.next_incarnation);
        let client = client.register(&self.settings.registry_rules(), made, incarnation, now)?;
        if self.clients.contains_key(&client.id) {
            let detail = format!("client {} is registered already; PATCH changes it", client.id);
            return Err(Problem::conflict("exists", detail));
        }
        self.head.next_incarnation += 1;
        Ok(client)
    }

    fn known(&self, id: &ClientId) -> Result<&Client, Problem> {
        self.clients.get(id).ok_or_else(|| unknown_client(id))
    }

    /// The directory is fed before the caller is answered, so that the caller finds what it made.
    fn put(&mut self, client: Client, ops: &mut Vec<Op>, effects: &mut Vec<Effect>) -> Box<Client> {
        if self.clients.get(&client.id) != Some(&client) {
            ops.push(Op::PutClient(Box::new(client.clone())));
            effects.push(Effect::DirectoryPut(Box::new(client.clone())));
            self.clients.insert(client.id.clone(), client.clone());
        }
        Box::new(client)
    }
}

/// A client with another secret; attempts are signed with the one before too until it is over.
fn rotated(present: &Client, secret: &[u8], now: Timestamp) -> Client {
    let previous = PreviousSecret { secret: present.secret.clone(), until: now.after(SECRETS_OVERLAP) };
    Client { secret: secret.to_vec(), previous_secret: Some(previous), ..present.clone() }
}

impl Machine for Registry {
    type Input = RegistryInput;

    fn weight(_: &RegistryInput) -> usize {
        1
    }

    fn step(
        &mut self,
        moment: Moment,
        inputs: &mut dyn Iterator<Item = RegistryInput>,
        _: &dyn Fetch,
    ) -> Result<Step, StoreError> {
        let now = moment.now.max(self.head.now);
        let mut batch = Batch::new(PartitionId::REGISTRY);
        let mut effects = Vec::new();
        for input in inputs {
            self.apply(now, input, &mut batch.ops, &mut effects);
        }
        let batch = (!batch.ops.is_empty()).then(|| {
            self.head.seq += 1;
            self.head.now = now;
            batch.head = self.head.clone();
            batch
        });
        Ok(Step { batch, effects, more: false })
    }

    fn settled(&mut self, _: u64) {}

    fn has_unfinished(&self) -> bool {
        false
    }

    fn close(&mut self) {}

    fn next_wakeup(&self, _: Timestamp) -> Option<Timestamp> {
        None
    }
}
