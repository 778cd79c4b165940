//! See `crates/fuzzed/src/cursors.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::cursors::run(data));
