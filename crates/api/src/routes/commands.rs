//! Commands to devices: sending them, looking at them, cancelling them and trying them anew.

use std::time::Duration;

use access::Caller;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use base::limits::{COMMAND_PAYLOAD_BYTES_MAX, COMMAND_RESULT_BYTES_MAX, COMMAND_WAIT_MAX};
use base::{EntityId, Problem, Timestamp};
use engine::commands::COMMAND_ID_PREFIX;
use engine::followers::{FollowedFeed, Follower};
use engine::queries::{CommandFilter, FeedKey};
use engine::queues::IdempotencyKey;
use engine::records::{CommandKey, CommandStatus};
use engine::{AnswerForm, Engine, TrackedCommand};
use net::problem::Refused;
use serde::Deserialize;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::authorization::check_receiver;
use crate::body::Text;
use crate::feed::{self, Followable, follow};
use crate::idempotency::Creation;
use crate::list::{List, PageOfList};
use crate::openapi::refusals::{OF_A_COMMAND, OF_A_READ, UNKNOWN_COMMAND, UNKNOWN_DEVICE};
use crate::openapi::{Call, words};
use crate::page::FeedQuery;
use crate::params::Params;
use crate::path::{CommandInPath, DeviceInPath, unknown_command, unknown_device};
use crate::shape::{self, CommandShape, NewCommandShape};

const OF_DEVICE: &str = "/v1/devices/{id}/commands";
const BY_ID: &str = "/v1/commands/{id}";

pub(super) fn routes() -> Routes {
    let sent =
        Call::new("Sends a device a command; it goes out while the device is reachable, until it answers")
            .once()
            .query("wait", words::duration())
            .takes(shape::new_command_schema())
            .gives::<NewCommandShape<'_>>(201, "the command; with wait as it has ended, or as it stands then")
            .refuses(OF_A_COMMAND)
            .refuses(OF_A_READ)
            .refuses(&[UNKNOWN_DEVICE, (503, "too_many_waiting")]);
    let of_device = filtered(Call::new("Commands of a device by the time at which they were sent"));
    let all = Call::new("Commands by the time at which they were sent").query("device", words::device_id());
    let all = filtered(all.labels());
    let shown = Call::new("A command, and how far it has come")
        .gives::<CommandShape<'_>>(200, "the command")
        .refuses(&[UNKNOWN_COMMAND])
        .refuses(OF_A_READ);
    let cancelled =
        Call::new("Cancels a command; one that is with its device may be done there all the same")
            .gives_nothing(204, "it is cancelled")
            .refuses(&[UNKNOWN_COMMAND, (409, "finished")]);
    let retried = Call::new("Tries a failed, expired or cancelled command anew, under the same id")
        .once()
        .gives_nothing(202, "it waits for its turn")
        .refuses(&[UNKNOWN_COMMAND, (409, "not_finished"), (409, "not_retryable"), (409, "superseded")])
        .refuses(OF_A_READ);
    Routes::default()
        .post(OF_DEVICE, send, sent)
        .get(OF_DEVICE, list_of_device, of_device)
        .get("/v1/commands", list_all, all)
        .get(BY_ID, show, shown)
        .delete(BY_ID, cancel, cancelled)
        .post("/v1/commands/{id}/retry", retry, retried)
}

fn filtered(call: Call) -> Call {
    call.query("status", words::command_status())
        .query("origin", words::command_name())
        .feed()
        .lists::<CommandShape<'_>>()
        .refuses(&[UNKNOWN_DEVICE])
}

