//! A lock that one owner holds at a time, as a guard that extends itself.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::Method;
use serde::{Deserialize, Serialize};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::error::Error;
use crate::path::Path;
use crate::request::Request;
use crate::retry::{Repeat, unique_text};
use crate::span::Milliseconds;

/// How long a holder that is not heard of again keeps a lock, unless it is said otherwise.
const TTL: Duration = Duration::from_secs(30);
const HELD: &str = "lock_held";
const NOT_OWNER: &str = "not_owner";

/// A lock by its name. Cheap to clone.
#[derive(Clone, Debug)]
pub struct NamedLock {
    client: Client,
    path: Path,
    ttl: Duration,
    wait: Duration,
}

/// A lock as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct LockState {
    /// Whether somebody holds it.
    pub held: bool,
    /// Who; told to administrators only.
    pub owner: Option<String>,
    /// The fence of its last holder, a decimal number; "0" where none is known.
    pub fence: String,
    /// How many wait for it.
    pub waiting: u64,
    /// When it ends if its holder is not heard of again.
    pub expires_at: Option<String>,
}

/// What a caller says who wants a lock.
#[derive(Serialize)]
struct LockTerms<'a> {
    owner: &'a str,
    ttl: Milliseconds,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<Milliseconds>,
}

#[derive(Serialize)]
struct LockOwner<'a> {
    owner: &'a str,
}

#[derive(Deserialize)]
struct GrantedLock {
    fence: String,
}

impl NamedLock {
    pub(crate) fn new(client: Client, namespace: &str, name: &str) -> Self {
        let path = Path::of(&["locks", namespace, name]);
        Self { client, path, ttl: TTL, wait: Duration::ZERO }
    }

    /// How long a holder that is not heard of again keeps it: 30 seconds unless it is said here. A
    /// guard extends it three times in that span.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// How long to stand in line for it, up to five minutes: not at all unless it is said here.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// Holds it; `None` when somebody else does, and the wait is over. Where the future is dropped,
    /// or the answer is lost, the lock is released in the background in case it was granted.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn acquire(&self) -> Result<Option<LockGuard>, Error> {
        let owner = unique_text().ok_or_else(|| self.client.foreign("the system gives no random number"))?;
        let mut began = Instant::now();
        let wait = Some(Milliseconds(self.wait)).filter(|_| !self.wait.is_zero());
        let terms = LockTerms { owner: &owner, ttl: Milliseconds(self.ttl), wait };
        let request = Request::document(Method::POST, self.path.clone(), &terms)?;
        let held = HeldLock {
            client: self.client.clone(),
            path: self.path.clone(),
            ttl: self.ttl,
            owner: owner.clone(),
        };
        let mut unconfirmed = UnconfirmedLock(Some(held));
        let timeout = self.client.timeout_of(&request) + self.wait;
        let until = Instant::now() + self.wait + self.client.retry_for();
        let answer = self.client.ask_until(&request.timeout(timeout), Repeat::Harmless, until).await;
        let grant: GrantedLock = match answer {
            Ok(answered) => self.client.read(&answered.body)?,
            Err(failed) if failed.error.code() == Some(HELD) => {
                unconfirmed.0 = None;
                return Ok(None);
            }
            Err(failed) => return Err(failed.error),
        };
        let fence = grant.fence.parse().map_err(|_| self.client.foreign("a fence is no number"))?;
        if let (Some(held), Some(_)) = (&unconfirmed.0, wait) {
            // The ttl counts from the grant, which came anywhere in the wait: from here it is
            // known.
            began = Instant::now();
            match held.extend(began + self.ttl).await {
                Ok(()) => {}
                Err(error) if error.code() == Some(NOT_OWNER) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(unconfirmed.0.take().map(|held| LockGuard::new(Arc::new(held), fence, began)))
    }

    /// How it stands.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn state(&self) -> Result<LockState, Error> {
        self.client.fetch(&Request::new(Method::GET, self.path.clone()), Repeat::Harmless).await
    }
}

/// A lock under its owner's name.
struct HeldLock {
    client: Client,
    path: Path,
    ttl: Duration,
    owner: String,
}

impl HeldLock {
    /// Has it end a ttl from now; not tried again after `until`.
    async fn extend(&self, until: Instant) -> Result<(), Error> {
        let terms = LockTerms { owner: &self.owner, ttl: Milliseconds(self.ttl), wait: None };
        let request = Request::document(Method::POST, self.path.clone().and(&["extend"]), &terms)?;
        let limit = self.client.timeout_of(&request).min(self.ttl / 3);
        self.client.ask_until(&request.timeout(limit), Repeat::Harmless, until).await?;
        Ok(())
    }

