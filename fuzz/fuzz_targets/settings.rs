//! See `crates/fuzzed/src/settings.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::settings::run(data));
