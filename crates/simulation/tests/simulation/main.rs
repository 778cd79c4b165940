//! The whole server below its sockets, simulated: production's partitions, store and lanes of
//! webhooks, on a virtual clock and over a simulated disk. One thread; a seeded scheduler picks
//! each step among those that are possible.
//!
//! # What goes wrong
//! - **The process** dies at any moment and starts again. It dies between any two steps, or before
//!   any write or sync of a commit, a checkpoint, a sweep, the opening of a data directory. Or it
//!   is asked to stop, and does so well. A machine sleeps for minutes or hours while everything is
//!   under way.
//! - **The power** fails, at any of these moments. What was synced stays. Of the rest, all,
//!   nothing, some writes, some sectors, or the writes up to a moment are left, torn and out of
//!   order. It fails again while the process is down, or starts.
//! - **Syncs come later** in some runs, as with `durability.sync = "interval"`. The power then
//!   takes what was answered since the last sync and nothing else. The death of the process takes
//!   nothing. What receivers and callers know of such batches is forgotten with them.
//! - **The disk** fails one read, write or sync, anywhere, the opening of a data directory
//!   included; it becomes full, and has room again. A sync takes as long as the scheduler likes:
//!   reports arrive and time passes meanwhile.
//! - **The store** (in memory) answers a commit with every outcome of the port: durable, fenced,
//!   unknown and written, unknown and lost, failed. Outcomes reach their partitions late, and those
//!   of one partition before those of another.
//! - **The clocks**: the wall clock is set by up to an hour, either way, also while the process is
//!   down. The engine clock is slewed after it, and starts at the later of both. Days pass, within
//!   one life or between two. With them goes what is kept for a day or two only, while some of it
//!   is still to be told.
//! - **Intake**: slices over several partitions, and batches of any size. Ways in close and open,
//!   and devices fall silent and come back. Reports are late, ahead, of another kind, refused, or
//!   of devices that nobody knows. Ids come again at once, later, after a start, or when they are
//!   forgotten. Slices come again because nobody answered. What is refused fills a quarantine that
//!   is too small for it, and is discarded, or asked for in vain.
//! - **Receivers** answer 2xx at once or slowly, 3xx, 4xx, 5xx, 410, 429 and 503 with
//!   `Retry-After`. They take a request and never answer, or do what it says while the answer is
//!   lost. They are down and come back, some only when every attempt has failed, or when a breaker
//!   is open. A sender hangs on to an answer until its lease is over.
//! - **The registry** changes in between: devices and clients come, change and go, and come again
//!   under the same id; links and labels too. Imports register devices, change them, or name
//!   another kind, with a time from which they are missed that is past or to come. Clients are
//!   disabled and enabled; secrets are rotated, also twice within a day; deliveries are sent again
//!   by hand, one, or all of a client's.
//!
//! Not simulated: sockets and everything in front of them, the threads that call the steps, and
//! feeds over several partitions. Nor is rot of the disk; the tests of `blocklog` and `store` flip
//! bytes.
//!
//! # What is checked
//! A naive [model](devices::model) takes the same inputs in the same order and goes back with the
//! store when batches are lost. Every answer, every batch, every body is held against it at once.
//! [Everything that is stored](devices::checkers::contents) is at random moments, after every start
//! and at the end. Every row that a life has left is held against the rows that it names and that
//! name it, as `fieldpost check` does. The invariants of ARCHITECTURE.md are checked by
//! [name](harness::violation::Invariant) where they can be seen. At the end all faults stop, and
//! within an hour of virtual time everything must have been told, on time, to everybody.
//!
//! Users' [queues] of jobs are a workload of their own, as nothing of a queue ever commits together
//! with a device. [Both] run in one life too: one process, one store, one machine with its faults.
//! Notices and operations are the workload of the [registry].
//! Tasks and campaigns have one of their own, [campaigns], and [streams] another. Several [nodes],
//! each with a machine of its own, copy streams to each other in one world.
//!
//! # Running it
//! - `cargo test -p simulation --test simulation`: the seeds of CI.
//! - `SEED=17 cargo test -p simulation --test simulation many_lives_keep -- --nocapture`: one run
//!   again, exactly; with `SIM_TRACE=1` every step is printed. In place of `many_lives_keep`:
//!   - `many_lives_of_queues`: one with queues.
//!   - `many_lives_of_both`: one with both.
//!   - `many_lives_of_commands`: one with commands.
//!   - `many_lives_of_the_registry`: one with notices and operations.
//!   - `many_lives_of_campaigns`: one with tasks and campaigns.
//!   - `many_lives_of_streams`: one with streams.
//!   - `many_lives_of_nodes`: one with several nodes.
//!   - `many_lives_of_an_edge`: one with an edge node whose reports come to a centre.
//! - `SEEDS=1000..2000` in place of `SEED`: many others.
//! - `SIM_WITH="steps=40 crash=0"` besides: with numbers that are others than the seed says. Each
//!   plan has its own, of which `knobs` tells; `resident_max=6` parks most jobs of queues.
//! - `make simulate-long`: seeds that begin with the present second, for a night (`SIM_SECONDS`),
//!   optimised.
//!
//! The first run that fails ends them. It is printed with the command that repeats it, and with one
//! that repeats a smaller run that fails so. The bug that it found is mended together with a line
//! in `FOUND_BUGS`. Where later changes to what a seed decides would lose the bug, it gets a test
//! of its own instead.
//!
//! [Both]: both

mod both;
mod campaigns;
mod commands;
mod devices;
mod harness;
mod nodes;
mod queues;
mod registry;
mod streams;
