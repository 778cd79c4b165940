//! What is said of outbox relays.

use utoipa::openapi::Schema;

use super::{matching, one_of, whole};
use crate::shape::{ANNOUNCED_STATES, ON_REFUSED, RELAY_STATES};

pub(crate) fn relay_state() -> Schema {
    one_of(RELAY_STATES)
}

pub(crate) fn relay_word() -> Schema {
    one_of(ANNOUNCED_STATES)
}

pub(crate) fn relay_on_refused() -> Schema {
    one_of(ON_REFUSED)
}

pub(crate) fn relay_name() -> Schema {
    matching("^[A-Za-z0-9_.:-]+$", base::limits::STREAM_LABEL_CHARS_MAX)
}

pub(crate) fn relay_count() -> Schema {
    whole(0, (1 << 53) - 1)
}
