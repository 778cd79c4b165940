//! The messages of a live stream that are no objects of a list.

use base::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::Schema;

use super::text::Time;
use crate::openapi::words;

/// The schema of a message of a feed: its items as the topic's list has them, and whether they are
/// the newest. Of commands and deliveries, `moved` has items that were sent before, whole, as they
/// are now.
pub(crate) fn live_feed_schema() -> Schema {
    words::body(&[
        ("items", words::any_objects()),
        ("first", words::flag()),
        ("moved?", words::any_objects()),
    ])
}

/// The schema of a message about devices, queues, rollouts, operations or a client: those that
/// changed, and the ids of those that are gone.
pub(crate) fn live_rows_schema() -> Schema {
    words::body(&[("items", words::any_objects()), ("gone?", words::any_texts())])
}

/// The first message of a stream.
#[derive(Serialize, ToSchema)]
#[schema(as = LiveHello)]
pub(crate) struct LiveHelloShape<'a> {
    /// Of the server.
    version: &'a str,
    at: Time,
}

/// Items of a topic were left out.
#[derive(Serialize, ToSchema)]
#[schema(as = LiveBehind)]
pub(crate) struct LiveBehindShape {
    #[schema(schema_with = words::topic)]
    topic: &'static str,
}

impl<'a> LiveHelloShape<'a> {
    /// Of a server of that version.
    pub(crate) fn of(version: &'a str, at: Timestamp) -> Self {
        Self { version, at: Time(at) }
    }
}

impl LiveBehindShape {
    /// Of a topic of that name.
    pub(crate) fn of(topic: &'static str) -> Self {
        Self { topic }
    }
}
