//! Which call made which change of a subscription: a batch has no change that nobody asked for, and
//! every one that had to be made.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use base::Incarnation;
use engine::streams::SubscriptionStart;
use records::{Batch, Op, StreamSubscription};

use super::asked::{AskedChange, AskedCommit, AskedSubscription, AskedTerms, SubscriptionKey};
use super::ledger::Ledger;
use super::model::Model;
use crate::harness::violation::{Checked, Invariant};

/// The changes of a batch, while the calls of its step are looked at one after the other.
pub(crate) struct SubscriptionChanges<'m> {
    /// Before the batch.
    model: &'m Model,
    ledger: &'m Ledger,
    /// What the batch says of each, in order: its row, or that it is gone.
    changes: BTreeMap<SubscriptionKey, VecDeque<Option<StreamSubscription>>>,
    /// After the calls so far; what is not here is as it was.
    rows: BTreeMap<SubscriptionKey, Option<StreamSubscription>>,
    /// Streams that were deleted so far.
    deleted: BTreeSet<Box<str>>,
}

/// What the batch says of a call.
#[derive(Debug)]
pub(crate) struct SeenSubscription {
    pub(crate) asked: Rc<AskedSubscription>,
    pub(crate) before: Option<StreamSubscription>,
    pub(crate) after: Option<StreamSubscription>,
    /// Messages up to this one were surely there.
    pub(crate) known_to: u64,
}

impl<'m> SubscriptionChanges<'m> {
    pub(crate) fn of(model: &'m Model, ledger: &'m Ledger, batch: Option<&Batch>) -> Checked<Self> {
        let ops = || batch.into_iter().flat_map(|batch| &batch.ops);
        let made = ops().filter_map(|op| match op {
            Op::PutStream(row) => Some((row.incarnation, row.name.clone())),
            _ => None,
        });
        let made: BTreeMap<Incarnation, Box<str>> = made.collect();
        let mut changes = BTreeMap::<SubscriptionKey, VecDeque<_>>::new();
        for op in ops() {
            let (stream, name, row) = match op {
                Op::PutSubscription(row) => (row.stream, row.name.clone(), Some((**row).clone())),
                Op::DeleteSubscription(stream, name) => (*stream, name.clone(), None),
                _ => continue,
            };
            let known = model.streams.get(&stream).map(|found| &found.row.name);
            let Some(of) = known.or_else(|| made.get(&stream)) else {
                return Err(Invariant::ROWS_AGREE.broken(format!("there is no stream for {op:?}")));
            };
            changes.entry(SubscriptionKey { stream: of.clone(), name }).or_default().push_back(row);
        }
        Ok(Self { model, ledger, changes, rows: BTreeMap::new(), deleted: BTreeSet::new() })
    }

    /// The next call is this one.
    pub(crate) fn take(&mut self, asked: Rc<AskedSubscription>) -> Checked<SeenSubscription> {
        let key = asked.key.clone();
        let (before, known_to) = (self.row(&key).cloned(), self.known_to(&key.stream));
        let after = match &asked.change {
            AskedChange::Delete { .. } if before.is_none() => None,
            AskedChange::Delete { .. } => {
                self.take_gone(&key)?;
                None
            }
            AskedChange::Put(terms) => self.take_put(&key, terms, (before.as_ref(), known_to))?,
            AskedChange::Commit(commit) => self.take_commit(&key, *commit, before.as_ref()),
        };
        self.rows.insert(key, after.clone());
        Ok(SeenSubscription { asked, before, after, known_to })
    }

    /// The next call deletes a stream: its subscriptions go with it.
    pub(crate) fn stream_deleted(&mut self, name: &str) -> Checked {
        let seen = self.rows.keys().filter(|key| *key.stream == *name).cloned();
        let mut keys: BTreeSet<SubscriptionKey> = seen.collect();
        let stream = self.model.names.get(name);
        let there = stream.into_iter().flat_map(|stream| self.model.subscriptions_of(*stream));
        keys.extend(there.map(|row| SubscriptionKey { stream: name.into(), name: row.name.clone() }));
        for key in keys {
            if self.row(&key).is_some() {
                self.take_gone(&key)?;
                self.rows.insert(key, None);
            }
        }
        self.deleted.insert(name.into());
        Ok(())
    }

    /// All calls were looked at: the batch has no other change.
    pub(crate) fn check_no_more(self) -> Checked {
        let left = self.changes.into_iter().find(|(_, left)| !left.is_empty());
        Invariant::SUBSCRIPTIONS_AS_ASKED.check(left.is_none(), || format!("nobody asked for {left:?}"))
    }

