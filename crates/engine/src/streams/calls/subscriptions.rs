//! The calls about subscriptions: they are put and deleted, read and committed, and pushed.

use ::streams::SubscriptionStart;
use ::streams::subscriptions::lag;
use base::limits::{MESSAGES_PER_PUSH_MAX, PUSHED_SUBSCRIPTIONS_MAX, READER_TTL, SEGMENTS_PER_READ_MAX};
use base::{Incarnation, Problem, Timestamp};
use records::StreamSubscription;
use tokio::task::spawn_blocking;

use super::super::holds::{self, SubscriptionHold};
use super::super::input::{CommitCall, PutSubscriptionCall, PutSubscriptionOutcome, StreamsInput};
use super::super::pushes::{PushFailure, PushKey, PushTarget};
use super::super::reading::FoundStream;
use super::super::subscription::{
    NewSubscription, NewSubscriptionPush, ReaderCommit, SubscriptionFrom, SubscriptionPushShown,
    SubscriptionRead, SubscriptionShown, unknown_subscription,
};
use super::super::{StreamName, StreamPage, StreamRead, is_label};
use super::Streams;
use crate::queries::unreadable;
use crate::queues::QueueName;

/// Bytes of the messages of a post, at most; one message is always given.
const PUSH_BYTES_MAX: usize = 256 << 10;

/// Messages of a subscription that are to be posted.
#[derive(Debug)]
pub struct PushPage {
    /// Which stream of that name.
    pub stream: Incarnation,
    /// Where.
    pub url: Box<str>,
    /// What the post is signed with.
    pub secret: Box<[u8]>,
    /// The position behind which they are.
    pub position: u64,
    /// The messages.
    pub page: StreamPage,
}

impl Streams {
    /// Makes a subscription, and its stream where that is not there; or gives one that is there
    /// these terms. It stays where it is, unless `from` is given.
    ///
    /// # Errors
    /// 422 `invalid_name`, `invalid_number`, `invalid_from` or `too_many_segments`; 429
    /// `too_many_streams`, `too_many_subscriptions` or `too_many_pushes`.
    pub async fn put_subscription(
        &self,
        stream: &StreamName,
        mut subscription: NewSubscription,
        from: Option<SubscriptionFrom>,
    ) -> Result<PutSubscriptionOutcome, Problem> {
        check(&subscription)?;
        self.check_pushes(stream, &subscription)?;
        subscription.from = match from {
            Some(SubscriptionFrom::Place(place)) => Some(place),
            Some(SubscriptionFrom::Time(time)) => Some(self.before(stream, time).await?),
            None => None,
        };
        self.check_count(stream).await?;
        let call = |reply| {
            let call = PutSubscriptionCall { stream: stream.clone(), subscription, reply };
            StreamsInput::PutSubscription(Box::new(call))
        };
        self.partition(stream).ask(call).await?
    }

    /// Where a subscription begins whose first message is the first that was received no earlier.
    pub(super) async fn before(
        &self,
        stream: &StreamName,
        time: Timestamp,
    ) -> Result<SubscriptionStart, Problem> {
        let (streams, stream) = (self.clone(), stream.clone());
        let look = move || {
            let mut after = 0;
            loop {
                let query = StreamRead {
                    after,
                    from: Some(time),
                    segments: Vec::new(),
                    limit: 1,
                    bytes_max: PUSH_BYTES_MAX,
                };
                let page = match streams.read(&stream, &query) {
                    Ok(page) => page,
                    Err(problem) if problem.code == "unknown_stream" => return Ok(0),
                    Err(problem) => return Err(problem),
                };
                match page.items.first() {
                    Some(message) => return Ok(message.id - 1),
                    None if page.is_end => return Ok(page.next_after),
                    None => after = page.next_after,
                }
            }
        };
        blocking(look).await.map(SubscriptionStart::Behind)
    }

    /// Deletes a subscription.
    ///
    /// # Errors
    /// 404 `unknown_stream` or `unknown_subscription`.
    pub async fn delete_subscription(&self, stream: &StreamName, name: &str) -> Result<(), Problem> {
        let input = |reply| StreamsInput::DeleteSubscription {
            stream: stream.clone(),
            subscription: name.into(),
            reply,
        };
        let (streams, of) = (self.clone(), stream.clone());
        let held = blocking(move || Ok(streams.reader().find(&of)?.stream)).await?;
        self.partition(stream).ask(input).await??;
        self.engine.context().streams.holds.forget(held, name);
        Ok(())
    }

    /// A subscription. Reads from disk.
    ///
    /// # Errors
    /// 404 `unknown_stream` or `unknown_subscription`, 503 `storage_unavailable`.
    pub fn subscription(&self, stream: &StreamName, name: &str) -> Result<SubscriptionShown, Problem> {
        let found = self.reader().find_counted(stream)?;
        let row = row_of(&found.0, stream, name)?;
        self.subscription_shown(stream, &found, row)
    }

