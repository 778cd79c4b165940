//! What a run saw of each kind. The seeds of CI must see everything once, or they prove less than
//! they seem to.

use crate::harness::counts::counts;

counts! {
    /// What a run saw.
    Counts:
    reports,
    events,
    losses,
    attempts,
    delivered,
    /// Notifications that failed for good.
    given_up,
    /// Notifications of stale devices, queued after a success or an enabling.
    told_by_success,
    /// The same, queued to find out whether the client is reached.
    told_by_probe,
    /// Notifications sent again because somebody asked for all of a client's.
    resent,
    /// Reports without effect: their id was known from the same slice,
    repeats_in_slice,
    /// from an earlier one,
    repeats_later,
    /// or from an earlier life of the process.
    repeats_after_restart,
    /// Reports with effect although their id was known once.
    ids_forgotten,
    /// Slices handed in again because nobody said what became of them.
    slices_again,
    quarantined,
    /// Refused reports that went because there were too many,
    quarantine_overflows,
    /// or because they were too old.
    quarantine_expiries,
    discards,
    discards_in_vain,
    imports_new,
    imports_known,
    imports_refused,
    expected_from_past,
    expected_from_future,
    /// Never heard of, and lost after the time that its line named.
    lost_as_expected,
    /// Links that a line took away.
    imports_unlinked,
    relabelled,
    readings_expired,
    events_expired,
    deliveries_expired,
    /// Attempts at notifications that are kept in no list any more.
    attempts_unlisted,
    /// Ends of attempts whose lease was over, or whose link was cut.
    stale_leases,
    breakers_opened,
    /// Breakers that a success closed,
    breakers_closed,
    /// or a change of the client.
    breakers_reset,
    /// Leases while a breaker was open.
    breakers_asked,
    rotations,
    /// Secrets rotated away before the one before them was over.
    rotations_within_overlap,
}
