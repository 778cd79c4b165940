//! The schemas of single texts, numbers and bodies, with the limits that the code keeps.

mod coordination;
mod jobs;
mod picks;
mod relays;
mod streams;

use base::WayIn;
use base::limits::{
    CLIENT_ID_CHARS_MAX, CLIENTS_PER_DEVICE_MAX, COMMAND_NAME_BYTES_MAX, COMMAND_PRIORITY_MAX,
    DEVICE_ID_CHARS_MAX, LABEL_KEY_CHARS_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX, REPORT_ID_CHARS_MAX,
    TEXT_CHARS_MAX, URL_CHARS_MAX,
};
use engine::commands::COMMAND_ID_PREFIX;
use engine::operations::OPERATION_ID_PREFIX;
use engine::records::{
    AttemptError, CommandStatus, Connection, DeliveryStatus, DisconnectReason, EventKind, MemberStatus,
    OperationAction, OperationStatus, RolloutWait,
};
use engine::rollouts::{ROLLOUT_ID_CHARS_MAX, RolloutStatus};
use serde_json::json;
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, KnownFormat, SchemaFormat, SchemaType, Type,
};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};

use crate::live::LiveTopic;
use crate::overview::FailingKind;
use crate::params::PART_BYTES_MAX;
use crate::routes::stats::{By, METRICS, name_of};
use crate::shape::PORTAL_RIGHTS;
use crate::shape::timeline::{of_command, of_delivery};

pub(crate) use coordination::{
    cache_keys, cached_values, coordination_name, fence, in_flight, limit_kind, lock_owner, whole_duration,
    work_state,
};
pub(crate) use jobs::{
    SCHEDULE_BYTES_MAX, dead_reason, executions, job_id, job_ids, job_name, job_state, jobs, queue_name,
    queue_names, queue_order, reservation, reservations, schedule, tries,
};
pub(crate) use picks::{
    campaign_id, campaign_status, device_ids, missed_slots, pick_class, pick_outcome, pick_reason,
    result_receiver, task_id, task_status,
};

pub(crate) use relays::{relay_count, relay_name, relay_on_refused, relay_state, relay_word};
pub(crate) use streams::{
    copy_direction, copy_kind, copy_state, external_id, handler_kind, handler_state, message_headers,
    message_id, messages, moves, node_name, push_max, read_segments, save_mode, share, size, storages,
    stream_label, subscription_from, when_full,
};

/// The names of an enum's values, for each of these words.
macro_rules! names_of {
    ($($word:ident: $kind:ty,)+) => {$(
        pub(crate) fn $word() -> utoipa::openapi::Schema {
            $crate::openapi::words::one_of(<$kind>::ALL.map(<$kind>::as_str))
        }
    )+};
}
use names_of;

