//! Subscriptions as they are read: how they stand, what a reader reads on, and what is to be
//! posted. The calls of an engine come here, and whoever runs partitions without one.

use ::streams::subscriptions::lag;
use base::{Incarnation, Problem, Timestamp};
use records::{StreamSubscription, SubscriptionPush};

use super::{FoundStream, StreamReader};
use crate::context::EngineContext;
use crate::queries::unreadable;
use crate::streams::holds::{SubscriptionHold, is_pushed};
use crate::streams::pushes::{PushKey, PushTarget};
use crate::streams::subscription::{
    PushStatus, ReaderCommit, SubscriptionRead, SubscriptionStatus, unknown_subscription,
};
use crate::streams::{PushPage, StreamName, StreamRead};

/// Bytes of the messages of a post, at most; one message is always given.
pub(in crate::streams) const PUSH_BYTES_MAX: usize = 256 << 10;

impl EngineContext {
    /// A subscription.
    ///
    /// # Errors
    /// 404 `unknown_stream` or `unknown_subscription`, 503 `storage_unavailable`.
    pub fn subscription(&self, stream: &StreamName, name: &str) -> Result<SubscriptionStatus, Problem> {
        let found = self.stream_reader().find_counted(stream)?;
        let row = row_of(&found.0, stream, name)?;
        self.subscription_shown(stream, &found, row)
    }

    /// What a reader is to read, and its hold, which it keeps as long as the call lasts.
    ///
    /// # Errors
    /// 404 `unknown_stream` or `unknown_subscription`; 409 `subscription_busy` while somebody else
    /// reads, or where it is pushed.
    pub fn read_on(
        &self,
        stream: &StreamName,
        read: &SubscriptionRead,
    ) -> Result<(SubscriptionHold, StreamRead), Problem> {
        let (found, row) = self.subscription_row(stream, &read.subscription)?;
        if row.push.is_some() {
            return Err(is_pushed(stream, &row.name));
        }
        let (held, key) = (found.stream, (found.stream, row.name));
        let hold = SubscriptionHold::begin(self, key, &read.reader, read.ttl)?;
        // Once nobody else reads: what is committed before is behind the position. The subscription
        // may be another one by then.
        let (found, row) = self.subscription_row(stream, &read.subscription)?;
        if row.push.is_some() {
            return Err(is_pushed(stream, &row.name));
        }
        if found.stream != held {
            return Err(unknown_subscription(stream, &row.name));
        }
        let query = StreamRead {
            after: row.position,
            from: None,
            segments: row.segments,
            limit: base::limits::PAGE_ITEMS_DEFAULT,
            bytes_max: usize::MAX,
        };
        Ok((hold, query))
    }

    /// A reader is about to commit: nobody else reads meanwhile.
    ///
    /// # Errors
    /// 409 `subscription_busy` while somebody else reads.
    pub fn reader_goes_on(&self, stream: Incarnation, commit: &ReaderCommit) -> Result<(), Problem> {
        let now = self.kernel.clock.now();
        self.streams.holds.go_on(stream, &commit.subscription, &commit.reader, now)
    }

    /// A subscription is deleted: whoever read it holds nothing.
    pub fn forget_reader(&self, stream: Incarnation, subscription: &str) {
        self.streams.holds.forget(stream, subscription);
    }

    /// The subscriptions that are pushed.
    #[must_use]
    pub fn pushes(&self) -> Vec<PushTarget> {
        self.streams.pushes.all()
    }

    /// What of a subscription is to be posted next, up to the message `until` if one is given.
    ///
    /// # Errors
    /// 404 when there is no such subscription that is pushed, 503 `storage_unavailable`.
    pub fn push_page(&self, key: &PushKey, read_to: u64, until: Option<u64>) -> Result<PushPage, Problem> {
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
        let mut page = self.stream_reader().read(&key.stream, &query)?;
        if let Some(until) = until {
            page.items.retain(|message| message.id <= until);
            page.next_after = page.next_after.min(until.max(row.position));
        }
        let SubscriptionPush { url, secret, .. } = *push;
        Ok(PushPage { stream, url, secret, position: row.position, page })
    }

    /// When the first message behind a position was received; `None` also where it lies in a block
    /// that cannot be read now.
    pub(in crate::streams) fn received_behind(
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
        let page = match self.stream_reader().read(stream, &query) {
            Err(problem) if problem.status == 503 => return Ok(None),
            read => read?,
        };
        Ok(page.items.first().map(|message| message.received_at))
    }

    /// A subscription of a stream that was found.
    pub(in crate::streams) fn subscription_shown(
        &self,
        stream: &StreamName,
        (found, kept): &(FoundStream, u64),
        row: StreamSubscription,
    ) -> Result<SubscriptionStatus, Problem> {
        let lag = lag(row.position, &found.tail, *kept, found.next);
        let oldest = if lag > 0 { self.received_behind(stream, row.position)? } else { None };
        let key = PushKey { stream: stream.clone(), subscription: row.name.clone() };
        let shown_push = |push: Box<SubscriptionPush>| PushStatus {
            url: push.url,
            max: push.max,
            failure: self.streams.pushes.failure(&key),
        };
        Ok(SubscriptionStatus {
            position: row.position,
            lag,
            reader: self.streams.holds.reader(found.stream, &row.name, self.kernel.clock.now()),
            oldest_unread_at: oldest,
            segments: row.segments,
            push: row.push.map(shown_push),
            created_at: row.created_at,
            name: row.name,
        })
    }

    fn subscription_row(
        &self,
        stream: &StreamName,
        name: &str,
    ) -> Result<(FoundStream, StreamSubscription), Problem> {
        let found = self.stream_reader().find(stream)?;
        let row = row_of(&found, stream, name)?;
        Ok((found, row))
    }

    fn stream_reader(&self) -> StreamReader<'_> {
        StreamReader { store: &*self.kernel.store, context: &self.streams }
    }
}

fn row_of(found: &FoundStream, stream: &StreamName, name: &str) -> Result<StreamSubscription, Problem> {
    let row = found.view.subscription(found.stream, name).map_err(unreadable)?;
    row.ok_or_else(|| unknown_subscription(stream, name))
}