    /// The subscriptions of a stream behind the one of that name, in order of name. Reads from
    /// disk.
    ///
    /// # Errors
    /// 404 `unknown_stream`, 503 `storage_unavailable`.
    pub fn subscriptions(
        &self,
        stream: &StreamName,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SubscriptionShown>, Problem> {
        let found = self.reader().find_counted(stream)?;
        let rows = found.0.view.subscriptions_of(found.0.stream, after, limit).map_err(unreadable)?;
        rows.into_iter().map(|row| self.subscription_shown(stream, &found, row)).collect()
    }

    /// A reader reads on: what it is to read, and its hold, which it keeps as long as the call
    /// lasts. Reads from disk.
    ///
    /// # Errors
    /// 404 `unknown_stream` or `unknown_subscription`; 409 `subscription_busy` while somebody else
    /// reads, or where it is pushed; 422 `invalid_name` or `invalid_ttl`.
    pub fn read_on(
        &self,
        stream: &StreamName,
        read: &SubscriptionRead,
    ) -> Result<(SubscriptionHold, StreamRead), Problem> {
        check_reader(&read.reader)?;
        if read.ttl < READER_TTL.0 || read.ttl > READER_TTL.1 {
            let detail = "ttl must be from 1s to 1h";
            return Err(Problem::not_allowed("invalid_ttl", detail));
        }
        let (found, row) = self.subscription_row(stream, &read.subscription)?;
        if row.push.is_some() {
            return Err(holds::is_pushed(stream, &row.name));
        }
        let key = (found.stream, row.name);
        let hold = SubscriptionHold::begin(&self.engine, key, &read.reader, read.ttl)?;
        // Once nobody else reads: what is committed before is behind the position.
        let (_, row) = self.subscription_row(stream, &read.subscription)?;
        let query = StreamRead {
            after: row.position,
            from: None,
            segments: row.segments,
            limit: base::limits::PAGE_ITEMS_DEFAULT,
            bytes_max: usize::MAX,
        };
        Ok((hold, query))
    }

    /// Everything up to a message is read. Durable when this returns. A subscription that is pushed
    /// goes on behind it too.
    ///
    /// # Errors
    /// 404 `unknown_stream`, `unknown_subscription` or `unknown_message`; 409 `subscription_busy`
    /// while somebody else reads, `position_behind`; 422 `invalid_name`.
    pub async fn commit(&self, stream: &StreamName, commit: ReaderCommit) -> Result<(), Problem> {
        let ReaderCommit { subscription, reader, id, rewinds } = commit;
        check_reader(&reader)?;
        if let Some((of, _)) = self.end(stream).await {
            let holds = &self.engine.context().streams.holds;
            holds.go_on(of, &subscription, &reader, self.engine.clock().now())?;
        }
        self.commit_from(stream, subscription, (id, rewinds), None).await
    }

    async fn commit_from(
        &self,
        stream: &StreamName,
        subscription: Box<str>,
        (id, rewinds): (u64, bool),
        pushed_from: Option<u64>,
    ) -> Result<(), Problem> {
        let call = |reply| {
            let stream = stream.clone();
            let call = CommitCall { stream, subscription, id, rewinds, pushed_from, reply };
            StreamsInput::Commit(Box::new(call))
        };
        self.partition(stream).ask(call).await?
    }

    /// The subscriptions that are pushed.
    #[must_use]
    pub fn pushes(&self) -> Vec<PushTarget> {
        self.engine.context().streams.pushes.all()
    }

    /// Returns when [`Self::pushes`] may be others than before. For one caller.
    pub async fn pushes_changed(&self) {
        self.engine.context().streams.pushes.changed().await;
    }

    /// What of a subscription is to be posted next, up to the message `until` if one is given.
    ///
    /// # Errors
    /// 404 when there is no such subscription that is pushed, 503 `storage_unavailable`.
    pub async fn push_page(
        &self,
        target: &PushTarget,
        read_to: u64,
        until: Option<u64>,
    ) -> Result<PushPage, Problem> {
        let (streams, key) = (self.clone(), target.key.clone());
        blocking(move || streams.read_push(&key, read_to, until)).await
    }

    fn read_push(&self, key: &PushKey, read_to: u64, until: Option<u64>) -> Result<PushPage, Problem> {
        let (found, row) = self.subscription_row(&key.stream, &key.subscription)?;
        let stream = found.stream;
        drop(found);
        let push = row.push.ok_or_else(|| unknown_subscription(&key.stream, &key.subscription))?;
        let query = StreamRead {
            after: row.position.max(read_to),
            from: None,
            segments: row.segments,
            limit: push.max as usize,
            bytes_max: PUSH_BYTES_MAX,
        };
        let mut page = self.read(&key.stream, &query)?;
        if let Some(until) = until {
            page.items.retain(|message| message.id <= until);
            page.next_after = page.next_after.min(until.max(row.position));
        }
        Ok(PushPage { stream, url: push.url, secret: push.secret, position: row.position, page })
    }

    /// Everything from a position up to a message was posted.
    ///
    /// # Errors
    /// 409 `position_moved` where somebody else has moved the position.
    pub async fn commit_pushed(&self, target: &PushTarget, from: u64, to: u64) -> Result<(), Problem> {
        let PushKey { stream, subscription } = &target.key;
        self.commit_from(stream, subscription.clone(), (to, false), Some(from)).await
    }

    /// What came of the latest post of a subscription, for whoever looks at it.
    pub fn note_push(&self, target: &PushTarget, failure: Option<PushFailure>) {
        self.engine.context().streams.pushes.note(target, failure);
    }

    fn subscription_row(
        &self,
        stream: &StreamName,
        name: &str,
    ) -> Result<(FoundStream, StreamSubscription), Problem> {
        let found = self.reader().find(stream)?;
        let row = row_of(&found, stream, name)?;
        Ok((found, row))
    }

    fn subscription_shown(
        &self,
        stream: &StreamName,
        (found, kept): &(FoundStream, u64),
        row: StreamSubscription,
    ) -> Result<SubscriptionShown, Problem> {
        let context = &self.engine.context().streams;
        let lag = lag(row.position, &found.tail, *kept, found.next);
        let oldest = if lag > 0 { self.received_behind(stream, row.position)? } else { None };
        let key = PushKey { stream: stream.clone(), subscription: row.name.clone() };
        let shown_push = |push: Box<records::SubscriptionPush>| SubscriptionPushShown {
            url: push.url,
            max: push.max,
            failure: context.pushes.failure(&key),
        };
        Ok(SubscriptionShown {
            position: row.position,
            lag,
            reader: context.holds.reader(found.stream, &row.name, self.engine.clock().now()),
            oldest_unread_at: oldest,
            segments: row.segments,
            push: row.push.map(shown_push),
            created_at: row.created_at,
            name: row.name,
        })
    }

    /// When the first message behind a position was received; `None` also where it lies in a block
    /// that cannot be read now.
    pub(super) fn received_behind(
        &self,
        stream: &StreamName,
        position: u64,
    ) -> Result<Option<Timestamp>, Problem> {
        let query = StreamRead {
            after: position,
            from: None,
            segments: Vec::new(),
            limit: 1,
            bytes_max: PUSH_BYTES_MAX,
        };
        let page = match self.read(stream, &query) {
            Err(problem) if problem.status == 503 => return Ok(None),
            read => read?,
        };
        Ok(page.items.first().map(|message| message.received_at))
    }

    /// Whether one more subscription may be pushed.
    fn check_pushes(&self, stream: &StreamName, subscription: &NewSubscription) -> Result<(), Problem> {
        let pushes = &self.engine.context().streams.pushes;
        let key = PushKey { stream: stream.clone(), subscription: subscription.name.clone() };
        if subscription.push.is_none() || pushes.len() < PUSHED_SUBSCRIPTIONS_MAX || pushes.has(&key) {
            return Ok(());
        }
        let detail = format!("{PUSHED_SUBSCRIPTIONS_MAX} subscriptions are pushed already");
        Err(Problem::new(429, "too_many_pushes", detail))
    }
}

fn row_of(found: &FoundStream, stream: &StreamName, name: &str) -> Result<StreamSubscription, Problem> {
    let row = found.view.subscription(found.stream, name).map_err(unreadable)?;
    row.ok_or_else(|| unknown_subscription(stream, name))
}

/// Reads where that may block.
pub(super) async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let stopping = |_| Problem::unavailable("the server is not accepting now");
    spawn_blocking(read).await.map_err(stopping)?
}

fn check(subscription: &NewSubscription) -> Result<(), Problem> {
    let NewSubscription { name, from: _, segments, push } = subscription;
    QueueName::check("subscription", name)?;
    if segments.len() > SEGMENTS_PER_READ_MAX || segments.iter().any(|segment| !is_label(segment)) {
        let detail =
            format!("segment must be up to {SEGMENTS_PER_READ_MAX}, each of A-Z a-z 0-9 _ . : and -");
        return Err(Problem::not_allowed("invalid_name", detail));
    }
    match push {
        Some(NewSubscriptionPush { max, .. }) if !(1..=MESSAGES_PER_PUSH_MAX).contains(max) => {
            let detail = format!("push.max is {max}; it must be 1 to {MESSAGES_PER_PUSH_MAX}");
            Err(Problem::not_allowed("invalid_number", detail))
        }
        _ => Ok(()),
    }
}

fn check_reader(reader: &str) -> Result<(), Problem> {
    if is_label(reader) {
        return Ok(());
    }
    let detail = "reader must be 1 to 64 of A-Z a-z 0-9 _ . : and -";
    Err(Problem::not_allowed("invalid_name", detail))
}
