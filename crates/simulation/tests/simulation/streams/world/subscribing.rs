//! Those who make, change and delete subscriptions and move their positions, and what they are
//! answered.

use std::rc::Rc;

use base::{Incarnation, Problem};
use engine::kernel::reply::Reply;
use engine::streams::input::{CommitCall, PutSubscriptionCall};
use engine::streams::{PutSubscriptionOutcome, StreamsInput, SubscriptionStart};

use super::{Answer, MeantInput, NAMESPACE, Then, World, partition, stream_name};
use crate::harness::calls::Waiting;
use crate::harness::violation::{Checked, Invariant};
use crate::streams::asked::{
    AskedChange, AskedCommit, AskedPush, AskedSubscription, AskedTerms, SubscriptionKey,
};
use crate::streams::changes::SeenSubscription;
use crate::streams::fault_injection::{COMMIT_ANSWERED_EARLY, REWIND_FORGOTTEN};

/// Names of subscriptions of a stream.
const SUBSCRIPTIONS: u64 = 3;
/// An id that no message ever has.
const NEVER_GIVEN: u64 = 1 << 40;

impl World {
    pub(super) fn any_subscription(&self) -> SubscriptionKey {
        let name = format!("r{}", self.machine.random.below(SUBSCRIPTIONS)).into();
        SubscriptionKey { stream: self.any_name(), name }
    }

    /// An id that a message of a stream may have, or 0, or one that none has.
    pub(super) fn any_id(&self, stream: &str) -> u64 {
        let random = &self.machine.random;
        if random.chance(1, 10) {
            return NEVER_GIVEN;
        }
        let Some((of, found)) = self.model.present.named(stream) else { return 0 };
        let newest = self.ledger.of(of).map(|(id, _)| id).max().unwrap_or(0).max(found.last);
        random.below(newest + 1)
    }

    pub(super) fn subscribe(&mut self) {
        let key = self.any_subscription();
        let terms = self.any_terms(&key);
        self.machine.trace.note(format_args!("subscribe {key:?}: {terms:?}"));
        let (reply, receiver) = Reply::new();
        let (stream, subscription) = (stream_name(&key.stream), terms.new_subscription(&key.name));
        let call = PutSubscriptionCall { stream, subscription, reply };
        let input = StreamsInput::PutSubscription(Box::new(call));
        let waiting = Waiting::on(receiver, Answer::Subscribed);
        self.ask_about((key, AskedChange::Put(terms)), input, waiting);
    }

    fn any_terms(&self, key: &SubscriptionKey) -> AskedTerms {
        let random = &self.machine.random;
        let from = match random.below(8) {
            0 => Some(SubscriptionStart::Start),
            1 => Some(SubscriptionStart::End),
            2 => Some(SubscriptionStart::Behind(self.any_id(&key.stream))),
            _ => None,
        };
        let segments =
            if random.chance(1, 4) { vec![format!("g{}", random.below(3)).into()] } else { Vec::new() };
        let push = random.chance(1, 3).then(|| AskedPush {
            url: format!("https://shop.example/{}", random.below(3)).into(),
            max: 1 + random.below(20) as u32,
            secret: vec![random.below(200) as u8; 24].into(),
            is_made: random.chance(1, 2),
        });
        AskedTerms { from, segments, push }
    }

    pub(super) fn unsubscribe(&mut self) {
        let key = self.any_subscription();
        // Without a stream nothing is asked.
        let Some(of) = self.seen_stream(&key.stream) else { return };
        self.machine.trace.note(format_args!("unsubscribe {key:?}"));
        let (reply, receiver) = Reply::new();
        let (stream, subscription) = (stream_name(&key.stream), key.name.clone());
        let input = StreamsInput::DeleteSubscription { stream, subscription, reply };
        let waiting = Waiting::on(receiver, Answer::Done);
        self.ask_about((key, AskedChange::Delete { of }), input, waiting);
    }

    /// The stream of a name, as whoever reads finds it.
    pub(super) fn seen_stream(&self, name: &str) -> Option<Incarnation> {
        let view = self.server.as_ref()?.context.kernel.store.view(partition()).ok()?;
        view.stream_of(NAMESPACE, name).ok()?.map(|row| row.incarnation)
    }

    /// Has a position move.
    pub(super) fn ask_commit(&mut self, key: SubscriptionKey, commit: AskedCommit) {
        self.machine.trace.note(format_args!("{key:?}: {commit:?}"));
        if self.machine.injects(COMMIT_ANSWERED_EARLY) {
            self.positions.told(&key, self.model.latest_shown(), Some(commit.id));
        }
        let AskedCommit { id, rewinds, pushed_from } = commit;
        let rewinds = rewinds && !self.machine.injects(REWIND_FORGOTTEN);
        let (reply, receiver) = Reply::new();
        let (stream, subscription) = (stream_name(&key.stream), key.name.clone());
        let call = CommitCall { stream, subscription, id, rewinds, pushed_from, reply };
        let input = StreamsInput::Commit(Box::new(call));
        let waiting = Waiting::on(receiver, Answer::Done);
        self.ask_about((key, AskedChange::Commit(commit)), input, waiting);
    }

