//! Order, and what is held, against a server that takes or refuses calls as a whole.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

const DESTINATIONS: [&str; 3] = ["queue:a/q", "stream:a/s", "queue:a/r"];

#[derive(Clone, Debug)]
struct ModelRow {
    destination: &'static str,
    key: Option<String>,
    /// 0 to 2: the server refuses it; 3: it is known to be refused beforehand.
    luck: u8,
    alias: Option<u8>,
}

impl ModelRow {
    fn is_bad(&self) -> bool {
        self.luck < 4
    }
}

fn model_rows() -> impl Strategy<Value = Vec<ModelRow>> {
    let row = (0..3_usize, proptest::option::of(0..3_u8), 0..30_u8, proptest::option::weighted(0.2, 0..3_u8));
    proptest::collection::vec(row, 0..60).prop_map(|rows| {
        let made = |(place, key, luck, alias): (usize, Option<u8>, u8, Option<u8>)| ModelRow {
            destination: DESTINATIONS[place],
            key: key.map(|key| key.to_string()),
            luck,
            alias,
        };
        rows.into_iter().map(made).collect()
    })
}

fn refusal() -> RowRefusal {
    RowRefusal { status: 422, code: "bad".to_owned(), detail: String::new() }
}

/// Sends all; what the server took, in order, and what was refused.
fn sent(rows: &[ModelRow], on_refused: OnRefused) -> (Vec<i64>, Vec<i64>) {
    let (mut plan, mut held) = (SendPlan::default(), HeldKeys::default());
    for (id, row) in (0..).zip(rows) {
        let alias = row.alias.map(|alias| alias.to_string());
        let outgoing = OutgoingRow { id, key: row.key.clone(), alias, body: "{}".to_owned() };
        let outgoing = if row.luck == 3 { Err(refusal()) } else { Ok(outgoing) };
        plan.add(id, row.destination, row.key.as_deref(), outgoing);
    }
    let (mut taken, mut outcomes, mut sizes) = (Vec::new(), RowOutcomes::default(), CallSizes::default());
    loop {
        let calls = plan.next_calls((&mut held, on_refused), &sizes, &mut outcomes);
        if calls.is_empty() {
            break;
        }
        for call in calls {
            let mut aliases: Vec<_> = call.rows.iter().filter_map(|row| row.alias.clone()).collect();
            let of_all = aliases.len();
            aliases.sort_unstable();
            aliases.dedup();
            assert_eq!(aliases.len(), of_all, "an alias twice in a call");
            let is_bad = call.rows.iter().any(|row| rows[row.id as usize].is_bad());
            let verdict = if is_bad {
                CallVerdict::Refused(refusal())
            } else {
                taken.extend(call.rows.iter().map(|row| row.id));
                CallVerdict::Taken
            };
            let waits = plan.ended(call, verdict, (&mut held, on_refused), &mut sizes, &mut outcomes);
            assert_eq!(waits, None);
        }
    }
    assert_eq!(taken, outcomes.taken);
    (taken, outcomes.refused.into_iter().map(|(id, _)| id).collect())
}

/// What sending one row after another would have done.
fn expected(rows: &[ModelRow], on_refused: OnRefused) -> (Vec<i64>, Vec<i64>) {
    let (mut taken, mut refused, mut held) = (Vec::new(), Vec::new(), HeldKeys::default());
    for (id, row) in (0..).zip(rows) {
        if held.holds(row.destination, row.key.as_deref()) {
            continue;
        }
        if !row.is_bad() {
            taken.push(id);
            continue;
        }
        refused.push(id);
        if on_refused == OnRefused::Hold {
            held.hold(row.destination, row.key.as_deref());
        }
    }
    (taken, refused)
}

proptest! {
    #[test]
    fn calls_act_as_if_each_row_were_sent_alone(rows in model_rows(), holds in any::<bool>()) {
        let on_refused = if holds { OnRefused::Hold } else { OnRefused::Skip };
        let (taken, mut refused) = sent(&rows, on_refused);
        let (mut expect_taken, mut expect_refused) = expected(&rows, on_refused);
        let mut order: HashMap<&str, Vec<i64>> = HashMap::new();
        for id in &taken {
            order.entry(rows[*id as usize].destination).or_default().push(*id);
        }
        for ids in order.values() {
            prop_assert!(ids.is_sorted(), "{ids:?}");
        }
        let mut taken = taken;
        for ids in [&mut taken, &mut refused, &mut expect_taken, &mut expect_refused] {
            ids.sort_unstable();
        }
        prop_assert_eq!((taken, refused), (expect_taken, expect_refused));
    }
}

