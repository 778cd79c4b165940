//! The service `Commands`: each call is read, judged, asked of the engine, and answered.

use std::sync::Arc;
use std::time::Duration;

use access::{Admitted, RequestedAction, StreamRights};
use base::limits::COMMAND_WAIT_MAX;
use base::{DeviceId, EntityId, Problem};
use engine::commands::COMMAND_ID_PREFIX;
use engine::records::OutcomeReceiver;
use engine::{AnswerForm, Engine, TrackedCommand};
use net::shares::{COMMAND_WAITS_SHARE, SenderKey, WaitShares};
use tokio::sync::OwnedSemaphorePermit;
use tonic::{Request, Response, Status};

use crate::callers::{caller_and_message, caller_sender_and_message};
use crate::changes::into_change;
use crate::commands::kept_answer::{keep, kept};
use crate::proto::{self, commands_server};
use crate::receiving::give_back;
use crate::status::status;
use crate::stopping::StopSignal;
use crate::store_reads::StoreReads;
use crate::time::read_wait;

mod kept_answer;
mod list;
pub(crate) mod new_command;
mod shape;

/// How long a call waits that does not say.
const WAIT_DEFAULT: Duration = Duration::from_secs(30);

/// The calls about commands.
pub(crate) struct CommandsService {
    engine: Engine,
    stop: StopSignal,
    reads: StoreReads,
    /// Of callers that wait for the ends of commands, for each token.
    waits: WaitShares,
}

impl CommandsService {
    pub(crate) fn new(engine: &Engine, reads: StoreReads, stop: StopSignal) -> Self {
        let waits = WaitShares::new(COMMAND_WAITS_SHARE, "the ends of commands");
        Self { engine: engine.clone(), reads, stop, waits }
    }

    async fn send(
        &self,
        caller: &Admitted,
        request: proto::SendCommandRequest,
    ) -> Result<proto::SendCommandResponse, Status> {
        kept(&self.send_once(caller, request).await.map_err(|problem| status(&problem))?)
    }

    /// Gives a device a command, and answers what is kept for a repeat.
    async fn send_once(
        &self,
        caller: &Admitted,
        request: proto::SendCommandRequest,
    ) -> Result<Arc<[u8]>, Problem> {
        let idempotency = new_command::once(&request, caller.name())?;
        let device = device(&request.device_id)?;
        let command = new_command::read(request.command.unwrap_or_default(), &self.engine)?;
        check_receiver(caller, command.notify.as_ref())?;
        self.engine.commands().send_as(device, command, AnswerForm { idempotency, write: keep }).await
    }

    /// How long a call waits, with its place among those of its sender that wait. Taken before
    /// anything is done: who is refused asks again.
    fn wait_of(
        &self,
        sender: &SenderKey,
        request: &proto::CallRequest,
    ) -> Result<(Duration, Option<OwnedSemaphorePermit>), Problem> {
        let wait = read_wait(request.wait.as_ref(), WAIT_DEFAULT, COMMAND_WAIT_MAX)?;
        let share = (!wait.is_zero()).then(|| self.waits.try_take(sender)).transpose()?;
        Ok((wait, share.flatten()))
    }

    async fn call(
        &self,
        caller: &Admitted,
        sender: &SenderKey,
        request: proto::CallRequest,
    ) -> Result<proto::CallResponse, Status> {
        let (wait, share) = self.wait_of(sender, &request).map_err(|problem| status(&problem))?;
        let proto::CallRequest { device_id, command, idempotency_key, wait: _ } = request;
        let sending = proto::SendCommandRequest { device_id, command, idempotency_key };
        let proto::SendCommandResponse { command, notify_secret } = self.send(caller, sending).await?;
        // From here on it waits for the device.
        give_back();
        let (sent, id) = (command.clone(), command.map(|command| command.id).unwrap_or_default());
        let ended = async {
            let id = id_of(&id)?;
            let commands = self.engine.commands();
            let mut stop = self.stop.clone();
            let ended = tokio::select! {
                ended = commands.ended(id, wait) => ended.ok().flatten(),
                () = stop.stopping() => None,
            };
            match ended {
                Some(ended) => Ok(ended),
                // It has its place among those who wait, so it waits for its turn to read.
                None if share.is_some() => self.present_when_free(sender, id).await,
                None => self.present(sender, id).await,
            }
        };
        let command = match ended.await {
            Ok(known) => Some(shape::command(&known)),
            // The device was deleted meanwhile, and its command with it.
            Err(problem) if problem.status == 404 => return Err(status(&unknown_device())),
            // The command was given, whatever becomes of the wait.
            Err(_) => sent,
        };
        Ok(proto::CallResponse { command, notify_secret })
    }

    async fn present(&self, sender: &SenderKey, id: EntityId) -> Result<TrackedCommand, Problem> {
        let queries = self.engine.queries();
        self.reads.run(sender, move || queries.command(id)?.ok_or_else(unknown_command)).await
    }

