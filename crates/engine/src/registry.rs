//! The registry partition: clients. A state machine like every other; what it commits feeds the [`Directory`](crate::Directory).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::{ClientId, Incarnation, PartitionId, Problem, Timestamp};
use fleet::{ClientPatch, Made, NewClient};
use records::{Batch, Client, Op, PartitionHead, PreviousSecret};
use store::{Resident, Store, StoreError};

use crate::devices::effect::{Answered, Effect, Reply};
use crate::devices::partition::answered;
use crate::kernel::fetch::Fetch;
use crate::kernel::idempotency::{Answers, Form, Within};
use crate::kernel::machine::{Machine, Moment, Step};
use crate::refusals::unknown_client;
use crate::settings::Settings;
use crate::version::{OnlyIf, Version};

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
        /// On which versions of it.
        only_if: OnlyIf,
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
        /// On which versions of it.
        only_if: OnlyIf,
        /// Gets the client that was removed.
        reply: Reply<Answered<Client>>,
    },
    /// What a request asks that may come again.
    Repeatable {
        /// What to do.
        act: RepeatableOfClients,
        /// How it is answered.
        form: Form<Client>,
        /// Gets the answer in that form.
        reply: Reply<Answered<Arc<[u8]>>>,
    },
}

/// What may be asked of clients by requests that may come again.
#[derive(Debug)]
pub enum RepeatableOfClients {
    /// Register one.
    Create {
        /// As asked for.
        client: Box<NewClient>,
        /// For what was left out.
        made: Box<Made>,
    },
    /// Give one another secret.
    Rotate {
        /// The client.
        id: ClientId,
        /// The secret.
        secret: Box<[u8; 32]>,
    },
}

/// The registry partition.
#[derive(Debug)]
pub struct Registry {
    settings: Arc<Settings>,
    head: PartitionHead,
    clients: BTreeMap<ClientId, Client>,
    answers: Answers,
}

