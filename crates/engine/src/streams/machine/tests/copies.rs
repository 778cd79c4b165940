//! Copies: what they hold up, where they begin, and how their moves are kept; and what messages
//! without a source are called.

use ::streams::{CopyLane, CopyProgress};
use records::{CopyDirection, StreamCopy};

use super::*;
use crate::streams::copy::{CopiedSpan, CopyFrom, CopyMove, NewCopy, PeerIdentity, ReportsTerms};
use crate::streams::input::{MoveCopyCall, PutCopyCall};
use crate::streams::{PlaceInRun, SubscriptionStart};

const MINUTE: Duration = Duration::from_secs(60);

fn to(copy: &str, node: &str) -> NewCopy {
    NewCopy {
        name: copy.into(),
        direction: CopyDirection::To,
        node: node.into(),
        other: name("orders"),
        segments: Vec::new(),
        from: None,
        live_permille: 0,
        rate: None,
        reports: None,
    }
}

fn step(from: u64, to: u64, peer: &str) -> CopyMove {
    let peer = PeerIdentity { node: "dc1".into(), stream: peer.into() };
    let lane = CopyLane::Backlog;
    CopyMove::Step(CopiedSpan { copied: to - from, ..CopiedSpan::of_nothing(lane, (from, to), peer) })
}

impl Bench {
    fn put_copy(&mut self, copy: NewCopy) -> Answered<bool> {
        let (reply, mut answer) = Reply::new();
        self.settle(vec![StreamsInput::PutCopy(Box::new(PutCopyCall {
            stream: name("orders"),
            copy,
            reply,
        }))]);
        answer.try_recv().expect("it is answered")
    }

    fn move_copy(&mut self, copy: &str, change: CopyMove) -> Answered<CopyProgress> {
        let row = self.copies().into_iter().find(|row| *row.name == *copy).expect("there");
        self.move_copy_read_as(row, change)
    }

    fn move_copy_read_as(&mut self, row: StreamCopy, change: CopyMove) -> Answered<CopyProgress> {
        let (reply, mut answer) = Reply::new();
        let (copy, row) = (row.name.clone(), Box::new(row));
        let call = MoveCopyCall { stream: name("orders"), copy, row, change, reply };
        self.settle(vec![StreamsInput::MoveCopy(Box::new(call))]);
        answer.try_recv().expect("it is answered")
    }

    fn pause_copy(&mut self, copy: &str, paused: bool) -> Answered<()> {
        let (reply, mut answer) = Reply::new();
        let input = StreamsInput::PauseCopy { stream: name("orders"), copy: copy.into(), paused, reply };
        self.settle(vec![input]);
        answer.try_recv().expect("it is answered")
    }

    fn delete_copy(&mut self, copy: &str) -> Answered<()> {
        let (reply, mut answer) = Reply::new();
        self.settle(vec![StreamsInput::DeleteCopy { stream: name("orders"), copy: copy.into(), reply }]);
        answer.try_recv().expect("it is answered")
    }

    fn copies(&self) -> Vec<StreamCopy> {
        self.store.view(id()).expect("opens").stream_copies(99).expect("reads")
    }

    fn origins(&self) -> Vec<(String, u64)> {
        let view = self.store.view(id()).expect("opens");
        let row = view.stream_of("shop", "orders").expect("reads").expect("there");
        row.origins.into_iter().map(|origin| (origin.source.into(), origin.from)).collect()
    }
}

fn from_source(source: &str, number: u64) -> NewMessage {
    NewMessage {
        source: Some(source.into()),
        external_id: Some(OwnedExternalId::Number(number)),
        ..message("x")
    }
}

