//! The stored form of a refused report.

use std::borrow::Cow;

use records::{QuarantineKey, Quarantined};

use super::field::stored;
use super::key;
use crate::record::record;

stored!(
    Quarantined, "a refused report", version 1:
    id, way, topic, device, code, detail, payload, cut
);

record!(
    Quarantined: Quarantine by QuarantineKey,
    key: |at| key::feed_entry(*at),
    place: |report| Cow::Owned(report.id.into()),
);
