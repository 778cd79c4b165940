//! gRPC from outside: the binary, and a client that knows only the description of the protocol.

mod access;
mod changes;
mod coordination;
mod ending;
mod jobs;
mod reports;
mod rig;
mod unfinished;
mod work;
