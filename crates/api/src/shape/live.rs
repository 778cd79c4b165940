//! The messages of a live stream that are no objects of a list.

use base::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::text::Time;
use crate::openapi::words;

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
