//! The registry's part of notices: what is told, which are kept, and their posts to clients.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::{ClientId, EntityId, Incarnation, Lineage, Timestamp, hash};
use records::{Client, Notice, NoticeKey, NoticeKind, NoticePost, Op};
use store::{StoreError, View};

use super::hysteresis::{NoticeDecision, SubjectState};
use super::links::NoticeGivenUp;
use super::{
    Condition, Detail, NoticeDue, NoticeInput, NoticeLease, NoticeSettings, PostOutcome, Signal, SignalTopic,
};
use crate::kernel::reply::Reply;
use crate::registry::{RegistryEffect, RegistryStep};
use crate::retry_delay::delay_after;
use crate::settings::RetrySettings;

mod due;
mod load;

use due::DuePosts;
use load::{LOADED_PER_READ, client_of};

/// Notices that are kept at most; the oldest make room.
const NOTICES_MAX: usize = 10_000;
/// Subjects that are remembered. Beyond it nothing is told of a new one, and that is counted.
const SUBJECTS_MAX: usize = 16_384;
/// Notices that wait for a client. Beyond it the oldest is given up.
const POSTS_PER_CLIENT_MAX: usize = 1_000;
/// Notices that are forgotten in a step.
const FORGOTTEN_PER_STEP: usize = 500;
/// How much longer a lease of a post lasts than its attempt may take.
const LEASE_MARGIN: Duration = Duration::from_secs(30);

type Place = (Incarnation, NoticeKey);
type SubjectKey = (SignalTopic, Box<str>);

/// All notices.
#[derive(Debug)]
pub(crate) struct NoticeTable {
    settings: NoticeSettings,
    retry: RetrySettings,
    lease: Duration,
    lineage: Lineage,
    kept: BTreeSet<NoticeKey>,
    subjects: BTreeMap<SubjectKey, (SubjectState, Detail)>,
    /// When subjects have been quiet.
    quiet_ends: BTreeSet<(Timestamp, SignalTopic, Box<str>)>,
    posts: BTreeMap<Place, NoticePost>,
    /// Posts that wait for their time.
    due: DuePosts,
    /// Up to when those who post were told of all that is due.
    announced: Timestamp,
    /// There may be posts that they were not told of.
    has_more_due: bool,
}

impl NoticeTable {
    pub(crate) fn load(
        view: &dyn View,
        settings: NoticeSettings,
        (retry, attempt): (RetrySettings, Duration),
        (lineage, now): (Lineage, Timestamp),
        clients: &BTreeMap<ClientId, Client>,
    ) -> Result<Self, StoreError> {
        let mut table = Self {
            settings,
            retry,
            lease: attempt + LEASE_MARGIN,
            lineage,
            kept: BTreeSet::new(),
            subjects: BTreeMap::new(),
            quiet_ends: BTreeSet::new(),
            posts: BTreeMap::new(),
            due: DuePosts::default(),
            announced: now,
            has_more_due: true,
        };
        table.load_subjects(view, now, clients)?;
        loop {
            let after = table.posts.last_key_value().map(|(place, _)| *place);
            let posts = view.notice_posts(after, LOADED_PER_READ)?;
            if posts.is_empty() {
                return Ok(table);
            }
            posts.into_iter().for_each(|post| table.insert(post));
        }
    }

    pub(crate) fn apply(
        &mut self,
        input: NoticeInput,
        clients: &BTreeMap<ClientId, Client>,
        step: &mut RegistryStep<'_>,
    ) -> Result<(), StoreError> {
        match input {
            NoticeInput::Signals(signals) => {
                // A disabled client stays so whatever its receiver did, until it is enabled here.
                let may_be_told = |signal: &Signal| {
                    signal.topic != SignalTopic::Client
                        || client_of(&signal.subject, clients).is_some_and(|client| client.enabled)
                };
                let signals = signals.into_iter().filter(may_be_told);
                signals.for_each(|signal| self.signal(signal, clients, step));
            }
            NoticeInput::Lease { wanted, reply } => self.lease(&wanted, clients, reply, step)?,
            NoticeInput::Tried { client, notice, outcome, reply } => {
                self.tried((client, notice), outcome, step);
                step.emit(RegistryEffect::Kept(reply));
            }
        }
        Ok(())
    }

