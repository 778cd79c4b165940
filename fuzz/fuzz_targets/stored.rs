//! See `crates/fuzzed/src/stored.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::stored::run(data));
