//! See `crates/fuzzed/src/report_lines.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::report_lines::run(data));