    /// A subject is in another condition.
    pub(crate) fn signal(
        &mut self,
        signal: Signal,
        clients: &BTreeMap<ClientId, Client>,
        step: &mut RegistryStep<'_>,
    ) {
        let Signal { topic, subject, condition, detail } = signal;
        let key = (topic, subject);
        let known = self.subjects.remove(&key);
        let is_well = matches!(condition, Condition::Resolved | Condition::Cleared);
        if known.is_none() && (is_well || self.subjects.len() >= SUBJECTS_MAX) {
            if !is_well {
                step.emit(RegistryEffect::NoticeLeftOut);
            }
            return;
        }
        let (mut state, before) = known.unwrap_or_default();
        self.forget_wakeup(&state, &key);
        // What occurred is told with its own detail.
        let detail = if is_well && state.has_occurred() { before } else { detail };
        let decision = state.signal(step.now, self.settings.quiet, condition);
        self.tell(decision, &key, &detail, clients, step);
        if !state.is_forgettable(step.now) {
            self.remember(step.now, key, state, detail);
        }
    }

    fn tell(
        &mut self,
        decision: NoticeDecision,
        (topic, subject): &SubjectKey,
        detail: &Detail,
        clients: &BTreeMap<ClientId, Client>,
        step: &mut RegistryStep<'_>,
    ) {
        let kind = match decision {
            NoticeDecision::Nothing => return,
            NoticeDecision::Notice(kind) => kind,
            NoticeDecision::Resolved => match topic.resolved_notice() {
                Some(kind) => kind,
                None => return,
            },
        };
        self.put(kind, subject, detail, clients, step);
    }

    /// Keeps a notice, and has every client told that wants it.
    fn put(
        &mut self,
        kind: NoticeKind,
        subject: &str,
        detail: &Detail,
        clients: &BTreeMap<ClientId, Client>,
        step: &mut RegistryStep<'_>,
    ) {
        let id = self.next_id(step.now);
        let key = NoticeKey::from(id);
        let notice = Notice { id, kind, subject: subject.into(), detail: detail.to_json().into() };
        self.kept.insert(key);
        step.emit(RegistryEffect::Noticed(kind));
        step.push(Op::PutNotice(Box::new(notice)));
        for client in clients.values().filter(|client| client.notices) {
            let post = NoticePost { client: client.incarnation, notice: key, attempts: 0, due_at: step.now };
            self.make_room(client.incarnation, step);
            self.insert(post);
            step.push(Op::PutNoticePost(post));
        }
    }

    fn next_id(&self, now: Timestamp) -> EntityId {
        let last = self.kept.last().copied();
        let (at, number) = match last.filter(|last| last.at >= now) {
            Some(last) => (last.at, last.number + 1),
            None => (now, 0),
        };
        let tag = hash::derived(self.lineage.0, &at.0.to_le_bytes());
        EntityId { routing: 0, at, number, tag: hash::derived(tag, &number.to_le_bytes()) & ((1 << 48) - 1) }
    }

    /// A client has at most so many notices waiting: the oldest is given up.
    fn make_room(&mut self, client: Incarnation, step: &mut RegistryStep<'_>) {
        let places: Vec<_> = self.places_of(client).collect();
        if places.len() >= POSTS_PER_CLIENT_MAX {
            let place = (client, places[0]);
            let attempts = self.posts.get(&place).map_or(0, |post| post.attempts);
            self.give_up(place, attempts, step);
        }
    }

