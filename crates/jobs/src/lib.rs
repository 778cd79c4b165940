//! What must happen later or again: due times, leases, attempts, aliases, groups, schedules.
//!
//! A job is available when its `visible_at` has come; delay, retry and lease are all a
//! `visible_at`. [`Jobs`] decides what becomes of each job and puts every change into the caller's
//! [`records::Batch`]. It does not know what a job carries, nor where jobs come from. The body is
//! the caller's: put with `PutJobBody` when [`PublishOutcome`] says that something was stored, gone
//! with `DeleteJob`. [`Jobs`] has no clock, and asks that the time it is given never goes back.
//!
//! # The life of a job
//! ```text
//!               publish, due later      publish, due now
//!                       |                      |
//!                       v                      v
//!                 +-----------+   time    +---------+   lease   +----------------+
//!           .---->|  waiting, |---------->| waiting,|---------->|    reserved    |---. extend
//!  reschedule,    | scheduled |           |  ready  |           | attempt n of m |<--'
//!  replace '------+-----------+           +---------+           +----------------+
//!                       ^                      ^                  |   |   |    |
//!                       |   release, delayed   |     release now, |   |   |    |
//!                       |   ack: it recurs     |     lapse, cut   |   |   |    |
//!                       '----------------------+------------------'   |   |    |
//!                                              |                      |   |    |
//!                                              '----------------------'   |    |
//!                                                                     ack |    | release/lapse/cut
//!                                                                         v    v
//!      cancelled <--- cancel, wherever it stands                       done    dead, expired or
//!      expired <----- time, while it waits                                     superseded
//! ```
//! | from | to | because | unless |
//! |---|---|---|---|
//! | - | scheduled, ready | [`Jobs::publish`]; it succeeds a job that ended | its alias is held |
//! | scheduled | ready | its `visible_at` has come: [`Jobs::advance`] | |
//! | scheduled, ready | scheduled, ready | [`Jobs::reschedule`]; a `Replace` under its alias | |
//! | scheduled, ready | expired | its `expires_at` has come: [`Jobs::advance`] | it recurs |
//! | ready | reserved | [`Jobs::lease`]: attempts + 1 | its group or its queue's rules forbid it |
//! | reserved | reserved | [`Jobs::extend`] | |
//! | reserved | done | [`Jobs::ack`] | it recurs |
//! | reserved | scheduled, ready | [`Jobs::release`] | superseded, expired or dead |
//! | reserved | ready, at its old place | [`Jobs::give_back`] | superseded or expired |
//! | reserved | ready | lapse: [`Jobs::advance`]; cut: [`Jobs::load`] | superseded, expired, dead |
//! | reserved | superseded | its run ended, and a `Replace` had come | it is done |
//! | reserved | expired | its run ended after `expires_at` | it is done; superseded; it recurs |
//! | reserved | dead | its last try ended, and counted | superseded or expired; it recurs |
//! | any | scheduled, ready | it recurs, and a run ended | it was the last, or superseded |
//! | any | cancelled | [`Jobs::cancel`]: reservations are stale, a schedule ends | |
//!
//! The `visible_at` of a reserved job is the end of its lease. A lease lapses when its ttr has
//! passed. It is cut when its worker's process has ended. A release that is not counted gives the
//! attempt back. [`Jobs::give_back`] is for a lease that reached nobody.
//!
//! Done, dead, expired, superseded and cancelled jobs are no longer here. `DeleteJob` goes into the
//! batch, or `DeleteJobHead` for a dead one whose body the caller keeps
//! ([`Jobs::keeping_dead_letters`]).
//!
//! A **reservation** names a lease. It ends with the lease's time, whether or not the job has gone
//! out again, and with whatever moves the job on. From then on it changes nothing ([`Stale`]). A
//! run that was cut, or lapsed with a worker of our own, counts as an attempt but never as the last
//! one. The job was not to blame. A lease held outside survives a restart.
//!
//! An **alias** is held by one waiting or reserved job of its queue. Publishing under an alias that
//! is held:
//!
//! | | by a waiting job | by a reserved one | by a reserved one with a successor |
//! |---|---|---|---|
//! | `Reject` | `Conflict` | `Conflict` | `Conflict`, with the successor |
//! | `Keep` | `Kept` | `Succeeds`, after the job | `Kept`, the successor |
//! | `Replace` | `Replaced` | `Succeeds`, after the run | the successor gives way, then as left |
//!
//! A job that waits again, for its next try or run, may have a successor. `Keep` answers the job
//! then, and `Replace` drops the successor.
//!
//! A replaced job keeps its id. It has a new time, a new place in line, and attempts from 0. A
//! successor after the job starts when the job is done, dead, expired or cancelled: its retries and
//! runs come first. One after the run starts when the run ends, in whatever way.
//!
//! A successor starts at the later of its own time and that end. Its id is known from the start:
//! [`Jobs::get`] shows it as a waiting job, [`Jobs::cancel`] and [`Jobs::reschedule`] take it, and
//! [`Jobs::by_alias`] means it.
//!
//! **Order** within a queue: `visible_at`, then publish number; where the newest goes first, the
//! reverse. Never early. A job that has not come due yet, because
//! [`Jobs::advance`] is behind, has no place in it.
//!
//! A **group** runs one job at a time, by when they were first due, then publish number. A job that
//! is not due yet blocks nobody; one that was leased and waits for its retry does. A ready one that
//! was never leased gives way to one that was due earlier. An attempt that is given back uncounted
//! was none.
//!
//! A **recurring** job keeps id and alias. Each run has a number, its own attempts, and its own
//! time to expire from when it is due. The next is made when the present one ends, and what was
//! missed folds into the latest. A run that dies is told ([`ReleaseOutcome::Recurs`]) and the
//! schedule goes on.
//!
//! **Clocks**: a job on the wall clock ([`Jobs::set_wall`]) is due by that clock as it is when time
//! moves on. If it goes back, what is ready stays so. Leases, retries and expiry are on the engine
//! clock.
//!
//! **Wake-ups**: a queue is named in `wakes` when something can be leased of it and could not be
//! before. Causes: a job became ready, a run ended that its concurrency counted, its rate allows
//! more, it was resumed, or its line was read in. A consumer that has been given `None` by
//! [`Jobs::lease`] is therefore told of the next job that becomes available, however it does. One
//! that stopped before `None` asks again when it can take more. Nothing is named while loading:
//! whatever is due then is told by the first [`Jobs::advance`].
//!
//! # Parked jobs
//! Memory has a limit: [`Jobs::set_resident_max`]. Above it [`Jobs::evict`] parks the jobs that
//! are needed last (`ParkJob`): those whose time comes late, and the ends of lines. From then on a
//! job that is published behind a [`Horizon`] parks at once. The caller may have what such a job
//! carries parked with it; `PutJobBody` puts that back when the job is made resident.
//!
//! The caller reads parked jobs back, once a step. [`Jobs::next_read`] says which,
//! [`Jobs::page_max`] how many at once. Each goes to [`Jobs::take_in`], then the page ends with
//! [`Jobs::read_to`]. How many pages a step reads is up to the caller, but
//! [`Jobs::next_urgent_read`] is read in the same step. Lines that waited for a flood go on when it
//! is read, no more at once than the caller allows ([`Jobs::set_unblocked_max`]). Before a call
//! about a parked job, the caller makes it resident ([`Jobs::unpark`]).
//!
//! Consumers see one difference: a lease may have to be asked for again after reading. Nobody is
//! given a job while a parked one may go before it. (Where the newest goes first, a job whose time
//! has come may be given before parked ones are read.)
//!
//! Some jobs are never parked: those that are reserved, those with a successor, and the first of
//! every queue. Nor are those of a group that were tried or moved to another time. Where more
//! queues than `resident_max` have ready jobs, one of each stays. A group with parked jobs has a
//! resident one, or its first is parked as its head, in its queue's line. By that job the group is
//! known. [`Jobs::take_changed_counts`] tells how many jobs of each queue are parked, for
//! [`Jobs::load_counts`] after a restart.
//!
//! # Parts
//! [`Jobs`] composes parts that keep their fields to themselves, and can be read alone. None of
//! them knows [`Jobs`], the batch or the wake-ups; those are in the [`JobsStep`] that `jobs/` hands
//! on.
//!
//! | part | owns |
//! |---|---|
//! | `table` | the jobs in memory, by id and alias, their leases and terms; only it changes one |
//! | `timers` | when jobs become available, leases end, jobs expire, rates allow more |
//! | `queues`, `ready_line` | of each queue: counts, the ready jobs in order, who was told |
//! | `priority_queue`, `sorted_list`, `heap` | an order of jobs, linked through themselves |
//! | `rules` | a pause, the concurrency and the rate of a queue |
//! | `groups` | the job of each group that goes first, and those behind it |
//! | `parked` | how many jobs are parked, and how far clocks and lines are resident |
//! | `parked/read_queue`, `blocked_lines` | what to read, and for whom |
//! | `parked/resident_limit`, `eviction` | how many jobs may be resident, and which leave |
//! | `clocks` | the wall clock beside the engine clock |
//!
//! The calls are in `jobs/`, each file with one subject: publish, lease, advance, ending (of runs
//! and jobs), placement, grouping, availability, parking, paging, eviction.
//!
//! Each part has its tests beside it. Those of the calls are `tests/behaviour`, by subject, and
//! `tests/model`, which compares random runs with a plain list of jobs.
//!
//! # Cost
//! One slab of 80-byte entries (68 bytes of head, the rest links), and a 4-byte hash index by id.
//! Priority queues are linked through the entries: a timer for each clock, and each queue's ready
//! jobs. A job that is due at once does not pass a timer. Jobs that come in order are a list, where
//! adding and leaving are O(1); the others are in a leftist heap. Nothing here costs more than
//! O(log n) at once. A timing wheel would file in O(1), but moves whole hours of jobs when a coarse
//! bucket opens, and the queues need exact order anyway. An alias costs 32 bytes and its index, a
//! lease 40. A job that expires, recurs or has a group costs 40 more and its place in a tree. A
//! queue costs 64 and its index while it has jobs, and nothing without. Eviction looks at every
//! resident job once for each three quarters of them that it parks. Where groups had to be read
//! before their jobs could leave, it looks once more when they are.
//!
//! Measured with `examples/life_cycle.rs` on two cores that had other work, with one partition.
//! Every fourth waiting job has an alias, and the boxed changes of the batch are included:
//!
//! | waiting jobs | bytes a job | publish for later | publish, lease, ack | come due |
//! |---|---|---|---|---|
//! | 65,536 | 95 | 0.4 us | 0.6 us | 0.8 us |
//! | 1,000,000 | 95 | 0.6 us | 0.9 us | 3 us |
//! | 4,000,000 | 99 | 0.8 us | 1.0 us | 5 us |
//!
//! With 65,536 resident at most, publishing 2,000,000 for later took 0.2 us each, and the longest
//! step of eviction 7 ms.

mod clocks;
mod entry;
mod groups;
mod heap;
mod jobs;
mod parked;
mod priority_queue;
mod queues;
mod ready_line;
mod recurrence;
mod rules;
mod slab;
mod sorted_list;
mod step;
mod table;
mod timers;

pub use jobs::advance::{ExpiredJob, JobsProgress, Lapsed, Passed};
pub use jobs::lease::{AckedJob, Charge, Leased, LoadOutcome, ReleaseOutcome, ReleaseTerms, Stale};
pub use jobs::paging::ReadRequest;
pub use jobs::publish::{ConflictPolicy, NewJobHead, PublishOutcome};
pub use jobs::{JobCounts, Jobs, Numbers, RescheduleError};
pub use parked::horizon::Horizon;
pub use recurrence::{Calendar, NoCalendar};
pub use rules::QueueRules;
pub use step::JobsStep;
