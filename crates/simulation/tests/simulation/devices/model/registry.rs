//! The naive model of the registry partition: clients by id.

use std::collections::BTreeMap;

use base::{ClientId, Incarnation, Timestamp};
use engine::Patch;
use records::{Batch, Client, Op};

use super::Expected;
use crate::devices::counts::Counts;
use crate::devices::meant::MeantClient;
use crate::harness::calls::CallId;
use crate::harness::violation::{Checked, Invariant};

/// For how long a secret that was rotated away is still good, in milliseconds.
const SECRETS_OVERLAP_MS: i64 = 24 * 3_600_000;

/// A client, as far as anybody asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownClient {
    pub(crate) id: ClientId,
    pub(crate) incarnation: Incarnation,
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) enabled: bool,
    pub(crate) secret: Vec<u8>,
    /// The one before it, and until when attempts are signed with it too.
    pub(crate) previous: Option<(Vec<u8>, Timestamp)>,
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
            secret: client.secret.clone(),
            previous: client.previous_secret.as_ref().map(|old| (old.secret.clone(), old.until)),
        }
    }
}

/// The clients.
#[derive(Clone)]
pub(crate) struct Registry {
    pub(crate) clients: BTreeMap<ClientId, KnownClient>,
    unused: u64,
    now: Timestamp,
    pub(crate) counts: Counts,
}

impl Registry {
    pub(crate) fn new() -> Self {
        Self { clients: BTreeMap::new(), unused: 0, now: Timestamp(0), counts: Counts::default() }
    }

    /// One step: `inputs` in order.
    pub(crate) fn step(
        &mut self,
        now: Timestamp,
        inputs: &[MeantClient],
        batch: Option<&Batch>,
    ) -> Checked<Vec<(CallId, Expected)>> {
        self.now = now.max(self.now);
        inputs.iter().map(|input| self.apply(input, batch)).collect()
    }

    fn apply(&mut self, input: &MeantClient, batch: Option<&Batch>) -> Checked<(CallId, Expected)> {
        Ok(match input {
            MeantClient::Create { call, client, secret } => {
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
                    secret: secret.to_vec(),
                    previous: None,
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
            MeantClient::Rotate { call, id, secret } => (*call, Expected::Client(self.rotate(id, secret))),
            MeantClient::Disable { call, client, url } => {
                let known = self.clients.values_mut().find(|known| known.incarnation == *client);
                if let Some(known) = known.filter(|known| known.url == *url) {
                    known.enabled = false;
                }
                (*call, Expected::Done(Ok(())))
            }
            MeantClient::Delete { call, id } => {
                (*call, Expected::Client(self.clients.remove(id).ok_or("unknown_client")))
            }
        })
    }

    /// The secret before is good for another while; the one before that no longer.
    fn rotate(&mut self, id: &ClientId, secret: &[u8]) -> Result<KnownClient, &'static str> {
        let client = self.clients.get_mut(id).ok_or("unknown_client")?;
        let overlaps = client.previous.as_ref().is_some_and(|(_, until)| *until > self.now);
        self.counts.rotations += 1;
        self.counts.rotations_within_overlap += u64::from(overlaps);
        let before = std::mem::replace(&mut client.secret, secret.to_vec());
        client.previous = Some((before, Timestamp(self.now.0 + SECRETS_OVERLAP_MS)));
        Ok(client.clone())
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
            Invariant::ONE_EFFECT_PER_CAUSE.broken(format!("client {id} was registered without a new number"))
        })?;
        self.unused = made.0 + 1;
        Ok(made)
    }
}
