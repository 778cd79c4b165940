//! Several nodes in one virtual world, whose streams are copied between them. Each runs
//! production's partition of streams, with its worker of blocks, over its own simulated disk.
//! Production's runner of copies sends its requests to peers over a simulated network.
//!
//! # What goes wrong
//! On each node, all goes wrong that goes wrong with a machine and with [streams](crate::streams).
//! The process ends at any point, power fails, disks fail, fill, and are nearly full. Besides:
//! - **The network** keeps a request for any time, also longer than its sender waits. It loses a
//!   request, brings it twice, or brings later ones before earlier ones. It loses an answer to what
//!   was done. The line between two nodes is cut, both ways, for any time, with requests on it.
//! - **Nodes** come back with an empty disk under their old name, or with a backup. Streams are
//!   deleted, and made again by whoever appends next.
//! - **Copies** go to and from, two ways, in rings, fans and chains, and between two streams of a
//!   node. They go by segments, paced, and with a live lane. They are paused, resumed, deleted and
//!   put again.
//! - **Clients** append with a source and without, and in all save modes. They append the same
//!   message to several nodes, and again when nobody answered. Settings change meanwhile. In some
//!   runs what is old or too much goes.
//!
//! # What is checked
//! Each node's streams are held against the model of [streams](crate::streams::model), which also
//! follows the rows of copies. A block that some copy has not taken does not go for its age. It
//! goes for room only if that copy's `dropped` says so. Over all nodes, a [ledger](ledger::Ledger)
//! of every message holds:
//! - No message is anywhere twice, and nothing new is a duplicate.
//! - A message whose append was answered as durable stays.
//! - A message that its source lost is nowhere else.
//! - A position, and a receipt, speak only of messages that a crash of the other node cannot take.
//!
//! At the end all faults stop. The copies come to rest, each level with its source. Every message
//! that a stream keeps is in every stream that it is copied to. Where no node was set back, it is
//! there in the order of its source.
//!
//! Copies of kind `reports` have a world of their own, [reports], over the same [network].
//!
//! Not simulated: HTTP itself and the tasks that run copies on a node (`copies::peer` and
//! `copies::tasks`). The black-box tests are there for these. Nor is a disk that is set back to an
//! older state without a restore. Nothing tells it from the state that it was.

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
