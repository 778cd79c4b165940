//! Subscriptions of streams in requests and answers.

use std::time::Duration;

use base::Problem;
use base::limits::{
    MESSAGES_PER_PUSH_MAX, PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX, SEGMENTS_PER_READ_MAX, STREAM_WAIT_MAX,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::CommandCalls;
use engine::streams::{
    NewSubscription, NewSubscriptionPush, PushStatus, ReaderCommit, SubscriptionFrom, SubscriptionRead,
    SubscriptionStart, SubscriptionStatus,
};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::Schema;

use super::client::{SECRET_PREFIX, secret};
use super::new_message::message_id;
use super::text::Time;
use crate::fields::{
    ObjectFields, any_whole, boolean, duration, or_nothing, string, time, whole_within, within, wrong_type,
};
use crate::openapi::words;
use crate::row::{Cells, CsvRow};

/// A reader of a stream whose place the server keeps, or a receiver to which it posts.
#[derive(Serialize, ToSchema)]
#[schema(as = Subscription)]
pub(crate) struct SubscriptionShape<'a> {
    #[schema(schema_with = words::queue_name)]
    name: &'a str,
    /// Everything up to this message is read; "0" before the first.
    #[schema(schema_with = words::message_id)]
    position: String,
    /// Messages behind it that are kept. With `segment` those of others count too: it is at most
    /// so much.
    lag: u64,
    /// Who reads at the moment.
    #[schema(required)]
    reader: Option<&'a str>,
    /// When the oldest of the messages behind it was received.
    #[schema(required)]
    oldest_unread_at: Option<Time>,
    /// The only segments that it gives.
    #[schema(required)]
    segment: Option<String>,
    #[schema(required)]
    push: Option<SubscriptionPushShape<'a>>,
    created_at: Time,
}

/// Where messages are posted, and how that goes.
#[derive(Serialize, ToSchema)]
#[schema(as = SubscriptionPush)]
pub(crate) struct SubscriptionPushShape<'a> {
    #[schema(schema_with = words::url)]
    url: &'a str,
    /// Most messages of a post.
    max: u32,
    /// Posts that were not taken, one after the other.
    failures: u32,
    /// What came of the latest one of these.
    #[schema(required)]
    error: Option<&'a str>,
    #[schema(required)]
    last_failed_at: Option<Time>,
    /// What posts are signed with: only where it was just made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::secret, required = false)]
    secret: Option<String>,
}

impl<'a> From<&'a SubscriptionStatus> for SubscriptionShape<'a> {
    fn from(shown: &'a SubscriptionStatus) -> Self {
        Self {
            name: &shown.name,
            position: shown.position.to_string(),
            lag: shown.lag,
            reader: shown.reader.as_deref(),
            oldest_unread_at: shown.oldest_unread_at.map(Time),
            segment: (!shown.segments.is_empty()).then(|| shown.segments.join(",")),
            push: shown.push.as_ref().map(SubscriptionPushShape::from),
            created_at: Time(shown.created_at),
        }
    }
}

impl<'a> From<&'a PushStatus> for SubscriptionPushShape<'a> {
    fn from(push: &'a PushStatus) -> Self {
        let failure = push.failure.as_ref();
        Self {
            url: &push.url,
            max: push.max,
            failures: failure.map_or(0, |failure| failure.failures),
            error: failure.map(|failure| &*failure.error),
            last_failed_at: failure.map(|failure| Time(failure.at)),
            secret: None,
        }
    }
}

impl SubscriptionShape<'_> {
    /// The same with the secret that was just made for its push.
    pub(crate) fn with_secret(mut self, made: Option<&[u8]>) -> Self {
        if let Some(push) = &mut self.push {
            push.secret = made.map(|secret| format!("{SECRET_PREFIX}{}", STANDARD.encode(secret)));
        }
        self
    }
}

impl CsvRow for SubscriptionShape<'_> {
    const COLUMNS: &'static [&'static str] = &[
        "name",
        "position",
        "lag",
        "reader",
        "oldest_unread_at",
        "segment",
        "push_url",
        "push_failures",
        "push_error",
        "created_at",
    ];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.text(self.name).text(&self.position).shown(self.lag).shown_or_empty(self.reader);
        cells.shown_or_empty(self.oldest_unread_at).shown_or_empty(self.segment.as_deref());
        let push = self.push.as_ref();
        cells.shown_or_empty(push.map(|push| push.url)).shown_or_empty(push.map(|push| push.failures));
        cells.shown_or_empty(push.and_then(|push| push.error)).shown(self.created_at);
    }
}

/// The schema of a subscription to be put.
pub(crate) fn new_subscription_schema() -> Schema {
    let push =
        words::body(&[("url", words::url()), ("max?", words::push_max()), ("secret?", words::secret())]);
    words::body(&[
        ("from?", words::subscription_from()),
        ("segment?", words::read_segments()),
        ("push?", push),
    ])
}

