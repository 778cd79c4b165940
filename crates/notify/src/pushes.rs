//! Posts the messages of subscriptions that are pushed, in their order.
//!
//! Each subscription has a task, which waits for messages, posts some, commits them when they were
//! taken, and goes on: one post at a time. A post that is not taken is made again for ever, with
//! the same messages. Posts take places; those of receivers that failed last time share a few, so
//! that however many hang, the others are served. While a task waits it holds no message.

use std::sync::Arc;
use std::time::Duration;

use base::{EntityId, Problem, Timestamp, hash};
use engine::streams::{PushFailure, PushKey, PushPage, PushTarget};
use engine::target_tasks::TargetTasks;
use engine::{AttemptOutcome, Engine};
use tokio::sync::{Semaphore, watch};

use crate::body;
use crate::metrics::{AttemptResult, WebhookMetrics};
use crate::outcomes::answer_of;
use crate::sender::Sender;

/// Posts at a time, each with at most 256 KiB of messages, or one that is larger,
const POSTS_MAX: usize = 32;
/// and besides these posts to receivers that did not take what they were sent last.
const POSTS_TO_FAILING: usize = 8;
/// After how long a position moves on past messages of other segments, where none of its own come,
const SKIPPED_COMMITTED_AFTER: Duration = Duration::from_secs(2);
/// or after how many of them.
const SKIPPED_MAX: u64 = 10_000;
/// After how long it is tried again to read or to commit, where the server could not.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

struct Pushes {
    engine: Engine,
    sender: Arc<Sender>,
    metrics: WebhookMetrics,
    places: Semaphore,
    places_of_failing: Semaphore,
}

/// Posts messages of subscriptions until `shutdown` says so or its sender is gone. What is under
/// way then is posted again after the next start.
pub(crate) async fn run(
    engine: Engine,
    sender: Arc<Sender>,
    metrics: WebhookMetrics,
    mut shutdown: watch::Receiver<bool>,
) {
    let pushes = Arc::new(Pushes {
        engine,
        sender,
        metrics,
        places: Semaphore::new(POSTS_MAX),
        places_of_failing: Semaphore::new(POSTS_TO_FAILING),
    });
    let streams = pushes.engine.streams();
    let mut tasks = TargetTasks::default();
    loop {
        tasks.follow(streams.pushes(), |target| push(Arc::clone(&pushes), target));
        tokio::select! {
            _ = shutdown.wait_for(|stop| *stop) => return,
            () = streams.pushes_changed() => {}
            error = tasks.panicked() => {
                tracing::error!(%error, "the task of a subscription failed; it begins anew");
            }
        }
    }
}

/// Posts the messages of a subscription until it is gone.
async fn push(pushes: Arc<Pushes>, target: PushTarget) {
    let mut progress = PushProgress::default();
    loop {
        match pushes.turn(&target, &mut progress).await {
            Ok(()) => {}
            Err(problem) if problem.status == 404 => return,
            Err(problem) => {
                tracing::debug!(stream = %target.key.stream, %problem, "a push waits");
                pushes.note_unread(&target, &mut progress, &problem);
                pushes.pause(TRY_AGAIN_AFTER).await;
            }
        }
    }
}

/// How far the task of a subscription has come.
#[derive(Debug, Default)]
struct PushProgress {
    /// Up to here there is nothing to post: messages of other segments.
    read_to: u64,
    /// When the position moves on past these, counted from the first of them.
    skips_at: Option<Timestamp>,
    /// The last message of a post that was not taken: the next post ends with it too.
    until: Option<u64>,
    /// Posts that were not taken, one after the other.
    failures: u32,
    /// The messages could not be read, or the position not be moved, last.
    is_held_up: bool,
}

impl Pushes {
    /// Posts what there is, or waits for more.
    async fn turn(&self, target: &PushTarget, progress: &mut PushProgress) -> Result<(), Problem> {
        let places = if progress.failures == 0 { &self.places } else { &self.places_of_failing };
        // They are never closed.
        let place = places.acquire().await;
        let found = self.engine.streams().push_page(target, progress.read_to, progress.until).await?;
        if std::mem::take(&mut progress.is_held_up) && progress.failures == 0 {
            self.engine.streams().note_push(target, None);
        }
        let (Some(first), Some(last)) = (found.page.items.first(), found.page.items.last()) else {
            drop(place);
            return self.wait(target, progress, &found).await;
        };
        let id = post_id(&target.key, &found, (first.id, last.id));
        let (last, behind) = (last.id, found.page.next_after);
        let PushPage { url, secret, position, page, .. } = found;
        let text = body::messages(&target.key, &page.items);
        drop(page);
        let answer = answer_of(&self.sender, (&url, &secret), id, text).await;
        let is_taken = matches!(answer, AttemptOutcome::Status { code: 200..=299, .. });
        self.metrics.pushed(is_taken);
        drop(place);
        if is_taken {
            return self.taken(target, progress, (position, behind)).await;
        }
        progress.until = Some(last);
        progress.failures = progress.failures.saturating_add(1);
        self.not_taken(target, progress.failures, answer).await;
        Ok(())
    }

