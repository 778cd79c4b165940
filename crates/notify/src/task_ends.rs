//! Tells those who asked for it how tasks ended. It does so by a job of a queue, a message of a
//! stream, or a signed post.

use std::sync::Arc;

use engine::Engine;
use engine::campaigns::TaskEndDue;
use engine::outcomes::SendResult;
use engine::records::OutcomeReceiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use crate::body;
use crate::outcomes::{append, post, publish};
use crate::sender::Sender;

/// Ends of tasks that are told at a time. The engine leases few of one receiver.
const TOLD_AT_ONCE: usize = 64;
/// Ends of tasks that are leased at a time.
const LEASED_MAX: usize = 16;

/// Tells ends of tasks until `shutdown` says so or its sender is gone. What is under way then is
/// told again after the next start.
pub(crate) async fn run(engine: Engine, sender: Arc<Sender>, mut shutdown: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(TOLD_AT_ONCE));
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            _ = shutdown.wait_for(|stop| *stop) => return,
            () = engine.task_ends_due() => {}
            Some(told) = tasks.join_next() => {
                if let Err(error) = told {
                    tracing::error!(%error, "telling the end of a task failed; its lease runs out");
                }
                continue;
            }
        }
        // Without an answer the server is stopping.
        while let Some(due) = lease(&engine, &places).await {
            let is_last = due.len() < LEASED_MAX;
            for (due, place) in due {
                let (engine, sender) = (engine.clone(), Arc::clone(&sender));
                tasks.spawn(async move {
                    tell(&engine, &sender, due).await;
                    drop(place);
                });
            }
            if is_last {
                break;
            }
        }
    }
}

/// Ends that are due, with places to tell them. The places come first: a lease does not wait for
/// one.
async fn lease(engine: &Engine, places: &Arc<Semaphore>) -> Option<Vec<(TaskEndDue, OwnedSemaphorePermit)>> {
    let mut held = Vec::with_capacity(LEASED_MAX);
    for _ in 0..LEASED_MAX {
        held.push(Arc::clone(places).acquire_owned().await.ok()?);
    }
    let due = engine.lease_task_ends(LEASED_MAX).await.ok()?;
    Some(due.into_iter().zip(held).collect())
}

