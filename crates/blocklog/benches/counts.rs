//! Instruction counts.
fn main() {}