    async fn taken(
        &self,
        target: &PushTarget,
        progress: &mut PushProgress,
        (from, to): (u64, u64),
    ) -> Result<(), Problem> {
        if progress.failures > 0 {
            self.engine.streams().note_push(target, None);
        }
        // Where the commit fails, the same messages are posted again: they are behind the position.
        *progress = PushProgress { until: progress.until, ..PushProgress::default() };
        match self.engine.streams().commit_pushed(target, from, to).await {
            Ok(()) => progress.read_to = to,
            Err(problem) if problem.code == "position_moved" => {}
            Err(problem) => return Err(problem),
        }
        progress.until = None;
        Ok(())
    }

    /// Waits as long as the delays of `[notify]` say, or as the receiver asks for.
    async fn not_taken(&self, target: &PushTarget, failures: u32, answer: AttemptOutcome) {
        let (patience, error) = match answer {
            AttemptOutcome::Status { code, retry_after } => (retry_after, format!("answered {code}")),
            _ => (None, AttemptResult::from(answer).as_str().to_owned()),
        };
        let PushKey { stream, subscription } = &target.key;
        tracing::debug!(%stream, %subscription, failures, error, "a push was not taken");
        let now = self.engine.clock().now();
        self.engine.streams().note_push(target, Some(PushFailure { failures, at: now, error: error.into() }));
        let seed = hash::derived(target.generation, subscription.as_bytes());
        let chance = hash::derived(seed, &failures.to_le_bytes());
        self.pause(self.engine.retry_delay(failures, patience, chance)).await;
    }

    /// There was nothing to post: waits for more. Now and then it moves the position past what was
    /// left out, even while messages of others come all the time.
    async fn wait(
        &self,
        target: &PushTarget,
        progress: &mut PushProgress,
        found: &PushPage,
    ) -> Result<(), Problem> {
        let was_cut = progress.until.take().is_some();
        progress.read_to = found.page.next_after;
        let (read_to, streams) = (progress.read_to, self.engine.streams());
        let skipped = read_to.saturating_sub(found.position);
        let now = self.engine.clock().now();
        if skipped > 0 && (skipped >= SKIPPED_MAX || progress.skips_at.is_some_and(|at| now >= at)) {
            progress.skips_at = None;
            return match streams.commit_pushed(target, found.position, read_to).await {
                Err(problem) if problem.code == "position_moved" => Ok(()),
                committed => committed,
            };
        }
        let skips_at = match skipped {
            0 => Timestamp::MAX,
            _ => *progress.skips_at.get_or_insert_with(|| now.after(SKIPPED_COMMITTED_AFTER)),
        };
        if was_cut || !found.page.is_end {
            return Ok(());
        }
        tokio::select! {
            () = streams.appended(&target.key.stream, read_to) => {}
            () = self.engine.until(skips_at), if skipped > 0 => {}
        }
        Ok(())
    }

    /// A subscription whose messages cannot be read is no healthy one.
    fn note_unread(&self, target: &PushTarget, progress: &mut PushProgress, problem: &Problem) {
        progress.is_held_up = true;
        let (at, error) = (self.engine.clock().now(), problem.detail.as_str().into());
        let failure = PushFailure { failures: progress.failures.max(1), at, error };
        self.engine.streams().note_push(target, Some(failure));
    }

    async fn pause(&self, delay: Duration) {
        self.engine.until(self.engine.clock().now().after(delay)).await;
    }
}

