//! Subscriptions: durable before they are answered, what a push holds up, and what goes with a
//! stream.

use ::streams::SubscriptionStart;
use records::StreamSubscription;

use super::*;
use crate::streams::input::{CommitCall, PutSubscriptionCall, PutSubscriptionOutcome};
use crate::streams::{NewSubscription, NewSubscriptionPush};

const MINUTE: Duration = Duration::from_secs(60);

fn read_by(name: &str) -> NewSubscription {
    NewSubscription { name: name.into(), from: None, segments: Vec::new(), push: None }
}

fn pushed(name: &str) -> NewSubscription {
    let push = NewSubscriptionPush {
        url: "https://shop.example/".into(),
        max: 10,
        secret: [7; 32].as_slice().into(),
        is_made: true,
    };
    NewSubscription { push: Some(push), ..read_by(name) }
}

impl Bench {
    fn put(&mut self, subscription: NewSubscription) -> Answered<PutSubscriptionOutcome> {
        let (reply, mut answer) = Reply::new();
        let call = PutSubscriptionCall { stream: name("orders"), subscription, reply };
        self.settle(vec![StreamsInput::PutSubscription(Box::new(call))]);
        answer.try_recv().expect("it is answered")
    }

    fn begin_commit(
        &mut self,
        subscription: &str,
        (id, rewinds): (u64, bool),
        pushed_from: Option<u64>,
    ) -> oneshot::Receiver<Answered<()>> {
        let (reply, answer) = Reply::new();
        let subscription = subscription.into();
        let call = CommitCall { stream: name("orders"), subscription, id, rewinds, pushed_from, reply };
        self.settle(vec![StreamsInput::Commit(Box::new(call))]);
        answer
    }

    fn commit(&mut self, subscription: &str, id: u64) -> Answered<()> {
        self.begin_commit(subscription, (id, false), None).try_recv().expect("it is answered")
    }

    fn subscriptions(&self) -> Vec<StreamSubscription> {
        self.store.view(id()).expect("opens").subscriptions(99).expect("reads")
    }

    fn positions(&self) -> Vec<(String, u64)> {
        self.subscriptions().into_iter().map(|one| (one.name.into(), one.position)).collect()
    }

    fn generations(&self) -> Vec<u64> {
        self.context.pushes.all().iter().map(|target| target.generation).collect()
    }
}

fn code<T>(answer: Answered<T>) -> Option<&'static str> {
    answer.err().map(|problem| problem.code)
}

#[test]
fn a_subscription_begins_where_it_is_asked_to_and_stays_there() {
    let mut bench = Bench::new();
    assert!(bench.put(read_by("a")).expect("made").is_new, "and the stream with it");
    bench.append_new("orders", &["x", "x", "x"]);
    let at_end = NewSubscription { from: Some(SubscriptionStart::End), ..read_by("b") };
    assert!(bench.put(at_end).expect("made").is_new);
    assert_eq!(bench.commit("a", 2), Ok(()));
    assert!(!bench.put(read_by("a")).expect("changed").is_new);
    let expect = [("a".to_owned(), 2), ("b".to_owned(), 3)];
    assert_eq!(bench.positions(), expect);
    bench.load();
    assert_eq!(code(bench.commit("a", 1)), Some("position_behind"));
    assert_eq!(code(bench.commit("a", 4)), Some("unknown_message"));
    assert_eq!(code(bench.commit("c", 1)), Some("unknown_subscription"));
    assert_eq!(bench.positions(), expect);
    let back = NewSubscription { from: Some(SubscriptionStart::Start), ..read_by("a") };
    bench.put(back).expect("changed");
    assert_eq!(bench.positions()[0].1, 0);
}

#[test]
fn a_commit_is_durable_before_it_is_answered() {
    let mut bench = Bench::new();
    bench.put(read_by("a")).expect("made");
    bench.append_new("orders", &["x", "x"]);
    bench.hold();
    let mut first = bench.begin_commit("a", (2, false), None);
    let mut behind = bench.begin_commit("a", (1, false), None);
    assert!(first.try_recv().is_err() && behind.try_recv().is_err(), "nothing is durable");
    bench.write_held();
    assert_eq!(first.try_recv().expect("answered"), Ok(()));
    assert_eq!(code(behind.try_recv().expect("answered")), Some("position_behind"));
    bench.hold();
    let mut lost = bench.begin_commit("a", (1, true), None);
    bench.load();
    assert!(lost.try_recv().is_err(), "it was never answered");
    assert_eq!(bench.positions(), [("a".to_owned(), 2)]);
}

