//! The registry's part of notices: what is told, which are kept, and their posts to clients.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::{ClientId, EntityId, Incarnation, Lineage, Timestamp, hash};
use records::{Client, Notice, NoticeKey, NoticeKind, NoticePost, Op};
use store::{Page, StoreError, View};

use super::hysteresis::{NoticeDecision, SubjectState};
use super::{Condition, Detail, NoticeDue, NoticeInput, NoticeSettings, PostOutcome, Signal, SignalTopic};
use crate::devices::partition::attempt_ends::delay_after;
use crate::kernel::reply::Reply;
use crate::registry::{RegistryEffect, RegistryStep};
use crate::settings::Retry;

/// Notices that are kept at most; the oldest make room.
const NOTICES_MAX: usize = 10_000;
/// Subjects that are remembered. Beyond it nothing is told of a new one, and that is counted.
const SUBJECTS_MAX: usize = 16_384;
/// Notices that wait for a client. Beyond it the oldest is given up.
const POSTS_PER_CLIENT_MAX: usize = 1_000;
/// Notices that are forgotten in a step.
const FORGOTTEN_PER_STEP: usize = 500;
/// Rows that are read at a time when the registry is loaded.
const LOADED_PER_READ: usize = 500;
/// How much longer a lease of a post lasts than its attempt may take.
const LEASE_MARGIN: Duration = Duration::from_secs(30);

type Place = (Incarnation, NoticeKey);

/// All notices.
#[derive(Debug)]
pub(crate) struct NoticeBook {
    settings: NoticeSettings,
    retry: Retry,
    lease: Duration,
    lineage: Lineage,
    kept: BTreeSet<NoticeKey>,
    subjects: BTreeMap<(SignalTopic, Box<str>), (SubjectState, Detail)>,
    /// When subjects have been quiet.
    quiet_ends: BTreeSet<(Timestamp, SignalTopic, Box<str>)>,
    posts: BTreeMap<Place, NoticePost>,
    /// Posts that wait for their time, of clients that are enabled.
    due: BTreeSet<(Timestamp, Place)>,
}

impl NoticeBook {
    pub(crate) fn load(
        view: &dyn View,
        settings: NoticeSettings,
        (retry, attempt): (Retry, Duration),
        (lineage, now): (Lineage, Timestamp),
        clients: &BTreeMap<ClientId, Client>,
    ) -> Result<Self, StoreError> {
        let mut book = Self {
            settings,
            retry,
            lease: attempt + LEASE_MARGIN,
            lineage,
            kept: BTreeSet::new(),
            subjects: BTreeMap::new(),
            quiet_ends: BTreeSet::new(),
            posts: BTreeMap::new(),
            due: BTreeSet::new(),
        };
        book.load_notices(view, now)?;
        let enabled: BTreeSet<_> =
            clients.values().filter(|client| client.enabled).map(|client| client.incarnation).collect();
        loop {
            let after = book.posts.last_key_value().map(|(place, _)| *place);
            let posts = view.notice_posts(after, LOADED_PER_READ)?;
            if posts.is_empty() {
                return Ok(book);
            }
            posts.into_iter().for_each(|post| book.insert(post, enabled.contains(&post.client)));
        }
    }

