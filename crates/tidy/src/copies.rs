//! Lines that stand in two crates.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::rust::SourceFile;

/// As many lines that say something make a copy.
const LINES: usize = 6;

/// Two files of different crates that share lines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharingFiles {
    /// One of them.
    pub one: PathBuf,
    /// The other.
    pub other: PathBuf,
}

/// Every pair of files of different crates that share six lines in a row. Lines that say little -
/// imports, comments, attributes, brackets - are passed over.
#[must_use]
pub fn copies(sources: &[SourceFile]) -> BTreeMap<SharingFiles, usize> {
    let mut places: BTreeMap<Vec<&str>, Vec<(usize, usize)>> = BTreeMap::new();
    for (index, source) in sources.iter().enumerate() {
        let lines = telling_lines(&source.text);
        for window in lines.windows(LINES) {
            let text = window.iter().map(|(_, line)| *line).collect();
            places.entry(text).or_default().push((index, window[0].0));
        }
    }
    let mut copies = BTreeMap::new();
    for found in places.values().filter(|found| found.len() > 1) {
        for (index, (one, line)) in found.iter().enumerate() {
            for (other, _) in &found[index + 1..] {
                let (one, other) = (&sources[*one], &sources[*other]);
                if one.crate_name() != other.crate_name() {
                    let pair = SharingFiles { one: one.path.clone(), other: other.path.clone() };
                    let first = copies.entry(pair).or_insert(*line);
                    *first = (*line).min(*first);
                }
            }
        }
    }
    copies
}

fn telling_lines(text: &str) -> Vec<(usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    lines.filter(|(_, line)| says_something(line)).collect()
}

fn says_something(line: &str) -> bool {
    let passed_over = ["//", "use ", "pub use ", "mod ", "#[", "#!["];
    line.chars().filter(|c| c.is_alphanumeric()).count() > 3
        && !passed_over.iter().any(|start| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn source(path: &str, lines: std::ops::Range<u32>) -> SourceFile {
        let text = lines.fold(String::new(), |mut text, line| {
            let _always_ok = writeln!(text, "// comment {path}\nconst LINE_{line}: u32 = {line};");
            text
        });
        let syntax = syn::parse_file(&text).expect("it is Rust");
        SourceFile { path: path.into(), text, syntax, is_test_code: false }
    }

    #[test]
    fn six_lines_in_two_crates_are_a_copy_and_five_are_none() {
        let sources = [
            source("crates/a/src/x.rs", 0..10),
            source("crates/a/src/y.rs", 0..10),
            source("crates/b/src/x.rs", 4..20),
            source("crates/c/src/x.rs", 15..30),
        ];
        let found: Vec<_> =
            copies(&sources).into_iter().map(|(pair, line)| (pair.one, pair.other, line)).collect();
        let pair = |one: &str, line| (one.into(), "crates/b/src/x.rs".into(), line);
        assert_eq!(found, [pair("crates/a/src/x.rs", 10), pair("crates/a/src/y.rs", 10)]);
    }
}
