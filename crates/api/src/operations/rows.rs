//! The rows of an operation: those of the list that its action is about, or those that it names.
//!
//! They are read as the list reads them, from one end to the other, a bounded chunk at a time.
//! Rows that came after the operation was asked for are left out, so that the list has an end.

use std::collections::HashSet;
use std::time::Duration;

use base::id::{DELIVERY_ID_PREFIX, QUARANTINE_ID_PREFIX};
use base::{ClientId, EntityId, Problem, Timestamp};
use engine::Queries;
use engine::commands::COMMAND_ID_PREFIX;
use engine::queries::{BoundedPage, LOOKED_AT_MAX};
use engine::queues::{QueueName, id_text};
use engine::records::OperationAction;
use net::problem::quoted;
use serde_json::value::to_raw_value;
use tokio::runtime::Handle;

use super::rights;
use super::row::OperationRow;
use crate::ApiState;
use crate::authorization::Visibility;
use crate::cursor::CursorKey;
use crate::fields::{object_members, scalars, strings};
use crate::list::List;
use crate::page::{FeedQuery, TimeOrder};
use crate::params::Params;
use crate::routes::commands::{self, CommandListing};
use crate::routes::dead::DeadLetterList;
use crate::routes::deliveries::{self, Deliveries};
use crate::routes::devices::MatchingDevices;
use crate::routes::jobs::{self, JobListing};
use crate::routes::quarantine::RefusedReportList;

use OperationAction::{
    CancelCommand, DeleteDead, DeleteDevice, DeleteJob, DeleteQuarantined, LabelDevice, LinkDevice,
    ReplayQuarantined, ResendDelivery, RespawnDead, RetryCommand, RetryDelivery, UnlinkDevice,
};

/// Rows that a filter names.
const NAMED_MAX: usize = 1_000;
/// Longest id that a filter names, in bytes: far more than any thing's id has.
const NAMED_BYTES_MAX: usize = 128;
/// Longest text of a filter, in bytes: as many ids as it may name fit in.
pub(crate) const FILTER_BYTES_MAX: usize = 128 * 1_024;

/// Bytes of an id's quotes and comma.
const QUOTES_BYTES: usize = 3;
const _: () = assert!(NAMED_MAX * (NAMED_BYTES_MAX + QUOTES_BYTES) < FILTER_BYTES_MAX);

/// A filter as it was written.
pub(super) struct RowFilter {
    action: OperationAction,
    ids: Option<Vec<String>>,
    params: Params,
    /// The queue, of an action that is about one.
    pub(super) queue: Option<QueueName>,
}

