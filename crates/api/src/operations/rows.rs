//! The rows of an operation: those of the list that its action is about, or those that it names.
//!
//! They are read as the list reads them, from one end to the other, a bounded stretch at a time.
//! Rows that came after the operation was asked for are left out, so that the list has an end.

use std::time::Duration;

use base::id::{DELIVERY_ID_PREFIX, QUARANTINE_ID_PREFIX};
use base::{ClientId, Problem, Timestamp};
use engine::commands::COMMAND_ID_PREFIX;
use engine::queries::Stretch;
use engine::queues::{QueueName, id_text};
use engine::records::OperationAction;
use tokio::runtime::Handle;

use super::rights;
use crate::ApiState;
use crate::authorization::Sees;
use crate::cursor::Key;
use crate::fields::{scalars, strings};
use crate::list::List;
use crate::page::{Feed, Order};
use crate::params::Params;
use crate::routes::commands::{self, Commands};
use crate::routes::dead::Letters;
use crate::routes::deliveries::{self, Deliveries};
use crate::routes::devices::Matching;
use crate::routes::jobs::{self, Jobs};
use crate::routes::quarantine::Refusals;

use OperationAction::{
    CancelCommand, DeleteDead, DeleteDevice, DeleteJob, DeleteQuarantined, LabelDevice, LinkDevice,
    ReplayQuarantined, ResendDelivery, RespawnDead, RetryCommand, RetryDelivery, UnlinkDevice,
};

/// Rows that a filter names.
pub(crate) const NAMED_MAX: usize = 1_000;

/// A filter as it was written.
pub(super) struct RowFilter {
    action: OperationAction,
    ids: Option<Vec<String>>,
    params: Params,
    /// The queue, of an action that is about one.
    pub(super) queue: Option<QueueName>,
}

impl RowFilter {
    /// Reads a JSON object.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(action: OperationAction, json: &str) -> Result<Self, Problem> {
        let (given, ids) = scalars("filter", json, "ids")?;
        let ids = ids.map(|ids| strings("filter.ids", ids)).transpose()?;
        if let Some(ids) = ids.as_ref().filter(|ids| !(1..=NAMED_MAX).contains(&ids.len())) {
            let detail = format!("filter.ids are {}; they must be 1 to {NAMED_MAX}", ids.len());
            return Err(Problem::not_allowed("too_many_ids", detail));
        }
        let mut params = Params::of_filter(given);
        let queue = match action {
            RespawnDead | DeleteDead | DeleteJob => Some(queue(&mut params)?),
            _ => None,
        };
        if ids.is_some() {
            params.end()?;
        }
        Ok(Self { action, ids, params, queue })
    }
}

fn queue(params: &mut Params) -> Result<QueueName, Problem> {
    let named = params.take("queue", "NAMESPACE/QUEUE", |text| {
        text.split_once('/').map(|(namespace, queue)| (namespace.to_owned(), queue.to_owned()))
    })?;
    let (namespace, queue) = named.ok_or_else(|| {
        let detail = "filter.queue has to be there: \"NAMESPACE/QUEUE\"";
        Problem::not_allowed("missing_field", detail)
    })?;
    QueueName::new(&namespace, &queue)
}

/// Where the rows of an operation come from.
pub(super) enum RowSource {
    /// It names them.
    Named(Vec<String>),
    Devices(Matching),
    Deliveries(Deliveries),
    Commands(Commands),
    Quarantine(Refusals),
    Dead(Letters),
    Jobs(Jobs),
}

/// Rows that were found, as ids.
#[derive(Debug, Default)]
pub(super) struct RowPage {
    pub(super) rows: Vec<Box<str>>,
    /// Where the list goes on; `None` at its end.
    pub(super) next: Option<Box<[u8]>>,
    /// Rows that were looked at for them.
    pub(super) looked_at: u64,
}

/// What a row of a list is to an operation.
enum RowClass {
    /// One of its rows.
    Meant(String),
    /// It came later.
    Later,
    /// It came later, and so did all behind it.
    End,
}

impl RowSource {
    /// The rows that a filter means; deliveries of `own` clients alone, where that is given.
    ///
    /// # Errors
    /// What is wrong with the filter; 403 `forbidden`.
    pub(super) fn of(
        api: &ApiState,
        filter: RowFilter,
        own: Option<&[ClientId]>,
        until: Timestamp,
    ) -> Result<Self, Problem> {
        let RowFilter { action, ids, mut params, queue } = filter;
        if let Some(ids) = ids {
            return Ok(Self::Named(ids));
        }
        let engine = api.engine().clone();
        let queued = |queue: Option<QueueName>| queue.ok_or_else(|| Problem::unreadable("there is no queue"));
        let rows = match action {
            RespawnDead | DeleteDead => Self::Dead(Letters::asked(api, queued(queue)?, &mut params)?),
            DeleteJob => {
                let (queue, state) = (queued(queue)?, jobs::asked(&mut params)?);
                Self::Jobs(Jobs { queues: api.queues(), queue, state, executor: Handle::current() })
            }
            RetryDelivery | ResendDelivery => {
                let mut filter = deliveries::asked(&mut params)?;
                let feed = span(&mut params, until)?;
                filter.client = own_client(action, filter.client, own)?;
                let sees = if own.is_some() { Sees::ItsOwn } else { Sees::Everything };
                Self::Deliveries(Deliveries { engine, filter, feed, sees })
            }
            ReplayQuarantined | DeleteQuarantined => {
                Self::Quarantine(Refusals { engine, feed: span(&mut params, until)? })
            }
            CancelCommand | RetryCommand => {
                let filter = commands::asked(&mut params)?;
                Self::Commands(Commands { engine, filter, feed: span(&mut params, until)? })
            }
            LabelDevice | LinkDevice | UnlinkDevice | DeleteDevice => {
                Self::Devices(Matching::asked(api, &mut params)?)
            }
        };
        params.end()?;
        Ok(rows)
    }

