//! The commands that ask a server, as people and scripts use them: the built program against a
//! built server.

mod commands;
mod contract;
mod coordination;
mod failures;
mod feeds;
mod following;
mod imports;
mod jobs;
mod manuals;
mod page;
mod picks;
mod registry;
mod rig;
mod scripted;
mod terminal;
mod trust;