impl RowFilter {
    /// Reads a JSON object. An id that is there twice is meant once; refused reports are in the
    /// order in which they came.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(action: OperationAction, json: &str) -> Result<Self, Problem> {
        let (given, ids) = scalars("filter", json, "ids")?;
        let mut ids = ids.map(named_ids).transpose()?;
        if let Some(ids) = ids.as_mut().filter(|_| action == ReplayQuarantined) {
            let came =
                |id: &String| EntityId::from_text(QUARANTINE_ID_PREFIX, id).map(|id| (id.at, id.number));
            ids.sort_by_key(came);
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

/// A filter as it is kept: without space, and each id once.
///
/// # Errors
/// What is wrong with its size, or that of an id.
pub(super) fn filter_text(name: &str, json: &str) -> Result<String, Problem> {
    if json.len() > FILTER_BYTES_MAX {
        let detail = format!("{name} has {} bytes; it must have at most {FILTER_BYTES_MAX}", json.len());
        return Err(Problem::not_allowed("too_long", detail));
    }
    let mut members = object_members(name, json)?;
    let ids = members.get("ids").map(|ids| named_ids(ids.get())).transpose()?;
    let too_long = |id: &&String| id.len() > NAMED_BYTES_MAX;
    if let Some(id) = ids.iter().flatten().find(too_long) {
        let (bytes, id) = (id.len(), quoted(id));
        let detail = format!("filter.ids has {id} of {bytes} bytes; an id has at most {NAMED_BYTES_MAX}");
        return Err(Problem::not_allowed("too_long", detail));
    }
    let ids = ids.map(|ids| to_raw_value(&ids)).transpose().map_err(unwritable)?;
    if let Some(ids) = &ids {
        members.insert("ids".to_owned(), ids);
    }
    serde_json::to_string(&members).map_err(unwritable)
}

#[expect(clippy::needless_pass_by_value, reason = "it ends the error")]
fn unwritable(error: serde_json::Error) -> Problem {
    Problem::new(500, "internal_error", format!("the filter cannot be written: {error}"))
}

/// The rows that a filter names, each once.
fn named_ids(json: &str) -> Result<Vec<String>, Problem> {
    let mut ids = strings("filter.ids", json)?;
    if !(1..=NAMED_MAX).contains(&ids.len()) {
        let detail = format!("filter.ids has {} ids; it must have 1 to {NAMED_MAX}", ids.len());
        return Err(Problem::not_allowed("too_many_ids", detail));
    }
    let mut known = HashSet::new();
    ids.retain(|id| known.insert(id.clone()));
    Ok(ids)
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
pub(super) enum OperationRowSource {
    /// It names them.
    Named(Vec<String>),
    Devices(MatchingDevices),
    Deliveries(Deliveries),
    Commands(CommandListing),
    Quarantine(RefusedReportList),
    Dead(Box<DeadLetterList>),
    Jobs(JobListing),
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

impl OperationRowSource {
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
            RespawnDead | DeleteDead => {
                Self::Dead(Box::new(DeadLetterList::asked(api, queued(queue)?, &mut params)?))
            }
            DeleteJob => {
                let (queue, state) = (queued(queue)?, jobs::asked(&mut params)?);
                Self::Jobs(JobListing { queues: api.queues(), queue, state, executor: Handle::current() })
            }
            RetryDelivery | ResendDelivery => {
                let mut filter = deliveries::asked(&mut params)?;
                let feed = span(&mut params, until)?;
                filter.client = own_client(action, filter.client, own)?;
                let sees = if own.is_some() { Visibility::ItsOwn } else { Visibility::Everything };
                Self::Deliveries(Deliveries::new(engine, filter, feed, sees))
            }
            ReplayQuarantined | DeleteQuarantined => {
                Self::Quarantine(RefusedReportList { engine, feed: span(&mut params, until)? })
            }
            CancelCommand | RetryCommand => {
                let filter = commands::asked(&mut params)?;
                Self::Commands(CommandListing { engine, filter, feed: span(&mut params, until)? })
            }
            LabelDevice | LinkDevice | UnlinkDevice | DeleteDevice => {
                Self::Devices(MatchingDevices::asked(api, &mut params)?)
            }
        };
        params.end()?;
        Ok(rows)
    }

    /// Whether the list still has this row; those that are named are meant as they are.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(super) fn has(&self, queries: &Queries, row: &OperationRow) -> Result<bool, Problem> {
        match (self, row) {
            (Self::Named(_), _) => Ok(true),
            (Self::Devices(list), OperationRow::Device(device)) => list.has(device),
            (Self::Deliveries(list), OperationRow::Delivery(delivery)) => list.has(queries, delivery),
            (Self::Commands(list), OperationRow::Command(tracked)) => {
                Ok(list.feed.has(tracked.command.id.at) && queries.lists_command(&list.filter, tracked)?)
            }
            (Self::Quarantine(list), OperationRow::Quarantined(report)) => Ok(list.feed.has(report.id.at)),
            (Self::Dead(list), OperationRow::Dead(letter)) => Ok(list.is_meant(letter)),
            (Self::Jobs(list), OperationRow::Job(job)) => {
                Ok(list.state.is_none_or(|state| job.state == state))
            }
            _ => Ok(false),
        }
    }

    /// Whether a filter names them; nothing is known of them then.
    pub(super) fn is_named(&self) -> bool {
        matches!(self, Self::Named(_))
    }

    /// What so many of its rows may take in memory while they are read, in bytes.
    pub(super) fn bytes_max(&self, limit: usize) -> usize {
        fn of<L: List>(_: &L, limit: usize) -> usize {
            limit.min(L::READ_MAX) * L::ITEM_BYTES_MAX
        }
        match self {
            Self::Named(_) => 0,
            Self::Devices(list) => of(list, limit),
            Self::Deliveries(list) => of(list, limit),
            Self::Commands(list) => of(list, limit),
            Self::Quarantine(list) => of(list, limit),
            Self::Dead(list) => of(&**list, limit),
            Self::Jobs(list) => of(list, limit),
        }
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
            Self::Devices(list) => listed(list, after, limit, |device| {
                meant(device.profile.registered_at >= until, &|| device.profile.id.as_str().to_owned())
            }),
            Self::Deliveries(list) => listed(list, after, limit, |(_, delivery)| {
                RowClass::Meant(delivery.id.to_text(DELIVERY_ID_PREFIX))
            }),
            Self::Commands(list) => listed(list, after, limit, |(_, tracked)| {
                RowClass::Meant(tracked.command.id.to_text(COMMAND_ID_PREFIX))
            }),
            Self::Quarantine(list) => listed(list, after, limit, |(_, report)| {
                RowClass::Meant(report.id.to_text(QUARANTINE_ID_PREFIX))
            }),
            Self::Dead(list) => listed(&**list, after, limit, |view| match view.dead.died_at < until {
                true => RowClass::Meant(id_text(view.dead.id)),
                false => RowClass::End,
            }),
            Self::Jobs(list) => {
                listed(list, after, limit, |(_, job)| meant(job.published_at >= until, &|| id_text(job.id)))
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
fn span(params: &mut Params, until: Timestamp) -> Result<FeedQuery, Problem> {
    let (from, to) = params.span()?;
    let to = Some(to.map_or(until, |to| to.min(until)));
    Ok(FeedQuery { from, to, order: TimeOrder::Ascending, wait: Duration::ZERO })
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

fn listed<L: List>(
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
    let BoundedPage { found, next, looked_at, .. } = list.look(after.as_ref(), limit, LOOKED_AT_MAX)?;
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
