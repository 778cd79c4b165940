//! Commands to devices, as the edges give and carry them.
//!
//! A command waits in its device's partition. It goes out while the device is reachable, again and
//! again until the device answers; an answer is a report like any other ([`crate::ReportContent`]).

use std::sync::Arc;
use std::time::Duration;

use base::{DeviceId, EntityId, Kind, Problem, Timestamp};
use records::{Command, CommandState, DesiredState, OutcomeReceiver};
use tokio::time::timeout;

use crate::devices::input::{CommandInput, DeviceInput, Repeatable};
use crate::kernel::partition_handle::NotAccepting;
use crate::kernel::reply::Reply;
use crate::{AnswerForm, Engine};

pub(crate) mod check;

pub use check::{check_entry_key, check_name, receiver_queue, receiver_stream};

/// What the text of a command's id begins with.
pub const COMMAND_ID_PREFIX: &str = "cmd_";

/// A command as a caller gives it. Whoever makes one has checked its form and its ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCommand {
    /// What the device is told: compact JSON text, up to
    /// [`base::limits::COMMAND_PAYLOAD_BYTES_MAX`].
    pub payload: Arc<[u8]>,
    /// How long it may take altogether, from now or from `not_before` on.
    pub ttl: Option<Duration>,
    /// It goes out no earlier; on the wall clock.
    pub not_before: Option<Timestamp>,
    /// In place of the setting `commands.ack_timeout`.
    pub ack_timeout: Option<Duration>,
    /// In place of ten minutes.
    pub run_timeout: Option<Duration>,
    /// In place of the setting `commands.max_attempts`.
    pub attempts_max: Option<u32>,
    /// Who asks for it, in the caller's words.
    pub origin: Option<String>,
    /// A waiting command of the device with the same key gives way to it.
    pub key: Option<String>,
    /// -100 to 100; higher ones go first.
    pub priority: i8,
    /// Who is told how it ended.
    pub notify: Option<OutcomeReceiver>,
}

/// A command, and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackedCommand {
    /// As it was given.
    pub command: Arc<Command>,
    /// How far it has come.
    pub state: CommandState,
}

/// A command on its way to a device: what the device is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedCommand {
    /// The device.
    pub device: DeviceId,
    /// The device's kind.
    pub kind: Kind,
    /// The command: its `message_id`.
    pub id: EntityId,
    /// JSON text.
    pub payload: Arc<[u8]>,
}

/// Carries commands to sessions of devices. Called where batches have become durable: it must not
/// wait. What it cannot carry goes out again after the command's `ack_timeout`.
pub trait Downlink: Send + Sync {
    /// A command goes out to whichever live sessions cover its device's topic.
    fn publish(&self, command: PublishedCommand);
}

/// The calls about commands. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CommandCalls {
    engine: Engine,
}

