//! What a run with notices and operations saw of each kind.

use crate::harness::counts::counts;

counts! {
    /// What a run saw.
    Counts:
    told_failing,
    told_disabled,
    told_recovered,
    /// Conditions that were told before a start, and seen to be over after it.
    recovered_after_a_start,
    begun,
    /// Operations that were refused, because too many went on.
    too_many,
    done,
    cancelled,
    /// Rows that were acted on.
    rows,
    /// Rows that had their turn again after a start.
    rows_again,
}
