//! The schemas of locks, limits, cached values and what is said to workers.

use base::limits::{CACHE_KEYS_PER_CALL_MAX, COORDINATION_NAME_CHARS_MAX, LOCK_OWNER_BYTES_MAX};
use engine::coordination::LimitKind;
use engine::records::WorkState;
use utoipa::openapi::schema::{AdditionalProperties, ArrayBuilder, Type};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};

use super::{any_text, body, matching, names_of, text, whole};

names_of! {
    limit_kind: LimitKind,
    work_state: WorkState,
}

/// The number of a lock's holder.
pub(crate) fn fence() -> Schema {
    text().pattern(Some("^(0|[1-9][0-9]{0,19})$")).description(Some("rises with every new holder")).into()
}

/// Who holds a lock.
pub(crate) fn lock_owner() -> Schema {
    text().min_length(Some(1)).max_length(Some(LOCK_OWNER_BYTES_MAX)).into()
}

/// Most jobs that a worker works on.
pub(crate) fn in_flight() -> Schema {
    whole(1, u32::MAX.into())
}

/// A span of time in milliseconds.
pub(crate) fn whole_duration() -> Schema {
    whole(0, u64::MAX)
}

/// The name of a lock or a limit, or the key of a cached value.
pub(crate) fn coordination_name() -> Schema {
    matching("^[A-Za-z0-9_.:-]+$", COORDINATION_NAME_CHARS_MAX)
}

/// Keys of cached values.
pub(crate) fn cache_keys() -> Schema {
    let items =
        ArrayBuilder::new().items(RefOr::T(coordination_name())).max_items(Some(CACHE_KEYS_PER_CALL_MAX));
    Schema::Array(items.build())
}

/// Cached values by key.
pub(crate) fn cached_values() -> Schema {
    let value = body(&[("value_base64", any_text())]);
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(value))))
        .into()
}
