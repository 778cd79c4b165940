//! The way to a server: how it is reached, how long it is waited for, and the queues that it has.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use hyper::header::HeaderValue;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::campaign::Campaigns;
use crate::commands::Commands;
use crate::connection::ReusableConnection;
use crate::consumer::Consumer;
use crate::coordination::{Limiter, NamedLock, SharedCache, SharedChannels};
use crate::device::Device;
use crate::error::{Error, SetupError};
use crate::fleet::Fleet;
use crate::message_stream::{MessageStream, StreamSummary};
use crate::operation::Operations;
use crate::path::Path;
use crate::queue::Queue;
use crate::queue_stats::{Cursor, FeedPage, Page, QueueOverview};
use crate::request::{Answer, Download, Request};
use crate::retry::{self, AcceptedAnswer, FailedCall, Repeat};
use crate::span::Milliseconds;
use crate::task::Tasks;
use crate::transport::Transport;
use crate::trust::Trust;

/// How long an answer is waited for, unless it is said otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a call is tried again, unless it is said otherwise.
const RETRY_FOR: Duration = Duration::from_secs(30);

/// A server. Cheap to clone; clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    transport: Transport,
    retry_for: Duration,
}

/// A [`Client`] in the making.
#[derive(Clone)]
pub struct Builder {
    pub(crate) url: String,
    pub(crate) token: Option<String>,
    pub(crate) trust: Option<Trust>,
    pub(crate) timeout: Duration,
    pub(crate) user_agent: Option<HeaderValue>,
    pub(crate) heeds_proxies: bool,
    retry_for: Duration,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("timeout", &self.timeout).field("retry_for", &self.retry_for).finish()
    }
}

impl Builder {
    /// The token that the server asks for.
    #[must_use]
    pub fn token(self, token: impl Into<String>) -> Self {
        Self { token: Some(token.into()), ..self }
    }

    /// Which servers are believed over TLS: those that the system trusts unless it is said here.
    #[must_use]
    pub fn trust(self, trust: Trust) -> Self {
        Self { trust: Some(trust), ..self }
    }

    /// How long an answer is waited for: 10 seconds unless it is said here. A consumer's own wait
    /// comes on top.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// How long a call is tried again that failed and may pass: 30 seconds unless it is said here;
    /// zero is not at all.
    #[must_use]
    pub fn retry_for(self, retry_for: Duration) -> Self {
        Self { retry_for, ..self }
    }

    /// What is sent as `User-Agent`: `fieldpost-client/VERSION` unless it is said here, or if no
    /// header can carry it.
    #[must_use]
    pub fn user_agent(self, user_agent: &str) -> Self {
        Self { user_agent: HeaderValue::from_str(user_agent).ok(), ..self }
    }

    /// The server is reached through the proxy that `ALL_PROXY`, `HTTPS_PROXY` or `HTTP_PROXY`
    /// names, unless `NO_PROXY` lists its host or it is on this machine. Without this call it is
    /// reached directly.
    #[must_use]
    pub fn proxy_of_environment(self) -> Self {
        Self { heeds_proxies: true, ..self }
    }

    /// The client. Nothing is sent yet.
    ///
    /// # Errors
    /// When the URL leads to no server, no header can carry the token, or TLS cannot be set up.
    pub fn build(self) -> Result<Client, SetupError> {
        let retry_for = self.retry_for;
        Ok(Client { inner: Arc::new(Inner { transport: Transport::new(self)?, retry_for }) })
    }
}

impl Client {
    /// A client of the server at a URL such as `http://127.0.0.1:8080`, which may have a path.
    #[must_use]
    pub fn builder(url: impl Into<String>) -> Builder {
        Builder {
            url: url.into(),
            token: None,
            trust: None,
            timeout: TIMEOUT,
            user_agent: None,
            heeds_proxies: false,
            retry_for: RETRY_FOR,
        }
    }

    /// A queue. It need not be there yet.
    #[must_use]
    pub fn queue(&self, namespace: impl Into<String>, queue: impl Into<String>) -> Queue {
        Queue::new(self.clone(), namespace.into(), queue.into())
    }

    /// A consumer of several queues of a namespace, which takes from earlier ones first.
    #[must_use]
    pub fn consumer<Q: Into<String>>(
        &self,
        namespace: impl Into<String>,
        queues: impl IntoIterator<Item = Q>,
    ) -> Consumer {
        let queues = queues.into_iter().map(Into::into).collect();
        Consumer::new(self.clone(), namespace.into(), queues)
    }

    /// A stream of messages. It need not be there yet.
    #[must_use]
    pub fn stream(&self, namespace: impl Into<String>, stream: impl Into<String>) -> MessageStream {
        MessageStream::new(self.clone(), namespace.into(), stream.into())
    }

