//! Who may depend on whom: the tables of `ARCHITECTURE.md` against `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};
use tidy::{assert_none, prose, tree};

/// The heading above the table, in `ARCHITECTURE.md`.
const HEADING: &str = "Which crate may use which";

pub(crate) struct Rule {
    ours: BTreeSet<String>,
    pub(crate) never: BTreeSet<String>,
}

fn metadata() -> Metadata {
    let manifest = tree::root().join("Cargo.toml");
    MetadataCommand::new().manifest_path(manifest).no_deps().exec().expect("cargo metadata answers")
}

/// The table: crate, what of ours it may use, which libraries it never uses.
pub(crate) fn rules() -> BTreeMap<String, Rule> {
    let page = tree::read("ARCHITECTURE.md".as_ref());
    let row = |cells: &Vec<String>| {
        let [name, ours, never] = cells.as_slice() else { panic!("not a row of three cells: {cells:?}") };
        let name = prose::code_spans(name).pop_first().expect("a crate in backticks");
        (name, Rule { ours: prose::code_spans(ours), never: prose::code_spans(never) })
    };
    prose::table_below(&page, HEADING).iter().map(row).collect()
}

#[test]
fn the_architecture_page_lists_the_crates_that_there_are() {
    let there: BTreeSet<_> = metadata().packages.iter().map(|package| package.name.to_string()).collect();
    let listed: BTreeSet<_> = rules().into_keys().collect();
    assert_eq!(listed, there, "crates in the table and in the workspace");
    let page = tree::read("ARCHITECTURE.md".as_ref());
    let without: Vec<_> = there.into_iter().filter(|name| !page.contains(&format!("### `{name}`"))).collect();
    assert_none("every crate has a section in ARCHITECTURE.md", &without);
}

#[test]
fn crates_depend_only_on_what_the_architecture_page_allows() {
    let rules = rules();
    let mut offences = Vec::new();
    for package in &metadata().packages {
        let Some(rule) = rules.get(package.name.as_str()) else { continue };
        for dependency in package.dependencies.iter().filter(|d| d.kind != DependencyKind::Development) {
            let ours = rules.contains_key(&dependency.name);
            if (ours && !rule.ours.contains(&dependency.name)) || rule.never.contains(&dependency.name) {
                offences.push(format!("{} -> {}", package.name, dependency.name));
            }
        }
    }
    assert_none("edges that the table in ARCHITECTURE.md does not allow", &offences);
}

/// A table that allows a circle would allow anything.
#[test]
fn what_the_architecture_page_allows_has_no_circle() {
    let rules = rules();
    let mut placed: BTreeSet<&String> = BTreeSet::new();
    while placed.len() < rules.len() {
        let free: Vec<_> = rules
            .iter()
            .filter(|(name, rule)| {
                !placed.contains(name) && rule.ours.iter().all(|used| placed.contains(used))
            })
            .map(|(name, _)| name)
            .collect();
        let left: Vec<_> = rules.keys().filter(|name| !placed.contains(name)).collect();
        assert!(!free.is_empty(), "these use each other, or something that is no crate: {left:?}");
        placed.extend(free);
    }
}

#[test]
fn every_dependency_is_declared_once_in_the_workspace() {
    let mut offences = Vec::new();
    for path in tree::files(&["Cargo.toml"]).iter().filter(|path| path.starts_with("crates")) {
        let manifest: toml::Table = tree::read(path).parse().expect("a manifest is TOML");
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let table = manifest.get(kind).and_then(|table| table.as_table());
            for (name, how) in table.into_iter().flatten() {
                if how.get("workspace").and_then(toml::Value::as_bool) != Some(true) {
                    offences.push(format!("{}: {name}", path.display()));
                }
            }
        }
        let lints = manifest.get("lints").and_then(|lints| lints.get("workspace"));
        if lints.and_then(toml::Value::as_bool) != Some(true) {
            offences.push(format!("{}: no [lints] workspace = true", path.display()));
        }
    }
    assert_none("versions, features and lints are chosen in the workspace's Cargo.toml", &offences);
}
