//! Prose that rots unless it is checked: links, `make` targets, and words that only make sense on
//! one machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tidy::{assert_none, prose, tree};

/// Every file that people read as text.
const TEXTS: [&str; 10] =
    [".rs", ".md", ".toml", ".sh", ".py", ".yml", "Makefile", "setup", "/run", "LICENSE"];

fn pages() -> Vec<(PathBuf, String)> {
    tree::files(&[".md"]).into_iter().map(|path| (path.clone(), tree::read(&path))).collect()
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut offences = Vec::new();
    for (path, text) in pages() {
        let dead = prose::links(&text).into_iter().filter(|(_, target)| !resolves(&path, &text, target));
        offences.extend(dead.map(|(line, target)| format!("{}:{line}: {target}", path.display())));
    }
    assert_none("dead links", &offences);
}

/// A link to the web is not followed; one into a page needs its heading.
fn resolves(from: &Path, text: &str, target: &str) -> bool {
    if target.contains("://") || target.starts_with("mailto:") {
        return true;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let other = from.parent().unwrap_or(Path::new("")).join(file);
    let page = if file.is_empty() {
        Some(text.to_owned())
    } else {
        std::fs::read_to_string(tree::root().join(&other)).ok()
    };
    let there = page.is_some() || tree::root().join(&other).exists();
    there && (anchor.is_empty() || page.is_some_and(|page| prose::anchors(&page).contains(anchor)))
}

#[test]
fn make_targets_that_pages_name_exist() {
    let makefile = tree::read("Makefile".as_ref());
    let target = |line: &str| line.split_once(':').map(|(name, _)| name.to_owned());
    let targets: BTreeSet<_> =
        makefile.lines().filter(|line| line.contains(": ")).filter_map(target).collect();
    let mut offences = Vec::new();
    for (path, text) in pages() {
        let spans = prose::code_spans(
            &prose::plain_lines(&text).map(|(_, line)| line).collect::<Vec<_>>().join("\n"),
        );
        let named = spans.iter().filter_map(|span| span.strip_prefix("make ")).map(first_word);
        let fenced = text.lines().filter_map(|line| line.strip_prefix("make ")).map(first_word);
        let missing: BTreeSet<_> = named.chain(fenced).filter(|name| !targets.contains(*name)).collect();
        offences.extend(missing.into_iter().map(|name| format!("{}: make {name}", path.display())));
    }
    assert_none("no such target in the Makefile", &offences);
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

#[test]
fn every_make_target_says_what_it_does() {
    let makefile = tree::read("Makefile".as_ref());
    let phony = makefile.lines().find_map(|line| line.strip_prefix(".PHONY: ")).expect("a list of targets");
    let told = |target: &&str| {
        makefile.lines().any(|line| line.starts_with(&format!("{target}:")) && line.contains(" ## "))
    };
    let silent: Vec<_> = phony.split_whitespace().filter(|target| !told(target)).map(str::to_owned).collect();
    assert_none("`make` alone lists every target", &silent);
}

/// Written in two halves, so that this file does not offend itself.
#[test]
fn nothing_speaks_of_the_machine_it_was_written_on() {
    let words = [
        concat!("/wor", "k/"),
        concat!("/ro", "ot/"),
        concat!("/hom", "e/"),
        concat!("bash", "_jobs"),
        concat!("../sha", "red"),
    ];
    let mut offences = Vec::new();
    for path in tree::files(&TEXTS) {
        for (number, line) in (1..).zip(tree::read(&path).lines()) {
            if words.iter().any(|word| line.contains(word)) {
                offences.push(format!("{}:{number}: {}", path.display(), line.trim()));
            }
        }
    }
    assert_none("paths of one machine", &offences);
}

#[test]
fn no_line_ends_in_blanks_and_every_file_ends_in_a_newline() {
    let mut offences = Vec::new();
    for path in tree::files(&TEXTS) {
        let text = tree::read(&path);
        let blank = (1..).zip(text.lines()).find(|(_, line)| line.ends_with([' ', '\t']));
        offences.extend(blank.map(|(number, _)| format!("{}:{number}", path.display())));
        if !text.ends_with('\n') || text.ends_with("\n\n") {
            offences.push(format!("{}: its end", path.display()));
        }
    }
    assert_none("blanks that nobody sees", &offences);
}
