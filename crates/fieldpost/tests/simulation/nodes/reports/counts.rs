//! What a run with an edge node and a centre saw of each kind.

use crate::harness::counts::counts;

counts! {
    /// What a run saw.
    Counts:
    /// Reports that the edge acknowledged, and that it refused.
    accepted,
    refused,
    /// Slices that were handed in again.
    slices_again,
    lives,
    /// Calls to the centre,
    requests,
    /// of which the network lost, broke off, or brought twice,
    requests_lost,
    requests_broken_off,
    requests_twice,
    /// that nobody waited for any more,
    requests_late,
    /// that found nobody,
    requests_failed,
    /// and answers that it lost.
    answers_lost,
    cuts,
    pauses,
    /// Calls that the centre answered.
    batches,
    moves,
    /// Looks at a copy without lag, after some report.
    level,
    /// Reports that were at the centre at the end, and that it refused.
    brought,
    refused_there,
}