#[test]
fn a_push_commits_only_from_where_it_began() {
    let mut bench = Bench::new();
    let secret = bench.put(pushed("a")).expect("made").made_secret;
    assert!(secret.is_some() && bench.put(pushed("a")).expect("changed").made_secret.is_none(), "kept");
    bench.append_new("orders", &["x", "x", "x"]);
    let before = bench.generations();
    let mut moved = bench.begin_commit("a", (2, false), Some(0));
    assert_eq!(moved.try_recv().expect("answered"), Ok(()));
    assert_eq!(bench.generations(), before, "its own posts change nothing");
    let mut stale = bench.begin_commit("a", (3, false), Some(0));
    assert_eq!(code(stale.try_recv().expect("answered")), Some("position_moved"));
    bench.begin_commit("a", (1, true), None).try_recv().expect("answered").expect("moved");
    assert_ne!(bench.generations(), before, "whoever pushes begins anew");
    bench.load();
    assert_eq!(bench.generations().len(), 1, "it is pushed after a start too");
    bench.put(read_by("a")).expect("changed");
    assert_eq!(bench.generations(), []);
}

#[test]
fn what_a_push_has_not_taken_outlives_its_age() {
    let mut bench = Bench::new();
    bench.set("orders", |settings| {
        settings.block.messages = 2;
        settings.keep.age_ms = Some(600_000);
    });
    bench.put(pushed("a")).expect("made");
    bench.put(read_by("slow")).expect("made");
    bench.append_new("orders", &["x", "x", "x", "x"]);
    assert_eq!(bench.work(), 2);
    bench.pass(MINUTE * 60);
    bench.load();
    bench.pass(MINUTE * 60);
    bench.work();
    assert_eq!(bench.all("orders").len(), 4, "the push has taken nothing");
    bench.begin_commit("a", (2, false), Some(0)).try_recv().expect("answered").expect("moved");
    bench.work();
    assert_eq!(bench.all("orders").len(), 2, "a block goes once it is taken");
    let (reply, mut answer) = Reply::new();
    let gone = StreamsInput::DeleteSubscription { stream: name("orders"), subscription: "a".into(), reply };
    bench.settle(vec![gone]);
    assert_eq!(answer.try_recv().expect("answered"), Ok(()));
    bench.work();
    assert_eq!(bench.all("orders").len(), 0, "one that is read holds nothing up");
}

#[test]
fn subscriptions_go_with_their_stream() {
    let mut bench = Bench::new();
    bench.put(pushed("a")).expect("made");
    bench.put(read_by("b")).expect("made");
    bench.delete("orders").expect("deleted");
    assert_eq!((bench.subscriptions(), bench.generations()), (vec![], vec![]));
    assert_eq!(code(bench.commit("a", 1)), Some("unknown_stream"));
}

#[test]
fn a_stream_has_only_so_many_subscriptions() {
    let mut bench = Bench::new();
    for number in 0..base::limits::SUBSCRIPTIONS_PER_STREAM_MAX {
        bench.put(read_by(&format!("r{number}"))).expect("made");
    }
    assert_eq!(code(bench.put(read_by("more"))), Some("too_many_subscriptions"));
    assert!(!bench.put(read_by("r0")).expect("changed").is_new);
}

#[test]
fn a_position_never_passes_what_waits_for_its_save() {
    let mut bench = Bench::new();
    bench.set_mode("orders", SaveMode::Wait);
    bench.put(read_by("a")).expect("made");
    let _waiting = bench.begin("orders", vec![message("x")], None);
    let at_end = NewSubscription { from: Some(SubscriptionStart::End), ..read_by("b") };
    bench.put(at_end).expect("made");
    assert_eq!(code(bench.commit("a", 1)), Some("unknown_message"));
    bench.load();
    // The message that waited was lost, and another one has its id.
    let _again = bench.begin("orders", vec![message("y")], None);
    bench.pass(MINUTE);
    assert_eq!(bench.positions(), [("a".to_owned(), 0), ("b".to_owned(), 0)]);
    assert_eq!(bench.all("orders"), of(1..=1, "y"));
}

#[test]
fn a_subscription_that_is_refused_makes_no_stream() {
    let mut bench = Bench::new();
    let beyond = NewSubscription { from: Some(SubscriptionStart::Behind(5)), ..read_by("a") };
    assert_eq!(code(bench.put(beyond)), Some("invalid_from"));
    assert!(bench.read("orders", 0).is_err(), "there is no stream");
}
