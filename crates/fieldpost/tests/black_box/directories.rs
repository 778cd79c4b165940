//! Data directories of the built program: backed up while it runs, checked, restored, damaged, and
//! opened after years.

mod backups;
mod commands;
mod compare;
mod contents;
mod damage;
mod fixture;
mod page;
pub(crate) mod program;
mod queues;
mod registry;
mod story;
mod streams;
