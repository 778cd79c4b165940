//! What every test keeps to: it runs, it can fail, and it waits for signals instead of sleeping.

use std::collections::BTreeSet;
use std::path::PathBuf;

use tidy::assert_none;
use tidy::rust::{self, Function};

/// A file and its functions.
struct File {
    path: PathBuf,
    crate_name: String,
    functions: Vec<Function>,
}

impl File {
    fn at(&self, function: &Function) -> String {
        format!("{}:{}: {}", self.path.display(), function.line, function.name)
    }

    fn offenders(&self, offends: impl Fn(&Function) -> bool) -> Vec<String> {
        let offenders = self.functions.iter().filter(|function| offends(function));
        offenders.map(|function| self.at(function)).collect()
    }
}

fn all() -> Vec<File> {
    rust::of_sources(|sources| {
        let files = sources.iter().map(|source| File {
            path: source.path.clone(),
            crate_name: source.crate_name().to_owned(),
            functions: rust::functions(source),
        });
        files.collect()
    })
}

#[test]
fn no_test_is_ignored() {
    let is_ignored = |function: &Function| function.attributes.contains("ignore");
    let ignored: Vec<_> = all().iter().flat_map(|file| file.offenders(is_ignored)).collect();
    assert_none("a test that does not run shows nothing", &ignored);
}

/// Where tests pause the runtime's clock, what sleeps only moves that clock.
#[test]
fn no_test_sleeps() {
    let calls = |function: &Function, what: &str| function.in_test_code && function.calls.contains(what);
    let mut offences = Vec::new();
    for file in all() {
        if !file.functions.iter().any(|function| calls(function, "pause")) {
            offences.extend(file.offenders(|function| calls(function, "sleep")));
        }
    }
    assert_none("a test waits for a signal or a condition", &offences);
}

/// A test asserts by itself, or calls by name a function of test code, or one named `check...` or
/// `assert...`, that does. One that only shows that nothing panics has to say so in its name.
#[test]
fn every_test_can_fail() {
    let all = all();
    let mut offences = Vec::new();
    for crate_name in all.iter().map(|file| &file.crate_name).collect::<BTreeSet<_>>() {
        let asserting = asserting_functions(&all, crate_name);
        let is_silent = |function: &Function| function.is_test() && !can_fail(function, &asserting);
        for file in all.iter().filter(|file| file.crate_name == *crate_name) {
            offences.extend(file.offenders(is_silent));
        }
    }
    assert_none("a test asserts something", &offences);
}

fn can_fail(function: &Function, asserting: &BTreeSet<String>) -> bool {
    let shows_no_panic = function.is_test() && function.name.contains("panic");
    shows_no_panic
        || function.asserts
        || function.attributes.contains("should_panic")
        || !function.calls.is_disjoint(asserting)
}

/// The names of what a test of a crate may rely on to fail it, found by going on until nothing is
/// added.
fn asserting_functions(all: &[File], crate_name: &str) -> BTreeSet<String> {
    let mut asserting = BTreeSet::new();
    loop {
        let before = asserting.len();
        for file in all {
            for function in &file.functions {
                let named_so = function.name.starts_with("check") || function.name.starts_with("assert");
                let usable = named_so || (function.in_test_code && file.crate_name == crate_name);
                if usable && !function.is_test() && can_fail(function, &asserting) {
                    asserting.insert(function.name.clone());
                }
            }
        }
        if asserting.len() == before {
            return asserting;
        }
    }
}