async fn tell(engine: &Engine, sender: &Sender, due: TaskEndDue) {
    let body = body::task_end(&due.tracked);
    let result = match &due.receiver {
        OutcomeReceiver::Queue { namespace, queue } => {
            publish(engine, (namespace, queue), body, due.idempotency_key()).await
        }
        OutcomeReceiver::Stream { namespace, stream } => {
            append(engine, (namespace, stream), body, due.origin()).await
        }
        OutcomeReceiver::Url { url, secret } => post(sender, (url, secret), due.id(), body).await,
    };
    if result != SendResult::Delivered {
        tracing::debug!("the end of a task was not taken by its receiver");
    }
    if engine.task_end_told(due.tracked.task.incarnation, result).await.is_err() {
        tracing::debug!("not accepting; the end of a task that was told is told again");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use engine::campaigns::{NewPickTerms, NewTask};
    use engine::queues::{JobPayload, QueueName};
    use engine::streams::{StreamName, StreamRead};
    use http_body_util::Full;
    use hyper::StatusCode;
    use standardwebhooks::Webhook;

    use super::*;
    use crate::receiver::{self, TestReceiver};
    use crate::rig::{engine, sender};

    const SECRET: &[u8] = b"0123456789abcdef01234567";

    /// A task that finds nobody, and so has ended when it is begun.
    async fn ended_task(engine: &Engine, receiver: OutcomeReceiver) {
        let terms = NewPickTerms { receiver: Some(receiver), ..NewPickTerms::new(Arc::from(&b"1"[..]), 1) };
        let new = NewTask { request: 7, terms, deadline: NewTask::DEADLINE };
        engine.tasks().create(new, None).await.expect("begun");
    }

    #[tokio::test]
    async fn an_end_that_is_told_again_makes_one_job() {
        let (engine, sender) = (engine(10).await, sender());
        ended_task(&engine, OutcomeReceiver::Queue { namespace: "ns".into(), queue: "q".into() }).await;
        engine.task_ends_due().await;
        let due = engine.lease_task_ends(LEASED_MAX).await.expect("accepting");
        let [due] = <[TaskEndDue; 1]>::try_from(due).expect("one end");
        let body = body::task_end(&due.tracked);
        // The first time it is published, and the result is lost with the server.
        let (to, idempotency) = (("ns", "q"), due.idempotency_key());
        assert_eq!(publish(&engine, to, body.clone(), idempotency).await, SendResult::Delivered);
        tell(&engine, &sender, due).await;
        let queue = QueueName::unchecked("ns", "q");
        let jobs = engine.queues().jobs(&queue, None, None, (10, 100)).await.expect("readable").found;
        let payloads: Vec<_> = jobs.into_iter().map(|job| job.payload).collect();
        assert_eq!(payloads, [JobPayload::Json(body.into())]);
        assert_eq!(engine.lease_task_ends(LEASED_MAX).await.expect("accepting").len(), 0, "it was taken");
    }

    #[tokio::test]
    async fn an_end_that_is_told_again_makes_one_message() {
        let (engine, sender) = (engine(10).await, sender());
        ended_task(&engine, OutcomeReceiver::Stream { namespace: "ns".into(), stream: "s".into() }).await;
        engine.task_ends_due().await;
        let due = engine.lease_task_ends(LEASED_MAX).await.expect("accepting");
        let [due] = <[TaskEndDue; 1]>::try_from(due).expect("one end");
        let body = body::task_end(&due.tracked);
        // The first time it is appended, and the result is lost with the server.
        let to = ("ns", "s");
        assert_eq!(append(&engine, to, body.clone(), due.origin()).await, SendResult::Delivered);
        tell(&engine, &sender, due).await;
        let stream = StreamName::unchecked("ns", "s");
        let all = StreamRead { after: 0, from: None, segments: Vec::new(), limit: 10, bytes_max: 1 << 20 };
        let page = engine.streams().read(&stream, &all).expect("readable");
        let payloads: Vec<_> = page.items.iter().map(|message| &*message.payload).collect();
        assert_eq!(payloads, [body.as_bytes()]);
        assert_eq!(engine.lease_task_ends(LEASED_MAX).await.expect("accepting").len(), 0, "it was taken");
    }

    #[tokio::test]
    async fn an_end_is_posted_until_its_receiver_takes_it() {
        let engine = engine(10).await;
        let asked = AtomicUsize::new(0);
        let mut receiver = TestReceiver::start(move || {
            let is_first = asked.fetch_add(1, Ordering::SeqCst) == 0;
            let mut answer = receiver::Answer::new(Full::<Bytes>::default());
            *answer.status_mut() = if is_first { StatusCode::BAD_GATEWAY } else { StatusCode::OK };
            answer
        })
        .await;
        let (stop, stopped) = watch::channel(false);
        let telling = tokio::spawn(run(engine.clone(), Arc::new(sender()), stopped));
        ended_task(&engine, OutcomeReceiver::Url { url: receiver.url().into(), secret: SECRET.into() }).await;
        let (first, second) = (receiver.request().await, receiver.request().await);
        assert_eq!(first.headers()["webhook-id"], second.headers()["webhook-id"]);
        assert_eq!(first.body(), second.body());
        let webhook = Webhook::from_bytes(SECRET.to_vec()).expect("a secret");
        webhook.verify(second.body(), second.headers()).expect("a good signature");
        let body: serde_json::Value = serde_json::from_slice(second.body()).expect("JSON");
        assert_eq!((&body["type"], &body["data"]["status"]), (&"task.done".into(), &"done".into()));
        stop.send_replace(true);
        telling.await.expect("it ends by itself");
    }
}
