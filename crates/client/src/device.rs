//! One device: it is told to do something, and what it is to have is wished.

use std::time::Duration;

use hyper::Method;
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::command::{Command, DesiredEntry, NewCommand, SentCommand};
use crate::error::Error;
use crate::path::Path;
use crate::request::Request;
use crate::retry::{Repeat, idempotency_key};
use crate::span::Milliseconds;

/// A device. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Device {
    client: Client,
    id: String,
}

impl Device {
    pub(crate) fn new(client: Client, id: String) -> Self {
        Self { client, id }
    }

    /// Tells it something. When this returns, the command is durable; it goes out once the device
    /// is reachable.
    ///
    /// Where an answer is lost it is asked again under the same idempotency key, and there is still
    /// one command.
    ///
    /// # Errors
    /// 404 `unknown_device`, 422 for what is not allowed; see [`Error`].
    pub async fn send(&self, command: &NewCommand) -> Result<SentCommand, Error> {
        let (request, repeat) = self.sending(command, self.path(&["commands"]))?;
        self.client.fetch(&request, repeat).await
    }

    /// Tells it something and waits up to five minutes for the end. Gives the command once it has
    /// ended, or as it is when `wait` is over.
    ///
    /// # Errors
    /// See [`Device::send`].
    pub async fn call(&self, command: &NewCommand, wait: Duration) -> Result<Command, Error> {
        let path = self.path(&["commands"]).with("wait", &Milliseconds(wait).to_string());
        let (request, repeat) = self.sending(command, path)?;
        let timeout = self.client.timeout_of(&request) + wait;
        self.client.fetch(&request.timeout(timeout), repeat).await
    }

    fn sending(&self, command: &NewCommand, path: Path) -> Result<(Request, Repeat), Error> {
        let request = Request::document(Method::POST, path, command)?;
        let idempotency_key = idempotency_key();
        // Without a key a second try might send a second command.
        let repeat = if idempotency_key.is_some() { Repeat::Harmless } else { Repeat::Harmful };
        Ok((Request { idempotency_key, ..request }, repeat))
    }

    /// What it is to have, and what it has confirmed, in order of key: a thousand entries at most.
    ///
    /// # Errors
    /// 404 `unknown_device`; see [`Error`].
    pub async fn desired(&self) -> Result<Vec<DesiredEntry>, Error> {
        #[derive(Deserialize)]
        struct Entries {
            items: Vec<DesiredEntry>,
        }
        let request = Request::new(Method::GET, self.path(&["desired"]));
        let Entries { items } = self.client.fetch(&request, Repeat::Harmless).await?;
        Ok(items)
    }

    /// It is to have this value under a key. A command brings it there; a newer wish for the key
    /// replaces one that waits.
    ///
    /// # Errors
    /// [`Error::Unwritable`] when the value cannot be written as JSON; 404 `unknown_device`, 409
    /// `too_many_entries`; see [`Error`].
    pub async fn wish<T: Serialize + ?Sized>(&self, key: &str, value: &T) -> Result<(), Error> {
        #[derive(Serialize)]
        struct Body<'a, T: ?Sized> {
            value: &'a T,
        }
        let request = Request::document(Method::PUT, self.path(&["desired", key]), &Body { value })?;
        self.client.order(&request, Repeat::Harmless).await
    }

    /// It is to have nothing under a key. A command brings it there.
    ///
    /// # Errors
    /// 404 `unknown_device`; see [`Error`].
    pub async fn wish_deleted(&self, key: &str) -> Result<(), Error> {
        let request = Request::new(Method::DELETE, self.path(&["desired", key]));
        self.client.order(&request, Repeat::Harmless).await
    }

    fn path(&self, below: &[&str]) -> Path {
        Path::of(&["devices", &self.id]).and(below)
    }
}
