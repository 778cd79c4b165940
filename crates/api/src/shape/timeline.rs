//! Items of a device's timeline in answers: what happened, and what there is to say of it.

use base::id::{DELIVERY_ID_PREFIX, EVENT_ID_PREFIX};
use base::{Timestamp, time};
use engine::commands::COMMAND_ID_PREFIX;
use engine::queries::TimelineItem;
use engine::records::{CommandStatus, DeliveryStatus, Event, Happening};
use serde::Serialize;
use utoipa::ToSchema;

use super::text::{Data, Time};
use crate::openapi::words;
use crate::row::{Cells, CsvRow};

/// Something that happened to a device.
#[derive(Serialize, ToSchema)]
#[schema(as = TimelineItem)]
pub(crate) struct TimelineShape<'a> {
    at: Time,
    #[schema(schema_with = words::timeline_type)]
    r#type: &'static str,
    detail: DetailShape<'a>,
}

/// What there is to say of it, by its type.
#[derive(Default, Serialize, ToSchema)]
#[schema(as = TimelineDetail)]
struct DetailShape<'a> {
    /// Of `device.`: the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::event_id, required = false)]
    event_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::any, required = false)]
    value: Option<Data>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::any, required = false)]
    previous: Option<Data>,
    /// Of `connected` and `disconnected`: where the device is, or was.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<&'a str>,
    /// Of `disconnected`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::disconnect_reason, required = false)]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connected_at: Option<Time>,
    /// Of `disconnected`: of the session. Of `delivery.attempt`: of the attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    /// Of `delivery.`: the notification.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::delivery_id, required = false)]
    delivery_id: Option<String>,
    /// Of `delivery.attempt`: what was answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    status_code: Option<u16>,
    /// Of `delivery.attempt`: why nothing was answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::attempt_error, required = false)]
    error: Option<&'static str>,
    /// Of `command.`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::command_id, required = false)]
    command_id: Option<String>,
    /// Of `command.`: how often it had gone out.
    #[serde(skip_serializing_if = "Option::is_none")]
    tries: Option<u32>,
    /// Of `link.`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::client_id, required = false)]
    client_id: Option<&'a str>,
}

impl<'a> From<&'a TimelineItem> for TimelineShape<'a> {
    fn from(item: &'a TimelineItem) -> Self {
        let (at, (r#type, detail)) = match item {
            TimelineItem::Event(event) => (event.id.at, of_event(event)),
            TimelineItem::Entry(entry) => (entry.at, of_entry(entry.at, &entry.what)),
        };
        Self { at: Time(at), r#type, detail }
    }
}

type TypeAndDetail<'a> = (&'static str, DetailShape<'a>);

fn of_event(event: &Event) -> TypeAndDetail<'_> {
    let detail = DetailShape {
        event_id: Some(event.id.to_text(EVENT_ID_PREFIX)),
        sequence: Some(event.sequence),
        value: Some(event.value.as_ref().map_or_else(Data::null, Data::from)),
        previous: Some(event.previous.as_ref().map_or_else(Data::null, Data::from)),
        ..DetailShape::default()
    };
    (event.kind.as_str(), detail)
}

fn of_entry(at: Timestamp, what: &Happening) -> TypeAndDetail<'_> {
    let nothing = DetailShape::default();
    match what {
        Happening::Connected { address } => {
            ("connected", DetailShape { address: address.as_deref(), ..nothing })
        }
        Happening::Disconnected { reason, address, since } => {
            let detail = DetailShape {
                reason: Some(reason.as_str()),
                address: address.as_deref(),
                connected_at: Some(Time(*since)),
                duration_ms: Some(time::millis(at.since(*since)).unsigned_abs()),
                ..nothing
            };
            ("disconnected", detail)
        }
        Happening::DeliveryAttempt(id, attempt) => {
            let detail = DetailShape {
                delivery_id: Some(id.to_text(DELIVERY_ID_PREFIX)),
                status_code: attempt.status_code,
                error: attempt.error.map(|error| error.as_str()),
                duration_ms: Some(attempt.duration_ms.into()),
                ..nothing
            };
            ("delivery.attempt", detail)
        }
        Happening::Delivery(id, status) => {
            let delivery_id = Some(id.to_text(DELIVERY_ID_PREFIX));
            (of_delivery(*status), DetailShape { delivery_id, ..nothing })
        }
        Happening::Command { id, status, tries } => {
            let command_id = Some(id.to_text(COMMAND_ID_PREFIX));
            (of_command(*status), DetailShape { command_id, tries: Some(*tries), ..nothing })
        }
        Happening::Link { client, linked } => {
            let detail = DetailShape { client_id: Some(client.as_str()), ..nothing };
            (if *linked { "link.added" } else { "link.removed" }, detail)
        }
    }
}

/// The type of an item about a notification.
pub(crate) fn of_delivery(status: DeliveryStatus) -> &'static str {
    match status {
        DeliveryStatus::Pending => "delivery.pending",
        DeliveryStatus::Delivered => "delivery.delivered",
        DeliveryStatus::Failed => "delivery.failed",
        DeliveryStatus::Superseded => "delivery.superseded",
        DeliveryStatus::Cancelled => "delivery.cancelled",
    }
}

/// The type of an item about a command.
pub(crate) fn of_command(status: CommandStatus) -> &'static str {
    match status {
        CommandStatus::Scheduled => "command.scheduled",
        CommandStatus::Published => "command.published",
        CommandStatus::Running => "command.running",
        CommandStatus::Acknowledged => "command.acknowledged",
        CommandStatus::Failed => "command.failed",
        CommandStatus::Expired => "command.expired",
        CommandStatus::Superseded => "command.superseded",
        CommandStatus::Cancelled => "command.cancelled",
    }
}

impl CsvRow for TimelineShape<'_> {
    const COLUMNS: &'static [&'static str] = &["at", "type", "detail"];

    fn write(&self, cells: &mut Cells<'_>) {
        let detail = serde_json::to_string(&self.detail).expect("text and numbers are JSON");
        cells.shown(self.at).text(self.r#type).text(&detail);
    }
}