async fn send(
    State(api): State<ApiState>,
    DeviceInPath(device): DeviceInPath,
    params: Params,
    caller: Option<Extension<Caller>>,
    creation: Creation,
) -> Result<ApiAnswer, Refused> {
    let whose = params.whose();
    let wait = params.wait_alone(COMMAND_WAIT_MAX)?;
    // Before anything is done: who is refused asks again.
    let _share = (!wait.is_zero()).then(|| api.shared.command_waits.try_take(&whose)).transpose()?;
    let whom = device.clone();
    let send = async move |api: ApiState, body: Text, idempotency: Option<IdempotencyKey>| {
        let commands = api.engine().commands();
        let command = shape::new_command(&body, &commands)?;
        let _held = body.into_memory();
        command.check(api.engine().clock().wall())?;
        check_receiver(caller.as_deref(), command.notify.as_ref())?;
        let write = |made: &_| ApiAnswer::of(made, given).stored();
        ApiAnswer::kept(&commands.send_as(device, command, AnswerForm { idempotency, write }).await?)
    };
    let sent = creation.once_by_row(&api, send).await?;
    if wait.is_zero() || sent.status != StatusCode::CREATED {
        return Ok(sent);
    }
    let id = id_in(&sent)?;
    let known = match ended(&api, id, wait).await {
        Ok(ended) => Ok(ended),
        Err(_) => present(&api, id).await,
    };
    match known {
        Ok(command) => Ok(created(&command)),
        // The device was deleted meanwhile, and its command with it.
        Err(problem) if problem.status == 404 => Err(unknown_device(whom.as_str()).into()),
        // The command was given, whatever becomes of the wait.
        Err(_) => Ok(sent),
    }
}

fn given(command: &TrackedCommand) -> ApiAnswer {
    created(&command.as_given())
}

fn created(command: &TrackedCommand) -> ApiAnswer {
    ApiAnswer::created(&NewCommandShape::from(command))
}

/// The id of the command that was answered.
fn id_in(sent: &ApiAnswer) -> Result<EntityId, Problem> {
    #[derive(Deserialize)]
    struct Sent<'a> {
        id: &'a str,
    }
    let sent: Option<Sent<'_>> = serde_json::from_slice(&sent.body).ok();
    sent.and_then(|sent| EntityId::from_text(COMMAND_ID_PREFIX, sent.id))
        .ok_or_else(|| Problem::new(500, "internal_error", "the command that was sent cannot be read"))
}

/// The command once it has ended, or as it stands when the time is over or the server stops.
async fn ended(api: &ApiState, id: EntityId, wait: Duration) -> Result<TrackedCommand, Problem> {
    let commands = api.engine().commands();
    tokio::select! {
        ended = commands.ended(id, wait) => {
            if let Some(ended) = ended? {
                return Ok(ended);
            }
        }
        () = api.stopped() => {}
    }
    present(api, id).await
}

async fn present(api: &ApiState, id: EntityId) -> Result<TrackedCommand, Problem> {
    let queries = api.queries();
    let unknown = move || unknown_command(&id.to_text(COMMAND_ID_PREFIX));
    api.shared.lookups.run(move || queries.command(id)?.ok_or_else(unknown)).await
}

async fn show(State(api): State<ApiState>, CommandInPath(id): CommandInPath) -> Result<ApiAnswer, Refused> {
    Ok(ApiAnswer::ok(&CommandShape::from(&present(&api, id).await?)))
}

async fn cancel(State(api): State<ApiState>, CommandInPath(id): CommandInPath) -> Result<ApiAnswer, Refused> {
    api.engine().commands().cancel(id).await?;
    Ok(ApiAnswer::nothing())
}

/// It makes nothing, but a repeat of it, which came too late, would be refused or send again. Its
/// outcome is told anew: that takes the right to tell it.
async fn retry(
    State(api): State<ApiState>,
    CommandInPath(id): CommandInPath,
    caller: Option<Extension<Caller>>,
    creation: Creation,
) -> Result<ApiAnswer, Refused> {
    let retry = async move |api: ApiState, idempotency: Option<IdempotencyKey>| {
        let known = present(&api, id).await?;
        check_receiver(caller.as_deref(), known.command.notify.as_deref())?;
        let form = AnswerForm {
            idempotency,
            write: |made| ApiAnswer::of(made, |()| ApiAnswer::accepted()).stored(),
        };
        ApiAnswer::kept(&api.engine().commands().retry_as(id, form).await?)
    };
    creation.once_without_body(&api, retry).await
}

