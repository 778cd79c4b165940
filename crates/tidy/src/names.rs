//! The names that Rust files declare for types, traits and modules, and those that were given up.

use syn::visit::{self, Visit};

use crate::rust::{self, Source};

/// Names of types and traits that were given up, each with one that says more.
const OLD_TYPES: [(&str, &str); 25] = [
    ("Book", "DeviceTable, or the table of what"),
    ("Crowd", "Admission"),
    ("Door", "PartitionHandle"),
    ("Fate", "WillOutcome, or the outcome of what"),
    ("Figures", "Metrics, QueueStats"),
    ("Ground", "EdgeContext"),
    ("Guest", "ConnectionPool"),
    ("HandsOver", "HandOver"),
    ("Held", "JobReservation, or what is held"),
    ("Kept", "KeptAnswers, or what is kept"),
    ("Lot", "ParkedIndex"),
    ("News", "FollowerUpdate, or whose update"),
    ("Once", "Idempotency"),
    ("Outside", "EngineContext"),
    ("Own", "Ownership"),
    ("Pair", "NotificationState, or what the two are"),
    ("Repeats", "Idempotency"),
    ("Roster", "DeviceTable"),
    ("Said", "ReportContent, or what was said"),
    ("Stretch", "MessageSlice, or a chunk of what"),
    ("Threshold", "Bootstrap"),
    ("Told", "CommitResult, ReadyWait, or what was told"),
    ("Turn", "StepContext"),
    ("TurnOrder", "RolloutOrder"),
    ("Within", "Idempotency, or what it is within"),
];

/// Names of modules that were given up, each with one that says more.
const OLD_MODULES: [(&str, &str); 43] = [
    ("absence", "offline_session"),
    ("book", "table"),
    ("crowd", "admission"),
    ("door", "partition_handle"),
    ("doors", "access"),
    ("figures", "metrics, stats"),
    ("filing", "placement"),
    ("greeting", "handshake"),
    ("ground", "edge_context"),
    ("guesses", "failed_auth"),
    ("guest", "connection_pool"),
    ("habits", "middleware"),
    ("handshakes", "qos2"),
    ("held", "memory_budget"),
    ("keeping", "retention"),
    ("kept", "retention, or what is kept"),
    ("large", "memory_budget"),
    ("last_words", "lingering_close"),
    ("leftover", "body_drain"),
    ("looking", "inspection"),
    ("lot", "parked_index"),
    ("news", "updates"),
    ("once", "idempotency"),
    ("outside", "engine_context"),
    ("own", "ownership"),
    ("pacing", "backpressure"),
    ("pair", "notification_state, or what the two are"),
    ("recent", "pending_writes"),
    ("repeats", "idempotency"),
    ("ring", "in_flight"),
    ("room", "memory_budget"),
    ("roster", "device_table"),
    ("sabotage", "fault_injection"),
    ("said", "settlements, or what was said"),
    ("show_out", "evict"),
    ("stretch", "slice, chunk"),
    ("talk", "protocol"),
    ("telling", "notifications"),
    ("threshold", "bootstrap"),
    ("told", "what was told"),
    ("turn", "step_context"),
    ("unsettled", "pending_writes"),
    ("within", "idempotency"),
];

/// A name, and the line that declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredName {
    /// The line, from 1.
    pub line: usize,
    /// The name.
    pub name: String,
}

/// The names of types, traits and modules that a file declares, those in functions and in modules
/// of its own too. A file that no `mod` line leads to, such as that of a test target, gives its
/// own name.
#[must_use]
pub fn declared_names(source: &Source) -> Vec<DeclaredName> {
    let mut names = Names(Vec::new());
    if rust::is_target_root(&source.path) {
        let name = source.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        names.0.push(DeclaredName { line: 1, name });
    }
    names.visit_file(&source.syntax);
    names.0
}

/// The name to use in place of one that was given up.
#[must_use]
pub fn better_name(name: &str) -> Option<&'static str> {
    let old = [OLD_TYPES.as_slice(), OLD_MODULES.as_slice()].concat();
    old.into_iter().find(|(given_up, _)| *given_up == name).map(|(_, better)| better)
}

struct Names(Vec<DeclaredName>);

impl Names {
    fn note(&mut self, name: &syn::Ident) {
        self.0.push(DeclaredName { line: name.span().start().line, name: name.to_string() });
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.note(&item.ident);
    }

    fn visit_item_union(&mut self, item: &'ast syn::ItemUnion) {
        self.note(&item.ident);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.note(&item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.note(&item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.note(&item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.note(&item.ident);
        visit::visit_item_mod(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(path: &str, text: &str) -> Vec<(usize, String)> {
        let syntax = syn::parse_file(text).expect("Rust");
        let source = Source { path: path.into(), text: text.to_owned(), syntax, is_test_code: false };
        declared_names(&source).into_iter().map(|declared| (declared.line, declared.name)).collect()
    }

    #[test]
    fn types_traits_and_modules_are_found_at_any_depth() {
        let text = "mod told;\npub struct Lot;\nmod inner {\n    pub(crate) enum Turn {}\n}\n\
                    fn f() {\n    type Door = u8;\n    let told = Told::new();\n}\ntrait Guest {}\n";
        let expected = [(1, "told"), (2, "Lot"), (3, "inner"), (4, "Turn"), (7, "Door"), (10, "Guest")];
        assert_eq!(declared("crates/x/src/a.rs", text), expected.map(|(line, name)| (line, name.to_owned())));
    }

    #[test]
    fn a_file_that_is_a_target_has_a_name_of_its_own() {
        assert_eq!(declared("crates/x/tests/crowd.rs", ""), [(1, "crowd".to_owned())]);
        assert!(declared("crates/x/src/crowd.rs", "").is_empty());
    }

    #[test]
    fn a_name_that_was_given_up_has_a_better_one() {
        assert_eq!(better_name("Door"), Some("PartitionHandle"));
        assert_eq!(better_name("figures"), Some("metrics, stats"));
        assert_eq!(better_name("Doorbell"), None);
        assert_eq!(better_name("once_only"), None);
    }
}
