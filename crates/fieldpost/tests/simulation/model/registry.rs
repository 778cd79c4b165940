//! The naive model of the registry partition: clients by id.

use std::collections::BTreeMap;

use base::{ClientId, Incarnation};
use engine::Patch;
use records::{Batch, Client, Op};

use super::Expected;
use crate::meant::{CallId, MeantClient};
use crate::violation::{Checked, Invariant};

/// A client, as far as anybody asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownClient {
    pub(crate) id: ClientId,
    pub(crate) incarnation: Incarnation,
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) enabled: bool,
}

impl KnownClient {
    /// As the server has it.
    pub(crate) fn of(client: &Client) -> Self {
        Self {
            id: client.id.clone(),
            incarnation: client.incarnation,
            name: client.name.clone(),
            url: client.url.clone(),
            enabled: client.enabled,
        }
    }
}

/// The clients.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    pub(crate) clients: BTreeMap<ClientId, KnownClient>,
    unused: u64,
}

impl Registry {
    /// One step: `inputs` in order.
    pub(crate) fn step(
        &mut self,
        inputs: &[MeantClient],
        batch: Option<&Batch>,
    ) -> Checked<Vec<(CallId, Expected)>> {
        inputs.iter().map(|input| self.apply(input, batch)).collect()
    }

    fn apply(&mut self, input: &MeantClient, batch: Option<&Batch>) -> Checked<(CallId, Expected)> {
        Ok(match input {
            MeantClient::Create { call, client } => {
                let id = client.id.clone().expect("the workload names its clients");
                let id = ClientId::new(&id).expect("the workload makes ids that may be");
                if self.clients.contains_key(&id) {
                    return Ok((*call, Expected::Client(Err("exists"))));
                }
                let incarnation = self.new_incarnation(&id, batch)?;
                let known = KnownClient {
                    id: id.clone(),
                    incarnation,
                    name: client.name.clone(),
                    url: client.url.clone(),
                    enabled: true,
                };
                self.clients.insert(id, known.clone());
                (*call, Expected::Client(Ok(known)))
            }
            MeantClient::Patch { call, id, patch } => {
                let patched = self.clients.get_mut(id).map(|client| {
                    if let Patch::Set(name) = &patch.name {
                        client.name.clone_from(name);
                    }
                    if let Patch::Set(url) = &patch.url {
                        client.url.clone_from(url);
                    }
                    if let Patch::Set(enabled) = patch.enabled {
                        client.enabled = enabled;
                    }
                    client.clone()
                });
                (*call, Expected::Client(patched.ok_or("unknown_client")))
            }
            MeantClient::Disable { call, client } => {
                let known = self.clients.values_mut().find(|known| known.incarnation == *client);
                if let Some(known) = known {
                    known.enabled = false;
                }
                (*call, Expected::Done(Ok(())))
            }
            MeantClient::Delete { call, id } => {
                (*call, Expected::Client(self.clients.remove(id).ok_or("unknown_client")))
            }
        })
    }

    /// The number that a client got, which nobody had before.
    fn new_incarnation(&mut self, id: &ClientId, batch: Option<&Batch>) -> Checked<Incarnation> {
        let puts = batch.into_iter().flat_map(|batch| &batch.ops);
        let made = puts.filter_map(|op| match op {
            Op::PutClient(client) if client.id == *id && client.incarnation.0 >= self.unused => {
                Some(client.incarnation)
            }
            _ => None,
        });
        let made = made.min().ok_or_else(|| {
            Invariant::OneEffectPerCause.broken(format!("client {id} was registered without a new number"))
        })?;
        self.unused = made.0 + 1;
        Ok(made)
    }
}
