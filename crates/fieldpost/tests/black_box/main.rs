//! The built program from outside: its command line, its listeners, its data directories, and what
//! becomes of them in trouble.
//!
//! One binary for all of it: what it links is large, and tests that wait for one another's servers
//! leave no core idle.

mod amqp;
mod cli;
mod client;
mod commands;
mod console;
mod contract;
mod coordination;
mod directories;
mod faults;
mod fuzzed_api;
mod grpc;
mod life;
mod lmstfy;
mod mqtt_clients;
mod overload;
mod pages;
mod ports;
mod postgres;
mod python;
mod rabbitmq;
mod relay;
mod simulate;
mod spool;
mod streams;
mod tasks;
mod typescript;
mod wire;
