//! Readers of subscriptions: what they ask for, and who may.

use access::{Admitted, RequestedAction, StreamRights};
use base::Problem;
use engine::streams::{ReaderCommit, SubscriptionRead};

use crate::proto::{CommitRequest, ReadRequest};
use crate::time::read_span;

/// That a caller may read with a place that the server keeps.
pub(super) fn may_subscribe(caller: &Admitted, namespace: &str) -> Result<(), Problem> {
    caller.may(RequestedAction::Stream { namespace, right: StreamRights::Subscribe })
}

/// The subscription that a read names, if it names one.
///
/// # Errors
/// `conflicting_fields` or `invalid_duration`.
pub(super) fn read(request: &ReadRequest) -> Result<Option<SubscriptionRead>, Problem> {
    let ReadRequest { subscription, reader, ttl, after, from, segments, .. } = request;
    if subscription.is_empty() {
        return Ok(None);
    }
    if *after > 0 || from.is_some() || !segments.is_empty() {
        let detail = "a subscription has its own place and segments; leave out after, from and segments";
        return Err(Problem::not_allowed("conflicting_fields", detail));
    }
    let ttl = ttl.as_ref().map(|ttl| read_span("ttl", ttl)).transpose()?;
    Ok(Some(SubscriptionRead {
        subscription: subscription.as_str().into(),
        reader: reader.as_str().into(),
        ttl: ttl.unwrap_or(SubscriptionRead::TTL),
    }))
}

pub(super) fn commit(request: CommitRequest) -> ReaderCommit {
    let CommitRequest { subscription, reader, id, rewind, .. } = request;
    ReaderCommit { subscription: subscription.into(), reader: reader.into(), id, rewinds: rewind }
}
