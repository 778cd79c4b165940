//! Queues of jobs in the simulation, with those who publish, consume and look after them.
//! Production's partitions of queues run behind their inboxes, on the clocks and over the storages
//! of every run.
//!
//! # What goes wrong
//! All that goes wrong with the machine goes wrong here too: see the [top](crate). Besides:
//! - **Publishers** give aliases that are taken, groups, calendars, moments that have passed, and
//!   times to live that are too short. They repeat a request with its key when nobody answered, or
//!   when they were answered. They repeat it after a restart, with another body, and a day later.
//! - **Consumers** ask one queue or several in order, wait or do not, hang up, lose the answer on
//!   its way. They acknowledge at once or when it is too late, in vain, twice, of another queue;
//!   they extend, give back with a delay, and vanish. Some are workers of the process.
//! - **Those who look after queues** pause and resume them, set and reset order, concurrency, rates
//!   and limits, and delete them with all they have. They cancel and change jobs that wait or run,
//!   respawn the dead, and delete them. They tell workers to run, drain or stop, and take it back.
//! - **Callers of locks** hold them, wait in line, extend them and let go, also in vain. They come
//!   back under the same owner, go before they are answered, and hold on for too long.
//! - **Memory** is so small in some runs that most jobs are parked in the store;
//!   `SIM_WITH="resident_max=6"` makes it so in any.
//! - **Steps** do so little in runs with a crowd that they come to their limits. Some have few jobs
//!   in memory, others thousands of groups in many queues.
//!
//! # What is checked
//! The [model] takes the same inputs in the same order. Every answer and every batch is held
//! against it at once. What is [stored](checkers::contents) is held against it at random moments,
//! after every start and at the end. A [history](checkers::history) of answers, which knows no
//! rules but the promises, and no batch, looks for what contradicts them.
//! [Another](checkers::locks) does so for locks: one holder at a time, and fences that rise
//! whatever is killed.
//!
//! Each step is held against [its limits](world): what it did, what its batch weighs, and what it
//! leaves in memory.
//!
//! What workers are told is durable, and holds no job back from who asks. At the end all faults
//! stop, everything is consumed, and whatever was published and answered must be accounted for.

mod checkers;
mod counts;
pub(crate) mod fault_injection;
mod fault_tests;
mod invariants;
mod meant;
mod model;
pub(crate) mod plan;
mod seeds;
pub(crate) mod world;
