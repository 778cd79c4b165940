//! Ends of tasks that are to be told to those who asked.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use base::{Incarnation, Timestamp, hash};
use records::{EndPost, Op, OutcomeReceiver, PickTerms};

use super::{CampaignMachine, CampaignsStep};
use crate::campaigns::TrackedTask;
use crate::campaigns::effect::{CampaignWarning, CampaignsEffect};
use crate::campaigns::ends::TaskEndDue;
use crate::outcomes::SendResult;
use crate::retry_delay::delay_after;

/// Ends that wait to be told. Beyond it the token that has most of them loses its oldest.
pub(super) const POSTS_MAX: usize = 10_000;
/// Ends that are told one receiver at a time: one that hangs holds up those of its own only.
const LEASED_PER_RECEIVER: usize = 8;
/// How much longer a lease lasts than its attempt may take.
const LEASE_MARGIN: Duration = Duration::from_secs(30);

/// Ends of tasks that are to be told.
#[derive(Debug)]
pub(super) struct TaskPosts {
    posts: BTreeMap<Incarnation, TaskPost>,
    due: BTreeSet<(Timestamp, Incarnation)>,
    /// The same by the tokens that asked, each with its oldest first.
    by_token: BTreeMap<Option<Box<str>>, BTreeSet<Incarnation>>,
    /// Up to when whoever tells them was told of all that is due.
    announced: Timestamp,
}

#[derive(Debug)]
struct TaskPost {
    tracked: TrackedTask,
    receiver: OutcomeReceiver,
    receiver_hash: u64,
    token: Option<Box<str>>,
    /// When it is tried next, as far as it is not leased.
    due_at: Timestamp,
    is_leased: bool,
}

impl TaskPosts {
    pub(super) fn new() -> Self {
        Self {
            posts: BTreeMap::new(),
            due: BTreeSet::new(),
            by_token: BTreeMap::new(),
            announced: Timestamp(i64::MIN),
        }
    }

    /// The end of a task is to be told.
    pub(super) fn add(&mut self, tracked: TrackedTask, terms: &PickTerms) {
        let (Some(receiver), Some(post)) = (terms.receiver.clone(), tracked.state.post) else { return };
        let task = tracked.task.incarnation;
        let (due_at, receiver_hash) = (post.due_at, hash_of(&receiver));
        let token = terms.token.clone();
        self.by_token.entry(token.clone()).or_default().insert(task);
        let post = TaskPost { tracked, receiver, receiver_hash, token, due_at, is_leased: false };
        self.posts.insert(task, post);
        self.due.insert((due_at, task));
        self.announced = Timestamp(i64::MIN);
    }

    /// Those that are due; leased for as long as an attempt may take.
    pub(super) fn lease(&mut self, max: usize, attempt: Duration, now: Timestamp) -> Vec<TaskEndDue> {
        let due: Vec<_> = self.due.iter().take_while(|(at, _)| *at <= now).map(|(_, task)| *task).collect();
        for task in &due {
            // A lease that ran out.
            self.posts.entry(*task).and_modify(|post| post.is_leased = false);
        }
        let mut of_receiver: BTreeMap<u64, usize> = BTreeMap::new();
        for post in self.posts.values().filter(|post| post.is_leased) {
            *of_receiver.entry(post.receiver_hash).or_default() += 1;
        }
        let (until, mut leased) = (now.after(attempt + LEASE_MARGIN), Vec::new());
        for task in due {
            let Some(post) = self.posts.get_mut(&task).filter(|_| leased.len() < max) else { break };
            let of_receiver = of_receiver.entry(post.receiver_hash).or_default();
            if *of_receiver < LEASED_PER_RECEIVER {
                *of_receiver += 1;
                post.is_leased = true;
                leased.push(TaskEndDue { tracked: post.tracked.clone(), receiver: post.receiver.clone() });
                self.set_due(task, until);
            }
        }
        leased
    }

    /// When whoever tells them is to be told that some are due.
    pub(super) fn next_wakeup(&self) -> Option<Timestamp> {
        let behind = (Bound::Excluded((self.announced, Incarnation(u64::MAX))), Bound::Unbounded);
        self.due.range(behind).next().map(|(at, _)| *at)
    }