/// The subscription that a body asks for, and where it begins.
///
/// # Errors
/// 400 or 422.
pub(crate) fn new_subscription(
    name: &str,
    text: &str,
    commands: &CommandCalls,
) -> Result<(NewSubscription, Option<SubscriptionFrom>), Problem> {
    let fields = or_nothing(text, &["from", "segment", "push"])?;
    let from = fields.optional("from", from)?;
    let segments = fields.optional("segment", segments)?.unwrap_or_default();
    let push = fields.json("push").filter(|json| *json != "null");
    let push = push.map(|json| new_push(json, commands)).transpose()?.flatten();
    Ok((NewSubscription { name: name.into(), from: None, segments, push }, from))
}

fn new_push(json: &str, commands: &CommandCalls) -> Result<Option<NewSubscriptionPush>, Problem> {
    within("push", json, ("an object with url", &["url", "max", "secret"]), |fields| {
        let given = fields.optional("secret", secret)?;
        let max = |name: &str, json: &str| any_whole(name, json, &(1..=MESSAGES_PER_PUSH_MAX.into()));
        let max = fields.optional("max", max)?.unwrap_or(NewSubscriptionPush::MAX.into());
        let max = u32::try_from(max).unwrap_or(u32::MAX);
        let is_made = given.is_none();
        let receiver = commands.receiver_at(fields.required("url", string)?, given)?;
        Ok(NewSubscriptionPush::to(receiver, max, is_made))
    })
}

/// `"start"`, `"end"`, the id of the last message that is read, or a time.
pub(super) fn from(name: &str, json: &str) -> Result<SubscriptionFrom, Problem> {
    let digits = json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or(json);
    match json {
        r#""start""# => return Ok(SubscriptionFrom::Place(SubscriptionStart::Start)),
        r#""end""# => return Ok(SubscriptionFrom::Place(SubscriptionStart::End)),
        _ => {}
    }
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return message_id(name, json).map(|id| SubscriptionFrom::Place(SubscriptionStart::Behind(id)));
    }
    if json.starts_with('"') {
        return time(name, json).map(SubscriptionFrom::Time);
    }
    Err(wrong_type(name, json, "\"start\", \"end\", the id of a message or a time"))
}

fn segments(name: &str, json: &str) -> Result<Vec<Box<str>>, Problem> {
    let text = string(name, json)?;
    Ok(text.split(',').take(SEGMENTS_PER_READ_MAX + 1).map(Box::from).collect())
}

/// What a reader asks for.
pub(crate) struct AskedOfSubscription {
    pub read: SubscriptionRead,
    pub limit: usize,
    pub wait: Duration,
}

/// The schema of a read.
pub(crate) fn subscription_read_schema() -> Schema {
    words::body(&[
        ("reader", words::stream_label()),
        ("limit?", words::whole(1, PAGE_ITEMS_MAX as u64)),
        ("wait?", words::duration()),
        ("ttl?", words::duration()),
    ])
}

/// What a body asks to be read.
///
/// # Errors
/// 400 or 422.
pub(crate) fn subscription_read(subscription: Box<str>, text: &str) -> Result<AskedOfSubscription, Problem> {
    let fields = ObjectFields::read(text, &["reader", "limit", "wait", "ttl"])?;
    let reader = fields.required("reader", string)?.into_boxed_str();
    let ttl = fields.optional("ttl", duration)?.unwrap_or(SubscriptionRead::TTL);
    let limit = |name: &str, json: &str| whole_within(name, json, &(1..=PAGE_ITEMS_MAX as u64));
    let limit = fields.optional("limit", limit)?.unwrap_or(PAGE_ITEMS_DEFAULT as u64);
    let wait = fields.optional("wait", duration)?.unwrap_or_default();
    if wait > STREAM_WAIT_MAX {
        let detail = format!("wait must be up to {}s", STREAM_WAIT_MAX.as_secs());
        return Err(Problem::not_allowed("invalid_duration", detail));
    }
    Ok(AskedOfSubscription {
        read: SubscriptionRead { subscription, reader, ttl },
        limit: limit as usize,
        wait,
    })
}

/// The schema of a commit.
pub(crate) fn commit_schema() -> Schema {
    words::body(&[("reader", words::stream_label()), ("id", words::message_id()), ("rewind?", words::flag())])
}

/// How far a body says that a reader has come.
///
/// # Errors
/// 400 or 422.
pub(crate) fn reader_commit(subscription: Box<str>, text: &str) -> Result<ReaderCommit, Problem> {
    let fields = ObjectFields::read(text, &["reader", "id", "rewind"])?;
    Ok(ReaderCommit {
        subscription,
        reader: fields.required("reader", string)?.into_boxed_str(),
        id: fields.required("id", message_id)?,
        rewinds: fields.optional("rewind", boolean)?.unwrap_or_default(),
    })
}