    /// The streams that may be read, in order of namespace and name.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn streams(
        &self,
        namespace: Option<&str>,
        after: Option<&Cursor>,
    ) -> Result<Page<StreamSummary>, Error> {
        self.list(Path::of(&["streams"]), namespace, after).await
    }

    /// A device. It need not be there.
    #[must_use]
    pub fn device(&self, id: impl Into<String>) -> Device {
        Device::new(self.clone(), id.into())
    }

    /// The commands of all devices.
    #[must_use]
    pub fn commands(&self) -> Commands {
        Commands::new(self.clone())
    }

    /// The operations: one action on everything that matches.
    #[must_use]
    pub fn operations(&self) -> Operations {
        Operations::new(self.clone())
    }

    /// The tasks: some devices of many are asked once.
    #[must_use]
    pub fn tasks(&self) -> Tasks {
        Tasks::new(self.clone())
    }

    /// The campaigns: some devices of many are asked again and again.
    #[must_use]
    pub fn campaigns(&self) -> Campaigns {
        Campaigns::new(self.clone())
    }

    /// All devices together.
    #[must_use]
    pub fn fleet(&self) -> Fleet {
        Fleet::new(self.clone())
    }

    /// A lock that one owner holds at a time. Names have up to 255 of `[A-Za-z0-9_.:-]`, here and
    /// in the calls below.
    #[must_use]
    pub fn lock(&self, namespace: &str, name: &str) -> NamedLock {
        NamedLock::new(self.clone(), namespace, name)
    }

    /// A limit: so much in a span of time, over all programs that ask. `limit` is at least 1, `per`
    /// up to 31 days.
    #[must_use]
    pub fn limiter(&self, namespace: &str, name: &str, limit: u64, per: Duration) -> Limiter {
        Limiter::new(self.clone(), namespace, name, limit, per)
    }

    /// The cache of a namespace.
    #[must_use]
    pub fn cache(&self, namespace: impl Into<String>) -> SharedCache {
        SharedCache::new(self.clone(), namespace.into())
    }

    /// The channels of a namespace.
    #[must_use]
    pub fn channels(&self, namespace: impl Into<String>) -> SharedChannels {
        SharedChannels::new(self.clone(), namespace.into())
    }

    /// The queues that there are, in order of namespace and name.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn queues(
        &self,
        namespace: Option<&str>,
        after: Option<&Cursor>,
    ) -> Result<Page<QueueOverview>, Error> {
        self.list(Path::of(&["queues"]), namespace, after).await
    }

    async fn list<T: DeserializeOwned>(
        &self,
        mut path: Path,
        namespace: Option<&str>,
        after: Option<&Cursor>,
    ) -> Result<Page<T>, Error> {
        for (name, value) in [("namespace", namespace), ("cursor", after.map(Cursor::as_str))] {
            if let Some(value) = value {
                path = path.with(name, value);
            }
        }
        self.fetch(&Request::new(Method::GET, path), Repeat::Harmless).await
    }

    /// Makes a request once, whatever it is; any answer, whatever its status.
    ///
    /// # Errors
    /// Any [`Error`] but a refusal.
    pub async fn send(&self, request: &Request) -> Result<Answer, Error> {
        self.inner.transport.send(request).await
    }

    /// Makes a request once, whose answer is to be read within `limit` as it comes.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn download(&self, request: &Request, limit: Duration) -> Result<Download, Error> {
        self.inner.transport.download(request, limit).await
    }

    /// How long the answer to a request is waited for.
    pub(crate) fn timeout_of(&self, request: &Request) -> Duration {
        self.inner.transport.timeout_of(request)
    }

    /// For how long a call is tried.
    pub(crate) fn retry_for(&self) -> Duration {
        self.inner.retry_for
    }

    /// Asks, for as long as calls are tried.
    pub(crate) async fn ask(&self, request: &Request, repeat: Repeat) -> Result<AcceptedAnswer, FailedCall> {
        self.ask_until(request, repeat, Instant::now() + self.inner.retry_for).await
    }

    /// Asks, and not again after `until`.
    pub(crate) async fn ask_until(
        &self,
        request: &Request,
        repeat: Repeat,
        until: Instant,
    ) -> Result<AcceptedAnswer, FailedCall> {
        retry::ask(&self.inner.transport, request, repeat, until).await
    }

    /// Asks once, on a connection of one's own.
    pub(crate) async fn ask_on(
        &self,
        line: &mut ReusableConnection,
        request: &Request,
    ) -> Result<Bytes, Error> {
        line.exchange(&self.inner.transport, request).await
    }

    /// Asks for a document.
    pub(crate) async fn fetch<T: DeserializeOwned>(
        &self,
        request: &Request,
        repeat: Repeat,
    ) -> Result<T, Error> {
        self.read(&self.ask(request, repeat).await?.body)
    }

    /// Asks for a feed from a place on, the oldest first; `wait` is for its first item.
    pub(crate) async fn follow<T: DeserializeOwned>(
        &self,
        path: Path,
        after: Option<&Cursor>,
        wait: Duration,
    ) -> Result<FeedPage<T>, Error> {
        let path = path.with("order", "asc").with("wait", &Milliseconds(wait).to_string());
        let path = after.iter().fold(path, |path, cursor| path.with("cursor", cursor.as_str()));
        let request = Request::new(Method::GET, path);
        let timeout = self.timeout_of(&request) + wait;
        self.fetch(&request.timeout(timeout), Repeat::Harmless).await
    }

    /// Asks for something to be done.
    pub(crate) async fn order(&self, request: &Request, repeat: Repeat) -> Result<(), Error> {
        self.ask(request, repeat).await?;
        Ok(())
    }

    pub(crate) fn read<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, Error> {
        let foreign = |error| self.foreign(&format!("its answer is not what was asked for: {error}"));
        serde_json::from_slice(body).map_err(foreign)
    }

    pub(crate) fn foreign(&self, what: &str) -> Error {
        self.inner.transport.foreign(what.to_owned())
    }
}
