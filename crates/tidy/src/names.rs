//! The names that Rust files declare, and those that were given up.

use syn::visit::{self, Visit};

use crate::rust::{self, SourceFile};

/// Names of types and traits that were given up, each with one that says more.
const OLD_TYPES: [(&str, &str); 20] = [
    ("Book", "DeviceTable, or the table of what"),
    ("Door", "PartitionHandle"),
    ("Fate", "WillOutcome, or the outcome of what"),
    ("Ground", "EdgeContext"),
    ("HandsOver", "HandOver"),
    ("Held", "JobReservation, or what is held"),
    ("Kept", "KeptAnswers, or what is kept"),
    ("LetIn", "GuardedCall, AdmittedCall"),
    ("Lot", "ParkedIndex"),
    ("News", "FollowerUpdate, or whose update"),
    ("Once", "Idempotency"),
    ("Outliving", "AfterDisconnect"),
    ("Outside", "EngineContext"),
    ("Own", "Ownership"),
    ("Pair", "NotificationState, or what the two are"),
    ("Repeats", "Idempotency"),
    ("Said", "ReportContent, or what was said"),
    ("Stretch", "MessageSlice, or a chunk of what"),
    ("Threshold", "Bootstrap"),
    ("Within", "Idempotency, or what it is within"),
];

/// Names of modules that were given up, each with one that says more.
const OLD_MODULES: [(&str, &str); 37] = [
    ("absence", "offline_session"),
    ("book", "table"),
    ("door", "partition_handle"),
    ("doors", "access"),
    ("filing", "placement"),
    ("greeting", "handshake"),
    ("ground", "edge_context"),
    ("guesses", "failed_auth"),
    ("habits", "middleware"),
    ("handshakes", "qos2"),
    ("held", "memory_budget"),
    ("keeper", "disk_threads, or what it keeps"),
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
    ("said", "settlements, or what was said"),
    ("show_out", "evict"),
    ("stretch", "slice, chunk"),
    ("talk", "protocol"),
    ("telling", "notifications"),
    ("threshold", "bootstrap"),
    ("unsettled", "pending_writes"),
    ("within", "idempotency"),
];

/// Names of functions, fields and variants, and of files of the console, that were given up, each
/// with one that says more.
const OLD_MEMBERS: [(&str, &str); 15] = [
    ("absence", "offline_session"),
    ("door", "partition_handle"),
    ("doors", "listeners, partitions"),
    ("figures", "metrics, stats"),
    ("filing", "placement"),
    ("greeting", "handshake"),
    ("ground", "edge_context"),
    ("guesses", "failed_auth"),
    ("habits", "middleware"),
    ("lot", "parked"),
    ("pacing", "backpressure"),
    ("show_out", "evict"),
    ("shown_out", "evicted"),
    ("talk", "protocol"),
    ("threshold", "bootstrap, or the limit of what"),
];

/// Words that were given up in every name that has them, each with what says more. A word is only
/// here if it means nothing else in any name: a door may be the one of a lock.
const OLD_WORDS: [(&str, &str); 8] = [
    ("guest", "pooled, or whose connection"),
    ("guests", "connections"),
    ("heir", "successor"),
    ("manners", "response_profile"),
    ("roster", "device_table"),
    ("sabotage", "fault_injection"),
    ("seat", "session_slot"),
    ("testator", "will_owner"),
];

/// The same in names of types, traits and modules only. Names of tests are sentences, which may
/// have these words.
const OLD_WORDS_OF_TYPES: [(&str, &str); 5] = [
    ("crowd", "admission, or many of what"),
    ("figures", "metrics, stats"),
    ("told", "result, or what was told"),
    ("turn", "permit, order, or what is next"),
    ("turns", "limiter, scheduler, or what is next"),
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
pub fn declared_names(source: &SourceFile) -> Vec<DeclaredName> {
    let mut names = Names(Vec::new());
    if rust::is_target_root(&source.path) {
        let name = source.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        names.0.push(DeclaredName { line: 1, name });
    }
    names.visit_file(&source.syntax);
    names.0
}

/// The names of functions, fields and variants that a file declares, wherever they stand in it.
#[must_use]
pub fn declared_members(source: &SourceFile) -> Vec<DeclaredName> {
    let mut members = MemberNames(Vec::new());
    members.visit_file(&source.syntax);
    members.0
}

/// The name to use in place of one that was given up for types, traits and modules.
#[must_use]
pub fn better_name(name: &str) -> Option<&'static str> {
    let old = [OLD_TYPES.as_slice(), OLD_MODULES.as_slice()].concat();
    let as_whole = old.into_iter().find(|(given_up, _)| *given_up == name).map(|(_, better)| better);
    as_whole.or_else(|| better_word(name, &[OLD_WORDS.as_slice(), OLD_WORDS_OF_TYPES.as_slice()].concat()))
}

