//! Faults that the house still has, counted for each crate: no count rises, and one that falls is
//! recorded.
//!
//! The counts stand in `crates/tidy/ratchets.toml`. `RECORD=1 cargo test --package tidy ratchets`
//! lowers them to what there is, and begins those of a new measure. It raises none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::Item;
use tidy::names::DeclaredName;
use tidy::rust::{self, SourceFile};
use tidy::{comments, copies, names, tree};

/// Columns of a comment, and of a line of a page that is no table.
const COLUMNS_MAX: usize = 100;
/// A longer sentence wants to be two.
const WORDS_MAX: usize = 30;
/// So long a sentence is still easy to read.
const EASY_WORDS_MAX: usize = 25;
/// Names that many modules use for a type of their own.
const IDIOMS: [&str; 4] = ["Builder", "Error", "Iter", "Result"];
/// The crate of the Rust client, a published library.
const PUBLISHED_CLIENT: &str = "client";
/// Offences that are shown of each crate.
const SHOWN_MAX: usize = 20;

/// Offences by crate, or by `pages`.
type Found = BTreeMap<String, Vec<String>>;

fn check(measure: &str, what: &str, found: &Found) {
    let path = tree::root().join("crates/tidy/ratchets.toml");
    let text = std::fs::read_to_string(&path).expect("the counts are there");
    let mut counts: BTreeMap<String, BTreeMap<String, usize>> = toml::from_str(&text).expect("it is TOML");
    let records = std::env::var_os("RECORD").is_some();
    let as_found = || found.iter().map(|(place, here)| (place.clone(), here.len())).collect();
    if records && !counts.contains_key(measure) {
        counts.insert(measure.to_owned(), as_found());
    }
    let allowed = counts.entry(measure.to_owned()).or_default();
    let places: BTreeSet<String> = allowed.keys().chain(found.keys()).cloned().collect();
    let (mut risen, mut fallen) = (Vec::new(), Vec::new());
    for place in places {
        let here = found.get(&place).map(Vec::as_slice).unwrap_or_default();
        let most = allowed.get(&place).copied().unwrap_or_default();
        if here.len() > most {
            let shown = here.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>().join("\n    ");
            risen.push(format!("{place}: {} where there were {most}:\n    {shown}", here.len()));
        } else if here.len() < most {
            fallen.push(format!("{place}: {} in place of {most}", here.len()));
            allowed.insert(place, here.len());
        }
    }
    tidy::assert_none(what, &risen);
    if records {
        allowed.retain(|_, most| *most > 0);
        let text = toml::to_string(&counts).expect("counts are TOML");
        std::fs::write(&path, text).expect("the counts can be written");
    } else {
        tidy::assert_none(&format!("{what}: fewer than recorded, so record it (RECORD=1)"), &fallen);
    }
}

fn by_crate(offences: impl IntoIterator<Item = (String, String)>) -> Found {
    let mut found = Found::new();
    for (place, offence) in offences {
        found.entry(place).or_default().push(offence);
    }
    found
}

fn pages() -> impl Iterator<Item = (std::path::PathBuf, String)> {
    tree::files(&[".md"]).into_iter().map(|path| (path.clone(), tree::read(&path)))
}

fn at(path: &Path, line: usize) -> String {
    format!("{}:{line}", path.display())
}

fn wide_lines(sources: &[SourceFile]) -> Found {
    let mut offences = Vec::new();
    for source in sources {
        let wide =
            comments::comment_lines(&source.text).filter(|(_, line)| line.chars().count() > COLUMNS_MAX);
        offences.extend(wide.map(|(line, _)| (source.crate_name().to_owned(), at(&source.path, line))));
    }
    for (path, text) in pages() {
        let lines = tidy::prose::plain_lines(&text).filter(|(_, line)| line.chars().count() > COLUMNS_MAX);
        // One sentence may have a line to itself, however long.
        let of_several = lines.filter(|(_, line)| !line.starts_with('|') && line.contains(". "));
        offences.extend(of_several.map(|(line, _)| ("pages".to_owned(), at(&path, line))));
    }
    by_crate(offences)
}

fn sentences_over(words_max: usize, sources: &[SourceFile]) -> Found {
    let mut offences = Vec::new();
    for source in sources {
        let long = comments::sentences_of_comments(&source.text);
        let long = long.into_iter().filter(|sentence| sentence.words.len() > words_max);
        let place = source.crate_name().to_owned();
        offences.extend(long.map(|sentence| (place.clone(), at(&source.path, sentence.line))));
    }
    for (path, text) in pages() {
        let long = comments::sentences_of_page(&text).into_iter();
        let long = long.filter(|sentence| sentence.words.len() > words_max);
        offences.extend(long.map(|sentence| ("pages".to_owned(), at(&path, sentence.line))));
    }
    by_crate(offences)
}

