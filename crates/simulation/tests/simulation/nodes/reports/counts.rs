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
    /// Calls to the centre of which it took some lines, and that were lost.
    requests_broken_off,
    pauses,
    /// Looks at a copy without lag, after some report.
    level,
    /// Reports that were at the centre at the end, and that it refused.
    brought,
    refused_there,
}
