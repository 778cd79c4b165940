//! What comes in with a dependency: its licence and its source, by the rules of `deny.toml`.
//!
//! `make deny` asks more: advisories, which it has to fetch. Here is what can be said without a
//! network.

use std::collections::BTreeSet;

use cargo_metadata::{Metadata, MetadataCommand};
use spdx::{Expression, ParseMode};
use tidy::{assert_none, tree};

fn metadata() -> Metadata {
    let manifest = tree::root().join("Cargo.toml");
    MetadataCommand::new().manifest_path(manifest).exec().expect("cargo metadata answers")
}

/// The licences that `deny.toml` allows.
fn allowed() -> BTreeSet<String> {
    let rules: toml::Table = tree::read("deny.toml".as_ref()).parse().expect("deny.toml is TOML");
    let allowed = rules["licenses"]["allow"].as_array().expect("a list of licences");
    allowed.iter().map(|licence| licence.as_str().expect("a licence").to_owned()).collect()
}

#[test]
fn every_dependency_has_a_licence_that_is_allowed() {
    let allowed = allowed();
    let mut offences = Vec::new();
    for package in metadata().packages.iter().filter(|package| package.source.is_some()) {
        let said = package.license.as_deref().unwrap_or_default();
        let suits = Expression::parse_mode(said, ParseMode::LAX)
            .is_ok_and(|licence| licence.evaluate(|wanted| allowed.contains(&wanted.to_string())));
        if !suits {
            offences.push(format!("{} {}: {said:?}", package.name, package.version));
        }
    }
    assert_none("licences that deny.toml does not allow", &offences);
}

#[test]
fn every_dependency_comes_from_the_registry() {
    let elsewhere: Vec<_> = metadata()
        .packages
        .iter()
        .filter(|package| package.source.as_ref().is_some_and(|source| !source.is_crates_io()))
        .map(|package| package.name.to_string())
        .collect();
    assert_none("dependencies from elsewhere than crates.io", &elsewhere);
}
