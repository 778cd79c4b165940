//! See `crates/fuzzed/src/reports.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::reports::run(data));
