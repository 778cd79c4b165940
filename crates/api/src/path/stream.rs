//! Streams and their messages in paths. A name that cannot be one is refused as such; an id that
//! cannot be one is as unknown as one that was never given.

use base::Problem;
use engine::streams::StreamName;
use net::problem::quoted;

use super::from_path;

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

/// `/v1/streams/{ns}/{stream}/copies/{name}`
#[derive(Debug)]
pub(crate) struct CopyInPath {
    pub stream: StreamName,
    pub name: Box<str>,
}

/// `/v1/nodes/{name}`
#[derive(Debug)]
pub(crate) struct NodeInPath(pub Box<str>);

from_path! {
    StreamInPath: |(namespace, stream): (String, String)| StreamName::new(&namespace, &stream).map(Self);
    MessageInPath: |(namespace, stream, id): (String, String, String)| {
        let stream = StreamName::new(&namespace, &stream)?;
        let id = message_id(&id).ok_or_else(|| unknown_message(&stream, &id))?;
        Ok(Self { stream, id })
    };
    SubscriptionInPath: |(namespace, stream, name): (String, String, String)| {
        Ok(Self { stream: StreamName::new(&namespace, &stream)?, name: name.into() })
    };
    CopyInPath: |(namespace, stream, name): (String, String, String)| {
        Ok(Self { stream: StreamName::new(&namespace, &stream)?, name: name.into() })
    };
    NodeInPath: |name: String| Ok(Self(name.into()));
}

fn unknown_message(stream: &StreamName, id: &str) -> Problem {
    Problem::unknown("unknown_message", format!("stream {stream} has no message {}", quoted(id)))
}

/// The id of a message: a decimal as it is shown.
pub(crate) fn message_id(text: &str) -> Option<u64> {
    text.parse().ok().filter(|id: &u64| id.to_string() == text)
}
