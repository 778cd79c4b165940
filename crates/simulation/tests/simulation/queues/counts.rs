//! What a run with queues saw of each kind. The seeds of CI must see everything once, or they prove
//! less than they seem to.

use crate::harness::counts::counts;

counts! {
    /// What a run saw.
    Counts:
    /// Steps that came to the end of what was due.
    steps_to_the_end,
    /// Steps that did as much of something as a step may.
    steps_at_a_limit,
    published,
    /// Requests that came again and got the answer of the first.
    answered_again,
    /// Jobs refused because a queue had as many as it may have,
    full,
    /// or because their alias was taken.
    conflicts,
    /// Jobs that left another in place under their alias,
    kept,
    /// took its place,
    replaced,
    /// or wait for its end.
    succeeds,
    /// Runs that ended because their job was replaced meanwhile.
    superseded,
    leased,
    /// Consumers that waited and then got something.
    served_later,
    /// Consumers over several queues that were told.
    told,
    /// Consumers that did not wait for their answer.
    hung_up,
    given_back,
    acked,
    extended,
    released,
    lapsed,
    /// Leases of our own workers whose process ended.
    cut_off,
    /// Reservations that did not hold.
    stale,
    expired,
    died,
    dead_too_old,
    respawned,
    changed,
    cancelled,
    /// Runs of recurring jobs after their first.
    runs,
    /// Queues that were deleted.
    deleted,
    parked,
    /// Locks that were given to a caller that waited.
    locks_passed_on,
    /// Locks that somebody held.
    locked,
    /// Locks that were lost because their time was over,
    locks_expired,
    /// and that were still held when their partition was loaded.
    locks_kept,
    /// Queues whose workers were told something,
    controls_put,
    /// and nothing any more.
    controls_taken_back,
    /// Things told to workers that were there when their partition was loaded.
    controls_kept,
    /// Jobs that were leased although the workers of their queue were told to take no more.
    leased_nevertheless,
}