    fn load_notices(&mut self, view: &dyn View, now: Timestamp) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let page = Page {
                from: Timestamp(i64::MIN),
                to: Timestamp::MAX,
                ascending: true,
                after,
                limit: LOADED_PER_READ,
            };
            let notices = view.notices(page, &|_| true)?;
            let Some(last) = notices.last() else { return Ok(()) };
            after = Some(NoticeKey::from(last.id));
            for notice in notices {
                self.kept.insert(notice.id.into());
                let state = SubjectState::told_at(notice.id.at, self.settings.quiet);
                if !state.is_forgettable(now) {
                    self.remember(
                        now,
                        (SignalTopic::of(notice.kind), notice.subject),
                        state,
                        Detail::default(),
                    );
                }
            }
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
                signals.into_iter().for_each(|signal| self.signal(signal, clients, step));
            }
            NoticeInput::Lease { max, reply } => self.lease(max, clients, reply, step)?,
            NoticeInput::Tried { client, notice, outcome, reply } => {
                self.tried((client, notice), outcome, clients, step);
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
        let mut state = known.map_or_else(SubjectState::new, |(state, _)| state);
        self.forget_wakeup(&state, &key);
        let tell = state.signal(step.now, self.settings.quiet, condition);
        self.tell(tell, &key, &detail, clients, step);
        if !state.is_forgettable(step.now) {
            self.remember(step.now, key, state, detail);
        }
    }

    fn tell(
        &mut self,
        tell: NoticeDecision,
        (topic, subject): &(SignalTopic, Box<str>),
        detail: &Detail,
        clients: &BTreeMap<ClientId, Client>,
        step: &mut RegistryStep<'_>,
    ) {
        let kind = match tell {
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
            self.insert(post, client.enabled);
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
            self.end((client, places[0]), step);
            step.emit(RegistryEffect::NoticeGivenUp);
        }
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
                self.due.remove(&(post.due_at, (client, notice)));
                post.due_at = now;
                self.due.insert((now, (client, notice)));
            }
        }
    }

    /// A lease is in memory alone: after a crash its post is due again.
    fn lease(
        &mut self,
        max: usize,
        clients: &BTreeMap<ClientId, Client>,
        reply: Reply<Vec<NoticeDue>>,
        step: &mut RegistryStep<'_>,
    ) -> Result<(), StoreError> {
        let mut leased = Vec::new();
        while leased.len() < max {
            let Some((due_at, place)) = self.due.first().copied().filter(|(at, _)| *at <= step.now) else {
                break;
            };
            self.due.remove(&(due_at, place));
            let client = clients.values().find(|client| client.incarnation == place.0);
            let Some(client) = client.filter(|client| client.enabled) else { continue };
            let Some(notice) = step.fetch.view()?.notice(place.1)? else {
                // It is not durable yet, or kept no longer.
                if self.kept.contains(&place.1) {
                    self.due.insert((step.now.after(Duration::from_millis(1)), place));
                } else {
                    self.end(place, step);
                }
                continue;
            };
            let until = step.now.after(self.lease);
            if let Some(post) = self.posts.get_mut(&place) {
                post.due_at = until;
                self.due.insert((until, place));
            }
            leased.push(NoticeDue { client: Arc::new(client.clone()), notice });
        }
        step.emit(RegistryEffect::NoticesLeased(reply, leased));
        Ok(())
    }

    /// A post was tried.
    fn tried(
        &mut self,
        place: Place,
        outcome: PostOutcome,
        clients: &BTreeMap<ClientId, Client>,
        step: &mut RegistryStep<'_>,
    ) {
        let Some(mut post) = self.posts.get(&place).copied() else { return };
        self.due.remove(&(post.due_at, place));
        match outcome {
            PostOutcome::Took => self.end(place, step),
            PostOutcome::Gone => {
                // Unless the client was changed meanwhile, it waits until that is enabled again.
                let is_enabled =
                    clients.values().any(|client| client.incarnation == place.0 && client.enabled);
                post.due_at = step.now;
                self.insert(post, is_enabled);
            }
            PostOutcome::Failed(patience) => {
                post.attempts += 1;
                if post.attempts >= self.retry.attempts_max {
                    self.end(place, step);
                    step.emit(RegistryEffect::NoticeGivenUp);
                    return;
                }
                let chance = hash::derived(place.0.0, &post.attempts.to_le_bytes());
                post.due_at = step.now.after(delay_after(&self.retry, post.attempts, patience, chance));
                self.insert(post, true);
                step.push(Op::PutNoticePost(post));
            }
        }
    }

    fn insert(&mut self, post: NoticePost, is_enabled: bool) {
        let place = (post.client, post.notice);
        self.posts.insert(place, post);
        if is_enabled {
            self.due.insert((post.due_at, place));
        }
    }

    fn end(&mut self, place: Place, step: &mut RegistryStep<'_>) {
        if let Some(post) = self.posts.remove(&place) {
            self.due.remove(&(post.due_at, place));
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
            let tell = state.decide(step.now, self.settings.quiet);
            self.tell(tell, &key, &detail, clients, step);
            if !state.is_forgettable(step.now) {
                self.remember(step.now, key, state, detail);
            }
        }
        let more = self.forget(step);
        if self.due.first().is_some_and(|(at, _)| *at <= step.now) {
            step.emit(RegistryEffect::NoticesDue);
        }
        more
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
        let due = self.due.range((now.after(Duration::from_millis(1)), FIRST)..).next().map(|(at, _)| *at);
        [too_old, quiet, due].into_iter().flatten().min()
    }

    fn remember(
        &mut self,
        now: Timestamp,
        key: (SignalTopic, Box<str>),
        state: SubjectState,
        detail: Detail,
    ) {
        if let Some(at) = state.quiet_until().filter(|at| now < *at) {
            self.quiet_ends.insert((at, key.0, key.1.clone()));
        }
        self.subjects.insert(key, (state, detail));
    }

    fn forget_wakeup(&mut self, state: &SubjectState, (topic, subject): &(SignalTopic, Box<str>)) {
        if let Some(at) = state.quiet_until() {
            self.quiet_ends.remove(&(at, *topic, subject.clone()));
        }
    }
}

const FIRST: Place = (Incarnation(0), NoticeKey { at: Timestamp(i64::MIN), number: 0 });