names_of! {
    command_status: CommandStatus,
    rollout_status: RolloutStatus,
    rollout_device_status: MemberStatus,
    operation_action: OperationAction,
    operation_status: OperationStatus,
    disconnect_reason: DisconnectReason,
    way_in: WayIn,
    event_kind: EventKind,
    delivery_status: DeliveryStatus,
    by: By,
    topic: LiveTopic,
    failing: FailingKind,
    order: crate::page::TimeOrder,
    notice_type: engine::records::NoticeKind,
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn matching(pattern: &str, most: usize) -> Schema {
    text().pattern(Some(pattern)).min_length(Some(1)).max_length(Some(most)).into()
}

pub(crate) fn one_of(words: impl IntoIterator<Item = &'static str>) -> Schema {
    text().enum_values(Some(words.into_iter().map(|word| json!(word)))).into()
}

/// The same, or null.
pub(crate) fn or_null(schema: Schema) -> Schema {
    let mut object = match schema {
        Schema::Object(object) => object,
        Schema::Array(mut array) => {
            array.schema_type = SchemaType::Array(vec![Type::Array, Type::Null]);
            return Schema::Array(array);
        }
        other => return other,
    };
    match &mut object.schema_type {
        SchemaType::Type(of) => object.schema_type = SchemaType::Array(vec![of.clone(), Type::Null]),
        SchemaType::Array(any) => any.push(Type::Null),
        SchemaType::AnyValue => {}
    }
    if let Some(words) = &mut object.enum_values {
        words.push(serde_json::Value::Null);
    }
    Schema::Object(object)
}

pub(crate) fn any() -> Schema {
    ObjectBuilder::new().schema_type(SchemaType::AnyValue).into()
}

pub(crate) fn flag() -> Schema {
    ObjectBuilder::new().schema_type(Type::Boolean).into()
}

/// A device's id; the settings `devices.id_max_len` and `devices.id_chars` may ask for less.
pub(crate) fn device_id() -> Schema {
    matching("^[A-Za-z0-9_.:-]*[A-Za-z0-9_:-][A-Za-z0-9_.:-]*$", DEVICE_ID_CHARS_MAX)
}

pub(crate) fn client_id() -> Schema {
    matching("^[A-Za-z0-9_-]+$", CLIENT_ID_CHARS_MAX)
}

pub(crate) fn client_ids() -> Schema {
    let ids = ArrayBuilder::new().items(RefOr::T(client_id())).max_items(Some(CLIENTS_PER_DEVICE_MAX));
    Schema::Array(ids.build())
}

pub(crate) fn kind() -> Schema {
    matching("^[a-z][a-z0-9_-]*$", base::limits::KIND_CHARS_MAX)
}

/// The id of an event, a delivery or a refused report.
pub(crate) fn entity_id(prefix: &str) -> Schema {
    text().pattern(Some(format!("^{prefix}[a-z2-7]{{32}}$"))).into()
}

pub(crate) fn event_id() -> Schema {
    entity_id(base::id::EVENT_ID_PREFIX)
}

pub(crate) fn delivery_id() -> Schema {
    entity_id(base::id::DELIVERY_ID_PREFIX)
}

pub(crate) fn quarantined_id() -> Schema {
    entity_id(base::id::QUARANTINE_ID_PREFIX)
}

pub(crate) fn command_id() -> Schema {
    entity_id(COMMAND_ID_PREFIX)
}

pub(crate) fn command_id_or_null() -> Schema {
    or_null(command_id())
}

pub(crate) fn rollout_id() -> Schema {
    matching("^[A-Za-z0-9_-]+$", ROLLOUT_ID_CHARS_MAX)
}

/// What a rollout waits for.
pub(crate) fn rollout_wait() -> Schema {
    or_null(one_of([RolloutWait::Soak, RolloutWait::Approval, RolloutWait::Window].map(wait_word)))
}

fn wait_word(wait: RolloutWait) -> &'static str {
    wait.as_str().expect("it is not nothing")
}

pub(crate) fn operation_id() -> Schema {
    entity_id(OPERATION_ID_PREFIX)
}

/// Which rows an operation means.
pub(crate) fn operation_filter() -> Schema {
    let about = "the parameters of the list that the action is about; for dead letters and jobs with \
                 queue: \"NAMESPACE/QUEUE\"; or ids, up to 1,000";
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .additional_properties(Some(AdditionalProperties::FreeForm(true)))
        .description(Some(about))
        .into()
}

/// Rows that a page looked at.
pub(crate) fn looked_at() -> Schema {
    let about = "how many rows this page looked at, where no index answers what is asked; such a page may be \
                 short or empty though there are more";
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).description(Some(about)).into()
}

/// A part of a text that is looked for.
pub(crate) fn part() -> Schema {
    text().min_length(Some(1)).max_length(Some(PART_BYTES_MAX)).into()
}

/// An array of such.
pub(crate) fn array_of(item: Schema) -> Schema {
    ArrayBuilder::new().items(RefOr::T(item)).into()
}

/// The key of a command or of a desired entry, or an origin.
pub(crate) fn command_name() -> Schema {
    let about = format!("up to {COMMAND_NAME_BYTES_MAX} bytes of UTF-8");
    text().min_length(Some(1)).max_length(Some(COMMAND_NAME_BYTES_MAX)).description(Some(about)).into()
}

/// The key of a command as it is shown: that of an entry says so in front.
pub(crate) fn shown_command_key() -> Schema {
    let longest = COMMAND_NAME_BYTES_MAX + "desired/".len();
    let about = format!("up to {longest} bytes of UTF-8; `desired/` and the key for that of an entry");
    text().min_length(Some(1)).max_length(Some(longest)).description(Some(about)).into()
}