#[test]
fn a_copy_stays_where_it_is_and_begins_anew_with_another_end() {
    let mut bench = Bench::new();
    bench.append_new("orders", &["x", "x", "x"]);
    assert_eq!(bench.put_copy(to("c", "dc1")), Ok(true));
    assert_eq!(bench.move_copy("c", step(0, 2, "dc1.a")), Ok(CopyProgress::Moved));
    assert_eq!(bench.put_copy(to("c", "dc1")), Ok(false));
    bench.load();
    assert_eq!((bench.copies()[0].position, bench.copies()[0].copied), (2, 2));
    assert_eq!(bench.move_copy("c", step(0, 2, "dc1.a")), Ok(CopyProgress::Elsewhere));
    assert_eq!(bench.move_copy("c", step(2, 3, "dc1.b")), Ok(CopyProgress::Reset));
    assert_eq!(bench.copies()[0].position, 0);
    assert_eq!(bench.put_copy(to("c", "dc2")), Ok(false));
    assert_eq!((bench.copies()[0].peer.clone(), bench.copies()[0].copied), (None, 0));
    let behind = NewCopy { from: Some(CopyFrom::Here(SubscriptionStart::Behind(99))), ..to("c", "dc2") };
    assert_eq!(bench.put_copy(behind).map_err(|problem| problem.code), Err("invalid_from"));
    assert_eq!(bench.delete("orders"), Ok(()));
    assert!(bench.copies().is_empty(), "they go with it");
}

#[test]
fn a_copy_that_is_put_again_as_it_is_goes_on() {
    let mut bench = Bench::new();
    assert_eq!(bench.put_copy(to("c", "dc1")), Ok(true));
    let running = bench.context.copies.all();
    assert_eq!((running.len(), bench.put_copy(to("c", "dc1"))), (1, Ok(false)));
    assert_eq!(bench.context.copies.all(), running);
    assert_eq!(bench.put_copy(NewCopy { rate: Some(9), ..to("c", "dc1") }), Ok(false));
    assert_ne!(bench.context.copies.all(), running, "what runs is begun anew");
}

#[test]
fn a_move_of_a_copy_that_was_made_again_meanwhile_moves_nothing() {
    let mut bench = Bench::new();
    bench.append_new("orders", &["x", "x"]);
    assert_eq!(bench.put_copy(to("c", "dc1")), Ok(true));
    let read = bench.copies().remove(0);
    assert_eq!(bench.put_copy(to("c", "dc2")), Ok(false));
    let stale = step(0, 2, "dc1.a");
    assert_eq!(bench.move_copy_read_as(read.clone(), stale.clone()), Ok(CopyProgress::Elsewhere));
    assert_eq!(bench.delete("orders"), Ok(()));
    bench.append_new("orders", &["y", "y"]);
    assert_eq!(bench.put_copy(to("c", "dc1")), Ok(true));
    assert_eq!(bench.move_copy_read_as(read, stale.clone()), Ok(CopyProgress::Elsewhere));
    assert_eq!((bench.copies()[0].position, bench.copies()[0].peer.clone()), (0, None));
    assert_eq!(bench.move_copy("c", stale), Ok(CopyProgress::Moved));
}

#[test]
fn a_copy_that_gets_more_segments_begins_again_where_it_began() {
    let of = |segments: &[&str]| NewCopy {
        segments: segments.iter().copied().map(Box::from).collect(),
        ..to("c", "dc1")
    };
    for (before, after, expect) in [
        (&["a", "b"][..], &["b"][..], 3),
        (&["a", "b"], &["b", "a"], 3),
        (&[], &["a"], 3),
        (&["a"], &["a", "b"], 1),
        (&["a"], &["b"], 1),
        (&["a"], &[], 1),
    ] {
        let mut bench = Bench::new();
        bench.append_new("orders", &["x", "x", "x"]);
        let from = Some(CopyFrom::Here(SubscriptionStart::Behind(1)));
        assert_eq!(bench.put_copy(NewCopy { from, ..of(before) }), Ok(true));
        let read = bench.copies().remove(0);
        assert_eq!(bench.move_copy("c", step(1, 3, "dc1.a")), Ok(CopyProgress::Moved));
        assert_eq!(bench.put_copy(of(after)), Ok(false));
        assert_eq!(bench.copies()[0].position, expect, "{before:?} {after:?}");
        if expect == 1 {
            let late = bench.move_copy_read_as(read, step(1, 3, "dc1.a"));
            assert_eq!(late, Ok(CopyProgress::Elsewhere), "what it took was of the segments before");
        }
    }
}

