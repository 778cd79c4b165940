//! The calls about subscriptions: they are put and deleted, read and committed, and pushed.

use ::streams::SubscriptionStart;
use base::limits::{MESSAGES_PER_PUSH_MAX, PUSHED_SUBSCRIPTIONS_MAX, READER_TTL, SEGMENTS_PER_READ_MAX};
use base::{Incarnation, Problem, Timestamp};
use tokio::task::spawn_blocking;

use super::super::holds::SubscriptionHold;
use super::super::input::{CommitCall, PutSubscriptionCall, PutSubscriptionOutcome, StreamsInput};
use super::super::pushes::{PushFailure, PushKey, PushTarget};
use super::super::reading::subscriptions::PUSH_BYTES_MAX;
use super::super::subscription::{
    NewSubscription, NewSubscriptionPush, ReaderCommit, SubscriptionFrom, SubscriptionRead,
    SubscriptionStatus,
};
use super::super::{StreamName, StreamPage, StreamRead, is_label};
use super::StreamCalls;
use crate::name::QueueName;
use crate::queries::unreadable;

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

impl StreamCalls {
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
        self.engine.context().forget_reader(held, name);
        Ok(())
    }

    /// A subscription. Reads from disk.
    ///
    /// # Errors
    /// 404 `unknown_stream` or `unknown_subscription`, 503 `storage_unavailable`.
    pub fn subscription(&self, stream: &StreamName, name: &str) -> Result<SubscriptionStatus, Problem> {
        self.engine.context().subscription(stream, name)
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
    ) -> Result<Vec<SubscriptionStatus>, Problem> {
        let found = self.reader().find_counted(stream)?;
        let rows = found.0.view.subscriptions_of(found.0.stream, after, limit).map_err(unreadable)?;
        let context = self.engine.context();
        rows.into_iter().map(|row| context.subscription_shown(stream, &found, row)).collect()
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
        self.engine.context().read_on(stream, read)
    }

    /// Everything up to a message is read. Durable when this returns. A subscription that is pushed
    /// goes on behind it too.
    ///
    /// # Errors
    /// 404 `unknown_stream`, `unknown_subscription` or `unknown_message`; 409 `subscription_busy`
    /// while somebody else reads, `position_behind`; 422 `invalid_name`.
    pub async fn commit(&self, stream: &StreamName, commit: ReaderCommit) -> Result<(), Problem> {
        check_reader(&commit.reader)?;
        if let Some((of, _)) = self.end(stream).await {
            self.engine.context().reader_goes_on(of, &commit)?;
        }
        let ReaderCommit { subscription, id, rewinds, .. } = commit;
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
        self.engine.context().pushes()
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
        let (context, key) = (self.engine.context().clone(), target.key.clone());
        blocking(move || context.push_page(&key, read_to, until)).await
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

    /// When the first message behind a position was received; `None` also where it lies in a block
    /// that cannot be read now.
    pub(super) fn received_behind(
        &self,
        stream: &StreamName,
        position: u64,
    ) -> Result<Option<Timestamp>, Problem> {
        self.engine.context().received_behind(stream, position)
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
