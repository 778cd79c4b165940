//! An event in answers.

use base::id::EVENT_ID_PREFIX;
use engine::records::Event;
use serde::Serialize;
use utoipa::ToSchema;

use super::text::{Data, Time};
use crate::openapi::words;
use crate::row::{Cells, CsvRow};

/// An event.
#[derive(Serialize, ToSchema)]
#[schema(as = Event)]
pub(crate) struct EventShape {
    #[schema(schema_with = words::event_id)]
    id: String,
    #[schema(schema_with = words::device_id)]
    device_id: String,
    #[schema(schema_with = words::event_kind)]
    r#type: &'static str,
    ts: Time,
    sequence: u64,
    #[schema(schema_with = words::any, required)]
    value: Option<Data>,
    #[schema(schema_with = words::any, required)]
    previous: Option<Data>,
}

impl From<&Event> for EventShape {
    fn from(event: &Event) -> Self {
        Self {
            id: event.id.to_text(EVENT_ID_PREFIX),
            device_id: event.device.to_string(),
            r#type: event.kind.as_str(),
            ts: Time(event.id.at),
            sequence: event.sequence,
            value: event.value.as_ref().map(Data::from),
            previous: event.previous.as_ref().map(Data::from),
        }
    }
}

impl CsvRow for EventShape {
    const COLUMNS: &'static [&'static str] =
        &["id", "device_id", "type", "ts", "sequence", "value", "previous"];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.text(&self.id).text(&self.device_id).text(self.r#type).shown(self.ts).shown(self.sequence);
        cells.json(self.value.as_ref().map(Data::json)).json(self.previous.as_ref().map(Data::json));
    }
}