/// Commands by what they are.
pub(crate) struct CommandListing {
    pub engine: Engine,
    pub filter: CommandFilter,
    pub feed: FeedQuery,
}

/// Those of all devices that the parameters ask for.
///
/// # Errors
/// `invalid_parameter`.
pub(crate) fn asked(params: &mut Params) -> Result<CommandFilter, Problem> {
    let (device, labels) = (params.device("device")?, params.labels()?);
    narrowed(CommandFilter { device, labels, ..CommandFilter::default() }, params)
}

fn narrowed(filter: CommandFilter, params: &mut Params) -> Result<CommandFilter, Problem> {
    Ok(CommandFilter {
        status: params.word("status", &CommandStatus::ALL, CommandStatus::as_str)?,
        origin: params.take("origin", "text", |text| Some(text.to_owned()))?,
        ..filter
    })
}

impl List for CommandListing {
    type Key = FeedKey<CommandKey>;
    type Found = (FeedKey<CommandKey>, TrackedCommand);
    type Shown<'a> = CommandShape<'a>;

    const READ_MAX: usize = 32;
    const ITEM_BYTES_MAX: usize = COMMAND_PAYLOAD_BYTES_MAX + 2 * COMMAND_RESULT_BYTES_MAX;

    fn look(&self, after: Option<&Self::Key>, limit: usize, cost_max: usize) -> PageOfList<Self> {
        self.engine.queries().within(cost_max).commands(&self.filter, self.feed.page(after, limit))
    }

    fn bytes((_, TrackedCommand { command, state }): &Self::Found) -> usize {
        let late = state.late.as_ref().and_then(|late| late.result.as_deref());
        let texts = [state.result.as_deref(), late];
        command.payload.len() + texts.into_iter().flatten().map(str::len).sum::<usize>()
    }

    fn key((key, _): &Self::Found) -> Self::Key {
        *key
    }

    fn show((_, command): &Self::Found) -> CommandShape<'_> {
        command.into()
    }
}

impl Followable for CommandListing {
    const ENDS_EARLY: bool = true;

    fn follow(&self) -> Result<Follower, Problem> {
        // One that was sent before may come to have the status that is asked for.
        let by_status = self.filter.status.is_some();
        let feed = if by_status { FollowedFeed::CommandsByStatus } else { FollowedFeed::Commands };
        follow(&self.engine, feed, self.filter.device.as_ref())
    }

    fn looked_until(&mut self, at: Timestamp) {
        self.filter.given_from = Some(at);
    }

    fn moved_from(&mut self, at: Timestamp) {
        if self.filter.status.is_some() {
            self.filter.given_from = self.filter.given_from.map(|from| from.min(at));
        }
    }
}

async fn list_of_device(
    State(api): State<ApiState>,
    DeviceInPath(device): DeviceInPath,
    mut params: Params,
) -> Result<Response, Refused> {
    let of_device = CommandFilter { device: Some(device), ..CommandFilter::default() };
    let filter = narrowed(of_device, &mut params)?;
    list(api, filter, params).await
}

async fn list_all(State(api): State<ApiState>, mut params: Params) -> Result<Response, Refused> {
    let filter = asked(&mut params)?;
    list(api, filter, params).await
}

async fn list(api: ApiState, filter: CommandFilter, mut params: Params) -> Result<Response, Refused> {
    let feed = params.feed()?;
    let page = params.page()?;
    let feed = feed.ending(page.form, api.engine().clock().now());
    let commands = CommandListing { engine: api.engine().clone(), filter, feed };
    feed::answer(&api, page, feed, commands).await
}
