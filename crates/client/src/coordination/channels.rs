//! Messages to whoever listens now.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use hyper::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep_until, timeout};

use crate::client::Client;
use crate::error::Error;
use crate::path::Path;
use crate::request::{Download, Request};
use crate::retry::{Repeat, RetryWaits};

/// The server says something every 15 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// A connection is opened anew after this at the latest.
const CONNECTION_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);
/// A message has up to 1 MiB of JSON, and little beside it.
const LINE_BYTES_MAX: usize = 2 << 20;
const DATA: &[u8] = b"data:";

/// The channels of a namespace. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SharedChannels {
    client: Client,
    namespace: String,
}

/// What a subscription hears.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ChannelUpdate {
    /// A message.
    Message {
        /// Its channel, without the namespace.
        channel: String,
        /// What was published.
        message: Box<RawValue>,
    },
    /// It listens, for the first time or again. Messages of the time before are not told: look at
    /// how things are.
    Listening,
    /// The server gave no answer. It is asked again until it is back, and this is told once until
    /// then.
    Away {
        /// Why not.
        error: Arc<Error>,
    },
}

impl ChannelUpdate {
    /// The message in this shape; `None` if it is no message.
    ///
    /// # Errors
    /// When the message has another shape.
    pub fn json<T: DeserializeOwned>(&self) -> Result<Option<T>, serde_json::Error> {
        match self {
            Self::Message { message, .. } => serde_json::from_str(message.get()).map(Some),
            Self::Listening | Self::Away { .. } => Ok(None),
        }
    }
}

#[derive(serde::Deserialize)]
struct ChannelData {
    channel: String,
    message: Box<RawValue>,
}

impl SharedChannels {
    pub(crate) fn new(client: Client, namespace: String) -> Self {
        Self { client, namespace }
    }

    /// Gives a message to whoever listens; to how many.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn publish<T: Serialize>(&self, channel: &str, message: &T) -> Result<u64, Error> {
        #[derive(serde::Deserialize)]
        struct Receivers {
            receivers: u64,
        }
        let path = Path::of(&["channels", &self.namespace, channel]);
        let request = Request::document(Method::POST, path, message)?;
        let Receivers { receivers } = self.client.fetch(&request, Repeat::Harmful).await?;
        Ok(receivers)
    }

    /// Listens to channels by name, or by how they begin: `orders-*`. Nothing is sent before
    /// [`ChannelSubscription::next`].
    #[must_use]
    pub fn listen<C: AsRef<str>>(&self, channels: &[C]) -> ChannelSubscription {
        let path = Path::of(&["channels", &self.namespace]).and_any_of(channels);
        let client = self.client.clone();
        let (waits, connects_at) = (RetryWaits::new(), Instant::now());
        ChannelSubscription { client, path, waits, connects_at, is_away: false, open: None }
    }
}

/// Listens to channels, and connects again when the connection ends.
#[derive(Debug)]
pub struct ChannelSubscription {
    client: Client,
    path: Path,
    waits: RetryWaits,
    /// Not before: also where `next` is dropped and called again all the time.
    connects_at: Instant,
    /// The server gave no answer, and that was told.
    is_away: bool,
    open: Option<OpenChannel>,
}

#[derive(Debug)]
struct OpenChannel {
    download: Download,
    read: BytesMut,
    has_heard: bool,
}

impl ChannelSubscription {
    /// What comes next, however long that takes: a server that is away is told, and waited for.
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    /// A refusal that does not pass by itself, such as a wrong token or a wrong name.
    pub async fn next(&mut self) -> Result<ChannelUpdate, Error> {
        loop {
            if self.open.is_none() {
                match self.connect().await {
                    Ok(()) => {
                        self.is_away = false;
                        return Ok(ChannelUpdate::Listening);
                    }
                    Err(error) if error.may_pass() => {
                        self.connects_at = Instant::now() + self.waits.next(&error);
                        if !std::mem::replace(&mut self.is_away, true) {
                            return Ok(ChannelUpdate::Away { error: Arc::new(error) });
                        }
                    }
                    Err(error) => return Err(error),
                }
                continue;
            }
            match self.hear().await {
                Some(Ok(update)) => return Ok(update),
                Some(Err(error)) => return Err(error),
                // It ended, was too slow or fell silent.
                None => {
                    let has_heard = self.open.take().is_some_and(|open| open.has_heard);
                    let pause = if has_heard { Duration::ZERO } else { self.waits.next_by_chance() };
                    self.connects_at = Instant::now() + pause;
                }
            }
        }
    }

    async fn connect(&mut self) -> Result<(), Error> {
        sleep_until(self.connects_at).await;
        let request = Request::new(Method::GET, self.path.clone());
        let download = self.client.download(&request, CONNECTION_MAX).await?;
        self.open = Some(OpenChannel { download, read: BytesMut::new(), has_heard: false });
        Ok(())
    }

    /// The next message; `None` at the end of the connection.
    async fn hear(&mut self) -> Option<Result<ChannelUpdate, Error>> {
        let open = self.open.as_mut()?;
        loop {
            while let Some(end) = open.read.iter().position(|byte| *byte == b'\n') {
                let line = open.read.split_to(end);
                open.read.advance(1);
                let Some(data) = line.strip_prefix(DATA) else { continue };
                match serde_json::from_slice::<ChannelData>(data) {
                    Ok(ChannelData { channel, message }) => {
                        open.has_heard = true;
                        self.waits = RetryWaits::new();
                        return Some(Ok(ChannelUpdate::Message { channel, message }));
                    }
                    // The data of too_slow: the connection ends behind it.
                    Err(_) if data.trim_ascii() == b"{}" => {}
                    Err(error) => {
                        return Some(Err(self.client.foreign(&format!("an event is no message: {error}"))));
                    }
                }
            }
            if open.read.len() > LINE_BYTES_MAX {
                return Some(Err(self.client.foreign("an event is longer than any message")));
            }
            match timeout(SILENCE_MAX, open.download.next()).await {
                Ok(Ok(Some(bytes))) => open.read.extend_from_slice(&bytes),
                Ok(Ok(None) | Err(_)) | Err(_) => return None,
            }
        }
    }
}
