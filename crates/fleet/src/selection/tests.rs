//! Selections: what is read and printed, and which devices they mean.

use proptest::prelude::*;

use super::*;

fn labels(text: &str) -> Vec<(String, String)> {
    let pair = |pair: &str| pair.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    text.split_whitespace().filter_map(pair).collect()
}

/// Whether a connected lock with labels `site=12 floor=2 empty=` and the client `acme` is meant.
fn is_meant(selector: &str) -> Result<bool, String> {
    let labels = labels("site=12 floor=2 empty= a.b-c=x_y");
    let device = Selectable {
        kind: "lock",
        labels: &labels,
        connection: Connection::Online,
        connected: true,
        answering: true,
        clients: &["acme", "other"],
    };
    let selection = Selection::parse(selector);
    selection.map(|selection| selection.matches(device)).map_err(|problem| problem.detail)
}

#[test]
fn a_selector_means_what_it_means_in_kubernetes() {
    for (selector, expect) in [
        ("", true),
        ("  ", true),
        ("site=12", true),
        ("site==12", true),
        (" site = 12 , floor=2 ", true),
        ("site=12,floor=3", false),
        ("site!=12", false),
        ("site!=13", true),
        ("room!=13", true),
        ("site in (11,12)", true),
        ("site in (11, 13)", false),
        ("site notin (11,13)", true),
        ("site notin (12)", false),
        ("room notin (1)", true),
        ("room in (1)", false),
        ("site", true),
        ("room", false),
        ("!site", false),
        ("! room", true),
        ("empty=", true),
        ("empty=\"\"", true),
        ("empty,site=\"12\"", true),
        ("a.b-c=x_y", true),
        ("kind=lock", true),
        ("kind in (face,barrier)", false),
        ("connection=online", true),
        ("connection!=lost", true),
        ("connected=true", true),
        ("connected=false", false),
        ("answering=true", true),
        ("answering notin (true)", false),
        ("client=acme", true),
        ("client=nobody", false),
        ("client!=acme", false),
        ("client notin (nobody)", true),
        ("client", true),
        ("!client", false),
    ] {
        assert_eq!(is_meant(selector), Ok(expect), "{selector}");
    }
}

#[test]
fn an_unreadable_selector_is_refused_with_the_position() {
    for (selector, at) in [
        (",", 0),
        ("a=1,", 4),
        ("a=1,,b", 4),
        ("a=1 b=2", 4),
        ("A=1", 0),
        ("a in", 4),
        ("a in 1", 5),
        ("a in ()", 6),
        ("a in (1", 7),
        ("a in (1 2)", 8),
        ("a is 1", 2),
        ("a!1", 2),
        ("a=\"x", 2),
        ("ж=1", 0),
        ("a=ж b", 4),
        ("a=\"\\x\"", 3),
        ("connected=maybe", 10),
        ("connection in (lost,found)", 20),
        ("!", 1),
    ] {
        let problem = Selection::parse(selector).expect_err(selector);
        assert_eq!(problem.code, "bad_selector", "{selector}");
        let position = format!("at character {at}:");
        assert!(problem.detail.contains(&position), "{selector}: {}", problem.detail);
    }
    for long in ["x".repeat(5_000), format!("kind=lock,connected={}", "x".repeat(5_000))] {
        let detail = Selection::parse(&long).expect_err("no selector").detail;
        assert!(detail.len() < 300, "{} bytes", detail.len());
    }
    let long = format!("a in ({})", "x,".repeat(SELECTOR_BYTES_MAX));
    assert_eq!(Selection::parse(&long).map_err(|problem| problem.code), Err("bad_selector"));
}

#[test]
fn a_place_is_short_for_labels() {
    let order: Vec<String> = ["country", "province", "city"].map(str::to_owned).to_vec();
    for (text, expect) in [
        ("CN", Ok("country=CN")),
        ("CN_52_5222", Ok("country=CN,province=52,city=5222")),
        ("CN_*_5222", Ok("country=CN,province,city=5222")),
        ("CN_52_5222_1", Err("bad_place")),
        ("CN__5222", Err("bad_place")),
        ("", Err("bad_place")),
    ] {
        let found = place(text, &order).map(|selection| selection.to_string());
        assert_eq!(found.map_err(|problem| problem.code), expect.map(str::to_owned), "{text}");
    }
    assert_eq!(place("CN", &[]).map_err(|problem| problem.code), Err("bad_place"));
}

#[test]
fn a_place_has_a_longest_length() {
    let order = vec!["country".to_owned()];
    let code = |text: &str| place(text, &order).map(drop).map_err(|problem| problem.code);
    assert_eq!(code(&"x".repeat(PLACE_BYTES_MAX)), Ok(()));
    assert_eq!(code(&"x".repeat(PLACE_BYTES_MAX + 1)), Err("bad_place"));
}

#[test]
fn only_a_selection_whose_text_means_the_same_is_kept() {
    // Written out, a space stands in front of each list.
    let repeated = "a in(b,c),".repeat(SELECTOR_BYTES_MAX / 10);
    let long = Selection::parse(repeated.trim_end_matches(',')).expect("just short enough");
    assert_eq!(long.check_kept().map_err(|problem| problem.code), Err("bad_selector"));
    let of_label = |label: &str| place("x", &[label.to_owned()]).expect("a place");
    assert_eq!(of_label("kind").check_kept().map_err(|problem| problem.code), Err("bad_place"));
    assert_eq!(of_label("country").check_kept(), Ok(()));
    assert_eq!(Selection::default().check_kept(), Ok(()));
}

#[test]
fn both_of_two_selections_must_hold() {
    let parse = |text| Selection::parse(text).expect("readable");
    assert_eq!(parse("a=1").and(parse("!b")).to_string(), "a=1,!b");
    assert!(parse("a,client!=x").asks_for_clients() && !parse("a").asks_for_clients());
}

fn requirement() -> impl Strategy<Value = Requirement> {
    let label = "[a-z][a-z0-9_.-]{0,6}".prop_map(|name| SelectionKey::named(&name));
    let open = prop_oneof![Just(SelectionKey::Kind), Just(SelectionKey::Client), label];
    let values = proptest::collection::btree_set(any::<String>().prop_map(Box::<str>::from), 1..4);
    let test = prop_oneof![
        Just(Test::Exists),
        Just(Test::Missing),
        values.clone().prop_map(Test::In),
        values.prop_map(Test::NotIn),
    ];
    // The other built-in keys take few values.
    (open, test)
        .prop_filter("a key of few values", |(key, _)| key.values().is_none())
        .prop_map(|(key, test)| Requirement { key, test })
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(requirements in proptest::collection::vec(requirement(), 0..4)) {
        let selection = Selection { requirements };
        let text = selection.to_string();
        prop_assert_eq!(Selection::parse(&text).map_err(|problem| problem.detail), Ok(selection), "{}", text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[a-c=!,()\"\\\\ in]{0,16}") {
        if let Ok(selection) = Selection::parse(&text) {
            prop_assert_eq!(Selection::parse(&selection.to_string()), Ok(selection));
        }
    }
}
