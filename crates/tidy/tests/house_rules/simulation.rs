//! The simulation: its harness knows no workload, and every workload has runs that everybody finds.

use std::path::Path;

use tidy::rust::{self, SourceFile};
use tidy::{assert_none, tree};

use crate::sources::offenders;

const SIMULATION: &str = "crates/simulation/tests/simulation";

#[test]
fn the_harness_names_no_workload() {
    let leaves = |path: &Vec<String>| {
        path.first().is_some_and(|first| first == "crate")
            && path.get(1).is_some_and(|second| second != "harness")
    };
    let offends = move |source: &SourceFile| {
        source.path.with_extension("").starts_with(Path::new(SIMULATION).join("harness"))
            && rust::paths(source).iter().any(leaves)
    };
    assert_none("workloads know the harness, and not the other way round", &offenders(offends));
}

/// `make simulate-long` runs tests of this name and no others. A run that fails prints the name,
/// and `main.rs` lists it.
#[test]
fn every_workload_has_its_many_lives() {
    let listed = tree::read(&Path::new(SIMULATION).join("main.rs"));
    let seeds = tree::files(&["/seeds.rs"]).into_iter().filter(|path| path.starts_with(SIMULATION));
    let mut offences = Vec::new();
    for path in seeds.filter(|path| !path.ends_with("harness/seeds.rs")) {
        let text = tree::read(&path);
        let names = text.split("test: \"").skip(1).filter_map(|rest| rest.split('"').next());
        let mut lives = names.filter(|name| name.starts_with("many_lives"));
        let is_there =
            |name: &str| text.contains(&format!("fn {name}")) && listed.contains(&format!("`{name}`"));
        if !lives.next().is_some_and(is_there) {
            offences.push(path.display().to_string());
        }
    }
    assert_none("a workload has a test `many_lives..`, and main.rs lists it", &offences);
}
