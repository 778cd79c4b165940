//! What every test keeps to: it runs, it can fail, and it waits for signals instead of sleeping.

use std::collections::BTreeSet;

use tidy::assert_none;
use tidy::rust::{self, Function, Source};

fn all() -> Vec<(Source, Vec<Function>)> {
    let with_functions = |source: Source| {
        let functions = rust::functions(&source);
        (source, functions)
    };
    rust::sources().into_iter().map(with_functions).collect()
}

fn at(source: &Source, function: &Function) -> String {
    format!("{}:{}: {}", source.path.display(), function.line, function.name)
}

fn offenders(offends: impl Fn(&Function) -> bool) -> Vec<String> {
    let all = all();
    let of_file = |(source, functions): &(Source, Vec<Function>)| {
        functions
            .iter()
            .filter(|function| offends(function))
            .map(|function| at(source, function))
            .collect::<Vec<_>>()
    };
    all.iter().flat_map(of_file).collect()
}

#[test]
fn no_test_is_ignored() {
    assert_none(
        "a test that does not run shows nothing",
        &offenders(|function| function.attributes.contains("ignore")),
    );
}

/// Where tests pause the runtime's clock, what sleeps only moves that clock.
#[test]
fn no_test_sleeps() {
    let calls = |function: &Function, what: &str| function.in_test_code && function.calls.contains(what);
    let mut offences = Vec::new();
    for (source, functions) in all() {
        if functions.iter().any(|function| calls(function, "pause")) {
            continue;
        }
        let sleepers = functions.iter().filter(|function| calls(function, "sleep"));
        offences.extend(sleepers.map(|function| at(&source, function)));
    }
    assert_none("a test waits for a signal or a condition", &offences);
}

/// A test asserts by itself, or calls by name a function of test code, or one named `check...` or
/// `assert...`, that does. One that only shows that nothing panics has to say so in its name.
#[test]
fn every_test_can_fail() {
    let all = all();
    let mut offences = Vec::new();
    for crate_name in all.iter().map(|(source, _)| source.crate_name()).collect::<BTreeSet<_>>() {
        let asserting = asserting_functions(&all, crate_name);
        for (source, functions) in all.iter().filter(|(source, _)| source.crate_name() == crate_name) {
            let silent =
                functions.iter().filter(|function| function.is_test() && !can_fail(function, &asserting));
            offences.extend(silent.map(|function| at(source, function)));
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
fn asserting_functions(all: &[(Source, Vec<Function>)], crate_name: &str) -> BTreeSet<String> {
    let mut asserting = BTreeSet::new();
    loop {
        let before = asserting.len();
        for (source, functions) in all {
            for function in functions {
                let named_so = function.name.starts_with("check") || function.name.starts_with("assert");
                let usable = named_so || (function.in_test_code && source.crate_name() == crate_name);
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
