//! The words that users see and that must not change unnoticed: codes of refusals, names of
//! metrics.
//!
//! They are found by how the code writes them, so a new way of writing one needs a line here. A
//! code is the text, or the constant, given to a constructor of `Problem`. A text is a code too if
//! it follows `"code"` in a macro, or stands in a function `code`. A metric is any text that begins
//! with the program's name, with a `*` for what is formatted into it.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use crate::rust::{SourceFile, is_for_tests};

/// How every metric begins.
const METRIC_PREFIX: &str = "fieldpost_";
/// The type that carries a refusal.
const REFUSAL: &str = "Problem";

/// What was found.
#[derive(Debug, Default)]
pub struct Words {
    /// Codes of refusals.
    pub codes: BTreeSet<String>,
    /// Names of metrics, as the code gives them: without what the exporter adds, `*` for what is
    /// formatted in.
    pub metrics: BTreeSet<String>,
}

/// The words of all files that are not test code.
#[must_use]
pub fn words<'a>(sources: impl Iterator<Item = &'a SourceFile>) -> Words {
    let mut found = Words::default();
    for source in sources.filter(|source| !source.is_test_code && source.crate_name() != "tidy") {
        let mut finder = WordFinder { constants: constants(&source.syntax), ..WordFinder::default() };
        finder.visit_file(&source.syntax);
        found.codes.append(&mut finder.words.codes);
        found.metrics.append(&mut finder.words.metrics);
    }
    found
}

/// The texts that a file's constants hold.
fn constants(file: &syn::File) -> BTreeMap<String, String> {
    struct Constants(BTreeMap<String, String>);
    impl<'ast> Visit<'ast> for Constants {
        fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
            if let Some(text) = literal(&item.expr) {
                self.0.insert(item.ident.to_string(), text);
            }
        }
    }
    let mut constants = Constants(BTreeMap::new());
    constants.visit_file(file);
    constants.0
}

#[derive(Default)]
struct WordFinder {
    constants: BTreeMap<String, String>,
    words: Words,
    within_code_function: bool,
    within_refusal: bool,
}

impl WordFinder {
    fn note_arguments(&mut self, call: &syn::ExprCall) {
        let text = |argument: &syn::Expr| match argument {
            syn::Expr::Path(path) => {
                self.constants.get(&path.path.segments.last()?.ident.to_string()).cloned()
            }
            other => literal(other),
        };
        let code = call.args.iter().find_map(text).filter(|text| is_code(text));
        self.words.codes.extend(code);
    }

    fn constructs_a_refusal(&self, call: &syn::ExprCall) -> bool {
        let syn::Expr::Path(path) = &*call.func else { return false };
        let mut parts = path.path.segments.iter().rev().skip(1);
        parts
            .next()
            .is_some_and(|part| part.ident == REFUSAL || (part.ident == "Self" && self.within_refusal))
    }

    fn in_function(&mut self, signature: &syn::Signature, go_on: impl FnOnce(&mut Self)) {
        let outside = self.within_code_function;
        self.within_code_function = signature.ident == "code";
        go_on(self);
        self.within_code_function = outside;
    }
}

impl<'ast> Visit<'ast> for WordFinder {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.within_refusal = matches!(&*item.self_ty, syn::Type::Path(path) if path.path.is_ident(REFUSAL));
        visit::visit_item_impl(self, item);
        self.within_refusal = false;
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.in_function(&function.sig, |finder| visit::visit_item_fn(finder, function));
    }

    fn visit_impl_item_fn(&mut self, method: &'ast syn::ImplItemFn) {
        self.in_function(&method.sig, |finder| visit::visit_impl_item_fn(finder, method));
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if self.constructs_a_refusal(call) {
            self.note_arguments(call);
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let texts = texts_in(&call.tokens);
        self.words.metrics.extend(texts.iter().filter_map(|text| metric(text)));
        // json!({"code": "starting"})
        let codes = texts.windows(2).filter(|pair| pair[0] == "code" && is_code(&pair[1]));
        self.words.codes.extend(codes.map(|pair| pair[1].clone()));
    }

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        let text = text.value();
        if self.within_code_function && is_code(&text) {
            self.words.codes.insert(text);
        } else {
            self.words.metrics.extend(metric(&text));
        }
    }
}