impl CommandCalls {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }

    /// Gives a device a command.
    ///
    /// # Errors
    /// 404 for an unknown device; 503 when not accepting, here and for every call below.
    pub async fn send(&self, device: DeviceId, command: NewCommand) -> Result<TrackedCommand, Problem> {
        let (partition, command) = (self.engine.partition_of_device(&device), Box::new(command));
        let sent =
            partition.ask(|reply| CommandInput::Send { device: device.clone(), command, reply }.into());
        Ok(*sent.await??)
    }

    /// [`CommandCalls::send`] for a request that may come again; answers in its form, refusals too.
    ///
    /// # Errors
    /// 422 `idempotency_key_reused`.
    pub async fn send_as(
        &self,
        device: DeviceId,
        command: NewCommand,
        form: AnswerForm<TrackedCommand>,
    ) -> Result<Arc<[u8]>, Problem> {
        let partition = self.engine.partition_of_device(&device);
        let act = Repeatable::SendCommand(device, Box::new(command), form);
        partition.ask(|reply| DeviceInput::Repeatable { act, reply }).await?
    }

    /// Calls a command off.
    ///
    /// # Errors
    /// 404 `unknown_command`; 409 `finished` once it has ended.
    pub async fn cancel(&self, id: EntityId) -> Result<(), Problem> {
        self.engine.partition_of_entity(id).ask(|reply| CommandInput::Cancel { id, reply }.into()).await?
    }

    /// Tries a failed, expired or cancelled command anew, under the same id.
    ///
    /// # Errors
    /// 404 `unknown_command`; 409 `not_finished`, `not_retryable` for an acknowledged or superseded
    /// one, or `superseded` while a newer one with its key waits. It is `superseded` too where its
    /// desired entry was given another value since.
    pub async fn retry(&self, id: EntityId) -> Result<(), Problem> {
        self.engine.partition_of_entity(id).ask(|reply| CommandInput::Retry { id, reply }.into()).await?
    }

    /// [`CommandCalls::retry`] for a request that may come again.
    ///
    /// # Errors
    /// 422 `idempotency_key_reused`.
    pub async fn retry_as(&self, id: EntityId, form: AnswerForm<()>) -> Result<Arc<[u8]>, Problem> {
        let act = Repeatable::RetryCommand(id, form);
        self.engine.partition_of_entity(id).ask(|reply| DeviceInput::Repeatable { act, reply }).await?
    }

    /// The command once it has ended; `None` when the time is over before.
    ///
    /// # Errors
    /// 404 `unknown_command`; 503 `too_many_waiting`.
    pub async fn ended(&self, id: EntityId, wait: Duration) -> Result<Option<TrackedCommand>, Problem> {
        let partition = self.engine.partition_of_entity(id);
        let ended = partition.ask(|reply| CommandInput::Await { id, reply }.into());
        match timeout(wait, ended).await {
            Ok(ended) => Ok(Some(*ended??)),
            Err(_) => Ok(None),
        }
    }

    /// The next command for a device that polls, or the one that it has not answered. While this
    /// waits the device is reachable.
    ///
    /// # Errors
    /// 404 for an unknown device; 503 `too_many_waiting`.
    pub async fn poll(&self, device: DeviceId, wait: Duration) -> Result<Option<PublishedCommand>, Problem> {
        let number = (!wait.is_zero()).then(|| self.engine.context().devices.next_poll());
        let partition = self.engine.partition_of_device(&device);
        let (reply, mut answer) = Reply::new();
        partition.send(CommandInput::Poll { device: device.clone(), number, reply }.into()).await?;
        // A device that hangs up is reachable no longer.
        let mut leaving =
            Leaving { engine: self.engine.clone(), poll: number.map(|number| (device, number)) };
        let answered = match number {
            None => answer.await,
            Some(_) => match timeout(wait, &mut answer).await {
                Ok(answered) => answered,
                Err(_) => {
                    leaving.leave().await?;
                    answer.await
                }
            },
        };
        leaving.poll = None;
        let given = answered.map_err(|_| NotAccepting)??;
        Ok(given.map(|command| *command))
    }

    /// Sets the value (canonical JSON text) that a device is to have under a key; `None` if it is
    /// to have no such entry. A command brings the device there, in place of a waiting one for the
    /// same key.
    ///
    /// # Errors
    /// 404 for an unknown device; 409 `too_many_entries`.
    pub async fn set_desired(
        &self,
        device: DeviceId,
        key: String,
        value: Option<Box<str>>,
    ) -> Result<DesiredState, Problem> {
        check::check_entry_key(&key)?;
        let (partition, key) = (self.engine.partition_of_device(&device), key.into_boxed_str());
        let wished = partition
            .ask(|reply| CommandInput::SetDesired { device: device.clone(), key, value, reply }.into());
        Ok(*wished.await??)
    }
}

/// Has a poll leave its partition, also when its caller is dropped.
struct Leaving {
    engine: Engine,
    poll: Option<(DeviceId, u64)>,
}

impl Leaving {
    async fn leave(&mut self) -> Result<(), NotAccepting> {
        match self.poll.take() {
            Some((device, number)) => stop_polling(&self.engine, device, number).await,
            None => Ok(()),
        }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let Some((device, number)) = self.poll.take() else { return };
        let engine = self.engine.clone();
        // A runtime that ends drops the task at once: nothing in it may do this again when dropped.
        tokio::spawn(async move {
            // A partition that takes nothing more holds no poll either.
            let _not_accepting = stop_polling(&engine, device, number).await;
        });
    }
}

async fn stop_polling(engine: &Engine, device: DeviceId, number: u64) -> Result<(), NotAccepting> {
    let input = CommandInput::StopPolling { device: device.clone(), number }.into();
    engine.partition_of_device(&device).send(input).await
}

/// A device answers a command that it was never sent.
pub(crate) fn not_its_command(id: EntityId) -> Problem {
    let detail = format!("{} is no command that this device was sent", id.to_text(COMMAND_ID_PREFIX));
    Problem::unknown("unknown_command", detail)
}

pub(crate) fn unknown_command(id: EntityId) -> Problem {
    let detail = format!("there is no command {}", id.to_text(COMMAND_ID_PREFIX));
    Problem::unknown("unknown_command", detail)
}
