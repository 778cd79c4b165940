//! Rust files, parsed: which modules they declare, which functions they have, what those call.
//!
//! This is syntax alone: names are not resolved. Rules that are built on it say what they take a
//! name for.

use std::collections::BTreeSet;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, mpsc};
use std::thread;

use syn::visit::{self, Visit};

use crate::tree;

/// One parsed file.
pub struct SourceFile {
    /// Its path below the root.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// Its syntax.
    pub syntax: syn::File,
    /// Whether it is compiled for tests only: by where it lies, or because the module that declares
    /// it is.
    pub is_test_code: bool,
}

impl SourceFile {
    /// The crate that it belongs to: the folder below `crates/`.
    #[must_use]
    pub fn crate_name(&self) -> &str {
        self.path.iter().nth(1).and_then(|name| name.to_str()).unwrap_or_default()
    }
}

/// What is asked of every Rust file of the tree.
type Question = Box<dyn FnOnce(&[SourceFile]) + Send>;

/// Asks something of every Rust file of the tree. All are parsed once in a process, on a thread
/// that they do not leave: syntax is of one thread.
///
/// # Panics
/// When a file cannot be parsed, and when `ask` panics.
pub fn of_sources<T: Send + 'static>(ask: impl FnOnce(&[SourceFile]) -> T + Send + 'static) -> T {
    static QUESTIONS: LazyLock<mpsc::Sender<Question>> = LazyLock::new(|| {
        let (questions, asked) = mpsc::channel::<Question>();
        thread::spawn(move || {
            let sources = sources();
            asked.into_iter().for_each(|question| question(&sources));
        });
        questions
    });
    const PARSED: &str = "every file can be parsed";
    let (answer, answered) = mpsc::channel();
    let question = move |sources: &[SourceFile]| {
        let asked = panic::catch_unwind(AssertUnwindSafe(|| ask(sources))).map_err(|thrown| {
            let text = thrown.downcast_ref::<String>().map(String::as_str);
            text.or_else(|| thrown.downcast_ref::<&str>().copied()).unwrap_or_default().to_owned()
        });
        answer.send(asked).unwrap_or_else(|_| unreachable!("whoever asked waits"));
    };
    QUESTIONS.send(Box::new(question)).expect(PARSED);
    answered.recv().expect(PARSED).unwrap_or_else(|text| panic!("{text}"))
}

fn sources() -> Vec<SourceFile> {
    let parse = |path: PathBuf| {
        let text = tree::read(&path);
        let syntax = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let is_test_code = path.ends_with("tests.rs") || path.iter().any(|part| part == "tests");
        SourceFile { path, text, syntax, is_test_code }
    };
    let mut sources: Vec<_> = tree::files(&[".rs"]).into_iter().map(parse).collect();
    while mark_what_test_code_declares(&mut sources) {}
    sources
}

/// Whether another file turned out to be test code.
fn mark_what_test_code_declares(sources: &mut [SourceFile]) -> bool {
    let declared = sources.iter().flat_map(|source| {
        declared_files(source)
            .into_iter()
            .filter(|file| file.for_tests || source.is_test_code)
            .map(|file| file.path)
    });
    let declared: BTreeSet<_> = declared.collect();
    let mut marked = false;
    for source in sources.iter_mut().filter(|source| !source.is_test_code && declared.contains(&source.path))
    {
        source.is_test_code = true;
        marked = true;
    }
    marked
}

/// One function, method or nested function.
#[derive(Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Where it stands, from 1.
    pub line: usize,
    /// The names of its attributes: the last part of `#[tokio::test]` is `test`.
    pub attributes: BTreeSet<String>,
    /// Whether it is compiled for tests only.
    pub in_test_code: bool,
    /// The last part of the name of everything it calls: functions, methods and macros
    /// (`assert_eq!`).
    pub calls: BTreeSet<String>,
    /// Whether something in it fails a test: an assertion macro, in its own body or in a macro's
    /// tokens.
    pub asserts: bool,
}

impl Function {
    /// Whether a test runner runs it.
    #[must_use]
    pub fn is_test(&self) -> bool {
        self.attributes.contains("test")
    }
}

/// Every function of a file, those in `proptest!` blocks too.
#[must_use]
pub fn functions(source: &SourceFile) -> Vec<Function> {
    let mut finder =
        FunctionFinder { in_test_code: source.is_test_code, functions: Vec::new(), open: Vec::new() };
    finder.visit_file(&source.syntax);
    finder.functions
}

struct FunctionFinder {
    in_test_code: bool,
    functions: Vec<Function>,
    /// The functions around the place that is looked at, innermost last.
    open: Vec<Function>,
}

impl FunctionFinder {
    fn within(
        &mut self,
        signature: &syn::Signature,
        attributes: &[syn::Attribute],
        go_on: impl FnOnce(&mut Self),
    ) {
        self.open.push(Function {
            name: signature.ident.to_string(),
            line: signature.ident.span().start().line,
            attributes: attributes.iter().filter_map(|attribute| last_of(attribute.path())).collect(),
            in_test_code: self.in_test_code,
            calls: BTreeSet::new(),
            asserts: false,
        });
        go_on(self);
        self.functions.extend(self.open.pop());
    }

