//! An event in answers.

use base::id::EVENT_ID_PREFIX;
use engine::records::Event;
use serde::Serialize;
use serde_json::value::RawValue;

use super::text::{Time, of_value};

/// An event.
#[derive(Serialize)]
pub(crate) struct EventShape {
    id: String,
    device_id: String,
    r#type: &'static str,
    ts: Time,
    sequence: u64,
    value: Option<Box<RawValue>>,
    previous: Option<Box<RawValue>>,
}

impl From<&Event> for EventShape {
    fn from(event: &Event) -> Self {
        Self {
            id: event.id.to_text(EVENT_ID_PREFIX),
            device_id: event.device.to_string(),
            r#type: event.kind.as_str(),
            ts: Time(event.id.at),
            sequence: event.sequence,
            value: event.value.as_ref().map(of_value),
            previous: event.previous.as_ref().map(of_value),
        }
    }
}
