//! What every Rust file keeps to, and what single crates do: documentation, length, no dead files,
//! and the boundaries that `Cargo.toml` cannot draw.

use std::collections::BTreeSet;
use std::path::PathBuf;

use tidy::rust::{self, SourceFile};
use tidy::{assert_none, tree};

use crate::dependencies::{self, Rule};

/// A longer file wants to be two.
const LINES_MAX: usize = 500;
/// Tables of cases may be longer.
const TEST_LINES_MAX: usize = 900;
/// Names that say nothing of what is inside.
const EMPTY_NAMES: [&str; 6] = ["common", "helper", "helpers", "manager", "util", "utils"];
/// What crates of rules never name.
const IMPURE: [&[&str]; 11] = [
    &["std", "env"],
    &["std", "fs"],
    &["std", "io"],
    &["std", "net", "TcpListener"],
    &["std", "net", "TcpStream"],
    &["std", "net", "UdpSocket"],
    &["std", "process"],
    &["std", "sync", "mpsc"],
    &["std", "thread"],
    &["std", "time", "Instant"],
    &["std", "time", "SystemTime"],
];
/// What machines are about, besides their names. The kernel has no such word, neither in a name nor
/// in a comment.
const WORDS_OF_MACHINES: [&str; 9] =
    ["client", "command", "consumer", "delivery", "job", "notification", "pick", "report", "rollout"];

/// The files that a rule finds fault with.
pub(crate) fn offenders(offends: impl Fn(&SourceFile) -> bool + Send + 'static) -> Vec<String> {
    rust::of_sources(move |sources| {
        let offenders = sources.iter().filter(|source| offends(source));
        offenders.map(|source| source.path.display().to_string()).collect()
    })
}

#[test]
fn every_module_begins_by_saying_what_it_is_for() {
    assert_none("the first line is `//! ...`", &offenders(|source| !source.text.starts_with("//! ")));
}

#[test]
fn no_file_is_too_long() {
    let limit = |source: &SourceFile| if source.is_test_code { TEST_LINES_MAX } else { LINES_MAX };
    let rule = format!("at most {LINES_MAX} lines, {TEST_LINES_MAX} of tests");
    assert_none(&rule, &offenders(move |source| source.text.lines().count() > limit(source)));
}

#[test]
fn every_file_is_compiled() {
    let declared: BTreeSet<PathBuf> = rust::of_sources(|sources| {
        sources.iter().flat_map(rust::declared_files).map(|file| file.path).collect()
    });
    let is_dead =
        move |source: &SourceFile| !rust::is_target_root(&source.path) && !declared.contains(&source.path);
    assert_none("a `mod` leads to every file", &offenders(is_dead));
}

#[test]
fn modules_are_named_for_what_is_inside() {
    let named_emptily = |source: &SourceFile| {
        let mut parts = source.path.iter().map(|part| part.to_string_lossy());
        parts.any(|part| EMPTY_NAMES.contains(&part.trim_end_matches(".rs")))
    };
    assert_none("a module is a noun of the domain", &offenders(named_emptily));
}

/// Crates that are handed time, chance and storage: by the table in `ARCHITECTURE.md` they use
/// neither executors nor chance.
fn pure_crates() -> BTreeSet<String> {
    let is_pure = |rule: &Rule| rule.never.contains("tokio") && rule.never.contains("getrandom");
    let crates = dependencies::rules().into_iter().filter(|(_, rule)| is_pure(rule));
    crates.map(|(name, _)| name).collect()
}

#[test]
fn rules_know_no_clock_no_file_and_no_thread() {
    let pure = pure_crates();
    assert!(pure.contains("jobs"), "the table says which crates have rules: {pure:?}");
    let impure = |path: &Vec<String>| {
        IMPURE.iter().any(|forbidden| {
            path.iter().map(String::as_str).zip(*forbidden).filter(|(a, b)| a == *b).count()
                == forbidden.len()
        })
    };
    let offends = move |source: &SourceFile| {
        pure.contains(source.crate_name())
            && !source.is_test_code
            && source.path.iter().nth(2).is_some_and(|folder| folder == "src")
            && rust::paths(source).iter().any(impure)
    };
    assert_none("time, chance and storage are arguments", &offenders(offends));
}