/// The metric that a text names.
fn metric(text: &str) -> Option<String> {
    let mut parts = text.split('{');
    let mut pattern = parts.next()?.to_owned();
    for part in parts {
        pattern.push('*');
        pattern.push_str(part.split_once('}')?.1);
    }
    (pattern.starts_with(METRIC_PREFIX) && is_code(&pattern.replace('*', "x"))).then_some(pattern)
}

/// Whether a name is one that a metric of the code may have once it is exported: with `_total` or a
/// unit added.
#[must_use]
pub fn is_exported_as(metric: &str, name: &str) -> bool {
    let Some((before, after)) = metric.split_once('*') else {
        return name.strip_prefix(metric).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
    };
    let rest = name.strip_prefix(before).and_then(|rest| rest.find('_').map(|end| &rest[end..]));
    rest.is_some_and(|rest| is_exported_as(after, rest))
}

/// Every text in tokens, at any depth.
fn texts_in(tokens: &proc_macro2::TokenStream) -> Vec<String> {
    let of_token = |token| match token {
        proc_macro2::TokenTree::Literal(literal) => match syn::Lit::new(literal) {
            syn::Lit::Str(text) => vec![text.value()],
            _ => Vec::new(),
        },
        proc_macro2::TokenTree::Group(group) => texts_in(&group.stream()),
        _ => Vec::new(),
    };
    tokens.clone().into_iter().flat_map(of_token).collect()
}

fn literal(expression: &syn::Expr) -> Option<String> {
    match expression {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}

/// A word in snake_case.
fn is_code(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && !text.ends_with('_')
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_metrics_are_found_where_they_are_written() {
        let text = r#"
            const TOPIC: &str = "unknown_topic";
            impl Problem { fn unreadable() -> Self { Self::new(400, "unreadable", "text for people") } }
            fn f() { Problem::not_allowed("invalid_id", format!("x")); base::Problem::new(422, TOPIC, "no_code"); }
            impl R { fn code(self) -> &'static str { match self { Self::A => "too_long" } } }
            fn g(r: &mut Registry) { r.register("fieldpost_x_y", "Help"); other("not_a_word_of_ours"); }
            fn h(way: &str) { let name = format!("fieldpost_{way}_reports"); }
            #[cfg(test)] mod tests { fn h() { Problem::not_allowed("only_in_a_test", ""); } }
        "#;
        let syntax = syn::parse_file(text).expect("Rust");
        let source = SourceFile { path: "x.rs".into(), text: text.to_owned(), syntax, is_test_code: false };
        let found = words([source].iter());
        let codes: Vec<_> = found.codes.iter().map(String::as_str).collect();
        assert_eq!(codes, ["invalid_id", "too_long", "unknown_topic", "unreadable"]);
        assert_eq!(found.metrics, ["fieldpost_*_reports".to_owned(), "fieldpost_x_y".to_owned()].into());
    }

    #[test]
    fn a_metric_is_known_by_its_exported_name() {
        for (metric, name, is) in [
            ("fieldpost_x_y", "fieldpost_x_y", true),
            ("fieldpost_x_y", "fieldpost_x_y_total", true),
            ("fieldpost_x_y", "fieldpost_x_yz", false),
            ("fieldpost_*_reports", "fieldpost_mqtt_reports_total", true),
            ("fieldpost_*_reports", "fieldpost_mqtt_packets_total", false),
        ] {
            assert_eq!(is_exported_as(metric, name), is, "{metric} {name}");
        }
    }
}
