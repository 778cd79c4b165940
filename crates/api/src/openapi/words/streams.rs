//! The schemas of streams and their messages.

use base::limits::{
    EXTERNAL_ID_CHARS_MAX, MESSAGE_HEADER_BYTES_MAX, MESSAGE_HEADERS_MAX, MESSAGES_PER_CALL_MAX,
    MESSAGES_PER_PUSH_MAX, SEGMENTS_PER_READ_MAX, STREAM_LABEL_CHARS_MAX,
};
use engine::records::{CopyDirection, SaveMode, WhenFull};
use engine::streams::{CopyState, HandlerKind, HandlerState};
use utoipa::openapi::schema::{AdditionalProperties, ArrayBuilder, SchemaType, Type};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};

use super::{any_text, array_of, body, duration, matching, names_of, one_of, text, whole};

names_of! {
    copy_direction: CopyDirection,
    copy_state: CopyState,
    save_mode: SaveMode,
    when_full: WhenFull,
    handler_kind: HandlerKind,
    handler_state: HandlerState,
}

/// The id of a message.
pub(crate) fn message_id() -> Schema {
    text().pattern(Some("^(0|[1-9][0-9]{0,19})$")).description(Some("a decimal, from \"1\" on")).into()
}

/// A source or a segment.
pub(crate) fn stream_label() -> Schema {
    matching("^[A-Za-z0-9_.:-]+$", STREAM_LABEL_CHARS_MAX)
}

/// Segments to read, with commas between them.
pub(crate) fn read_segments() -> Schema {
    let label = "[A-Za-z0-9_.:-]+";
    let most = SEGMENTS_PER_READ_MAX;
    let about = format!("1 to {most} segments with commas between them");
    let more = most - 1;
    text().pattern(Some(format!("^{label}(,{label}){{0,{more}}}$"))).description(Some(about)).into()
}

/// Where a subscription begins.
pub(crate) fn subscription_from() -> Schema {
    let about = "\"start\", \"end\", the id of the last message that is read, or a time";
    text().description(Some(about)).into()
}

/// The name of a node.
pub(crate) fn node_name() -> Schema {
    matching("^[A-Za-z0-9_-]+$", engine::nodes::NODE_NAME_CHARS_MAX)
}

pub(crate) fn copy_kind() -> Schema {
    one_of(["messages", "reports"])
}

/// The share of new messages in the rate of a copy that is far behind.
pub(crate) fn share() -> Schema {
    let about = "from 0 to 1: the share of new messages in the rate of a copy that is far behind";
    ObjectBuilder::new().schema_type(Type::Number).description(Some(about)).into()
}

/// Most messages of a push.
pub(crate) fn push_max() -> Schema {
    whole(1, MESSAGES_PER_PUSH_MAX.into())
}

/// The id that a message has at its source, as it is given.
pub(crate) fn external_id() -> Schema {
    let about = format!(
        "a whole number from 0 to 2^63-1, or up to {EXTERNAL_ID_CHARS_MAX} characters; a decimal means the number"
    );
    let either = SchemaType::Array(vec![Type::Integer, Type::String]);
    ObjectBuilder::new().schema_type(either).description(Some(about)).into()
}

/// Headers of a message.
pub(crate) fn message_headers() -> Schema {
    let about = format!(
        "up to {MESSAGE_HEADERS_MAX} texts by name, of up to {MESSAGE_HEADER_BYTES_MAX} bytes each with its name"
    );
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(any_text()))))
        .max_properties(Some(MESSAGE_HEADERS_MAX))
        .description(Some(about))
        .into()
}

/// Messages to be appended.
pub(crate) fn messages(message: Schema) -> Schema {
    let items = ArrayBuilder::new().items(RefOr::T(message)).min_items(Some(1));
    Schema::Array(items.max_items(Some(MESSAGES_PER_CALL_MAX)).build())
}

/// A size in bytes, with its unit.
pub(crate) fn size() -> Schema {
    text()
        .pattern(Some("^[0-9]+(B|[KMGT]B|[KMGT]iB)$"))
        .description(Some("a size such as \"64KB\", \"1MB\" or \"1GiB\""))
        .into()
}

/// Where blocks of some age go.
pub(crate) fn moves() -> Schema {
    array_of(body(&[("after", duration()), ("to", stream_label())]))
}

/// Blocks and bytes by storage.
pub(crate) fn storages() -> Schema {
    let stored = body(&[("blocks", whole(0, u64::MAX)), ("bytes", whole(0, u64::MAX))]);
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(stored))))
        .into()
}
