//! Which refusals a call may meet: the status and the stable code of each, grouped by what brings
//! them about.
//!
//! The tests of this crate and those over the whole server hold every refusal that they see against
//! these.

/// Status and code.
pub(crate) type Coded = (u16, &'static str);

/// Any call.
pub(crate) const OF_ANY: &[Coded] = &[
    (401, "unauthorized"),
    (403, "forbidden"),
    (403, "foreign_origin"),
    (415, "unsupported_encoding"),
    (429, "too_many_requests"),
    (500, "internal_error"),
    (503, "starting"),
    (503, "unavailable"),
];
/// A call with an id in its path.
pub(crate) const OF_A_PATH: &[Coded] = &[(400, "unreadable")];
/// A call that reads the store.
pub(crate) const OF_A_READ: &[Coded] = &[(503, "busy")];
/// A call with query parameters.
pub(crate) const OF_PARAMETERS: &[Coded] =
    &[(400, "unreadable"), (422, "invalid_parameter"), (422, "unknown_parameter")];
/// A call that changes something and has no query parameters.
pub(crate) const OF_A_QUERY: &[Coded] = &[(422, "unknown_parameter")];
/// A list.
pub(crate) const OF_A_LIST: &[Coded] = &[(400, "invalid_cursor"), (503, "busy")];
/// A call with a JSON body.
pub(crate) const OF_A_BODY: &[Coded] = &[
    (400, "unreadable"),
    (408, "body_too_slow"),
    (413, "body_too_large"),
    (422, "not_an_object"),
    (422, "unknown_field"),
    (422, "wrong_type"),
    (503, "busy"),
];
/// A call that may be repeated under a key.
pub(crate) const OF_A_KEY: &[Coded] = &[
    (400, "unreadable"),
    (408, "body_too_slow"),
    (413, "body_too_large"),
    (422, "idempotency_key_reused"),
    (422, "invalid_idempotency_key"),
    (503, "busy"),
];
/// A body with a device's fields.
pub(crate) const OF_A_DEVICE: &[Coded] = &[
    (422, "invalid_duration"),
    (422, "invalid_interval"),
    (422, "invalid_label"),
    (422, "invalid_kind"),
    (422, "invalid_number"),
    (422, "invalid_pace"),
    (422, "too_long"),
    (422, "too_many_labels"),
];
/// A body with a client's fields.
pub(crate) const OF_A_CLIENT: &[Coded] = &[(422, "invalid_url"), (422, "private_address"), (422, "too_long")];
/// A body that makes something.
pub(crate) const OF_A_CREATION: &[Coded] = &[(409, "exists"), (422, "invalid_id"), (422, "missing_field")];
/// A merge patch.
pub(crate) const OF_A_PATCH: &[Coded] = &[(422, "cannot_change"), (422, "cannot_clear")];

/// A call about a queue.
pub(crate) const OF_A_QUEUE: &[Coded] = &[(422, "invalid_name"), (422, "reserved_name")];
/// A body with a job's fields.
pub(crate) const OF_A_JOB: &[Coded] = &[
    (422, "conflicting_fields"),
    (422, "invalid_base64"),
    (422, "invalid_duration"),
    (422, "invalid_time"),
    (422, "payload_too_large"),
];
/// A body that publishes.
pub(crate) const OF_PUBLISHING: &[Coded] = &[
    (409, "alias_repeated"),
    (409, "alias_taken"),
    (409, "queue_full"),
    (422, "invalid_number"),
    (422, "invalid_schedule"),
    (422, "invalid_tries"),
    (422, "invalid_ttl"),
    (422, "missing_field"),
    (422, "too_many_jobs"),
    (422, "unknown_word"),
];
/// A call about a stream.
pub(crate) const OF_A_STREAM: &[Coded] = &[(422, "invalid_name"), (422, "reserved_name")];
/// A body with a subscription.
pub(crate) const OF_A_SUBSCRIPTION: &[Coded] = &[
    (422, "invalid_from"),
    (422, "invalid_number"),
    (422, "invalid_secret"),
    (422, "invalid_time"),
    (422, "invalid_url"),
    (422, "missing_field"),
    (422, "private_address"),
    (422, "too_long"),
    (429, "too_many_pushes"),
    (429, "too_many_streams"),
    (429, "too_many_subscriptions"),
];
/// A body with a copy.
pub(crate) const OF_A_COPY: &[Coded] = &[
    (422, "bad_selector"),
    (422, "invalid_from"),
    (422, "invalid_number"),
    (422, "invalid_time"),
    (422, "missing_field"),
    (422, "unknown_word"),
    (429, "too_many_copies"),
    (429, "too_many_streams"),
];
/// A call about a lock, a limit, a cached value or a channel.
pub(crate) const OF_COORDINATION: &[Coded] = &[(422, "invalid_name"), (422, "reserved_name")];
/// A body with messages.
pub(crate) const OF_A_MESSAGE: &[Coded] = &[
    (409, "stream_gathers"),
    (409, "tail_moved"),
    (422, "conflicting_fields"),
    (422, "invalid_base64"),
    (422, "invalid_external_id"),
    (422, "invalid_headers"),
    (422, "invalid_number"),
    (422, "invalid_time"),
    (422, "missing_field"),
    (422, "payload_too_large"),
    (422, "reserved_source"),
    (422, "too_long"),
    (422, "too_many_messages"),
    (429, "too_many_streams"),
    (503, "stream_full"),
];
/// A body with a command's fields.
pub(crate) const OF_A_COMMAND: &[Coded] = &[
    (422, "conflicting_fields"),
    (422, "invalid_duration"),
    (422, "invalid_name"),
    (422, "invalid_number"),
    (422, "invalid_secret"),
    (422, "invalid_time"),
    (422, "invalid_url"),
    (422, "missing_field"),
    (422, "no_place"),
    (422, "payload_too_large"),
    (422, "private_address"),
    (422, "reserved_name"),
    (422, "too_long"),
];
/// A body with the fields of a task or a campaign.
pub(crate) const OF_PICKS: &[Coded] = &[
    (403, "count_too_large"),
    (403, "forbidden_class"),
    (404, "unknown_task"),
    (409, "exists"),
    (422, "bad_place"),
    (422, "bad_selector"),
    (422, "conflicting_fields"),
    (422, "invalid_duration"),
    (422, "invalid_id"),
    (422, "invalid_name"),
    (422, "invalid_number"),
    (422, "invalid_secret"),
    (422, "invalid_url"),
    (422, "missing_field"),
    (422, "no_place"),
    (422, "payload_too_large"),
    (422, "private_address"),
    (422, "reserved_name"),
    (422, "too_long"),
    (422, "too_many_devices"),
    (422, "unknown_word"),
    (429, "picks_exhausted"),
];
/// A body with the fields of a campaign.
pub(crate) const OF_CAMPAIGNS: &[Coded] =
    &[(409, "too_many_campaigns"), (422, "cannot_clear"), (422, "invalid_time"), (429, "too_many_campaigns")];
/// A body with a reservation.
pub(crate) const OF_A_RESERVATION: &[Coded] = &[(409, "stale_reservation"), (422, "missing_field")];

pub(crate) const UNKNOWN_JOB: Coded = (404, "unknown_job");
pub(crate) const UNKNOWN_CAMPAIGN: Coded = (404, "unknown_campaign");
pub(crate) const UNKNOWN_TASK: Coded = (404, "unknown_task");
pub(crate) const UNKNOWN_CLIENT: Coded = (404, "unknown_client");
pub(crate) const UNKNOWN_COMMAND: Coded = (404, "unknown_command");
pub(crate) const UNKNOWN_COPY: Coded = (404, "unknown_copy");
pub(crate) const UNKNOWN_DELIVERY: Coded = (404, "unknown_delivery");
pub(crate) const UNKNOWN_DEVICE: Coded = (404, "unknown_device");
pub(crate) const UNKNOWN_MESSAGE: Coded = (404, "unknown_message");
pub(crate) const UNKNOWN_NODE: Coded = (404, "unknown_node");
pub(crate) const UNKNOWN_STREAM: Coded = (404, "unknown_stream");
pub(crate) const UNKNOWN_SUBSCRIPTION: Coded = (404, "unknown_subscription");
pub(crate) const UNKNOWN_QUARANTINED: Coded = (404, "unknown_quarantined");