/// The id of a post: the same whenever the same messages are posted.
fn post_id(key: &PushKey, found: &PushPage, (first, last): (u64, u64)) -> EntityId {
    const BITS_48: u64 = (1 << 48) - 1;
    let of_stream = hash::derived(found.stream.0, key.subscription.as_bytes());
    let seed = hash::derived(of_stream, &first.to_le_bytes());
    let at = found.page.items.first().map(|item| item.received_at).unwrap_or_default();
    let tag = hash::derived(seed, &last.to_le_bytes()) & BITS_48;
    EntityId { routing: of_stream as u32, at, number: last as u32, tag }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

    use base::{Clock, Lineage};
    use bytes::Bytes;
    use engine::streams::{
        MessagePayload, NewMessage, NewSubscription, NewSubscriptionPush, ReaderCommit, StreamName,
    };
    use http_body_util::Full;
    use hyper::StatusCode;
    use serde_json::Value;
    use standardwebhooks::Webhook;
    use store::MemoryStore;

    use super::*;
    use crate::receiver::{self, TestReceiver};
    use crate::rig::{engine, sender};

    const SECRET: &[u8] = b"0123456789abcdef01234567";

    fn orders() -> StreamName {
        StreamName::new("shop", "orders").expect("a name")
    }

    async fn append(engine: &Engine, numbers: std::ops::Range<u64>, segment: &str) {
        let message = |number: u64| NewMessage {
            segment: Some(segment.into()),
            ..NewMessage::new(MessagePayload::Json(number.to_string().into_bytes().into()))
        };
        engine.streams().append(&orders(), numbers.map(message).collect(), None).await.expect("appended");
    }

    async fn subscribe(engine: &Engine, url: &str, max: u32) {
        let push = NewSubscriptionPush { url: url.into(), max, secret: SECRET.into(), is_made: false };
        let new = NewSubscription {
            name: "bill".into(),
            from: None,
            segments: vec!["east".into()],
            push: Some(push),
        };
        engine.streams().put_subscription(&orders(), new, None).await.expect("made");
    }

    fn run_pushes(engine: &Engine) -> watch::Sender<bool> {
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(run(engine.clone(), Arc::new(sender()), WebhookMetrics::new(), stopped));
        stop
    }

    fn payloads(body: &[u8]) -> Vec<u64> {
        let body: Value = serde_json::from_slice(body).expect("JSON");
        assert_eq!(body["type"], "stream.messages");
        let items = body["items"].as_array().expect("items").clone();
        items.iter().map(|item| item["payload"].as_u64().expect("a number")).collect()
    }

    #[tokio::test]
    async fn messages_are_posted_in_order_until_they_are_taken() {
        let engine = engine(1).await;
        let asked = AtomicUsize::new(0);
        let mut receiver = TestReceiver::start_closed(move || {
            let fails = asked.fetch_add(1, Ordering::SeqCst) < 2;
            let mut answer = receiver::Answer::new(Full::<Bytes>::default());
            *answer.status_mut() = if fails { StatusCode::GONE } else { StatusCode::OK };
            answer
        })
        .await;
        subscribe(&engine, &receiver.url(), 2).await;
        append(&engine, 1..4, "east").await;
        let _stop = run_pushes(&engine);
        let first = receiver.request().await;
        append(&engine, 4..5, "west").await;
        append(&engine, 5..6, "east").await;
        receiver.gate.add_permits(1_000);
        for _ in 0..2 {
            let again = receiver.request().await;
            assert_eq!(again.headers()["webhook-id"], first.headers()["webhook-id"]);
            assert_eq!(payloads(again.body()), [1, 2]);
            let webhook = Webhook::from_bytes(SECRET.to_vec()).expect("a secret");
            webhook.verify(again.body(), again.headers()).expect("a good signature");
        }
        assert_eq!(payloads(receiver.request().await.body()), [3, 5], "what is of others is left out");
        append(&engine, 6..7, "east").await;
        assert_eq!(payloads(receiver.request().await.body()), [6], "it is woken");
    }

    #[tokio::test]
    async fn a_position_moves_past_messages_of_others_that_come_all_the_time() {
        let clock = Arc::new(SteppedClock::default());
        let settings = engine::EngineSettings::for_tests();
        let store = Arc::new(MemoryStore::new(Lineage(1), 4));
        let engine = Engine::start(settings, store, Arc::<SteppedClock>::clone(&clock)).await.expect("loads");
        subscribe(&engine, "http://127.0.0.1:9/", 2).await;
        let _stop = run_pushes(&engine);
        let streams = engine.streams();
        let is_moved = async {
            let mut number = 1;
            // Each comes sooner than it would be told without the ones before.
            while streams.subscription(&orders(), "bill").expect("there").position == 0 {
                append(&engine, number..number + 1, "west").await;
                clock.0.fetch_add(500, Ordering::SeqCst);
                number += 1;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(10), is_moved).await.is_ok(), "it stays");
    }

    /// A clock that a test puts forward.
    #[derive(Default)]
    struct SteppedClock(AtomicI64);

    impl Clock for SteppedClock {
        fn now(&self) -> Timestamp {
            Timestamp(self.0.load(Ordering::SeqCst))
        }

        fn wall(&self) -> Timestamp {
            self.now()
        }
    }

    #[tokio::test]
    async fn a_push_that_is_never_taken_can_be_passed_over() {
        let engine = engine(1).await;
        let mut receiver = TestReceiver::start(|| {
            let mut answer = receiver::Answer::new(Full::<Bytes>::default());
            *answer.status_mut() = StatusCode::BAD_REQUEST;
            answer
        })
        .await;
        append(&engine, 1..4, "east").await;
        let _stop = run_pushes(&engine);
        subscribe(&engine, &receiver.url(), 1).await;
        assert_eq!(payloads(receiver.request().await.body()), [1]);
        let commit = ReaderCommit { subscription: "bill".into(), reader: "me".into(), id: 2, rewinds: false };
        engine.streams().commit(&orders(), commit).await.expect("moved");
        loop {
            // Posts of before may be there still.
            if payloads(receiver.request().await.body()) == [3] {
                break;
            }
        }
        let shown = engine.streams().subscription(&orders(), "bill").expect("there");
        assert_eq!(shown.position, 2);
        engine.streams().delete_subscription(&orders(), "bill").await.expect("deleted");
        assert!(engine.streams().pushes().is_empty());
    }
}
