//! See `crates/fuzzed/src/log_recovery.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::log_recovery::run(data));
