//! Streams in the simulation, with those who append, read and subscribe. Production's partition of
//! streams runs behind its inbox, with the files of its blocks, on the clocks and over the storages
//! of every run.
//!
//! # What goes wrong
//! All that goes wrong with the machine: see the [top](crate). Files of blocks are on the disk that
//! fails and fills. Besides:
//! - **Callers** append with and without a source. Ids of a source ascend, jump, and come again at
//!   once, later, or after a start, with the same payload or another. Callers expect a last id,
//!   right or wrong.
//! - **Settings** change at any moment, through all four save modes. Blocks and bounds are so small
//!   that blocks are closed, stored and dropped all the time. Streams are deleted while a block is
//!   being stored, and come again under their name.
//! - **The worker** that stores blocks is cut off between writing a file and telling of it. It
//!   comes late, and begins a life with its sweep.
//! - **Memory** is so small in some runs that streams are saved early and leave memory.
//! - **Another storage**, to which blocks move in some streams, is away at times, and comes back.
//!   It goes away also while a block is on its way there.
//! - **The disk** is said to be nearly full in some runs, and not any more.
//! - **Subscriptions** are made, get other terms, move, go back and are deleted at any moment, also
//!   in streams that are not there. Readers hang on to a call, commit what they read or something
//!   else, vanish, and come back after another one. Receivers of pushes do not take a post, or take
//!   it while its commit comes late or never.
//!
//! # What is checked
//! The [model](model::Model) follows every batch, a [ledger](ledger::Ledger) every answer. What was
//! answered in the modes `sync` and `wait` is durable. In the other modes the end of what was
//! answered may be lost, never a part in the middle. No id is given twice. No id of a source is
//! there twice, and a duplicate names the first. Readers see what was answered, in order, once. A
//! block goes for its age or for room, and the oldest first. What is [stored](contents) is what the
//! batches said, the files of blocks included. At the end every block is stored, nothing is in
//! memory, and every block is where its moves have it. In both storages there are as many files as
//! rows.
//!
//! Every [change](changes) of a subscription has the call that asked for it, and every answer its
//! reason. A position that was [told](positions) is there after any end, unless an unanswered call
//! may have moved it. A subscription that was deleted does not come back. A reader gets what is
//! behind the position, in order, but for what is gone, and then it is told so. One
//! [reader](readers) reads at a time, and nobody is kept out without such a one. The lag counts
//! what is behind. A block whose time is over stays until every push has taken it. At the end every
//! push has, and a reader finds the rest.

mod asked;
mod changes;
pub(crate) mod cold_storage;
mod contents;
mod copies;
mod counts;
pub(crate) mod fault_injection;
mod fault_tests;
mod invariants;
mod ledger;
pub(crate) mod message;
pub(crate) mod model;
pub(crate) mod plan;
mod positions;
mod readers;
mod seeds;
mod subscriptions;
pub(crate) mod world;
