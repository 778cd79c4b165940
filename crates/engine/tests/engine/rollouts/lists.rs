//! Lists of rollouts and of bulk assignments, and how many a token may have going on.

use engine::queries::FoundRollouts;

use super::*;

#[tokio::test]
async fn rollouts_are_found_among_large_bulk_assignments_in_several_searches() {
    let fleet = Fleet::of(1, 1).await;
    let value: Box<str> = format!("\"{}\"", "x".repeat(1 << 20)).into();
    let entries = || (0..4).map(|n| RolloutEntry { key: n.to_string().into(), value: Some(value.clone()) });
    for n in 0..9 {
        let work = if n % 8 == 0 {
            RolloutWork::Command(Box::new(command()))
        } else {
            RolloutWork::Entries(entries().collect())
        };
        let new = NewRollout { devices: Some(vec![id(99)]), ..NewRollout::of(work, n) };
        fleet.engine.rollouts().put(&format!("r-{n}"), new).await.expect("begun");
    }
    let queries = fleet.engine.queries();
    let ids = |found: Vec<TrackedRollout>| -> Vec<_> {
        found.into_iter().map(|found| found.rollout.id.to_string()).collect()
    };
    let (first, stopped) = queries.rollouts(None, 100).expect("readable");
    assert_eq!((ids(first), stopped.as_deref()), (vec!["r-0".to_owned()], Some("r-4")));
    let (none, stopped) = queries.rollouts(stopped.as_deref(), 100).expect("readable");
    assert_eq!((ids(none), stopped.as_deref()), (vec!["r-8".to_owned()], None));
    let (first, stopped) = queries.rollouts(None, 1).expect("readable");
    assert_eq!((ids(first), stopped), (vec!["r-0".to_owned()], None));
}

#[tokio::test]
async fn a_token_has_a_share_of_the_rollouts_that_have_not_ended() {
    let fleet = Fleet::of(1, 0).await;
    let put = async |number: u128, token: &str| {
        let mut new = NewRollout::of(RolloutWork::Command(Box::new(command())), number);
        (new.selection, new.token) = (Some(Selection::default()), Some(token.into()));
        let put = fleet.engine.rollouts().put(&format!("r-{number}"), new).await;
        put.map(|(_, is_new)| is_new).map_err(|problem| problem.code)
    };
    for number in 0..500 {
        assert_eq!(put(number, "a").await, Ok(true));
    }
    assert_eq!(put(500, "a").await, Err("too_many_rollouts"));
    assert_eq!(put(499, "a").await, Ok(false), "a repeat begins nothing");
    assert_eq!(put(500, "b").await, Ok(true));
}

#[tokio::test]
async fn bulk_assignments_have_a_list_of_their_own() {
    let fleet = Fleet::of(1, 0).await;
    let entry = RolloutEntry { key: "mode".into(), value: Some("1".into()) };
    for (id, work) in [
        ("b-1", RolloutWork::Entries(vec![entry.clone()])),
        ("r-1", RolloutWork::Command(Box::new(command()))),
        ("b-2", RolloutWork::Entries(vec![entry])),
    ] {
        let mut new = NewRollout::of(work, 1);
        new.selection = Some(Selection::default());
        fleet.engine.rollouts().put(id, new).await.expect("begun");
    }
    let queries = fleet.engine.queries();
    let ids = |found: FoundRollouts| -> Vec<String> {
        found.0.iter().map(|found| found.rollout.id.to_string()).collect()
    };
    assert_eq!(ids(queries.rollouts(None, 10).expect("readable")), ["r-1"]);
    assert_eq!(ids(queries.bulk_assignments(None, 10).expect("readable")), ["b-1", "b-2"]);
    assert_eq!(ids(queries.bulk_assignments(None, 1).expect("readable")), ["b-1"]);
    assert_eq!(ids(queries.bulk_assignments(Some("b-1"), 1).expect("readable")), ["b-2"]);
}