/// The name to use in place of one that was given up for functions, fields, variants and files of
/// the console. How its words are joined does not matter.
#[must_use]
pub fn better_member(name: &str) -> Option<&'static str> {
    let plain = |name: &str| name.replace('_', "").to_lowercase();
    let as_whole = OLD_MEMBERS.into_iter().find(|(given_up, _)| plain(given_up) == plain(name));
    as_whole.map(|(_, better)| better).or_else(|| better_word(name, &OLD_WORDS))
}

/// The name to use in place of one that was given up for functions of product code. Helpers of
/// tests may say what was told.
#[must_use]
pub fn better_function(name: &str) -> Option<&'static str> {
    (name == "told").then_some("what it answers, or who was told of what")
}

fn better_word(name: &str, old: &[(&'static str, &'static str)]) -> Option<&'static str> {
    let words = words(name);
    old.iter().find(|(given_up, _)| words.iter().any(|word| word == given_up)).map(|(_, better)| *better)
}

/// The words of a name, in small letters: `MoveTurns` and `move_turns` have the same.
fn words(name: &str) -> Vec<String> {
    let mut parted = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() {
            parted.push('_');
        }
        parted.extend(letter.to_lowercase());
    }
    parted.split('_').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

impl DeclaredName {
    fn of(name: &syn::Ident) -> Self {
        Self { line: name.span().start().line, name: name.to_string() }
    }
}

struct Names(Vec<DeclaredName>);

impl Names {
    fn note(&mut self, name: &syn::Ident) {
        self.0.push(DeclaredName::of(name));
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

struct MemberNames(Vec<DeclaredName>);

impl<'ast> Visit<'ast> for MemberNames {
    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.0.push(DeclaredName::of(&signature.ident));
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        self.0.extend(field.ident.as_ref().map(DeclaredName::of));
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.0.push(DeclaredName::of(&variant.ident));
        visit::visit_variant(self, variant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> SourceFile {
        let syntax = syn::parse_file(text).expect("Rust");
        SourceFile { path: path.into(), text: text.to_owned(), syntax, is_test_code: false }
    }

    fn declared(path: &str, text: &str) -> Vec<(usize, String)> {
        let names = declared_names(&source(path, text));
        names.into_iter().map(|declared| (declared.line, declared.name)).collect()
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
        assert!(better_function("told").is_some() && better_function("told_of").is_none());
    }

    #[test]
    fn a_word_that_was_given_up_is_found_in_longer_names() {
        for name in
            ["ToldErrors", "FirstTold", "first_told", "OutOfTurn", "MoveTurns", "move_turns", "GuestPool"]
        {
            assert!(better_name(name).is_some(), "{name}");
        }
        for name in ["DoorLocks", "Returned", "turned_off", "Untold", "Crowded"] {
            assert_eq!(better_name(name), None, "{name}");
        }
        for name in ["pooled_guest", "PooledGuest", "has_heir", "SeatTaken"] {
            assert!(better_member(name).is_some(), "{name}");
        }
        for name in ["is_told", "OutcomeTold", "next_turn", "theirs", "seated"] {
            assert_eq!(better_member(name), None, "{name}");
        }
    }

    #[test]
    fn functions_fields_and_variants_are_found_at_any_depth() {
        let text = "struct S { heir: u8 }\nenum E { Guest { door: u8 }, Two(u8) }\n\
                    impl S {\n    fn greeting(&self) { fn talk() {} }\n}\ntrait T { fn seat(); }\n";
        let members = declared_members(&source("crates/x/src/a.rs", text)).into_iter();
        let found: Vec<_> = members.map(|declared| (declared.line, declared.name)).collect();
        let expected =
            [(1, "heir"), (2, "Guest"), (2, "door"), (2, "Two"), (4, "greeting"), (4, "talk"), (6, "seat")];
        assert_eq!(found, expected.map(|(line, name)| (line, name.to_owned())));
    }

    #[test]
    fn a_member_that_was_given_up_has_a_better_name_however_it_is_written() {
        for written in ["shown_out", "ShownOut", "shownOut"] {
            assert_eq!(better_member(written), Some("evicted"), "{written}");
        }
        assert_eq!(better_member("Figures"), Some("metrics, stats"));
        assert_eq!(better_member("heirs"), None);
    }
}