    fn note_call(&mut self, name: Option<String>) {
        if let (Some(function), Some(name)) = (self.open.last_mut(), name) {
            function.asserts |= is_assertion(&name);
            function.calls.insert(name);
        }
    }
}

impl<'ast> Visit<'ast> for FunctionFinder {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let outside = self.in_test_code;
        self.in_test_code |= is_for_tests(&module.attrs);
        visit::visit_item_mod(self, module);
        self.in_test_code = outside;
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.within(&function.sig, &function.attrs, |finder| visit::visit_item_fn(finder, function));
    }

    fn visit_impl_item_fn(&mut self, method: &'ast syn::ImplItemFn) {
        self.within(&method.sig, &method.attrs, |finder| visit::visit_impl_item_fn(finder, method));
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let syn::Expr::Path(path) = &*call.func {
            self.note_call(last_of(&path.path));
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.note_call(Some(call.method.to_string()));
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.note_call(last_of(&call.path));
        if last_of(&call.path).as_deref() == Some("proptest") {
            self.functions.extend(functions_of_proptest(&call.tokens));
        }
        for name in names_in(&call.tokens) {
            self.note_call(Some(name));
        }
        visit::visit_macro(self, call);
    }
}

/// `assert!`, `assert_eq!`, `prop_assert!`, `debug_assert!` ..., and what ends a test on a wrong
/// turn.
fn is_assertion(name: &str) -> bool {
    let name = name.strip_prefix("prop_").or_else(|| name.strip_prefix("debug_")).unwrap_or(name);
    name.starts_with("assert") || matches!(name, "panic" | "unreachable")
}

fn last_of(path: &syn::Path) -> Option<String> {
    path.segments.last().map(|segment| segment.ident.to_string())
}

/// Whether attributes keep an item to test builds: `#[cfg(test)]`, also among other conditions.
#[must_use]
pub fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    let condition = |attribute: &syn::Attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => names_in(&list.tokens),
        _ => BTreeSet::new(),
    };
    attributes.iter().any(|attribute| condition(attribute).contains("test"))
}

/// Every name in tokens, at any depth.
#[must_use]
pub fn names_in(tokens: &proc_macro2::TokenStream) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for token in tokens.clone() {
        match token {
            proc_macro2::TokenTree::Ident(name) => drop(names.insert(name.to_string())),
            proc_macro2::TokenTree::Group(group) => names.append(&mut names_in(&group.stream())),
            _ => {}
        }
    }
    names
}

/// The functions of a `proptest!` block, whose arguments are not Rust's:
/// `fn name(x in 0..9) { body }`.
fn functions_of_proptest(tokens: &proc_macro2::TokenStream) -> Vec<Function> {
    let tokens: Vec<_> = tokens.clone().into_iter().collect();
    let mut found = Vec::new();
    for (index, pair) in tokens.windows(2).enumerate() {
        let [proc_macro2::TokenTree::Ident(keyword), proc_macro2::TokenTree::Ident(name)] = pair else {
            continue;
        };
        if keyword != "fn" {
            continue;
        }
        let body = tokens[index..].iter().find_map(|token| match token {
            proc_macro2::TokenTree::Group(group) if group.delimiter() == proc_macro2::Delimiter::Brace => {
                Some(names_in(&group.stream()))
            }
            _ => None,
        });
        let calls = body.unwrap_or_default();
        found.push(Function {
            name: name.to_string(),
            line: name.span().start().line,
            attributes: ["test".to_owned()].into(),
            in_test_code: true,
            asserts: calls.iter().any(|name| is_assertion(name)),
            calls,
        });
    }
    found
}

/// Every path that a file writes or imports, in parts: `use std::{fs, net::TcpStream}` gives two.
#[must_use]
pub fn paths(source: &SourceFile) -> Vec<Vec<String>> {
    struct Paths(Vec<Vec<String>>);
    impl<'ast> Visit<'ast> for Paths {
        fn visit_path(&mut self, path: &'ast syn::Path) {
            self.0.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
            visit::visit_path(self, path);
        }
        fn visit_item_use(&mut self, import: &'ast syn::ItemUse) {
            flatten(&import.tree, &mut Vec::new(), &mut self.0);
        }
    }
    let mut paths = Paths(Vec::new());
    paths.visit_file(&source.syntax);
    paths.0
}

fn flatten(tree: &syn::UseTree, before: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    match tree {
        syn::UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, found);
            before.pop();
        }
        syn::UseTree::Name(name) => found.push([before.clone(), vec![name.ident.to_string()]].concat()),
        syn::UseTree::Rename(name) => found.push([before.clone(), vec![name.ident.to_string()]].concat()),
        syn::UseTree::Glob(_) => found.push(before.clone()),
        syn::UseTree::Group(group) => group.items.iter().for_each(|item| flatten(item, before, found)),
    }
}

