//! Locks, limits, cached values and what is said to workers, in requests and answers.

use std::collections::BTreeMap;
use std::time::Duration;

use base::Problem;
use base::limits::EXACT_NUMBER_MAX;
use compact_str::CompactString;
use engine::coordination::{LimitDecision, LimitKind, LimitRequest, LimitStatus, LockGrant, LockStatus};
use engine::queues::{LockWanted, QueueName};
use engine::records::{WorkState, WorkerControl};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa::openapi::Schema;

use super::new_job::one_of;
use super::text::Time;
use crate::fields::{ObjectFields, count, duration, or_nothing, string, whole_within};
use crate::openapi::words;
use crate::row::{Cells, CsvRow};

/// A lock that the caller holds.
#[derive(Serialize, ToSchema)]
#[schema(as = HeldLock)]
pub(crate) struct HeldLockShape<'a> {
    #[schema(schema_with = words::lock_owner)]
    owner: &'a str,
    /// Give it to whatever the lock protects, which refuses lower ones.
    #[schema(schema_with = words::fence)]
    fence: String,
    expires_at: Time,
}

impl<'a> From<&'a LockGrant> for HeldLockShape<'a> {
    fn from(grant: &'a LockGrant) -> Self {
        let LockGrant { owner, fence, expires_at } = grant;
        Self { owner, fence: fence.to_string(), expires_at: Time(*expires_at) }
    }
}

/// A lock as it stands.
#[derive(Serialize, ToSchema)]
#[schema(as = Lock)]
pub(crate) struct LockShape<'a> {
    held: bool,
    /// Shown to admin only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::lock_owner, required = false)]
    owner: Option<&'a str>,
    /// Of the latest holder; "0" if none is known.
    #[schema(schema_with = words::fence)]
    fence: String,
    /// Callers that wait for it.
    waiting: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    expires_at: Option<Time>,
}

impl<'a> LockShape<'a> {
    /// For a caller that may see the owner, or not.
    pub(crate) fn of(shown: &'a LockStatus, sees_owner: bool) -> Self {
        let holder = shown.holder.as_ref();
        Self {
            held: holder.is_some(),
            owner: holder.filter(|_| sees_owner).map(|(owner, _)| owner.as_str()),
            fence: shown.fence.to_string(),
            waiting: shown.waiting,
            expires_at: holder.map(|(_, until)| Time(*until)),
        }
    }
}

/// A lock that is held, in a list.
#[derive(Serialize, ToSchema)]
#[schema(as = ListedLock)]
pub(crate) struct ListedLockShape<'a> {
    namespace: &'a str,
    name: &'a str,
    held: bool,
    /// Shown to admin only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::lock_owner, required = false)]
    owner: Option<&'a str>,
    #[schema(schema_with = words::fence)]
    fence: String,
    /// Callers that wait for it.
    waiting: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    expires_at: Option<Time>,
}

impl<'a> ListedLockShape<'a> {
    /// For a caller that may see the owner, or not.
    pub(crate) fn of(shown: &'a LockStatus, sees_owner: bool) -> Self {
        let (namespace, name) = (shown.name.namespace(), shown.name.name());
        let LockShape { held, owner, fence, waiting, expires_at } = LockShape::of(shown, sees_owner);
        Self { namespace, name, held, owner, fence, waiting, expires_at }
    }
}

impl CsvRow for ListedLockShape<'_> {
    const COLUMNS: &'static [&'static str] =
        &["namespace", "name", "held", "owner", "fence", "waiting", "expires_at"];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.text(self.namespace).text(self.name).shown(self.held).text(self.owner.unwrap_or_default());
        cells.text(&self.fence).shown(self.waiting).shown_or_empty(self.expires_at);
    }
}

/// Whether something may be done now.
#[derive(Serialize, ToSchema)]
#[schema(as = LimitAnswer)]
pub(crate) struct LimitShape {
    allowed: bool,
    /// How much may still come now.
    remaining: u64,
    /// After how long the same is allowed if nothing else comes.
    #[schema(schema_with = words::whole_duration)]
    retry_after_ms: u64,
}

impl From<LimitDecision> for LimitShape {
    fn from(answer: LimitDecision) -> Self {
        let LimitDecision { allowed, remaining, retry_after_ms } = answer;
        Self { allowed, remaining, retry_after_ms }
    }
}

/// A limit that is used, in a list.
#[derive(Serialize, ToSchema)]
#[schema(as = ListedLimit)]
pub(crate) struct ListedLimitShape<'a> {
    namespace: &'a str,
    name: &'a str,
    #[schema(schema_with = words::limit_kind)]
    kind: &'static str,
    /// As it was asked last.
    limit: u64,
    #[schema(schema_with = words::duration)]
    per: String,
    /// How much may still come now.
    remaining: u64,
}

impl<'a> From<&'a LimitStatus> for ListedLimitShape<'a> {
    fn from(shown: &'a LimitStatus) -> Self {
        let LimitStatus { name, kind, limit, per, remaining } = shown;
        let per = base::duration::format(*per);
        let (namespace, name) = (name.namespace(), name.name());
        Self { namespace, name, kind: kind.as_str(), limit: *limit, per, remaining: *remaining }
    }
}

impl CsvRow for ListedLimitShape<'_> {
    const COLUMNS: &'static [&'static str] = &["namespace", "name", "kind", "limit", "per", "remaining"];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.text(self.namespace).text(self.name).text(self.kind).shown(self.limit);
        cells.text(&self.per).shown(self.remaining);
    }
}

