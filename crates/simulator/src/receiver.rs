//! The other end of the webhooks: an application that is told about devices, and can be unwell.
//!
//! A [`WebhookReceiver`] listens on a loopback port of its own that stays the same. It checks every
//! signature with the library that the Standard Webhooks project gives to receivers, and keeps a
//! [`Ledger`] of what it was told. At run time it can be made to refuse connections, fail, hang,
//! redirect or say that it is gone. Tests wait on the ledger, never on time.

mod gate;
mod ledger;
mod notification;
mod request;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

pub use ledger::{Arrival, Counts, Latest, Ledger, PickMessage, Retain, WebhookReply};
pub use notification::{ConnectionStatus, DeviceEventKind, Notification};
pub(crate) use notification::{WireTime, nullable};

use gate::Gate;
use request::SignatureVerifier;

/// How a receiver treats what comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Behaviour {
    /// Takes every notification with 200.
    Up,
    /// Does not listen: connections are refused, and those that were open are cut.
    Down,
    /// Answers everything with this status.
    Failing(u16),
    /// Reads the request and never answers.
    Hanging,
    /// Answers 410: wants nothing more.
    Gone,
    /// Answers 302 to this place.
    Redirecting(String),
}

/// A receiver could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum ReceiverError {
    /// The port could not be had.
    #[error("the receiver cannot listen")]
    Listen(#[from] io::Error),
    /// The secret is not `whsec_` and base64.
    #[error("the receiver's secret is not usable: {0}")]
    Secret(String),
}

/// What was awaited has not happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not within {patience:?}; the receiver has seen {counts:?}")]
pub struct NotInTime {
    /// How long it was awaited.
    pub patience: Duration,
    /// What had come by then.
    pub counts: Counts,
}

/// What the receiver's handle and its connections share.
#[derive(Debug)]
struct ReceiverState {
    ledger: Mutex<Ledger>,
    recorded: Notify,
    verifier: SignatureVerifier,
}

impl ReceiverState {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // A panic while recording (a failed assertion of a test's predicate) leaves the ledger
        // itself whole.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the module. It stops listening when it is dropped.
#[derive(Debug)]
pub struct WebhookReceiver {
    address: SocketAddr,
    shared: Arc<ReceiverState>,
    wanted: watch::Sender<Behaviour>,
    obeyed: watch::Receiver<Behaviour>,
    _gate: JoinSet<()>,
}

impl WebhookReceiver {
    /// Opens a receiver on a free loopback port, `Up`, remembering as `retain` says. Without a
    /// secret no signature is checked until [`WebhookReceiver::trust`] is called.
    ///
    /// # Errors
    /// When no port can be had.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn open(retain: Retain) -> Result<Self, ReceiverError> {
        let shared = Arc::new(ReceiverState {
            ledger: Mutex::new(Ledger::new(retain)),
            recorded: Notify::new(),
            verifier: SignatureVerifier::default(),
        });
        let wanted = watch::Sender::new(Behaviour::Up);
        let (gate, obeyed) = Gate::open(wanted.subscribe(), Arc::clone(&shared))?;
        let address = gate.address();
        let mut tasks = JoinSet::new();
        tasks.spawn(gate.keep());
        Ok(Self { address, shared, wanted, obeyed, _gate: tasks })
    }

    /// From now on only notifications signed with `secret` (`whsec_` and base64) are taken; others
    /// get 401.
    ///
    /// # Errors
    /// When the secret is not in that form.
    pub fn trust(&self, secret: &str) -> Result<(), ReceiverError> {
        self.shared.verifier.trust(secret)
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL to register for it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// Behaves so from now on; once this returns, every new request meets the new behaviour.
    pub async fn behave(&mut self, behaviour: Behaviour) {
        self.wanted.send_replace(behaviour.clone());
        // The gate ends only with the receiver, which is borrowed here.
        let _gate_is_there = self.obeyed.wait_for(|obeyed| *obeyed == behaviour).await;
    }

    /// How much came so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.ledger().counts()
    }

    /// Looks at the ledger. While this is held nothing is recorded: take it once per statement, and
    /// let it go before the next `.await`.
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.shared.ledger()
    }

    /// Waits until the ledger satisfies `done`, which is asked again after each arrival.
    ///
    /// # Errors
    /// When that has not come about within `patience`.
    pub async fn until(
        &self,
        patience: Duration,
        mut done: impl FnMut(&Ledger) -> bool,
    ) -> Result<(), NotInTime> {
        let satisfied = async {
            loop {
                let recorded = self.shared.recorded.notified();
                if done(&self.ledger()) {
                    return;
                }
                recorded.await;
            }
        };
        let result = tokio::time::timeout(patience, satisfied).await;
        result.map_err(|_| NotInTime { patience, counts: self.counts() })
    }
}
