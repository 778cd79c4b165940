//! The rules of the house that a machine can check, one file for each thing that they are about.

mod dependencies;
mod licences;
mod operations;
mod prose;
mod ratchets;
mod simulation;
mod sources;
mod testing;