#[test]
fn a_destination_that_waits_gives_back_its_rows() {
    let (mut plan, mut held) = (SendPlan::default(), HeldKeys::default());
    for (id, destination) in [(4, "queue:a/q"), (5, "queue:a/r"), (6, "queue:a/q")] {
        let row = OutgoingRow { id, key: None, alias: None, body: "{}".to_owned() };
        plan.add(id, destination, None, Ok(row));
    }
    let (mut outcomes, mut sizes) = (RowOutcomes::default(), CallSizes::default());
    let calls = plan.next_calls((&mut held, OnRefused::Skip), &sizes, &mut outcomes);
    let ids: Vec<Vec<i64>> = calls.iter().map(|call| call.rows.iter().map(|row| row.id).collect()).collect();
    assert_eq!(ids, [vec![4, 6], vec![5]]);
    let [first, _] = calls.try_into().expect("two");
    let wait = CallVerdict::Wait { error: "later".to_owned(), retry_after: None };
    let waits = plan.ended(first, wait, (&mut held, OnRefused::Skip), &mut sizes, &mut outcomes);
    let waits = waits.expect("it waits");
    assert_eq!((waits.destination.as_str(), waits.first_id), ("queue:a/q", 4));
    assert!(plan.next_calls((&mut held, OnRefused::Skip), &sizes, &mut outcomes).is_empty());
}

/// A stream that is nearly full, and what is left for it in memory.
#[derive(Default)]
struct NearlyFull {
    room: usize,
    sizes: CallSizes,
    taken: Vec<i64>,
    /// Rows of each call.
    calls: Vec<usize>,
}

impl NearlyFull {
    /// Sends rows as they are read for it; the first one that waits.
    fn send(&mut self, ids: std::ops::Range<i64>) -> Option<i64> {
        let (mut plan, mut held, mut outcomes) = <(SendPlan, HeldKeys, RowOutcomes)>::default();
        for id in ids {
            let row = OutgoingRow { id, key: None, alias: None, body: "{}".to_owned() };
            plan.add(id, "stream:a/s", None, Ok(row));
        }
        self.calls.clear();
        loop {
            let calls = plan.next_calls((&mut held, OnRefused::Skip), &self.sizes, &mut outcomes);
            let Some(call) = calls.into_iter().next() else {
                self.taken.append(&mut outcomes.taken);
                return None;
            };
            self.calls.push(call.rows.len());
            let verdict = if call.rows.len() <= self.room {
                self.room -= call.rows.len();
                CallVerdict::Taken
            } else {
                CallVerdict::NoRoom { error: "full".to_owned(), retry_after: None }
            };
            let state = (&mut held, OnRefused::Skip);
            if let Some(waits) = plan.ended(call, verdict, state, &mut self.sizes, &mut outcomes) {
                self.taken.append(&mut outcomes.taken);
                return Some(waits.first_id);
            }
        }
    }
}

#[test]
fn what_has_room_is_taken_and_the_rest_waits_for_it_in_order() {
    let mut stream = NearlyFull { room: 5, ..NearlyFull::default() };
    assert_eq!(stream.send(0..8), Some(5), "all-or-none calls of 8 would wait for ever");
    assert_eq!(stream.calls, [8, 4, 4, 2, 1, 1]);
    assert_eq!(stream.send(5..8), Some(5));
    assert_eq!(stream.calls, [1], "while it is full one row asks");
    stream.room = 100;
    assert_eq!(stream.send(5..40), None);
    assert_eq!(stream.calls, [1, 2, 4, 8, 16, 4], "they grow again");
    assert_eq!(stream.taken, (0..40).collect::<Vec<_>>());
}

#[test]
fn a_call_is_the_apis() {
    let row = |id, body: &str| OutgoingRow { id, key: None, alias: None, body: body.to_owned() };
    let call = PlannedCall {
        destination: "queue:a/q".to_owned(),
        rows: vec![row(1, "{1}"), row(2, "{2}")],
        bytes: 0,
    };
    let (path, body) = call.request().expect("a right destination");
    assert_eq!(path, ["queues", "a", "q", "jobs"]);
    assert_eq!(body, b"{\"jobs\":[{1},{2}]}");
}

#[test]
fn rows_of_streams_are_durable_before_they_go() {
    for (destination, expect) in [("stream:a/s", Some(("durable", "true"))), ("queue:a/q", None)] {
        let call = PlannedCall { destination: destination.to_owned(), rows: Vec::new(), bytes: 0 };
        assert_eq!(call.parameter(), expect, "{destination}");
    }
}
