//! The registry partition: clients, their portals, notices, rollouts and operations. A state
//! machine like every other; what it commits of clients feeds the
//! [`ClientDirectory`](crate::ClientDirectory).

mod effect;
mod nodes;
mod portals;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::{ClientId, Incarnation, PartitionId, Problem, Timestamp};
use fleet::{ClientPatch, Made, NewClient};
use records::{Client, NoticeKind, Op, PartitionHead, PortalToken, PreviousSecret};
use store::{Store, StoreError};

use crate::kernel::fetch::Fetch;
use crate::kernel::idempotency::{AnswerForm, Idempotent, KeptAnswers};
use crate::kernel::machine::{Machine, Step, StepTime};
use crate::kernel::reply::{Answered, Reply};
use crate::kernel::step_context::StepContext;
use crate::nodes::NodeInput;
use crate::notices::table::NoticeTable;
use crate::notices::{Condition, Detail, NoticeInput, Signal, SignalTopic};
use crate::operations::{OperationInput, OperationTable};
use crate::portals::PortalInput;
use crate::refusals::unknown_client;
use crate::rollouts::{RolloutInput, RolloutTable};
use crate::settings::EngineSettings;
use crate::version::{ObjectVersion, OnlyIf};

pub use effect::{RegistryContext, RegistryEffect};
use nodes::NodeTable;
use portals::PortalTable;

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
    /// A receiver said that it is gone for good: disable its client, unless that has another
    /// receiver by now.
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
    /// Something about notices.
    Notices(NoticeInput),
    /// Something about portals.
    Portals(PortalInput),
    /// Something about nodes.
    Nodes(NodeInput),
    /// Something about rollouts.
    Rollouts(RolloutInput),
    /// Something about operations.
    Operations(OperationInput),
    /// What a request asks that may come again.
    Repeatable {
        /// What to do.
        act: RepeatableOfClients,
        /// How it is answered.
        form: AnswerForm<Client>,
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
    settings: Arc<EngineSettings>,
    head: PartitionHead,
    clients: BTreeMap<ClientId, Client>,
    notices: NoticeTable,
    portals: PortalTable,
    nodes: NodeTable,
    rollouts: RolloutTable,
    operations: OperationTable,
    answers: KeptAnswers,
    /// Signals that wait for room: each may be told to every client.
    signals: VecDeque<Signal>,
}

/// A step of the registry.
pub(crate) type RegistryStep<'a> = StepContext<'a, RegistryEffect, ()>;