/// Types of product code with a name that another has too, each but the first in order of path.
/// Those of the Rust client are left out: a published library says the product's words, as its
/// users do.
fn shared_names(sources: &[SourceFile]) -> Found {
    let mut names: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    let counted = |source: &&SourceFile| {
        !source.is_test_code && is_product(source) && source.crate_name() != PUBLISHED_CLIENT
    };
    for source in sources.iter().filter(counted) {
        for name in type_names(&source.syntax.items) {
            let place = (source.crate_name().to_owned(), source.path.display().to_string());
            names.entry(name).or_default().push(place);
        }
    }
    names.retain(|name, places| places.len() > 1 && !IDIOMS.contains(&name.as_str()));
    by_crate(names.into_iter().flat_map(|(name, places)| {
        let first = places[0].1.clone();
        places.into_iter().skip(1).map(move |(place, path)| (place, format!("{name}: {path}, as {first}")))
    }))
}

fn is_product(source: &SourceFile) -> bool {
    source.path.iter().nth(2).is_some_and(|folder| folder == "src")
}

fn type_names(items: &[Item]) -> Vec<String> {
    let mut names = Vec::new();
    for item in items {
        match item {
            Item::Struct(item) => names.push(item.ident.to_string()),
            Item::Enum(item) => names.push(item.ident.to_string()),
            Item::Trait(item) => names.push(item.ident.to_string()),
            Item::Mod(item) if !rust::is_for_tests(&item.attrs) => {
                names.extend(item.content.iter().flat_map(|(_, items)| type_names(items)));
            }
            _ => {}
        }
    }
    names
}

/// What has a name that was given up: types, traits, modules, functions, fields and variants, of
/// tests too, and files of the console. Some names of functions are given up in product code only.
fn old_names(sources: &[SourceFile]) -> Found {
    let mut offences = Vec::new();
    for source in sources {
        let items = names::declared_names(source).into_iter();
        let items = items.map(|declared| (names::better_name(&declared.name), declared));
        let members = names::declared_members(source).into_iter();
        let members = members.map(|declared| (names::better_member(&declared.name), declared));
        let functions = rust::functions(source).into_iter();
        let functions = functions.filter(|function| is_product(source) && !function.in_test_code);
        let functions = functions.map(|function| {
            let better = names::better_function(&function.name);
            (better, DeclaredName { line: function.line, name: function.name })
        });
        for (better, declared) in items.chain(members).chain(functions) {
            let Some(better) = better else { continue };
            let offence = format!("{}: {} -> {better}", at(&source.path, declared.line), declared.name);
            offences.push((source.crate_name().to_owned(), offence));
        }
    }
    for path in tree::files(&[".svelte", ".ts"]).iter().filter(|path| path.starts_with("console/src")) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.split('.').next().unwrap_or_default();
        if let Some(better) = names::better_member(name) {
            offences.push(("console".to_owned(), format!("{} -> {better}", path.display())));
        }
    }
    by_crate(offences)
}

fn other_module_style() -> Found {
    let named = tree::files(&["/mod.rs"]).into_iter();
    by_crate(named.map(|path| {
        let place = path.iter().nth(1).map(|name| name.to_string_lossy().into_owned());
        (place.unwrap_or_default(), path.display().to_string())
    }))
}

fn copied_lines(sources: &[SourceFile]) -> Found {
    let found = copies::copies(sources).into_iter();
    by_crate(found.map(|(pair, line)| {
        let place = pair.other.iter().nth(1).map(|name| name.to_string_lossy().into_owned());
        (place.unwrap_or_default(), format!("{}: {}", at(&pair.one, line), pair.other.display()))
    }))
}

/// One test, since each of them writes the whole file when it is told to.
#[test]
fn ratchets_do_not_turn_back() {
    let found = rust::of_sources(|sources| {
        [
            (
                "wide_lines",
                "comments, and lines of pages with several sentences, have 100 columns at most",
                wide_lines(sources),
            ),
            (
                "sentences_over_30_words",
                "a sentence has 30 words at most",
                sentences_over(WORDS_MAX, sources),
            ),
            (
                "sentences_over_25_words",
                "a sentence has about 25 words",
                sentences_over(EASY_WORDS_MAX, sources),
            ),
            ("old_names", "a name that was given up does not come back", old_names(sources)),
            ("shared_names", "a type's name is its own", shared_names(sources)),
            ("mod_rs", "a module is `name.rs` beside `name/`", other_module_style()),
            ("copied_lines", "what two crates need is written once", copied_lines(sources)),
        ]
    });
    for (measure, what, found) in found {
        check(measure, what, &found);
    }
}
