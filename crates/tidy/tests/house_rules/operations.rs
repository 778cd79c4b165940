//! `docs/operations.md` against the code: every code of a refusal and every metric is told there,
//! and nothing else is.

use std::collections::BTreeSet;

use tidy::words::{self, Words};
use tidy::{assert_none, prose, rust, tree};

/// The store in memory: no server has it.
const NEVER_SERVED: &str = "crates/store/src/memory.rs";

/// The names in the first column of the table below a heading.
fn told(heading: &str) -> BTreeSet<String> {
    let page = tree::read("docs/operations.md".as_ref());
    let rows = prose::table_below(&page, heading);
    let name = |row: &Vec<String>| prose::code_spans(row.first()?).pop_first();
    rows.iter().filter_map(name).collect()
}

fn given() -> Words {
    rust::of_sources(|sources| {
        words::words(sources.iter().filter(|source| !source.path.starts_with(NEVER_SERVED)))
    })
}

#[test]
fn every_error_code_is_told_to_operators() {
    let (told, given) = (told("Error codes"), given().codes);
    let missing: Vec<_> = given.difference(&told).cloned().collect();
    let gone: Vec<_> = told.difference(&given).cloned().collect();
    assert_none("codes that docs/operations.md does not tell", &missing);
    assert_none("codes that no refusal has", &gone);
}

/// The exporter adds units and `_total` to the names that the code gives.
#[test]
fn every_metric_is_told_to_operators() {
    let (told, given) = (told("Metrics"), given().metrics);
    let is = |told: &str, given: &str| words::is_exported_as(given, told);
    let missing: Vec<_> =
        given.iter().filter(|given| !told.iter().any(|told| is(told, given))).cloned().collect();
    let gone: Vec<_> =
        told.iter().filter(|told| !given.iter().any(|given| is(told, given))).cloned().collect();
    assert_none("metrics that docs/operations.md does not tell", &missing);
    assert_none("metrics that are not there", &gone);
}
