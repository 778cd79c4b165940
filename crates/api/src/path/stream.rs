//! Streams and their messages in paths. A name that cannot be one is refused as such; an id that
//! cannot be one is as unknown as one that was never given.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use base::Problem;
use engine::streams::StreamName;
use net::problem::{Refused, quoted};

use super::in_path;

/// `/v1/streams/{ns}/{stream}`
#[derive(Debug)]
pub(crate) struct StreamInPath(pub StreamName);

/// `/v1/streams/{ns}/{stream}/messages/{id}`
#[derive(Debug)]
pub(crate) struct MessageInPath {
    pub stream: StreamName,
    pub id: u64,
}

/// `/v1/streams/{ns}/{stream}/subscriptions/{name}`
#[derive(Debug)]
pub(crate) struct SubscriptionInPath {
    pub stream: StreamName,
    pub name: Box<str>,
}

impl<S: Send + Sync> FromRequestParts<S> for SubscriptionInPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let (namespace, stream, name): (String, String, String) = in_path(parts, state).await?;
        Ok(Self { stream: StreamName::new(&namespace, &stream)?, name: name.into() })
    }
}

/// `/v1/streams/{ns}/{stream}/copies/{name}`
#[derive(Debug)]
pub(crate) struct CopyInPath {
    pub stream: StreamName,
    pub name: Box<str>,
}

impl<S: Send + Sync> FromRequestParts<S> for CopyInPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let (namespace, stream, name): (String, String, String) = in_path(parts, state).await?;
        Ok(Self { stream: StreamName::new(&namespace, &stream)?, name: name.into() })
    }
}

/// `/v1/nodes/{name}`
#[derive(Debug)]
pub(crate) struct NodeInPath(pub Box<str>);

impl<S: Send + Sync> FromRequestParts<S> for NodeInPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let name: String = in_path(parts, state).await?;
        Ok(Self(name.into()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for StreamInPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let (namespace, stream): (String, String) = in_path(parts, state).await?;
        Ok(Self(StreamName::new(&namespace, &stream)?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for MessageInPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let (namespace, stream, id): (String, String, String) = in_path(parts, state).await?;
        let stream = StreamName::new(&namespace, &stream)?;
        let id = message_id(&id).ok_or_else(|| {
            Problem::unknown("unknown_message", format!("stream {stream} has no message {}", quoted(&id)))
        })?;
        Ok(Self { stream, id })
    }
}

/// The id of a message: a decimal as it is shown.
pub(crate) fn message_id(text: &str) -> Option<u64> {
    text.parse().ok().filter(|id: &u64| id.to_string() == text)
}
