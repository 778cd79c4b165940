//! Whoever posts the messages of subscriptions that are pushed, and the receivers of these. A
//! receiver takes a post, does not, or takes it while the commit comes late or never.

use std::collections::BTreeSet;
use std::rc::Rc;

use engine::streams::{PushKey, StreamRead};
use records::StreamSubscription;

use super::World;
use crate::harness::track::{AnyTrack, Past};
use crate::harness::violation::{Checked, Invariant};
use crate::streams::asked::{AskedCommit, SubscriptionKey};

/// Messages that a receiver took, and that are not committed.
pub(super) struct OpenPost {
    key: SubscriptionKey,
    from: u64,
    to: u64,
}

fn key_of(push: &PushKey) -> SubscriptionKey {
    SubscriptionKey { stream: push.stream.stream().into(), name: push.subscription.clone() }
}

impl World {
    /// Something goes on with what is pushed.
    pub(super) fn post(&mut self) -> Checked {
        let machine = Rc::clone(&self.machine);
        if !self.posts.is_empty() && machine.random.chance(1, 2) {
            let place = machine.random.below(self.posts.len() as u64) as usize;
            let taken = self.posts.swap_remove(place);
            self.commit_post(taken);
            return Ok(());
        }
        let pushes = self.pushes();
        if pushes.is_empty() {
            return Ok(());
        }
        let push = machine.random.one_of(&pushes);
        let Some(post) = self.next_post(&push)? else { return Ok(()) };
        match machine.random.below(4) {
            // The receiver does not take it.
            0 => {}
            1 => self.posts.push(post),
            _ => self.commit_post(post),
        }
        Ok(())
    }

    /// Posts what there is, now that every receiver takes it. Whether there was anything.
    pub(super) fn post_at_rest(&mut self) -> Checked<bool> {
        if !self.has_room() {
            return Ok(false);
        }
        for push in self.pushes() {
            if self.is_asked_about(&key_of(&push)) {
                continue;
            }
            if let Some(post) = self.next_post(&push)? {
                self.commit_post(post);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn commit_post(&mut self, OpenPost { key, from, to }: OpenPost) {
        self.ask_commit(key, AskedCommit { id: to, rewinds: false, pushed_from: Some(from) });
    }

    fn pushes(&self) -> Vec<PushKey> {
        let server = self.server.iter();
        server.flat_map(|server| server.context.pushes()).map(|target| target.key).collect()
    }

    /// What is to be posted next: behind the position, all of it, in order.
    fn next_post(&mut self, push: &PushKey) -> Checked<Option<OpenPost>> {
        let (Some(server), Some(seq)) = (self.server.as_ref(), self.seen_batch()) else { return Ok(None) };
        let key = key_of(push);
        let row = self.model.at(seq, Past::Life)?.subscription_of(&key).cloned();
        let row = row.filter(|row| row.push.is_some());
        let found = server.context.push_page(push, 0, None);
        self.model.shown(seq);
        let (found, row) = match (found, row) {
            (Ok(found), Some(row)) => (found, row),
            (Err(problem), _) if problem.status == 503 => {
                self.counts.unreadable += 1;
                return Ok(None);
            }
            (Err(_), None) => return Ok(None),
            (found, row) => {
                let detail = format!("{key:?} is posted as {found:?}, and is {row:?}");
                return Err(Invariant::AS_THE_MODEL.broken(detail));
            }
        };
        let url = row.push.as_ref().map(|push| &*push.url);
        Invariant::AS_THE_MODEL.same(
            "what is posted",
            &(found.stream, found.position, Some(&*found.url)),
            &(row.stream, row.position, url),
        )?;
        self.check_place(&key, found.position)?;
        let from = row.position;
        let query = StreamRead { after: from, from: None, segments: row.segments, limit: 0, bytes_max: 0 };
        let page = self.check_page(&key.stream, &query, (found.page, seq))?;
        let to = page.map(|page| page.next_after).filter(|to| *to > from);
        self.counts.posts += u64::from(to.is_some());
        Ok(to.map(|to| OpenPost { key, from, to }))
    }

    /// Whoever posts knows of all that is pushed, and all of it was posted; readers find the rest.
    pub(super) fn check_subscriptions_at_rest(&mut self) -> Checked {
        let known: BTreeSet<SubscriptionKey> = self.pushes().iter().map(key_of).collect();
        let rows = self.model.present.named_subscriptions().map(|(key, row)| (key, row.clone()));
        let rows: Vec<(SubscriptionKey, StreamSubscription)> = rows.collect();
        let pushed = rows.iter().filter(|(_, row)| row.push.is_some()).map(|(key, _)| key.clone());
        let pushed: BTreeSet<SubscriptionKey> = pushed.collect();
        Invariant::PUSHES_ARE_KNOWN.same("subscriptions that are pushed", &known, &pushed)?;
        for (key, row) in rows {
            self.look_at_subscription(&key)?;
            let unread = self.unread_of(&row);
            if row.push.is_some() {
                Invariant::NEVER_EARLY_HARDLY_LATE
                    .check(unread.is_empty(), || format!("{unread:?} were not posted: {row:?}"))?;
                continue;
            }
            let read = self.read_to_end(&key.stream, row.position, row.segments)?;
            Invariant::READ_AS_ANSWERED.same(format_args!("the rest of {key:?}"), &read, &unread)?;
        }
        Ok(())
    }

    /// The messages behind a position that it is to give.
    fn unread_of(&self, row: &StreamSubscription) -> Vec<u64> {
        let found = self.model.present.streams.get(&row.stream);
        let messages = found.into_iter().flat_map(|found| found.messages.range(row.position + 1..));
        let is_its = |segment: &Option<Box<str>>| {
            row.segments.is_empty() || segment.as_ref().is_some_and(|one| row.segments.contains(one))
        };
        messages.filter(|(_, given)| is_its(&given.segment)).map(|(id, _)| *id).collect()
    }
}