#[test]
fn what_a_copy_has_not_taken_outlives_its_age() {
    let mut bench = Bench::new();
    bench.set("orders", |settings| {
        settings.keep.age_ms = Some(60_000);
        settings.block.messages = 1;
    });
    assert_eq!(bench.put_copy(to("c", "dc1")), Ok(true));
    bench.append_new("orders", &["x", "x", "x"]);
    bench.work();
    let kept = |bench: &Bench| {
        let view = bench.store.view(id()).expect("opens");
        let stream = view.stream_of("shop", "orders").expect("reads").expect("there").incarnation;
        view.stream_tail(stream).expect("reads").expect("there").messages
    };
    bench.pass(3 * MINUTE);
    bench.work();
    assert_eq!(kept(&bench), 3, "none is copied");
    assert_eq!(bench.move_copy("c", step(0, 2, "dc1.a")), Ok(CopyProgress::Moved));
    bench.pass(MINUTE);
    bench.work();
    assert_eq!(kept(&bench), 1, "two are");
    assert_eq!(bench.pause_copy("c", true), Ok(()));
    bench.pass(MINUTE);
    bench.work();
    assert_eq!((kept(&bench), bench.copies()[0].dropped), (0, 1), "a copy that rests holds nothing up");
}

/// Appends as a copy does.
fn copied(bench: &mut Bench, messages: Vec<NewMessage>) -> Vec<AppendOutcome> {
    let (reply, mut answer) = Reply::new();
    let call = AppendCall {
        is_durable: true,
        taken_by: Some(Arc::default()),
        ..AppendCall::new(name("orders"), messages, reply)
    };
    bench.settle(vec![StreamsInput::Append(Box::new(call))]);
    let answered: Answered<Vec<AppendOutcome>> = answer.try_recv().expect("it is answered");
    answered.expect("appended")
}

#[test]
fn a_message_that_comes_back_is_known() {
    let mut bench = Bench::new();
    bench.append_new("orders", &["x", "y"]);
    let own = bench.origins();
    assert_eq!((own.len(), own[0].1), (1, 1));
    let back = bench.append("orders", vec![from_source(&own[0].0, 2)]);
    assert!(matches!(back[..], [AppendOutcome::Duplicate(_)]));
    for ahead in [3, 4] {
        let messages = vec![message("z"), from_source(&own[0].0, ahead)];
        let refused = bench.begin("orders", messages, None).try_recv().expect("it is answered");
        assert_eq!(refused.map_err(|refused| refused.code), Err("reserved_source"), "{ahead}");
    }
    let other = copied(&mut bench, vec![from_source(&own[0].0, 4), from_source("dc1.b", 2)]);
    assert_eq!(other, [AppendOutcome::Appended(3), AppendOutcome::Appended(4)]);
    assert_eq!(bench.delete("orders"), Ok(()));
    bench.append_new("orders", &["z"]);
    assert_ne!(bench.origins()[0].0, own[0].0, "made again, it is another stream");
}

#[test]
fn an_append_for_another_stream_is_refused_and_so_are_those_behind_it() {
    let mut bench = Bench::new();
    bench.append_new("orders", &["x"]);
    let view = bench.store.view(id()).expect("opens");
    let of = view.stream_of("shop", "orders").expect("reads").expect("there").incarnation;
    drop(view);
    let append_for = |bench: &mut Bench, place| {
        let (reply, mut answer) = Reply::new();
        let call = AppendCall {
            run: Some(PlaceInRun::of_sender(7, place)),
            is_durable: true,
            taken_by: Some(Arc::new(std::sync::OnceLock::from(of))),
            ..AppendCall::new(name("orders"), vec![message("y")], reply)
        };
        bench.settle(vec![StreamsInput::Append(Box::new(call))]);
        let answered: Answered<Vec<AppendOutcome>> = answer.try_recv().expect("it is answered");
        answered.map(|outcomes| outcomes.len()).map_err(|refused| refused.code)
    };
    assert_eq!(append_for(&mut bench, 0), Ok(1));
    assert_eq!(bench.delete("orders"), Ok(()));
    assert_eq!(append_for(&mut bench, 1), Err("other_stream"), "there is none");
    assert_eq!(append_for(&mut bench, 2), Err("busy"), "the one before it was not taken");
    assert_eq!(bench.append_new("orders", &["z"]), [1], "nothing was appended");
    assert_eq!(append_for(&mut bench, 0), Err("other_stream"), "it is another one");
}