impl Registry {
    /// Loads the registry partition.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn load(store: &dyn Store, settings: &Arc<EngineSettings>) -> Result<Self, StoreError> {
        let view = store.load(PartitionId::REGISTRY)?;
        let head = view.head().clone();
        let clients = view.clients(None, usize::MAX)?;
        let clients: BTreeMap<_, _> = clients.into_iter().map(|client| (client.id.clone(), client)).collect();
        let (answers, portals) = (KeptAnswers::load(&*view)?, PortalTable::load(&*view)?);
        let nodes = NodeTable::load(&*view)?;
        let notices = NoticeTable::load(
            &*view,
            settings.notices,
            (settings.retry, settings.attempt_timeout),
            (store.lineage(), head.now),
            &clients,
        )?;
        let rollouts = RolloutTable::load(store, settings.commands.keep, head.seq)?;
        let operations = OperationTable::load(store, settings.operations)?;
        Ok(Self {
            settings: Arc::clone(settings),
            head,
            clients,
            notices,
            portals,
            nodes,
            rollouts,
            operations,
            answers,
            signals: VecDeque::new(),
        })
    }

    /// The clients it loaded.
    pub fn clients(&self) -> impl Iterator<Item = &Client> {
        self.clients.values()
    }

    /// The portals it loaded.
    pub fn portals(&self) -> impl Iterator<Item = &PortalToken> {
        self.portals.tokens()
    }

    /// The conditions that it takes to hold since they were told, as signals.
    pub fn standing_conditions(&self) -> Vec<Signal> {
        self.notices.standing()
    }

    fn apply(&mut self, input: RegistryInput, step: &mut RegistryStep<'_>) -> Result<(), StoreError> {
        match input {
            RegistryInput::Create { client, made, reply } => {
                let answer = self.create(*client, &made, step).map(Box::new);
                step.emit(RegistryEffect::Client(reply, answer));
            }
            RegistryInput::Notices(NoticeInput::Signals(signals)) => self.signals.extend(signals),
            RegistryInput::Notices(input) => self.notices.apply(input, &self.clients, step)?,
            RegistryInput::Portals(input) => self.apply_to_portals(input, step),
            RegistryInput::Nodes(input) => self.apply_to_nodes(input, step),
            RegistryInput::Rollouts(input) => self.rollouts.apply(input, &mut self.head, step)?,
            RegistryInput::Operations(input) => self.operations.apply(input, step)?,
            RegistryInput::Repeatable { act, form, reply } => {
                let answer = self.repeatable(act, &form, step)?;
                step.emit(RegistryEffect::Written(reply, answer));
            }
            RegistryInput::Patch { id, patch, only_if, reply } => {
                let rules = self.settings.registry_rules();
                let answer = self.meant(&id, &only_if).and_then(|present| patch.merged(&rules, present));
                let was = self.clients.get(&id).cloned();
                let answer = answer.map(|client| self.put(client, step));
                if let (Ok(client), Some(was)) = (&answer, was) {
                    self.patched(&was, client, step);
                }
                step.emit(RegistryEffect::Client(reply, answer.map(Box::new)));
            }
            RegistryInput::Rotate { id, secret, reply } => {
                let answer = self.rotate(&id, &secret[..], step).map(Box::new);
                step.emit(RegistryEffect::Client(reply, answer));
            }
            RegistryInput::Disable { client, url, reply } => {
                let is_meant = |present: &&Client| present.incarnation == client && present.url == url;
                if let Some(present) = self.clients.values().find(is_meant).filter(|present| present.enabled)
                {
                    let disabled = Client { enabled: false, ..present.clone() };
                    let disabled = self.put(disabled, step);
                    self.tell_disabled(&disabled, "gone", step);
                }
                step.emit(RegistryEffect::Done(reply, Ok(())));
            }
            RegistryInput::Delete { id, only_if, reply } => {
                let answer = self.meant(&id, &only_if).cloned();
                if let Ok(client) = &answer {
                    self.clients.remove(&id);
                    self.notices.forget_client(client.incarnation, step);
                    self.portals.client_is_gone(client.incarnation, step);
                    self.tell_of_client(client, Condition::Cleared, Detail::default(), step);
                    step.push(Op::DeleteClient(id.clone()));
                    step.emit(RegistryEffect::DirectoryRemove(id));
                }
                step.emit(RegistryEffect::Client(reply, answer.map(Box::new)));
            }
        }
        Ok(())
    }

    /// Takes the signals that wait, as far as there is room. Whether any are left.
    fn take_signals(&mut self, step: &mut RegistryStep<'_>) -> Result<bool, StoreError> {
        while !self.signals.is_empty() && step.has_room() {
            let next = self.signals.pop_front().into_iter().collect();
            self.notices.apply(NoticeInput::Signals(next), &self.clients, step)?;
        }
        Ok(!self.signals.is_empty())
    }

    /// What else follows from a change of a client.
    fn patched(&mut self, was: &Client, client: &Client, step: &mut RegistryStep<'_>) {
        if client.enabled && !was.enabled {
            step.emit(RegistryEffect::Enabled(client.incarnation));
            self.notices.client_enabled(client.incarnation, step.now);
            self.tell_of_client(client, Condition::Cleared, Detail::default(), step);
        }
        if was.enabled && !client.enabled {
            self.tell_disabled(client, "by_hand", step);
        }
        if was.notices && !client.notices {
            self.notices.forget_client(client.incarnation, step);
        }
    }

    fn tell_disabled(&mut self, client: &Client, why: &str, step: &mut RegistryStep<'_>) {
        let detail = Detail::default().text("client_id", client.id.as_str()).text("why", why);
        self.tell_of_client(client, Condition::Firing(NoticeKind::ClientDisabled), detail, step);
    }

    fn tell_of_client(
        &mut self,
        client: &Client,
        condition: Condition,
        detail: Detail,
        step: &mut RegistryStep<'_>,
    ) {
        let subject = format!("client {}", client.id).into();
        let signal = Signal { topic: SignalTopic::Client, subject, condition, detail };
        self.notices.signal(signal, &self.clients, step);
    }

    fn apply_to_portals(&mut self, input: PortalInput, step: &mut RegistryStep<'_>) {
        let client = |id: &ClientId| self.clients.get(id).ok_or_else(|| unknown_client(id));
        let effect = match input {
            PortalInput::Open { portal, reply } => {
                let opened = client(&portal.client)
                    .and_then(|client| self.portals.open(*portal, client, &mut self.head, step));
                RegistryEffect::Portal(reply, opened.map(Box::new))
            }
            PortalInput::Close { client: of, id, reply } => RegistryEffect::Done(
                reply,
                client(&of).and_then(|client| self.portals.close(client, id, step)),
            ),
        };
        step.emit(effect);
    }

    /// What a request asks that may come again: done once, and the answer is kept with it.
    fn repeatable(
        &mut self,
        act: RepeatableOfClients,
        form: &AnswerForm<Client>,
        step: &mut RegistryStep<'_>,
    ) -> Result<Answered<Arc<[u8]>>, StoreError> {
        self.once(form, step, |registry, step| match act {
            RepeatableOfClients::Create { client, made } => Ok(registry.create(*client, &made, step)?),
            RepeatableOfClients::Rotate { id, secret } => Ok(registry.rotate(&id, &secret[..], step)?),
        })
    }

    fn create(
        &mut self,
        client: NewClient,
        made: &Made,
        step: &mut RegistryStep<'_>,
    ) -> Result<Client, Problem> {
        let incarnation = Incarnation(self.head.next_incarnation);
        let client = client.register(&self.settings.registry_rules(), made, incarnation, step.now)?;
        if self.clients.contains_key(&client.id) {
            let detail = format!("client {} is registered already; PATCH changes it", client.id);
            return Err(Problem::conflict("exists", detail));
        }
        self.head.next_incarnation += 1;
        Ok(self.put(client, step))
    }

    fn rotate(
        &mut self,
        id: &ClientId,
        secret: &[u8],
        step: &mut RegistryStep<'_>,
    ) -> Result<Client, Problem> {
        let rotated = rotated(self.known(id)?, secret, step.now);
        Ok(self.put(rotated, step))
    }

    fn known(&self, id: &ClientId) -> Result<&Client, Problem> {
        self.clients.get(id).ok_or_else(|| unknown_client(id))
    }

    /// The client, if it is as it is meant to be.
    fn meant(&self, id: &ClientId, only_if: &OnlyIf) -> Result<&Client, Problem> {
        let present = self.known(id)?;
        only_if.check(ObjectVersion::of_client(present))?;
        Ok(present)
    }

    /// The directory is fed before the caller is answered, so that the caller finds what it made.
    fn put(&mut self, client: Client, step: &mut RegistryStep<'_>) -> Client {
        if self.clients.get(&client.id) != Some(&client) {
            step.push(Op::PutClient(Box::new(client.clone())));
            step.emit(RegistryEffect::DirectoryPut(Box::new(client.clone())));
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

impl Idempotent for Registry {
    fn answers(&mut self) -> &mut KeptAnswers {
        &mut self.answers
    }
}

impl Machine for Registry {
    type Input = RegistryInput;
    type Effect = RegistryEffect;
    type Context = RegistryContext;

    fn weight(_: &RegistryInput) -> usize {
        1
    }

    fn step(
        &mut self,
        moment: StepTime,
        inputs: &mut dyn Iterator<Item = RegistryInput>,
        fetch: &dyn Fetch,
    ) -> Result<Step<RegistryEffect>, StoreError> {
        let mut step = StepContext::new(PartitionId::REGISTRY, &self.head, moment, fetch, ());
        // What the step before has left comes first. Otherwise at least one: whoever runs this has
        // taken it from its inbox.
        let mut takes_more = !self.take_signals(&mut step)?;
        while takes_more && let Some(input) = inputs.next() {
            self.apply(input, &mut step)?;
            // Before the next input, which may be about the same subject.
            takes_more = !self.take_signals(&mut step)? && step.has_room();
        }
        let more = self.rollouts.advance(&mut step)?
            | self.answers.forget(&mut step)?
            | self.operations.forget(&mut step)
            | self.portals.advance(&mut step);
        self.signals.extend(self.rollouts.take_stopped());
        let more = more | self.take_signals(&mut step)?;
        let more = more | self.notices.advance(&self.clients, &mut step);
        let (batch, effects) = step.seal(&mut self.head, false, |_| {});
        Ok(Step { batch, effects, more })
    }

    fn settled(&mut self, seq: u64) {
        self.answers.settle(seq);
        self.rollouts.settle(seq);
    }

    fn has_unfinished(&self) -> bool {
        !self.signals.is_empty()
    }

    fn next_wakeup(&self, now: Timestamp) -> Option<Timestamp> {
        let kept = [self.answers.next_wakeup(), self.portals.next_wakeup(), self.notices.next_wakeup(now)];
        let worked = [self.rollouts.next_wakeup(now), self.operations.next_wakeup(now)];
        kept.into_iter().chain(worked).flatten().min()
    }
}