/// Cached values that are there.
#[derive(Serialize, ToSchema)]
#[schema(as = CachedValues)]
pub(crate) struct CachedValuesShape {
    #[schema(schema_with = words::cached_values)]
    pub(crate) items: BTreeMap<String, CachedValueShape>,
}

/// A cached value.
#[derive(Serialize, ToSchema)]
#[schema(as = CachedValue)]
pub(crate) struct CachedValueShape {
    pub(crate) value_base64: String,
}

/// How many values were there and are gone.
#[derive(Serialize, ToSchema)]
#[schema(as = DeletedValues)]
pub(crate) struct DeletedValuesShape {
    pub(crate) deleted: usize,
}

/// To how many a message went.
#[derive(Serialize, ToSchema)]
#[schema(as = ChannelReceivers)]
pub(crate) struct ChannelReceiversShape {
    pub(crate) receivers: usize,
}

/// What the workers of a queue are to do.
#[derive(Serialize, ToSchema)]
#[schema(as = QueueControl)]
pub(crate) struct QueueControlShape<'a> {
    #[schema(schema_with = words::work_state)]
    state: &'static str,
    /// Most jobs that a worker works on at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::in_flight, required = false)]
    max_in_flight: Option<u32>,
    /// More, for whoever wrote the workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::any, required = false)]
    data: Option<&'a RawValue>,
}

impl<'a> From<&'a WorkerControl> for QueueControlShape<'a> {
    fn from(control: &'a WorkerControl) -> Self {
        let data = control.data.as_deref().and_then(|data| serde_json::from_str(data).ok());
        Self { state: control.state.as_str(), max_in_flight: control.max_in_flight, data }
    }
}

/// The schema of what is asked of a lock.
pub(crate) fn lock_wanted_schema() -> Schema {
    words::body(&[("owner?", words::lock_owner()), ("ttl?", words::duration()), ("wait?", words::duration())])
}

/// Who wants a lock, and how long.
///
/// # Errors
/// 400 or 422.
pub(crate) fn lock_wanted(text: &str) -> Result<LockWanted, Problem> {
    let fields = or_nothing(text, &["owner", "ttl", "wait"])?;
    Ok(LockWanted {
        owner: fields.optional("owner", string)?.map(CompactString::from),
        ttl: fields.optional("ttl", duration)?,
        wait: fields.optional("wait", duration)?.unwrap_or_default(),
    })
}

/// The schema of an extension.
pub(crate) fn lock_extended_schema() -> Schema {
    words::body(&[("owner", words::lock_owner()), ("ttl", words::duration())])
}

/// Whose lock is to last so long from now.
///
/// # Errors
/// 400 or 422.
pub(crate) fn lock_extended(text: &str) -> Result<(CompactString, Duration), Problem> {
    let fields = ObjectFields::read(text, &["owner", "ttl"])?;
    Ok((fields.required("owner", string)?.into(), fields.required("ttl", duration)?))
}

/// The schema of a release.
pub(crate) fn lock_released_schema() -> Schema {
    words::body(&[("owner", words::lock_owner())])
}

/// Whose lock is let go.
///
/// # Errors
/// 400 or 422.
pub(crate) fn lock_released(text: &str) -> Result<CompactString, Problem> {
    Ok(ObjectFields::read(text, &["owner"])?.required("owner", string)?.into())
}

/// The schema of what is asked of a limit.
pub(crate) fn limit_asked_schema() -> Schema {
    words::body(&[
        ("limit", words::whole(1, EXACT_NUMBER_MAX)),
        ("per", words::duration()),
        ("cost?", words::whole(1, EXACT_NUMBER_MAX)),
        ("kind?", words::limit_kind()),
    ])
}

/// What is asked of a limit.
///
/// # Errors
/// 400 or 422.
pub(crate) fn limit_asked(text: &str) -> Result<LimitRequest, Problem> {
    const KINDS: [(&str, LimitKind); 2] = [("smooth", LimitKind::Smooth), ("window", LimitKind::Window)];
    let fields = ObjectFields::read(text, &["limit", "per", "cost", "kind"])?;
    let kind = fields.optional("kind", |name, json| one_of(name, json, &KINDS))?;
    Ok(LimitRequest {
        limit: fields.required("limit", permits)?,
        per: fields.required("per", duration)?,
        cost: fields.optional("cost", permits)?.unwrap_or(1),
        kind: kind.unwrap_or(LimitKind::Smooth),
    })
}

/// How much a limit allows, or a call of it takes.
fn permits(name: &str, json: &str) -> Result<u64, Problem> {
    whole_within(name, json, &(1..=EXACT_NUMBER_MAX))
}

/// The schema of what is said to workers.
pub(crate) fn queue_control_schema() -> Schema {
    words::body(&[
        ("state", words::work_state()),
        ("max_in_flight?", words::in_flight()),
        ("data?", words::any()),
    ])
}

/// What is said to the workers of a queue.
///
/// # Errors
/// 400 or 422.
pub(crate) fn queue_control(queue: &QueueName, text: &str) -> Result<WorkerControl, Problem> {
    const STATES: [(&str, WorkState); 3] =
        [("run", WorkState::Run), ("drain", WorkState::Drain), ("stop", WorkState::Stop)];
    let fields = ObjectFields::read(text, &["state", "max_in_flight", "data"])?;
    let state = fields.required("state", |name, json| one_of(name, json, &STATES))?;
    Ok(WorkerControl {
        namespace: queue.namespace().into(),
        queue: queue.queue().into(),
        state,
        max_in_flight: fields.optional("max_in_flight", count)?,
        data: fields.json("data").filter(|data| *data != "null").map(Box::from),
    })
}
