//! See `crates/fuzzed/src/import_lines.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::import_lines::run(data));
