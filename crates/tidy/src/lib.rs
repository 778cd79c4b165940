//! The house rules that a machine can check, as tests: `cargo test --package tidy`.
//!
//! The tests stand in `tests/`, one file for each thing that is kept tidy. Here is what they share:
//! the files of the working tree, parsed. Nothing of ours is used, so that the rules also hold
//! while a crate does not compile.

pub mod comments;
pub mod copies;
pub mod names;
pub mod prose;
pub mod rust;
pub mod tree;
pub mod words;

/// Fails with every offence on a line of its own, below the rule that they break.
///
/// # Panics
/// When there is any offence.
pub fn assert_none(rule: &str, offences: &[String]) {
    assert!(offences.is_empty(), "{rule}\n  {}\n", offences.join("\n  "));
}
