//! Several nodes in one virtual world, whose streams are copied between them: on each production's
//! partition of streams over its own simulated disk, with its worker of blocks; and production's
//! runner of copies, whose requests to peers go by a simulated network.
//!
//! # What goes wrong
//! All that goes wrong with a machine and with [streams](crate::streams), on each node for itself:
//! ends of the process at any point, power that fails, disks that fail, fill, and are nearly full.
//! Besides:
//! - **The network** keeps a request for any time, also longer than its sender waits; loses it,
//!   brings it twice, brings later ones before earlier ones; loses an answer to what was done. The
//!   line between two nodes is cut, both ways, for any time, with requests on it.
//! - **Nodes** come back with an empty disk under their old name, or with a backup. Streams are
//!   deleted, and made again by whoever appends next.
//! - **Copies** go to and from, two ways, in rings, fans and chains, by segments, paced, with a
//!   live lane, and between two streams of a node. They are paused, resumed, deleted and put again.
//! - **Clients** append with a source and without, the same message to several nodes, again when
//!   nobody answered, and in all save modes; settings change meanwhile. In some runs what is old
//!   or too much goes.
//!
//! # What is checked
//! Each node's streams are held against the model of [streams](crate::streams::model), which also
//! follows the rows of copies: a block that some copy has not taken does not go for its age, and
//! goes for room only if that copy's `dropped` says so. Over all nodes, a [ledger](ledger::Ledger)
//! of every message holds: none is anywhere twice; nothing new is a duplicate; what was answered as
//! durable stays; what a source lost is nowhere else; a position, and a receipt, speak of what a
//! crash of the other node cannot take. At the end all faults stop. The copies come to rest, each
//! level with its source, and every message that a stream keeps is in every stream that it is
//! copied to; where no node was set back, in the order of its source.
//!
//! Copies of kind `reports` have a world of their own, [reports], over the same [network].
//!
//! Not simulated: HTTP itself and the tasks that run copies on a node (`copies::peer` and
//! `copies::tasks`), for which the black-box tests are there; a disk that is set back to an older
//! state without a restore, which nothing tells from the state that it was.

mod checkers;
mod counts;
mod exchange;
mod fault_injection;
mod fault_tests;
mod invariants;
mod ledger;
mod network;
mod plan;
mod reports;
mod seeds;
mod sim_node;
mod world;