    /// At most `limit` rows behind a place that this gave; from the beginning without any. Reads
    /// the store.
    ///
    /// # Errors
    /// What the list says.
    pub(super) fn read(&self, after: &[u8], limit: usize, until: Timestamp) -> Result<RowPage, Problem> {
        let meant = |is_later: bool, id: &dyn Fn() -> String| {
            if is_later { RowClass::Later } else { RowClass::Meant(id()) }
        };
        match self {
            Self::Named(ids) => named(ids, after, limit),
            Self::Devices(list) => stretch(list, after, limit, |device| {
                meant(device.profile.registered_at >= until, &|| device.profile.id.as_str().to_owned())
            }),
            Self::Deliveries(list) => stretch(list, after, limit, |(_, delivery)| {
                RowClass::Meant(delivery.id.to_text(DELIVERY_ID_PREFIX))
            }),
            Self::Commands(list) => stretch(list, after, limit, |(_, tracked)| {
                RowClass::Meant(tracked.command.id.to_text(COMMAND_ID_PREFIX))
            }),
            Self::Quarantine(list) => stretch(list, after, limit, |(_, report)| {
                RowClass::Meant(report.id.to_text(QUARANTINE_ID_PREFIX))
            }),
            Self::Dead(list) => stretch(list, after, limit, |view| match view.dead.died_at < until {
                true => RowClass::Meant(id_text(view.dead.id)),
                false => RowClass::End,
            }),
            Self::Jobs(list) => {
                stretch(list, after, limit, |(_, job)| meant(job.published_at >= until, &|| id_text(job.id)))
            }
        }
    }
}

/// The client whose deliveries are meant, for a token that may have only those of some sent again.
fn own_client(
    action: OperationAction,
    asked: Option<ClientId>,
    own: Option<&[ClientId]>,
) -> Result<Option<ClientId>, Problem> {
    match (asked, own) {
        (asked, None) => Ok(asked),
        (Some(asked), Some(own)) if own.contains(&asked) => Ok(Some(asked)),
        (None, Some([only])) => Ok(Some(only.clone())),
        (None, Some(_)) => {
            let detail = "filter.client has to say which client's deliveries are meant";
            Err(Problem::not_allowed("missing_field", detail))
        }
        (Some(_), Some(_)) => Err(rights::forbidden(action)),
    }
}

/// `from` and `to`, but nothing that came later than the operation.
fn span(params: &mut Params, until: Timestamp) -> Result<Feed, Problem> {
    let (from, to) = params.span()?;
    let to = Some(to.map_or(until, |to| to.min(until)));
    Ok(Feed { from, to, order: Order::Ascending, wait: Duration::ZERO })
}

fn named(ids: &[String], after: &[u8], limit: usize) -> Result<RowPage, Problem> {
    let begin = match after {
        [] => 0,
        bytes => bytes.try_into().map(u32::from_be_bytes).map_err(|_| no_place())? as usize,
    };
    let rows: Vec<Box<str>> = ids.iter().skip(begin).take(limit).map(|id| id.as_str().into()).collect();
    let end = begin + rows.len();
    let next = (end < ids.len()).then(|| Box::from((end as u32).to_be_bytes()));
    Ok(RowPage { looked_at: rows.len() as u64, rows, next })
}

fn stretch<L: List>(
    list: &L,
    after: &[u8],
    limit: usize,
    is: impl Fn(&L::Found) -> RowClass,
) -> Result<RowPage, Problem> {
    let limit = limit.min(L::READ_MAX);
    let after = match after {
        [] => None,
        bytes => Some(L::Key::read(bytes).ok_or_else(no_place)?),
    };
    let Stretch { found, next, looked_at } = list.look(after.as_ref(), limit)?;
    let mut next = next.or_else(|| found.last().filter(|_| found.len() == limit).map(L::key));
    let looked_at = looked_at.unwrap_or(found.len() as u64);
    let mut rows = Vec::with_capacity(found.len());
    for row in &found {
        match is(row) {
            RowClass::Meant(id) => rows.push(id.into()),
            RowClass::Later => {}
            RowClass::End => {
                next = None;
                break;
            }
        }
    }
    let next = next.map(|key| {
        let mut bytes = Vec::new();
        key.write(&mut bytes);
        bytes.into()
    });
    Ok(RowPage { rows, next, looked_at })
}

fn no_place() -> Problem {
    Problem::new(500, "internal_error", "where the operation goes on cannot be read")
}
