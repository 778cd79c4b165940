//! Every target over its corpus, and over mutations of it: what CI runs in place of a fuzzer.
//!
//! A mutation that fails is told by the number that makes it again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fuzzed::mutation::mutated;
use fuzzed::{FuzzTarget, TARGETS};

/// Mutations of each target, unless time is up before: some targets start a server for each.
const MUTATIONS: u64 = 4_000;
const TIME_MAX: Duration = Duration::from_secs(4);
/// However slow the machine is, so many are run.
const MUTATIONS_MIN: u64 = 100;
const INPUT_BYTES_MAX: usize = 4_096;

struct Seed {
    name: String,
    bytes: Vec<u8>,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

fn seeds(target: &str) -> Vec<Seed> {
    let folder = folder().join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.expect("a file of the corpus").path();
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Seed { name: path.display().to_string(), bytes }
    };
    let mut seeds: Vec<_> = entries.map(read).collect();
    seeds.sort_by(|a, b| a.name.cmp(&b.name));
    seeds
}

fn check(target: &str) {
    let FuzzTarget { run, .. } = TARGETS.into_iter().find(|known| known.name == target).expect("a target");
    let seeds = seeds(target);
    assert!(!seeds.is_empty(), "{target} has seeds");
    for seed in &seeds {
        check_one(run, &seed.bytes, &seed.name);
    }
    let begun = Instant::now();
    for number in 0..MUTATIONS {
        if number >= MUTATIONS_MIN && begun.elapsed() > TIME_MAX {
            break;
        }
        let [seed, other] = [number, number / 7 + 1].map(|number| &seeds[number as usize % seeds.len()]);
        let bytes = mutated(&seed.bytes, &other.bytes, INPUT_BYTES_MAX, number);
        check_one(run, &bytes, &format!("mutation {number} of {}", seed.name));
    }
}

fn check_one(run: fn(&[u8]), bytes: &[u8], name: &str) {
    let outcome = catch_unwind(AssertUnwindSafe(|| run(bytes)));
    assert!(outcome.is_ok(), "{name} failed; it is b\"{}\"", bytes.escape_ascii());
}

macro_rules! corpora {
    ($($behaviour:ident: $target:literal,)*) => {
        $(
            #[test]
            fn $behaviour() {
                check($target);
            }
        )*

        /// Targets, corpora and tests are the same list.
        #[test]
        fn every_target_has_a_corpus_and_is_run() {
            let tested = [$($target),*];
            assert_eq!(TARGETS.map(|target| target.name), tested);
            let mut corpora: Vec<_> = std::fs::read_dir(folder())
                .expect("the corpora")
                .map(|entry| entry.expect("a corpus").file_name().to_string_lossy().into_owned())
                .collect();
            corpora.sort();
            assert_eq!(corpora, tested);
        }
    };
}

corpora! {
    a_list_takes_only_its_own_cursors: "cursors",
    every_import_line_has_one_outcome: "import_lines",
    a_changed_log_gives_true_frames_or_is_refused: "log_recovery",
    a_client_gets_what_its_packets_are_owed: "mqtt",
    every_report_line_has_one_outcome: "report_lines",
    a_report_is_read_as_its_json_says: "reports",
    every_mistake_in_a_config_has_its_place: "settings",
    what_is_read_of_stored_bytes_is_written_again: "stored",
    a_changed_block_gives_its_messages_or_is_refused: "stream_blocks",
    a_post_ends_whatever_its_receiver_answers: "webhook_answers",
}
