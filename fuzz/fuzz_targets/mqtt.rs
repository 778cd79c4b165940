//! See `crates/fuzzed/src/mqtt.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::mqtt::run(data));