    fn give_up(&mut self, place: Place, attempts: u32, step: &mut RegistryStep<'_>) {
        let (client, key) = place;
        // The line in the log is written even if the store cannot be read: it says less then.
        let notice = step.fetch.view().and_then(|view| view.notice(key)).ok().flatten();
        self.end(place, step);
        step.emit(RegistryEffect::NoticeGivenUp(Box::new(NoticeGivenUp { notice, client, attempts })));
    }

    fn places_of(&self, client: Incarnation) -> impl Iterator<Item = NoticeKey> + '_ {
        let first = NoticeKey { at: Timestamp(i64::MIN), number: 0 };
        let last = NoticeKey { at: Timestamp::MAX, number: u32::MAX };
        self.posts.range((client, first)..=(client, last)).map(|((_, notice), _)| *notice)
    }

    /// A client is gone, or wants no notices any more.
    pub(crate) fn forget_client(&mut self, client: Incarnation, step: &mut RegistryStep<'_>) {
        let places: Vec<_> = self.places_of(client).collect();
        places.into_iter().for_each(|notice| self.end((client, notice), step));
    }

    /// A client is enabled again: what waited for it goes out.
    pub(crate) fn client_enabled(&mut self, client: Incarnation, now: Timestamp) {
        let places: Vec<_> = self.places_of(client).collect();
        for notice in places {
            if let Some(post) = self.posts.get_mut(&(client, notice)) {
                self.due.remove(post.due_at, (client, notice));
                post.due_at = now;
                self.due.insert(now, (client, notice));
            }
        }
        self.has_more_due = true;
    }

    /// A lease is in memory alone: after a crash its post is due again. Whoever has waited longest
    /// comes first.
    fn lease(
        &mut self,
        wanted: &NoticeLease,
        clients: &BTreeMap<ClientId, Client>,
        reply: Reply<Vec<NoticeDue>>,
        step: &mut RegistryStep<'_>,
    ) -> Result<(), StoreError> {
        let may_be = clients.values().filter(|client| client.enabled && !wanted.full.contains(&client.id));
        let mut firsts: Vec<_> = may_be
            .filter_map(|client| {
                self.due.first_of(client.incarnation).map(|(at, notice)| (at, client, notice))
            })
            .filter(|(at, ..)| *at <= step.now)
            .collect();
        firsts.sort_by_key(|(at, client, _)| (*at, client.incarnation));
        let (mut leased, mut failing) = (Vec::new(), 0);
        for (due_at, client, key) in firsts {
            if leased.len() >= wanted.max {
                break;
            }
            let fails = wanted.failing.contains(&client.id);
            if fails && failing >= wanted.failing_max {
                continue;
            }
            let place = (client.incarnation, key);
            let Some(notice) = step.fetch.view()?.notice(key)? else {
                // It is not durable yet, or kept no longer.
                if self.kept.contains(&key) {
                    self.move_due(place, due_at, step.now.after(Duration::from_millis(1)));
                } else {
                    self.end(place, step);
                }
                continue;
            };
            failing += usize::from(fails);
            self.move_due(place, due_at, step.now.after(self.lease));
            leased.push(NoticeDue { client: Arc::new(client.clone()), notice });
        }
        step.emit(RegistryEffect::NoticesLeased(reply, leased));
        Ok(())
    }

    fn move_due(&mut self, place: Place, from: Timestamp, to: Timestamp) {
        if let Some(post) = self.posts.get_mut(&place) {
            post.due_at = to;
            self.due.remove(from, place);
            self.due.insert(to, place);
        }
    }

    /// A post was tried.
    fn tried(&mut self, place: Place, outcome: PostOutcome, step: &mut RegistryStep<'_>) {
        let Some(mut post) = self.posts.get(&place).copied() else { return };
        self.due.remove(post.due_at, place);
        match outcome {
            PostOutcome::Took => self.end(place, step),
            PostOutcome::Gone => {
                // Unless the client was changed meanwhile, it waits until that is enabled again.
                post.due_at = step.now;
                self.insert(post);
            }
            PostOutcome::Failed(patience) => {
                post.attempts += 1;
                if post.attempts >= self.retry.attempts_max {
                    self.give_up(place, post.attempts, step);
                    return;
                }
                let chance = hash::derived(place.0.0, &post.attempts.to_le_bytes());
                post.due_at = step.now.after(delay_after(&self.retry, post.attempts, patience, chance));
                self.insert(post);
                step.push(Op::PutNoticePost(post));
            }
        }
    }

    fn insert(&mut self, post: NoticePost) {
        let place = (post.client, post.notice);
        self.posts.insert(place, post);
        self.due.insert(post.due_at, place);
        self.has_more_due = true;
    }

    fn end(&mut self, place: Place, step: &mut RegistryStep<'_>) {
        if let Some(post) = self.posts.remove(&place) {
            self.due.remove(post.due_at, place);
            step.push(Op::DeleteNoticePost(place.0, place.1));
        }
    }

    /// What the passing of time brings; whether there is more of it.
    pub(crate) fn advance(
        &mut self,
        clients: &BTreeMap<ClientId, Client>,
        step: &mut RegistryStep<'_>,
    ) -> bool {
        while let Some((at, topic, subject)) = self.quiet_ends.first().cloned() {
            if at > step.now || !step.has_room() {
                break;
            }
            let key = (topic, subject);
            self.quiet_ends.remove(&(at, key.0, key.1.clone()));
            let Some((mut state, detail)) = self.subjects.remove(&key) else { continue };
            let decision = state.decide(step.now, self.settings.quiet);
            self.tell(decision, &key, &detail, clients, step);
            if !state.is_forgettable(step.now) {
                self.remember(step.now, key, state, detail);
            }
        }
        let more = self.forget(step);
        self.announce_due(step);
        more
    }

    /// Says that posts are due: once, as whoever posts may have no place for them yet.
    fn announce_due(&mut self, step: &mut RegistryStep<'_>) {
        let came_due = self.due.next_after(self.announced).is_some_and(|at| at <= step.now);
        let has_more = std::mem::take(&mut self.has_more_due) && self.due.is_any_due(step.now);
        self.announced = step.now;
        if came_due || has_more {
            step.emit(RegistryEffect::NoticesDue);
        }
    }

    /// Forgets what is too old, and what is too much.
    fn forget(&mut self, step: &mut RegistryStep<'_>) -> bool {
        for _ in 0..FORGOTTEN_PER_STEP {
            let Some(first) = self.kept.first().copied() else { return false };
            if first.at.after(self.settings.keep) > step.now && self.kept.len() <= NOTICES_MAX {
                return false;
            }
            self.kept.remove(&first);
            step.push(Op::DeleteNotice(first));
        }
        true
    }

    /// When the passing of time brings something next.
    pub(crate) fn next_wakeup(&self, now: Timestamp) -> Option<Timestamp> {
        let too_old = self.kept.first().map(|first| first.at.after(self.settings.keep));
        let quiet = self.quiet_ends.first().map(|(at, ..)| *at);
        // What is due already was told, and is asked for by whoever posts.
        let due = self.due.next_after(now);
        [too_old, quiet, due].into_iter().flatten().min()
    }

    fn remember(&mut self, now: Timestamp, key: SubjectKey, state: SubjectState, detail: Detail) {
        if let Some(at) = state.decides_at(now) {
            self.quiet_ends.insert((at, key.0, key.1.clone()));
        }
        self.subjects.insert(key, (state, detail));
    }

    fn forget_wakeup(&mut self, state: &SubjectState, (topic, subject): &SubjectKey) {
        if let Some(at) = state.quiet_until() {
            self.quiet_ends.remove(&(at, *topic, subject.clone()));
        }
    }
}