#[test]
fn the_table_engine_is_known_to_one_module() {
    let knows = |source: &&SourceFile| {
        rust::paths(source).iter().any(|path| path.first().is_some_and(|first| first == "redb"))
    };
    let modules: BTreeSet<_> =
        rust::of_sources(move |sources| sources.iter().filter(knows).map(top_module).collect());
    assert!(modules.len() <= 1, "redb is used in more than one module: {modules:?}");
    assert!(
        modules.iter().all(|module| module.starts_with("store/")),
        "redb is used outside of store: {modules:?}"
    );
}

/// Crate and module of a file, two levels deep, so that `store/embedded/tables.rs` and
/// `store/embedded/tables/x.rs` are one.
fn top_module(source: &SourceFile) -> String {
    let below_src = source.path.iter().skip(3).take(2).map(|part| part.to_string_lossy());
    let module: Vec<_> = below_src.map(|part| part.trim_end_matches(".rs").to_owned()).collect();
    format!("{}/{}", source.crate_name(), module.join("/"))
}

#[test]
fn the_engine_sees_only_the_port_of_the_store() {
    let port = tree::read("crates/store/src/lib.rs".as_ref());
    assert!(port.contains("pub mod port;"), "the port is a module of its own");
    let hidden = ["embedded", "memory"];
    let offends = move |source: &SourceFile| {
        let behind = |path: &Vec<String>| {
            path.first().is_some_and(|first| first == "store")
                && path.get(1).is_some_and(|second| hidden.contains(&second.as_str()))
        };
        source.crate_name() == "engine" && !source.is_test_code && rust::paths(source).iter().any(behind)
    };
    assert_none("the engine does not know which store it has", &offenders(offends));
}

/// The machines of the engine, by their modules.
fn machines() -> BTreeSet<String> {
    let has_machine = |source: &&SourceFile| {
        source.path.starts_with("crates/engine/src")
            && !source.is_test_code
            && source.text.contains("impl Machine for ")
    };
    rust::of_sources(move |sources| {
        let modules = sources.iter().filter(has_machine).filter_map(|source| source.path.iter().nth(3));
        modules.map(|module| module.to_string_lossy().trim_end_matches(".rs").to_owned()).collect()
    })
}

#[test]
fn the_kernel_of_the_engine_names_no_machine() {
    let kernel = tree::read("crates/engine/src/kernel.rs".as_ref());
    assert!(kernel.contains("pub mod machine;"), "the kernel is a module of its own");
    let machines = machines();
    assert!(machines.contains("devices"), "machines are found: {machines:?}");
    let of_machines = machines.iter().map(|machine| machine.trim_end_matches('s').to_owned());
    let words: BTreeSet<String> = of_machines.chain(WORDS_OF_MACHINES.map(str::to_owned)).collect();
    let reaches_out = move |path: &Vec<String>| {
        let beyond = path.iter().find(|part| !["crate", "super"].contains(&part.as_str()));
        let is_above = beyond.is_some_and(|part| part == "jobs" || machines.contains(part));
        let leaves = path.first().is_some_and(|first| first == "crate")
            && path.get(1).is_some_and(|second| second != "kernel");
        // A name alone may be that of a variable.
        (is_above && path.len() > 1) || leaves
    };
    let offends = move |source: &SourceFile| {
        // The folder, and the file beside it.
        source.path.with_extension("").starts_with("crates/engine/src/kernel")
            && (rust::paths(source).iter().any(&reaches_out) || !words.is_disjoint(&words_of(&source.text)))
    };
    assert_none("the kernel names no machine, and nothing that one is about", &offenders(offends));
}

/// The words of a text, and of the names in it, in lower case and without the `s` of a plural.
fn words_of(text: &str) -> BTreeSet<String> {
    let (mut words, mut word) = (BTreeSet::new(), String::new());
    for character in text.chars().chain([' ']) {
        let is_letter = character.is_alphabetic();
        if !is_letter || (character.is_uppercase() && word.ends_with(char::is_lowercase)) {
            words.insert(std::mem::take(&mut word).to_lowercase().trim_end_matches('s').to_owned());
        }
        if is_letter {
            word.push(character);
        }
    }
    words
}

#[test]
fn names_are_looked_at_word_by_word() {
    let words = words_of("fn jobs(STEP_REPORTS_MAX: QueueKey) // a deque");
    let expected = ["job", "step", "report", "max", "queue", "key", "deque"];
    assert!(expected.iter().all(|word| words.contains(*word)), "{words:?}");
}
