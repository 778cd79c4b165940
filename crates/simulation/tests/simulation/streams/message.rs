//! A message as its sender knows it, in the form in which all that is seen of it is compared.

use engine::streams::{MessagePayload, NewMessage, OwnedExternalId, OwnedMessage};
use streams::{ExternalId, StreamMessage};

/// What a sender gave of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GivenMessage {
    /// JSON text.
    pub(crate) payload: Box<[u8]>,
    pub(crate) origin: Option<Origin>,
    pub(crate) segment: Option<Box<str>>,
}

/// A source, and the id that it gave.
pub(crate) type Origin = (Box<str>, OwnedExternalId);

impl GivenMessage {
    pub(crate) fn new_message(&self) -> NewMessage {
        let (source, external_id) = self.origin.clone().unzip();
        let segment = self.segment.clone();
        NewMessage {
            source,
            external_id,
            segment,
            ..NewMessage::new(MessagePayload::Json(self.payload.clone()))
        }
    }

    /// One that lies in a chunk or a block.
    pub(crate) fn of(message: &StreamMessage<'_>) -> Self {
        let origin = message.origin.map(|origin| {
            let id = match origin.external_id {
                ExternalId::Number(number) => OwnedExternalId::Number(number),
                ExternalId::Text(text) => OwnedExternalId::Text(text.into()),
            };
            (origin.source.into(), id)
        });
        Self { payload: message.payload.bytes().into(), origin, segment: message.segment.map(Box::from) }
    }

    /// One that was read.
    pub(crate) fn of_read(message: &OwnedMessage) -> Self {
        Self {
            payload: (&*message.payload).into(),
            origin: message.source.clone().zip(message.external_id.clone()),
            segment: message.segment.clone(),
        }
    }
}
