//! The stored form of accepted reports on their way to the stream of a copy.

use std::borrow::Cow;

use base::Incarnation;
use records::{GatheredReport, GatheredReports};

use super::field::{fields, stored};
use super::key;
use crate::record::record;

stored!(
    GatheredReports, "gathered reports", version 1:
    gather, first, lineage, received_at, reports
);

fields! {
    GatheredReport: device, ts, value;
}

record!(
    GatheredReports: GatheredReports by (Incarnation, u64),
    key: |(gather, first)| key::gathered(*gather, *first),
    place: |gathered| Cow::Owned((gathered.gather, gathered.first)),
);
