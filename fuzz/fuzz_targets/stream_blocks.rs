//! See `crates/fuzzed/src/stream_blocks.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::stream_blocks::run(data));
