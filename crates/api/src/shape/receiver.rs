//! Who is told how something ends: as it is shown once, with its secret, and later.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::records::OutcomeReceiver;
use serde::Serialize;

use super::client::SECRET_PREFIX;

/// Who is told, with what a POST is signed with.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ReceiverShape<'a> {
    Queue { queue: String },
    Stream { stream: String },
    Url { url: &'a str, secret: String },
}

impl<'a> From<&'a OutcomeReceiver> for ReceiverShape<'a> {
    fn from(receiver: &'a OutcomeReceiver) -> Self {
        match receiver {
            OutcomeReceiver::Queue { namespace, queue } => {
                Self::Queue { queue: format!("{namespace}/{queue}") }
            }
            OutcomeReceiver::Stream { namespace, stream } => {
                Self::Stream { stream: format!("{namespace}/{stream}") }
            }
            OutcomeReceiver::Url { url, secret } => {
                Self::Url { url, secret: format!("{SECRET_PREFIX}{}", STANDARD.encode(secret)) }
            }
        }
    }
}

/// Who is told, without what a POST is signed with.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum UnsignedReceiverShape<'a> {
    Queue { queue: String },
    Stream { stream: String },
    Url { url: &'a str },
}

impl<'a> From<&'a OutcomeReceiver> for UnsignedReceiverShape<'a> {
    fn from(receiver: &'a OutcomeReceiver) -> Self {
        match receiver {
            OutcomeReceiver::Queue { namespace, queue } => {
                Self::Queue { queue: format!("{namespace}/{queue}") }
            }
            OutcomeReceiver::Stream { namespace, stream } => {
                Self::Stream { stream: format!("{namespace}/{stream}") }
            }
            OutcomeReceiver::Url { url, .. } => Self::Url { url },
        }
    }
}