    fn row(&self, key: &SubscriptionKey) -> Option<&StreamSubscription> {
        match self.rows.get(key) {
            Some(row) => row.as_ref(),
            None => self.model.subscription_of(key),
        }
    }

    /// Up to which message everybody knows the stream.
    fn known_to(&self, stream: &str) -> u64 {
        let found = self.model.named(stream).filter(|_| !self.deleted.contains(stream));
        let Some((of, found)) = found else { return 0 };
        self.ledger.of(of).map(|(id, _)| id).max().unwrap_or(0).max(found.last)
    }

    fn take_gone(&mut self, key: &SubscriptionKey) -> Checked {
        match self.changes.get_mut(key).and_then(VecDeque::pop_front) {
            Some(None) => Ok(()),
            other => Err(Invariant::SUBSCRIPTIONS_AS_ASKED
                .broken(format!("{key:?} is to go, and the batch says of it {other:?}"))),
        }
    }

    /// The next change, if it is one that suits.
    fn take_if(
        &mut self,
        key: &SubscriptionKey,
        suits: impl FnOnce(&StreamSubscription) -> bool,
    ) -> Option<StreamSubscription> {
        let changes = self.changes.get_mut(key)?;
        if changes.front()?.as_ref().is_some_and(suits) { changes.pop_front()? } else { None }
    }

    fn take_put(
        &mut self,
        key: &SubscriptionKey,
        terms: &AskedTerms,
        (before, known_to): (Option<&StreamSubscription>, u64),
    ) -> Checked<Option<StreamSubscription>> {
        let from_end = terms.from == Some(SubscriptionStart::End);
        let suits =
            |row: &StreamSubscription| terms.fit(before, row) && (!from_end || row.position >= known_to);
        if let Some(row) = self.take_if(key, suits) {
            return Ok(Some(row));
        }
        // It may be refused, where there is no such message.
        let may_be_refused = terms.behind().is_some();
        Invariant::SUBSCRIPTIONS_AS_ASKED.check(may_be_refused, || {
            format!(
                "{key:?} is to be {terms:?}, was {before:?}, and the batch says {:?}",
                self.changes.get(key)
            )
        })?;
        Ok(before.cloned())
    }

    fn take_commit(
        &mut self,
        key: &SubscriptionKey,
        AskedCommit { id, rewinds, pushed_from }: AskedCommit,
        before: Option<&StreamSubscription>,
    ) -> Option<StreamSubscription> {
        let before = before?;
        let may_move = (rewinds || id > before.position)
            && id != before.position
            && pushed_from.is_none_or(|from| from == before.position);
        let moved = StreamSubscription { position: id, ..before.clone() };
        let taken = self.take_if(key, |row| may_move && *row == moved);
        taken.or_else(|| Some(before.clone()))
    }
}

impl SeenSubscription {
    /// One that begins at the start leaves out nothing that is kept. The model is behind the batch.
    pub(crate) fn check_begun(&self, model: &Model) -> Checked {
        let AskedChange::Put(terms) = &self.asked.change else { return Ok(()) };
        let begins = match terms.from {
            Some(SubscriptionStart::Start) => true,
            Some(SubscriptionStart::End | SubscriptionStart::Behind(_)) => false,
            None => self.before.is_none(),
        };
        let Some(row) = self.after.as_ref().filter(|_| begins) else { return Ok(()) };
        let found = model.streams.get(&row.stream).filter(|found| !found.is_deleted);
        let first = found.and_then(|found| found.messages.keys().next());
        Invariant::SUBSCRIPTIONS_AS_ASKED.check(first.is_none_or(|first| *first > row.position), || {
            format!("{row:?} is to begin at the start, which is {first:?}")
        })
    }

    /// Whether a commit was right to do nothing but to refuse, for this reason.
    pub(crate) fn may_refuse(&self, commit: AskedCommit, code: &str) -> bool {
        let Some(before) = &self.before else {
            return matches!(code, "unknown_stream" | "unknown_subscription");
        };
        match code {
            "position_moved" => commit.pushed_from.is_some_and(|from| from != before.position),
            "position_behind" => commit.id < before.position && !commit.rewinds,
            "unknown_message" => commit.id > self.known_to,
            _ => false,
        }
    }

    /// Whether a commit was right to be done.
    pub(crate) fn may_commit(&self, commit: AskedCommit) -> bool {
        let (Some(before), Some(after)) = (&self.before, &self.after) else { return false };
        after.position == commit.id
            && (commit.rewinds || commit.id >= before.position)
            && commit.pushed_from.is_none_or(|from| from == before.position)
    }
}
