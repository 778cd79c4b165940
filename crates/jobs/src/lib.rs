//! What must happen later or again: due times, leases, attempts, aliases.
//!
//! A job is available when its `visible_at` has come; delay, retry and lease are all a `visible_at`. [`Jobs`] decides what
//! becomes of each job and puts every change into the caller's [`records::Batch`]. It does not know what a job carries
//! (the body is the caller's: put with `PutJobBody` when [`Published`] says that something was stored, gone with
//! `DeleteJob`), nor where jobs come from; it has no clock, and asks that the time it is given never goes back.
//!
//! # The life of a job
//! ```text
//!                         publish
//!            time to come |     | due at once
//!                         v     v
//!   reschedule   +-------------+  its time came   +-----------+
//!   replace      |   waiting   |  (advance)       |  waiting  |      lease       +----------------+
//!   .----------->|   timed     |----------------->|  ready    |----------------->|    reserved    |
//!   '------------|             |                  |           |                  | attempt n of m |
//!                +-------------+                  +-----------+                  +----------------+
//!                       ^                               ^                          | |  |   ^    |
//!                       |  release, tries left          |  ttr passed, tries left, | |  |   '----'
//!                       |  (or uncounted)               |  or held by our own      | |  |   extend
//!                       '-------------------------------+--------------------------' |  |
//!                                                           worker: interrupted      |  |
//!                                                                                    |  |
//!     cancelled <--- cancel, from everywhere                                   ack   |  |  release or ttr passed
//!     (its reservation is stale from then on)                                        v  v
//!                                                                                 done  dead        no tries left
//!                                                                                       superseded  `replace` came
//! ```
//! What is done, dead, superseded or cancelled is no longer here: `DeleteJob` goes into the batch.
//!
//! A **reservation** names the lease. It ends with the lease's time, whether or not the job has gone out again, and with
//! everything that moves the job on; from then on it changes nothing ([`Stale`]). A lease held by a worker of our own
//! that was cut off, because its process ended ([`Jobs::load`]) or it hung ([`Jobs::advance`]), counts as an attempt but
//! never as the last one. A lease held outside survives a restart.
//!
//! An **alias** is held by one waiting or reserved job of its queue. Publishing under an alias that is held:
//!
//! | | held by a waiting job | by a reserved one | by one with a successor |
//! |---|---|---|---|
//! | `Reject` | `Conflict` | `Conflict` | `Conflict`, with the successor |
//! | `Keep` | `Kept` | `Succeeds`: starts when the job is done, dead or cancelled; its retries come first | `Kept`, the successor |
//! | `Replace` | `Replaced`: same id, new time, new place in line, attempts from 0 | `Succeeds`: starts when the run ends, which a release or lapse then ends as superseded | the successor gives way, then as on the left |
//!
//! A successor starts at the later of its own time and that end. Its id is known from the start: [`Jobs::get`] shows it as
//! a waiting job, [`Jobs::cancel`] and [`Jobs::reschedule`] take it, and [`Jobs::by_alias`] means it.
//!
//! **Order** within a queue: `visible_at`, then publish number. Never early.
//!
//! **Wake-ups**: a queue is named in `wakes` when it goes from having nothing ready to having something. A consumer that
//! has been given `None` by [`Jobs::lease`] is therefore told of the next job that becomes available, however it does; one
//! that stopped before `None` asks again when it can take more. Nothing is named while loading: whatever is due then is
//! told by the first [`Jobs::advance`].
//!
//! # Cost
//! One slab of 80-byte entries (a 64-byte head, 12 bytes of links), a 4-byte hash index by id, and heaps linked through
//! the entries: the timer, and each queue's ready jobs. The heaps are leftist, so that nothing here costs more than
//! O(log n) at once; a wheel would do with O(1), but moves whole hours of jobs when their bucket opens, and queues need
//! exact order anyway. A queue without ready jobs has no memory, an alias costs 32 bytes and its index, a lease 32.

mod advance;
mod entry;
mod heap;
mod jobs;
mod publish;
mod run;
mod schedule;
mod slab;
mod table;

pub use advance::{Lapsed, Progress};

pub use jobs::{Counts, Jobs, Numbers, Unmoved};
pub use publish::{NewJob, OnConflict, Published};
pub use run::{Acked, Charge, Leased, Loaded, Released, Retry, Stale};