    async fn release(&self) -> Result<(), Error> {
        let path = self.path.clone().and(&["release"]);
        let request = Request::document(Method::POST, path, &LockOwner { owner: &self.owner })?;
        match self.client.order(&request, Repeat::Harmless).await {
            // It ended by itself, or an earlier try of this call has done it.
            Err(error) if error.code() == Some(NOT_OWNER) => Ok(()),
            other => other,
        }
    }
}

/// A lock that was asked for, until it is known what became of that: dropped before, it is
/// released.
struct UnconfirmedLock(Option<HeldLock>);

impl Drop for UnconfirmedLock {
    fn drop(&mut self) {
        let (Some(held), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        // Nobody is there to be told; it ends when its ttl is over.
        drop(runtime.spawn(async move { held.release().await }));
    }
}

/// A lock that is held, and extends itself until it is released, dropped or lost.
///
/// Nobody can be sure to still hold a lock: a program may be stopped between a look and what it
/// does then. What the lock protects should refuse a [`LockGuard::fence`] below the highest it saw.
pub struct LockGuard {
    held: Arc<HeldLock>,
    fence: u64,
    ends_at: Arc<Mutex<Instant>>,
    lost: CancellationToken,
    /// `None` once it was released.
    extending: Option<JoinHandle<()>>,
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { held, fence, .. } = self;
        f.debug_struct("LockGuard").field("path", &held.path).field("fence", fence).finish_non_exhaustive()
    }
}

impl LockGuard {
    fn new(held: Arc<HeldLock>, fence: u64, began: Instant) -> Self {
        let ends_at = Arc::new(Mutex::new(began + held.ttl));
        let lost = CancellationToken::new();
        let keep = keep(Arc::clone(&held), Arc::clone(&ends_at), lost.clone());
        Self { held, fence, ends_at, lost, extending: Some(tokio::spawn(keep)) }
    }

    /// The number of this holder: higher than that of any before.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// Cancelled once the lock is lost: somebody took it away, or it could not be extended in time.
    #[must_use]
    pub fn lost(&self) -> CancellationToken {
        self.lost.clone()
    }

    /// Whether it is still held, as far as can be known here.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.lost.is_cancelled() && Instant::now() < *ends_at(&self.ends_at)
    }

    /// Lets it go; whoever waited longest holds it then. Nothing happens where it was lost.
    ///
    /// # Errors
    /// See [`Error`]. Then it ends when its ttl is over.
    pub async fn release(mut self) -> Result<(), Error> {
        if let Some(extending) = self.extending.take() {
            end(extending).await;
        }
        if self.is_held() { self.held.release().await } else { Ok(()) }
    }
}

/// A guard that goes without a word lets the lock go in the background.
impl Drop for LockGuard {
    fn drop(&mut self) {
        let Some(extending) = self.extending.take() else { return };
        if !self.is_held() {
            return extending.abort();
        }
        let held = Arc::clone(&self.held);
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move {
                end(extending).await;
                // Nobody is there to be told; it ends when its ttl is over.
                drop(held.release().await);
            })),
            Err(_) => extending.abort(),
        }
    }
}

/// No extension is sent when this has returned: one behind the release would be in vain.
async fn end(extending: JoinHandle<()>) {
    let abort: AbortHandle = extending.abort_handle();
    abort.abort();
    drop(extending.await);
}

/// Extends a lock each third of its ttl, until it is lost.
async fn keep(held: Arc<HeldLock>, end: Arc<Mutex<Instant>>, lost: CancellationToken) {
    loop {
        sleep(held.ttl / 3).await;
        let (asked_at, until) = (Instant::now(), *ends_at(&end));
        let extended = tokio::time::timeout_at(until, held.extend(until)).await;
        match extended {
            Ok(Ok(())) => *ends_at(&end) = asked_at + held.ttl,
            Ok(Err(error)) if error.code() != Some(NOT_OWNER) => {
                // It may be that only the answers do not get through: until then it is held.
                sleep_until(until).await;
                break lost.cancel();
            }
            Ok(Err(_)) | Err(_) => break lost.cancel(),
        }
    }
}

fn ends_at(at: &Mutex<Instant>) -> MutexGuard<'_, Instant> {
    at.lock().unwrap_or_else(PoisonError::into_inner)
}
