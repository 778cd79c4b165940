//! Commands of the whole fleet: looked at, waited for, called off, tried anew.

use std::time::Duration;

use hyper::Method;
use tokio::time::{Instant, sleep};

use crate::client::Client;
use crate::command::{Command, CommandId, CommandStatus};
use crate::error::Error;
use crate::path::Path;
use crate::queue_stats::{Cursor, Page};
use crate::request::Request;
use crate::retry::Repeat;

/// The status of a call that the present state of things forbids.
pub(crate) const CONFLICT: u16 = 409;
/// Between two looks at a command that is waited for: first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The commands of a server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Commands {
    client: Client,
}

/// Which commands: all, unless it is narrowed.
#[derive(Clone, Debug, Default)]
pub struct CommandFilter {
    status: Option<CommandStatus>,
    device: Option<String>,
    origin: Option<String>,
}

impl CommandFilter {
    /// All.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Only those that stand so.
    #[must_use]
    pub fn status(self, status: CommandStatus) -> Self {
        Self { status: Some(status), ..self }
    }

    /// Only those of a device.
    #[must_use]
    pub fn device(self, device: impl Into<String>) -> Self {
        Self { device: Some(device.into()), ..self }
    }

    /// Only those that somebody asked for.
    #[must_use]
    pub fn origin(self, origin: impl Into<String>) -> Self {
        Self { origin: Some(origin.into()), ..self }
    }
}

impl Commands {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// A command.
    ///
    /// # Errors
    /// 404 `unknown_command`; see [`Error`].
    pub async fn get(&self, id: &CommandId) -> Result<Command, Error> {
        self.client.fetch(&Request::new(Method::GET, of(id)), Repeat::Harmless).await
    }

    /// Commands, the newest first.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn list(&self, filter: &CommandFilter, after: Option<&Cursor>) -> Result<Page<Command>, Error> {
        let CommandFilter { status, device, origin } = filter;
        let given = [
            ("status", status.map(CommandStatus::as_str)),
            ("device", device.as_deref()),
            ("origin", origin.as_deref()),
            ("cursor", after.map(Cursor::as_str)),
        ];
        let named = given.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let path = named.fold(Path::of(&["commands"]), |path, (name, value)| path.with(name, value));
        self.client.fetch(&Request::new(Method::GET, path), Repeat::Harmless).await
    }

    /// A command once it has ended, or as it is when `limit` is over. It is looked at again and
    /// again, at most once a second after the first few times.
    ///
    /// # Errors
    /// 404 `unknown_command`; see [`Error`].
    pub async fn wait(&self, id: &CommandId, limit: Duration) -> Result<Command, Error> {
        let until = Instant::now() + limit;
        let mut pause = FIRST_PAUSE;
        loop {
            let command = self.get(id).await?;
            let left = until.saturating_duration_since(Instant::now());
            if command.status.has_ended() || left.is_zero() {
                return Ok(command);
            }
            sleep(pause.min(left)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Calls a command off that has not ended.
    ///
    /// # Errors
    /// 404 `unknown_command`, 409 `finished` once it has ended; see [`Error`].
    pub async fn cancel(&self, id: &CommandId) -> Result<(), Error> {
        match self.client.ask(&Request::new(Method::DELETE, of(id)), Repeat::Harmless).await {
            Ok(_) => Ok(()),
            // An earlier try of this call, whose answer was lost, may have done it.
            Err(failed) if failed.perhaps_done && failed.error.status() == Some(CONFLICT) => {
                let is_cancelled = self.get(id).await?.status == CommandStatus::Cancelled;
                if is_cancelled { Ok(()) } else { Err(failed.error) }
            }
            Err(failed) => Err(failed.error),
        }
    }

    /// Tries a failed, expired or cancelled command anew, under the same id.
    ///
    /// # Errors
    /// 404 `unknown_command`; 409 `not_finished`, or `not_retryable` for an acknowledged or
    /// superseded one; see [`Error`].
    pub async fn retry(&self, id: &CommandId) -> Result<(), Error> {
        let request = Request::new(Method::POST, of(id).and(&["retry"]));
        self.client.order(&request, Repeat::Harmful).await
    }
}

fn of(id: &CommandId) -> Path {
    Path::of(&["commands", id.as_str()])
}