    async fn present_when_free(&self, sender: &SenderKey, id: EntityId) -> Result<TrackedCommand, Problem> {
        let queries = self.engine.queries();
        let read = move || queries.command(id)?.ok_or_else(unknown_command);
        self.reads.run_when_free(sender, read).await
    }
}

/// Whether the caller may have this one told how a command ended: as a job of a queue, or as a
/// message of a stream.
pub(crate) fn check_receiver(caller: &Admitted, receiver: Option<&OutcomeReceiver>) -> Result<(), Problem> {
    match receiver {
        Some(OutcomeReceiver::Queue { namespace, .. }) => caller.may(RequestedAction::Work { namespace }),
        Some(OutcomeReceiver::Stream { namespace, .. }) => {
            caller.may(RequestedAction::Stream { namespace, right: StreamRights::Append })
        }
        Some(OutcomeReceiver::Url { .. }) | None => Ok(()),
    }
}

/// What signs the POST that tells how a command ended.
pub(crate) fn secret_of(receiver: Option<&OutcomeReceiver>) -> bytes::Bytes {
    match receiver {
        Some(OutcomeReceiver::Url { secret, .. }) => bytes::Bytes::copy_from_slice(secret),
        Some(OutcomeReceiver::Queue { .. } | OutcomeReceiver::Stream { .. }) | None => bytes::Bytes::new(),
    }
}

fn device(id: &str) -> Result<DeviceId, Problem> {
    DeviceId::new(id).ok_or_else(unknown_device)
}

fn unknown_device() -> Problem {
    Problem::unknown("unknown_device", "there is no such device")
}

fn id_of(text: &str) -> Result<EntityId, Problem> {
    EntityId::from_text(COMMAND_ID_PREFIX, text).ok_or_else(unknown_command)
}

fn unknown_command() -> Problem {
    Problem::unknown("unknown_command", "there is no such command: an id is as sending gave it")
}

#[tonic::async_trait]
impl commands_server::Commands for CommandsService {
    async fn send(
        &self,
        request: Request<proto::SendCommandRequest>,
    ) -> Result<Response<proto::SendCommandResponse>, Status> {
        let (caller, sender, request) = caller_sender_and_message(request)?;
        caller.may(RequestedAction::Command).map_err(|problem| status(&problem))?;
        let sent = CommandsService::send(self, &caller, request).await?;
        Ok(self.reads.answers().answer_always(&sender, sent))
    }

    async fn get(
        &self,
        request: Request<proto::GetCommandRequest>,
    ) -> Result<Response<proto::GetCommandResponse>, Status> {
        let (caller, sender, request) = caller_sender_and_message(request)?;
        let shown = async {
            caller.may(RequestedAction::LookAtCommands)?;
            let command = self.present(&sender, id_of(&request.id)?).await?;
            let shown = proto::GetCommandResponse { command: Some(shape::command(&command)) };
            self.reads.answers().answer(&sender, shown)
        };
        shown.await.map_err(|problem| status(&problem))
    }

    async fn list(
        &self,
        request: Request<proto::ListCommandsRequest>,
    ) -> Result<Response<proto::ListCommandsResponse>, Status> {
        let (caller, sender, request) = caller_sender_and_message(request)?;
        let listed = async {
            caller.may(RequestedAction::LookAtCommands)?;
            let (list, queries) = (list::CommandPageRequest::read(request)?, self.engine.queries());
            self.engine.feed_caught_up(list.feed_page()).await;
            self.reads.page(&sender, list.bytes_max(), move || list.page(&queries)).await
        };
        listed.await.map_err(|problem| status(&problem))
    }

    async fn cancel(
        &self,
        request: Request<proto::CancelCommandRequest>,
    ) -> Result<Response<proto::CancelCommandResponse>, Status> {
        let (caller, request) = caller_and_message(request)?;
        let cancelled = async {
            caller.may(RequestedAction::Command)?;
            self.engine.commands().cancel(id_of(&request.id)?).await?;
            Ok(proto::CancelCommandResponse {})
        };
        into_change(cancelled.await, request.id)
    }

    async fn retry(
        &self,
        request: Request<proto::RetryCommandRequest>,
    ) -> Result<Response<proto::RetryCommandResponse>, Status> {
        let (caller, sender, request) = caller_sender_and_message(request)?;
        let retried = async {
            caller.may(RequestedAction::Command)?;
            let id = id_of(&request.id)?;
            // Its outcome is told anew: that takes the right to tell it.
            check_receiver(&caller, self.present(&sender, id).await?.command.notify.as_deref())?;
            self.engine.commands().retry(id).await?;
            Ok(proto::RetryCommandResponse {})
        };
        into_change(retried.await, request.id)
    }

    async fn call(
        &self,
        request: Request<proto::CallRequest>,
    ) -> Result<Response<proto::CallResponse>, Status> {
        let (caller, sender, request) = caller_sender_and_message(request)?;
        caller.may(RequestedAction::Command).map_err(|problem| status(&problem))?;
        let ended = CommandsService::call(self, &caller, &sender, request).await?;
        Ok(self.reads.answers().answer_always(&sender, ended))
    }
}