/// What one step collects.
struct Turn<'a> {
    now: Timestamp,
    /// The number that the batch will have.
    seq: u64,
    ops: Vec<Op>,
    effects: Vec<Effect>,
    fetch: &'a dyn Fetch,
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
        let answers = Answers::load(&*store.view(PartitionId::REGISTRY)?)?;
        Ok(Self { settings: Arc::clone(settings), head, clients, answers })
    }

    /// The clients it loaded.
    pub fn clients(&self) -> impl Iterator<Item = &Client> {
        self.clients.values()
    }

    fn apply(&mut self, input: RegistryInput, turn: &mut Turn<'_>) -> Result<(), StoreError> {
        match input {
            RegistryInput::Create { client, made, reply } => {
                let answer = self.create(*client, &made, turn).map(Box::new);
                turn.effects.push(Effect::Client(reply, answer));
            }
            RegistryInput::Repeatable { act, form, reply } => {
                let answer = self.repeatable(act, &form, turn)?;
                turn.effects.push(Effect::Written(reply, answer));
            }
            RegistryInput::Patch { id, patch, only_if, reply } => {
                let rules = self.settings.registry_rules();
                let answer = self.meant(&id, &only_if).and_then(|present| patch.merged(&rules, present));
                let was = self.clients.get(&id).is_none_or(|client| client.enabled);
                let answer = answer.map(|client| self.put(client, turn));
                if let Some(client) = answer.as_ref().ok().filter(|client| client.enabled && !was) {
                    turn.effects.push(Effect::Reached(client.incarnation));
                }
                turn.effects.push(Effect::Client(reply, answer.map(Box::new)));
            }
            RegistryInput::Rotate { id, secret, reply } => {
                let answer = self.rotate(&id, &secret[..], turn).map(Box::new);
                turn.effects.push(Effect::Client(reply, answer));
            }
            RegistryInput::Disable { client, url, reply } => {
                let is_meant = |present: &&Client| present.incarnation == client && present.url == url;
                if let Some(present) = self.clients.values().find(is_meant).filter(|present| present.enabled)
                {
                    let disabled = Client { enabled: false, ..present.clone() };
                    self.put(disabled, turn);
                }
                turn.effects.push(Effect::Done(reply, Ok(())));
            }
            RegistryInput::Delete { id, only_if, reply } => {
                let answer = self.meant(&id, &only_if).cloned();
                if answer.is_ok() {
                    self.clients.remove(&id);
                    turn.ops.push(Op::DeleteClient(id.clone()));
                    turn.effects.push(Effect::DirectoryRemove(id));
                }
                turn.effects.push(Effect::Client(reply, answer.map(Box::new)));
            }
        }
        Ok(())
    }

    /// Does what is asked, and keeps the answer in the same batch, unless it was done before: then that is the answer.
    fn repeatable(
        &mut self,
        act: RepeatableOfClients,
        form: &Form<Client>,
        turn: &mut Turn<'_>,
    ) -> Result<Answered<Arc<[u8]>>, StoreError> {
        if let Some(once) = form.once {
            match answered(self.answers.recall(once, turn.within()))? {
                Ok(None) => {}
                Ok(Some(kept)) => return Ok(Ok(kept)),
                Err(reused) => return Ok(Err(reused)),
            }
        }
        let answer = match act {
            RepeatableOfClients::Create { client, made } => self.create(*client, &made, turn),
            RepeatableOfClients::Rotate { id, secret } => self.rotate(&id, &secret[..], turn),
        };
        let written = (form.write)(&answer);
        if let Some(once) = form.once {
            self.answers.remember(once, Arc::clone(&written), turn.within());
        }
        Ok(Ok(written))
    }

    fn create(&mut self, client: NewClient, made: &Made, turn: &mut Turn<'_>) -> Result<Client, Problem> {
        let incarnation = Incarnation(self.head.next_incarnation);
        let client = client.register(&self.settings.registry_rules(), made, incarnation, turn.now)?;
        if self.clients.contains_key(&client.id) {
            let detail = format!("client {} is registered already; PATCH changes it", client.id);
            return Err(Problem::conflict("exists", detail));
        }
        self.head.next_incarnation += 1;
        Ok(self.put(client, turn))
    }

    fn rotate(&mut self, id: &ClientId, secret: &[u8], turn: &mut Turn<'_>) -> Result<Client, Problem> {
        let rotated = rotated(self.known(id)?, secret, turn.now);
        Ok(self.put(rotated, turn))
    }

    fn known(&self, id: &ClientId) -> Result<&Client, Problem> {
        self.clients.get(id).ok_or_else(|| unknown_client(id))
    }

    /// The client, if it is as it is meant to be.
    fn meant(&self, id: &ClientId, only_if: &OnlyIf) -> Result<&Client, Problem> {
        let present = self.known(id)?;
        only_if.check(Version::of_client(present))?;
        Ok(present)
    }

    /// The directory is fed before the caller is answered, so that the caller finds what it made.
    fn put(&mut self, client: Client, turn: &mut Turn<'_>) -> Client {
        if self.clients.get(&client.id) != Some(&client) {
            turn.ops.push(Op::PutClient(Box::new(client.clone())));
            turn.effects.push(Effect::DirectoryPut(Box::new(client.clone())));
            self.clients.insert(client.id.clone(), client.clone());
        }
        client
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
        fetch: &dyn Fetch,
    ) -> Result<Step, StoreError> {
        let (now, seq) = (moment.now.max(self.head.now), self.head.seq + 1);
        let mut turn = Turn { now, seq, ops: Vec::new(), effects: Vec::new(), fetch };
        for input in inputs {
            self.apply(input, &mut turn)?;
        }
        let more = self.answers.forget(turn.within())?;
        let batch = (!turn.ops.is_empty()).then(|| {
            self.head.seq = seq;
            self.head.now = now;
            let mut batch = Batch::new(PartitionId::REGISTRY);
            batch.ops = turn.ops;
            batch.head = self.head.clone();
            batch
        });
        Ok(Step { batch, effects: turn.effects, more })
    }

    fn settled(&mut self, seq: u64) {
        self.answers.settle(seq);
    }

    fn has_unfinished(&self) -> bool {
        false
    }

    fn close(&mut self) {}

    fn next_wakeup(&self, _: Timestamp) -> Option<Timestamp> {
        self.answers.next_wakeup()
    }
}

impl Turn<'_> {
    fn within(&mut self) -> Within<'_> {
        Within { now: self.now, seq: self.seq, fetch: self.fetch, ops: &mut self.ops }
    }
}
