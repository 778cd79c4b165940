//! See `crates/fuzzed/src/webhook_answers.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::webhook_answers::run(data));