    fn set_due(&mut self, task: Incarnation, at: Timestamp) {
        let Some(post) = self.posts.get_mut(&task) else { return };
        self.due.remove(&(post.due_at, task));
        post.due_at = at;
        self.due.insert((at, task));
    }

    fn remove(&mut self, task: Incarnation) -> Option<TrackedTask> {
        let post = self.posts.remove(&task)?;
        self.due.remove(&(post.due_at, task));
        if let Some(of_token) = self.by_token.get_mut(&post.token) {
            of_token.remove(&task);
            if of_token.is_empty() {
                self.by_token.remove(&post.token);
            }
        }
        Some(post.tracked)
    }

    /// The oldest of the token that has most; of tokens that have as many, the oldest.
    fn given_up_first(&self) -> Option<Incarnation> {
        let oldest = |of_token: &BTreeSet<Incarnation>| of_token.first().copied();
        let most = self.by_token.values().max_by_key(|of_token| (of_token.len(), Reverse(oldest(of_token))));
        most.and_then(oldest)
    }
}

impl CampaignMachine {
    /// What came of telling the end of a task.
    pub(super) fn end_told(&mut self, task: Incarnation, result: SendResult, step: &mut CampaignsStep<'_>) {
        let Some(post) = self.posts.posts.get_mut(&task) else { return };
        // Another one of its receiver may be told.
        self.posts.announced = Timestamp(i64::MIN);
        post.is_leased = false;
        let SendResult::Failed(patience) = result else {
            self.end_post(task, step);
            return;
        };
        let attempts = post.tracked.state.post.map_or(1, |post| post.attempts + 1);
        if attempts >= self.settings.retry.attempts_max {
            self.give_up_post(task, step);
            return;
        }
        let chance = hash::derived(task.0, &attempts.to_le_bytes());
        let due_at = step.now.after(delay_after(&self.settings.retry, attempts, patience, chance));
        post.tracked.state.post = Some(EndPost { attempts, due_at });
        step.push(Op::PutTaskState(Box::new(post.tracked.state.clone())));
        self.posts.set_due(task, due_at);
    }

    fn give_up_post(&mut self, task: Incarnation, step: &mut CampaignsStep<'_>) {
        if let Some(post) = self.posts.posts.get(&task) {
            let warning =
                CampaignWarning::EndGivenUp { task: post.tracked.task.id, token: post.token.clone() };
            step.emit(CampaignsEffect::Warn(warning));
        }
        step.own.counted.ends_given_up += 1;
        self.end_post(task, step);
    }

    /// Nobody is told any more.
    fn end_post(&mut self, task: Incarnation, step: &mut CampaignsStep<'_>) {
        let Some(TrackedTask { task, mut state, .. }) = self.posts.remove(task) else { return };
        state.post = None;
        self.terms.release(task.terms, step);
        step.push(Op::PutTaskState(Box::new(state.clone())));
        self.ended.put(step.seq, task.id, Some(TrackedTask { task, state, receiver: None }));
    }

    /// Says that ends are due, and makes room where very many wait.
    pub(super) fn tell_due_posts(&mut self, step: &mut CampaignsStep<'_>) {
        while self.posts.posts.len() > POSTS_MAX
            && let Some(task) = self.posts.given_up_first()
        {
            self.give_up_post(task, step);
        }
        if self.posts.next_wakeup().is_some_and(|at| at <= step.now) {
            self.posts.announced = step.now;
            step.emit(CampaignsEffect::EndsDue);
        }
    }
}

fn hash_of(receiver: &OutcomeReceiver) -> u64 {
    let (kind, parts) = match receiver {
        OutcomeReceiver::Queue { namespace, queue } => (0, [&**namespace, &**queue]),
        OutcomeReceiver::Url { url, .. } => (1, [&**url, ""]),
        OutcomeReceiver::Stream { namespace, stream } => (2, [&**namespace, &**stream]),
    };
    parts.iter().fold(kind, |seed, part| hash::derived(seed, part.as_bytes()))
}
