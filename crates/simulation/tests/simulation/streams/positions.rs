//! How far callers were told that subscriptions have come, whatever batch says what. It outlives
//! every end of the process: what was told is there after it, unless a call that nobody answered
//! has moved it since.

use std::collections::{BTreeMap, BTreeSet};

use engine::streams::SubscriptionStart;

use super::asked::{AskedChange, AskedCommit, AskedSubscription, SubscriptionKey};
use super::model::Model;
use crate::harness::violation::{Checked, Invariant};

/// Where a subscription is known to be; `None` is that there is none.
type KnownPlace = Option<u64>;

/// What was told of all subscriptions.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    by_key: BTreeMap<SubscriptionKey, KnownPlaces>,
}

/// What was told of a subscription.
#[derive(Debug, Default)]
struct KnownPlaces {
    /// On which batch it rests, and where the subscription is since.
    told: Vec<(u64, KnownPlace)>,
    /// Where calls that were not answered may have brought it.
    open: Vec<PossiblePlace>,
}

/// Where a subscription may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PossiblePlace {
    Gone,
    At(u64),
    /// Where the stream had its start, or its end.
    Anywhere,
}

/// What a load found of subscriptions.
#[derive(Debug, Default)]
pub(crate) struct FoundPositions {
    /// Those that are where somebody was told that they are.
    pub(crate) kept: u64,
    /// Those that a call moved which nobody answered.
    pub(crate) moved: u64,
}

impl Positions {
    /// A caller is told where a subscription is.
    pub(crate) fn told(&mut self, key: &SubscriptionKey, seq: u64, place: Option<u64>) {
        self.by_key.entry(key.clone()).or_default().told.push((seq, place));
    }

    /// A caller is told that a stream is deleted.
    pub(crate) fn stream_deleted(&mut self, stream: &str, seq: u64) {
        self.of_stream(stream).for_each(|places| places.told.push((seq, None)));
    }

    /// A call is not answered, and may have done what it asks for.
    pub(crate) fn unanswered(&mut self, asked: &AskedSubscription) {
        let places = self.by_key.entry(asked.key.clone()).or_default();
        let place = places.led_to_by(&asked.change);
        places.open.extend(place);
    }

    /// The same of one that deletes a stream.
    pub(crate) fn stream_unanswered(&mut self, stream: &str) {
        self.of_stream(stream).for_each(|places| places.open.push(PossiblePlace::Gone));
    }

    /// The power may have taken what was answered after that batch.
    pub(crate) fn forget_after(&mut self, kept: u64) {
        for places in self.by_key.values_mut() {
            let lost = places.told.extract_if(.., |(seq, _)| *seq > kept);
            places.open.extend(lost.map(|(_, place)| place.map_or(PossiblePlace::Gone, PossiblePlace::At)));
        }
    }

    /// What is known of one of them.
    pub(crate) fn only(&self, key: &SubscriptionKey) -> Self {
        let found = self.by_key.get(key).map(|places| KnownPlaces {
            told: places.told.last().copied().into_iter().collect(),
            open: places.open.clone(),
        });
        Self { by_key: found.into_iter().map(|places| (key.clone(), places)).collect() }
    }

    /// A subscription is seen there.
    pub(crate) fn check(&self, key: &SubscriptionKey, found: Option<u64>) -> Checked {
        let places = self.by_key.get(key);
        let may_be = places.map_or(found.is_none(), |places| places.may_be(found));
        Invariant::POSITIONS_STAY
            .check(may_be, || format!("{key:?} is at {found:?}, and this is known: {places:?}"))
    }

    /// The partition was loaded at a batch, and this is what is there. From now on it is known.
    pub(crate) fn loaded(&mut self, model: &Model, seq: u64) -> Checked<FoundPositions> {
        let there = model.named_subscriptions().map(|(key, _)| key);
        let keys: BTreeSet<SubscriptionKey> = self.by_key.keys().cloned().chain(there).collect();
        let mut all = FoundPositions::default();
        for key in keys {
            let found = model.subscription_of(&key).map(|row| row.position);
            self.check(&key, found)?;
            let places = self.by_key.entry(key).or_default();
            let is_told = places.last() == found;
            all.kept += u64::from(is_told && found.is_some());
            all.moved += u64::from(!is_told);
            places.told.push((seq, found));
            places.open.clear();
        }
        Ok(all)
    }

    fn of_stream(&mut self, stream: &str) -> impl Iterator<Item = &mut KnownPlaces> {
        self.by_key.iter_mut().filter(move |(key, _)| *key.stream == *stream).map(|(_, places)| places)
    }
}

impl KnownPlaces {
    /// Where it was told to be last.
    fn last(&self) -> KnownPlace {
        self.told.last().and_then(|(_, place)| *place)
    }

    fn may_be(&self, found: KnownPlace) -> bool {
        let leads_there = |place: &PossiblePlace| match place {
            PossiblePlace::Gone => found.is_none(),
            PossiblePlace::At(id) => found == Some(*id),
            PossiblePlace::Anywhere => found.is_some(),
        };
        self.last() == found || self.open.iter().any(leads_there)
    }

    /// Where a call may bring it.
    fn led_to_by(&self, change: &AskedChange) -> Option<PossiblePlace> {
        match change {
            AskedChange::Delete { .. } => Some(PossiblePlace::Gone),
            AskedChange::Commit(AskedCommit { id, .. }) => Some(PossiblePlace::At(*id)),
            AskedChange::Put(terms) => match terms.from {
                Some(SubscriptionStart::Behind(id)) => Some(PossiblePlace::At(id)),
                Some(SubscriptionStart::Start | SubscriptionStart::End) => Some(PossiblePlace::Anywhere),
                // One that is there stays where it is.
                None => (!self.is_surely_there()).then_some(PossiblePlace::Anywhere),
            },
        }
    }

    fn is_surely_there(&self) -> bool {
        self.last().is_some() && !self.open.contains(&PossiblePlace::Gone)
    }
}