pub(crate) fn priority() -> Schema {
    let number = ObjectBuilder::new().schema_type(Type::Integer);
    number
        .minimum(Some(-f64::from(COMMAND_PRIORITY_MAX)))
        .maximum(Some(f64::from(COMMAND_PRIORITY_MAX)))
        .into()
}

/// Who is told how a command ended.
pub(crate) fn receiver() -> Schema {
    let about = "a url, which gets a signed POST, or a queue, which gets a job";
    ObjectBuilder::new()
        .property("url", url())
        .property("secret", secret())
        .property("queue", text().description(Some("NAMESPACE/QUEUE")))
        .additional_properties(Some(AdditionalProperties::FreeForm(false)))
        .description(Some(about))
        .into()
}

pub(crate) fn timeline_type() -> Schema {
    let events = EventKind::ALL.map(EventKind::as_str);
    let others = ["connected", "disconnected", "delivery.attempt", "link.added", "link.removed"];
    let deliveries = DeliveryStatus::ALL.into_iter().filter(|status| *status != DeliveryStatus::Pending);
    let (deliveries, commands) = (deliveries.map(of_delivery), CommandStatus::ALL.map(of_command));
    one_of(events.into_iter().chain(others).chain(deliveries).chain(commands))
}

pub(crate) fn time() -> Schema {
    text().format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime))).into()
}

pub(crate) fn duration() -> Schema {
    text()
        .pattern(Some("^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$"))
        .min_length(Some(2))
        .description(Some("a duration such as \"250ms\", \"30s\" or \"1h30m\""))
        .into()
}

pub(crate) fn name() -> Schema {
    text().max_length(Some(TEXT_CHARS_MAX)).into()
}

pub(crate) fn url() -> Schema {
    text()
        .format(Some(SchemaFormat::Custom("uri".to_owned())))
        .pattern(Some("^[hH][tT][tT][pP][sS]?://"))
        .max_length(Some(URL_CHARS_MAX))
        .into()
}

pub(crate) fn secret() -> Schema {
    text()
        .pattern(Some("^whsec_[A-Za-z0-9+/]+=*$"))
        .description(Some("whsec_ and the base64 of 24 to 64 bytes"))
        .into()
}

pub(crate) fn labels() -> Schema {
    let mut key = text();
    key = key.pattern(Some("^[a-z][a-z0-9_.-]*$")).max_length(Some(LABEL_KEY_CHARS_MAX));
    let value = label_value();
    ObjectBuilder::new()
        .property_names(Some(key))
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(value))))
        .max_properties(Some(LABELS_MAX))
        .into()
}

pub(crate) fn label_value() -> Schema {
    let about = format!("up to {LABEL_VALUE_BYTES_MAX} bytes of UTF-8");
    text().max_length(Some(LABEL_VALUE_BYTES_MAX)).description(Some(about)).into()
}

pub(crate) fn connection() -> Schema {
    one_of([Connection::Online, Connection::Lost, Connection::NeverSeen].map(Connection::as_str))
}

pub(crate) fn attempt_error() -> Schema {
    or_null(one_of(AttemptError::ALL.map(AttemptError::as_str)))
}

pub(crate) fn metric() -> Schema {
    one_of(METRICS.map(name_of))
}

/// Settings by section and key; null where there are none.
pub(crate) fn sections() -> Schema {
    let keys = ObjectBuilder::new()
        .schema_type(Type::Object)
        .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(true)));
    let keys = AdditionalProperties::RefOr(RefOr::T(Schema::from(keys)));
    or_null(ObjectBuilder::new().schema_type(Type::Object).additional_properties(Some(keys)).into())
}

pub(crate) fn report_id() -> Schema {
    text().min_length(Some(1)).max_length(Some(REPORT_ID_CHARS_MAX)).into()
}

pub(crate) fn cursor() -> Schema {
    text().description(Some("next_cursor of the page before")).into()
}

pub(crate) fn whole(least: u64, most: u64) -> Schema {
    let number = ObjectBuilder::new().schema_type(Type::Integer);
    number.minimum(Some(least as usize)).maximum(Some(most as usize)).into()
}

/// A refusal (RFC 9457).
pub(crate) fn problem() -> Schema {
    let mut problem = ObjectBuilder::new();
    let about = text().description(Some("a sentence for people; it may change"));
    for (name, schema) in [
        ("type", text().into()),
        ("title", text().into()),
        ("status", whole(400, 599)),
        ("detail", about.into()),
        ("code", text().description(Some("a word for programs; it is stable")).into()),
    ] {
        problem = problem.property(name, schema).required(name);
    }
    problem.into()
}

