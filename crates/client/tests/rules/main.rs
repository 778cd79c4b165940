//! The client's own rules, against a server that answers what a test has written down. This is for
//! what a good server does too rarely to be waited for.

mod calls;
mod commands;
mod ends;
mod producer;
mod requests;
mod stage;
mod streams;
mod tasks;
mod worker;