#[test]
fn what_follows_messages_that_went_with_their_stream_is_refused() {
    let mut bench = Bench::new();
    let append = |place| {
        let (reply, answer) = Reply::new();
        let run = Some(PlaceInRun::of_sender(7, place));
        let call = AppendCall { run, ..AppendCall::new(name("orders"), vec![message("y")], reply) };
        (StreamsInput::Append(Box::new(call)), answer)
    };
    let ((first, of_first), (second, of_second)) = (append(0), append(1));
    let (reply, _deleted) = Reply::new();
    bench.settle(vec![first, StreamsInput::Delete { stream: name("orders"), reply }, second]);
    let codes = [of_first, of_second].map(|mut answer| {
        let answered: Answered<Vec<AppendOutcome>> = answer.try_recv().expect("it is answered");
        answered.expect_err("is refused").code
    });
    assert_eq!(codes, ["unavailable", "busy"]);
}

#[test]
fn a_durable_append_is_saved_at_once_in_every_mode() {
    for mode in SaveMode::ALL {
        let mut bench = Bench::new();
        bench.set_mode("orders", mode);
        let (reply, mut answer) = Reply::new();
        let call =
            AppendCall { is_durable: true, ..AppendCall::new(name("orders"), vec![message("x")], reply) };
        bench.hold();
        bench.settle(vec![StreamsInput::Append(Box::new(call))]);
        assert!(answer.try_recv().is_err(), "{mode:?}: not before it is durable");
        bench.write_held();
        assert!(answer.try_recv().expect("answered").is_ok(), "{mode:?}");
        bench.load();
        let view = bench.store.view(id()).expect("opens");
        let stream = view.stream_of("shop", "orders").expect("reads").expect("there").incarnation;
        assert_eq!(view.stream_tail(stream).expect("reads").expect("there").messages, 1, "{mode:?}");
    }
}

#[test]
fn a_copy_of_reports_gathers_under_one_name_until_it_is_made_again() {
    let mut bench = Bench::new();
    bench.append_new("orders", &["x", "x", "x"]);
    let reports = |selector: Option<&str>| NewCopy {
        reports: Some(ReportsTerms { selector: selector.map(Box::from) }),
        ..to("dc1", "dc1")
    };
    let gathers = |bench: &Bench| bench.context.copies.gathering();
    bench.put_copy(reports(None)).expect("allowed");
    assert_eq!(bench.copies()[0].position, 3, "what was there before is none of its reports");
    bench.append_new("orders", &["x", "x"]);
    let first = gathers(&bench);
    assert_eq!((first.len(), first[0].selection.as_ref()), (1, None));
    bench.put_copy(reports(Some("site=12"))).expect("allowed");
    let narrowed = gathers(&bench);
    assert_eq!((narrowed[0].gather, narrowed[0].selection.is_some()), (first[0].gather, true));
    bench.pause_copy("dc1", true).expect("there");
    assert_eq!(gathers(&bench), narrowed, "one that rests gathers on");
    bench.load();
    assert_eq!(gathers(&bench), narrowed);
    assert_eq!(bench.move_copy("dc1", step(3, 4, "reports")), Ok(CopyProgress::Moved));
    bench.put_copy(NewCopy { node: "dc2".into(), ..reports(None) }).expect("allowed");
    assert_eq!(bench.copies()[0].position, 4, "the other node gets what this one did not");
    bench.put_copy(to("dc1", "dc1")).expect("allowed");
    assert_eq!(gathers(&bench), [], "it is of kind messages now");
    bench.put_copy(reports(None)).expect("allowed");
    assert_ne!(gathers(&bench)[0].gather, first[0].gather, "its numbers begin anew");
    bench.delete_copy("dc1").expect("there");
    assert_eq!(gathers(&bench), []);
}