    fn ask_about(
        &mut self,
        (key, change): (SubscriptionKey, AskedChange),
        input: StreamsInput,
        waiting: Waiting<Answer>,
    ) {
        let asked = Rc::new(AskedSubscription { key, change });
        let then = Then::Subscription(Rc::clone(&asked));
        self.ask((input, move |call| MeantInput::Subscription { call, asked }), waiting, then);
    }

    /// Whether a call about a subscription is under way.
    pub(super) fn is_asked_about(&self, key: &SubscriptionKey) -> bool {
        let is_it = |then: &Then| matches!(then, Then::Subscription(asked) if asked.key == *key);
        self.calls.waiting.iter().any(|call| is_it(&call.then))
    }

    /// A subscription is seen there: as was told, or as calls ask that are under way.
    pub(super) fn check_place(&self, key: &SubscriptionKey, found: u64) -> Checked {
        let mut known = self.positions.only(key);
        for call in &self.calls.waiting {
            call.then.unanswered(&mut known);
        }
        known.check(key, Some(found))
    }

    pub(super) fn subscription_answered(
        &mut self,
        seen: &SeenSubscription,
        seq: u64,
        answer: Answer,
    ) -> Checked {
        match (&seen.asked.change, answer) {
            (AskedChange::Put(terms), Answer::Subscribed(done)) => self.was_put(seen, terms, (seq, &done)),
            (AskedChange::Delete { of }, Answer::Done(done)) => self.was_deleted(seen, *of, (seq, &done)),
            (AskedChange::Commit(commit), Answer::Done(done)) => {
                self.was_committed(seen, *commit, (seq, &done))
            }
            _ => Ok(()),
        }
    }

    fn was_put(
        &mut self,
        seen: &SeenSubscription,
        terms: &AskedTerms,
        (seq, done): (u64, &Result<PutSubscriptionOutcome, Problem>),
    ) -> Checked {
        let as_asked = Invariant::SUBSCRIPTIONS_AS_ASKED;
        let before = seen.before.as_ref();
        let outcome = match done {
            Ok(outcome) => outcome,
            Err(problem) => {
                let has_reason = terms.behind().is_some_and(|id| id > seen.known_to);
                return as_asked.check(has_reason && problem.code == "invalid_from", || {
                    format!("{problem:?} is no answer to {seen:?}")
                });
            }
        };
        let Some(after) = seen.after.as_ref().filter(|row| terms.fit(before, row)) else {
            return Err(as_asked.broken(format!("it is answered, and was not done: {seen:?}")));
        };
        as_asked.same("a secret", &outcome.made_secret.as_deref(), &terms.made_secret(before))?;
        // Of one that may be refused it is not known which call made it.
        if terms.behind().is_none() {
            as_asked.same("whether it is new", &outcome.is_new, &before.is_none())?;
        }
        let count = if outcome.is_new { &mut self.counts.subscribed } else { &mut self.counts.resubscribed };
        *count += 1;
        self.positions.told(&seen.asked.key, seq, Some(after.position));
        Ok(())
    }

    fn was_deleted(
        &mut self,
        seen: &SeenSubscription,
        of: Incarnation,
        (seq, done): (u64, &Result<(), Problem>),
    ) -> Checked {
        let is_right = match done {
            Ok(()) => seen.before.is_some(),
            Err(problem) => {
                let is_unknown = matches!(problem.code, "unknown_stream" | "unknown_subscription");
                is_unknown && seen.before.is_none()
            }
        };
        Invariant::SUBSCRIPTIONS_AS_ASKED
            .check(is_right, || format!("{done:?} is no answer to a deletion: {seen:?}"))?;
        let key = &seen.asked.key;
        if let Some(server) = self.server.as_ref().filter(|_| done.is_ok()) {
            server.context.forget_reader(of, &key.name);
            self.readers.forget(&(of, key.name.clone()));
            self.counts.unsubscribed += 1;
            self.positions.told(key, seq, None);
        }
        Ok(())
    }

    fn was_committed(
        &mut self,
        seen: &SeenSubscription,
        commit: AskedCommit,
        (seq, done): (u64, &Result<(), Problem>),
    ) -> Checked {
        let is_right = match done {
            Ok(()) => seen.may_commit(commit),
            Err(problem) => seen.may_refuse(commit, problem.code),
        };
        Invariant::SUBSCRIPTIONS_AS_ASKED
            .check(is_right, || format!("{done:?} is no answer to a commit: {seen:?}"))?;
        match done.as_ref().map_err(|problem| problem.code) {
            Ok(()) => {
                let goes_back = seen.before.as_ref().is_some_and(|before| commit.id < before.position);
                self.counts.commits += 1;
                self.counts.rewinds += u64::from(goes_back);
                self.positions.told(&seen.asked.key, seq, Some(commit.id));
            }
            Err("position_behind") => self.counts.commits_behind += 1,
            Err("unknown_message") => self.counts.commits_ahead += 1,
            Err("position_moved") => self.counts.posts_late += 1,
            Err(_) => {}
        }
        Ok(())
    }
}