/// A file that a `mod name;` line stands for, whether it exists or not.
pub struct Declared {
    /// Its path below the root.
    pub path: PathBuf,
    /// Whether the line is compiled for tests only.
    pub for_tests: bool,
}

/// The files that a file's `mod name;` lines stand for; each may be one of two.
#[must_use]
pub fn declared_files(source: &SourceFile) -> Vec<Declared> {
    let folder = source.path.parent().unwrap_or(Path::new(""));
    let stem = source.path.file_stem().unwrap_or_default();
    let is_root = ["lib.rs", "main.rs", "mod.rs"].iter().any(|name| source.path.ends_with(name))
        || is_target_root(&source.path);
    let own_folder = if is_root { folder.to_owned() } else { folder.join(stem) };
    let mut found = Vec::new();
    declared_in(&source.syntax.items, folder, &own_folder, &mut found);
    found
}

/// Tests and benches are crates of their own: their modules lie beside them.
#[must_use]
pub fn is_target_root(path: &Path) -> bool {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    match parts.as_slice() {
        [crates, _, src, file] if crates == "crates" && src == "src" => file == "lib.rs" || file == "main.rs",
        [crates, _, file] if crates == "crates" => file == "build.rs",
        [fuzz, targets, _] if fuzz == "fuzz" => targets == "fuzz_targets",
        [crates, _, kind, _] if crates == "crates" => {
            ["benches", "examples", "tests"].contains(&kind.as_ref())
        }
        [crates, _, kind, _, file] if crates == "crates" => {
            ["benches", "tests"].contains(&kind.as_ref()) && file == "main.rs"
        }
        _ => false,
    }
}

fn declared_in(items: &[syn::Item], folder: &Path, own_folder: &Path, found: &mut Vec<Declared>) {
    for item in items {
        let syn::Item::Mod(module) = item else { continue };
        let name = module.ident.to_string();
        let for_tests = is_for_tests(&module.attrs);
        let paths = match (&module.content, path_attribute(&module.attrs)) {
            (Some((_, items)), _) => {
                declared_in(items, folder, &own_folder.join(&name), found);
                Vec::new()
            }
            (None, Some(path)) => vec![folder.join(path)],
            (None, None) => {
                vec![own_folder.join(format!("{name}.rs")), own_folder.join(&name).join("mod.rs")]
            }
        };
        found.extend(paths.into_iter().map(|path| Declared { path, for_tests }));
    }
}

fn path_attribute(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> SourceFile {
        let syntax = syn::parse_file(text).expect("Rust");
        SourceFile { path: path.into(), text: text.to_owned(), syntax, is_test_code: false }
    }

    #[test]
    fn functions_are_found_with_what_they_call_and_whether_they_assert() {
        let found = functions(&source(
            "crates/x/src/lib.rs",
            "fn plain() { a::open(); }
             #[cfg(test)] mod tests {
                 #[test] fn direct() { assert_eq!(1, 1); }
                 #[tokio::test] #[ignore] async fn silent() { matches!(1, 1); tokio::time::sleep(d).await; }
                 proptest! { #[test] fn random(x in 0..9) { prop_assert!(x < 9); } }
             }",
        ));
        let told: Vec<_> = found
            .iter()
            .map(|function| {
                (function.name.as_str(), function.is_test(), function.in_test_code, function.asserts)
            })
            .collect();
        assert_eq!(
            told,
            [
                ("plain", false, false, false),
                ("direct", true, true, true),
                ("silent", true, true, false),
                ("random", true, true, true)
            ]
        );
        assert!(found[0].calls.contains("open"));
        assert!(found[2].calls.contains("sleep"));
        assert!(found[2].attributes.contains("ignore"));
    }

    #[test]
    fn imports_are_taken_apart() {
        let found = paths(&source("x.rs", "use std::{fs, net::{TcpStream as S}}; fn f() { redb::open(); }"));
        let told: Vec<_> = found.iter().map(|path| path.join("::")).collect();
        assert_eq!(told, ["std::fs", "std::net::TcpStream", "redb::open"]);
    }

    #[test]
    fn modules_lead_to_their_files() {
        let told = |path: &str, text: &str| -> Vec<String> {
            let files = declared_files(&source(path, text));
            files.iter().map(|file| format!("{} {}", file.path.display(), file.for_tests)).collect()
        };
        assert_eq!(
            told("crates/x/src/lib.rs", "mod a; #[cfg(test)] mod tests;"),
            [
                "crates/x/src/a.rs false",
                "crates/x/src/a/mod.rs false",
                "crates/x/src/tests.rs true",
                "crates/x/src/tests/mod.rs true"
            ]
        );
        assert_eq!(
            told("crates/x/src/a.rs", "mod b { mod c; }"),
            ["crates/x/src/a/b/c.rs false", "crates/x/src/a/b/c/mod.rs false"]
        );
        assert_eq!(told("crates/x/src/a.rs", "#[path = \"z.rs\"] mod b;"), ["crates/x/src/z.rs false"]);
    }
}
