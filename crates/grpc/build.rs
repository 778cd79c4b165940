//! Makes the types of the protocol from its description. No `protoc` is needed: the description is
//! compiled in Rust.

use std::error::Error;

const PROTO: &str = "proto";
const FILES: [&str; 7] = [
    "fieldpost/v1/commands.proto",
    "fieldpost/v1/coordination.proto",
    "fieldpost/v1/jobs.proto",
    "fieldpost/v1/reports.proto",
    "fieldpost/v1/rollouts.proto",
    "fieldpost/v1/streams.proto",
    "fieldpost/v1/tasks.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let descriptors = protox::compile(FILES, [PROTO])?;
    tonic_prost_build::configure().build_transport(false).bytes(".").compile_fds(descriptors)?;
    Ok(())
}