/// Query parameters that are each a label: their names are `label.` and the key.
pub(crate) fn label_parameters() -> Schema {
    let key = text().pattern(Some(format!("^label\\.[a-z][a-z0-9_.-]{{0,{}}}$", LABEL_KEY_CHARS_MAX - 1)));
    ObjectBuilder::new()
        .property_names(Some(key))
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(label_value()))))
        .into()
}

/// Labels in a merge patch.
pub(crate) fn label_changes() -> Schema {
    let value = or_null(label_value());
    ObjectBuilder::new().additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(value)))).into()
}

pub(crate) fn notice_id() -> Schema {
    entity_id(engine::records::NOTICE_ID_PREFIX)
}

/// A label's key, or one that is built in.
pub(crate) fn selection_key() -> Schema {
    text().pattern(Some(format!("^[a-z][a-z0-9_.-]{{0,{}}}$", LABEL_KEY_CHARS_MAX - 1))).into()
}

/// An object of any members.
pub(crate) fn any_object() -> Schema {
    ObjectBuilder::new().schema_type(Type::Object).into()
}

/// Objects of any members.
pub(crate) fn any_objects() -> Schema {
    Schema::Array(ArrayBuilder::new().items(RefOr::T(any_object())).build())
}

/// Texts.
pub(crate) fn any_texts() -> Schema {
    Schema::Array(ArrayBuilder::new().items(RefOr::T(any_text())).build())
}

/// The id of a portal.
pub(crate) fn portal_id() -> Schema {
    text().pattern(Some(format!("^{}[0-9]+$", crate::path::PORTAL_ID_PREFIX))).into()
}

/// What the holder of a portal may do.
pub(crate) fn portal_rights() -> Schema {
    let rights = one_of(PORTAL_RIGHTS);
    Schema::Array(ArrayBuilder::new().items(RefOr::T(rights)).min_items(Some(1)).build())
}

/// An object with some of these members and no others, none of them null.
pub(crate) fn changes(members: &[(&str, Schema)]) -> Schema {
    let mut body = ObjectBuilder::new().additional_properties(Some(AdditionalProperties::FreeForm(false)));
    for (name, schema) in members {
        body = body.property(*name, schema.clone());
    }
    body.into()
}

/// An object with these members and no others. A member whose name ends in `?` may be left out or
/// null.
pub(crate) fn body(members: &[(&str, Schema)]) -> Schema {
    let mut body = ObjectBuilder::new().additional_properties(Some(AdditionalProperties::FreeForm(false)));
    for (name, schema) in members {
        body = match name.strip_suffix('?') {
            Some(name) => body.property(name, or_null(schema.clone())),
            None => body.property(*name, schema.clone()).required(*name),
        };
    }
    body.into()
}

pub(crate) fn base64() -> Schema {
    text().pattern(Some("^[A-Za-z0-9+/]*=*$")).into()
}

pub(crate) fn text_up_to(bytes: usize) -> Schema {
    text().max_length(Some(bytes)).into()
}

pub(crate) fn any_text() -> Schema {
    text().into()
}

pub(crate) fn duration_or_null() -> Schema {
    or_null(duration())
}

/// A number above 0.
pub(crate) fn positive() -> Schema {
    ObjectBuilder::new().schema_type(Type::Number).exclusive_minimum(Some(0)).into()
}

/// A report; members that are not named here are ignored.
pub(crate) fn report() -> Schema {
    ObjectBuilder::new()
        .property("device_id", device_id())
        .required("device_id")
        .property("data", any())
        .required("data")
        .property("kind", kind())
        .property("ts", time())
        .property("id", report_id())
        .description(Some("sensor_id may stand for device_id"))
        .into()
}

/// A device's answer to a command; members that are not named here are ignored.
pub(crate) fn answer() -> Schema {
    ObjectBuilder::new()
        .property("message_id", command_id())
        .required("message_id")
        .property("ok", flag())
        .property("result", any())
        .property("progress", any())
        .description(Some("ok, or progress: any JSON up to 1 KiB, which says that it is under way"))
        .into()
}
