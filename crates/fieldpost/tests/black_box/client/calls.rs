//! Single calls: jobs in and out, what is seen of them, and what is set for their queue.

use std::time::{Duration, SystemTime};

use fieldpost_client::{
    Alias, Error, JobChange, JobId, JobState, NewJob, OnConflict, Payload, QueueSettings, ReadyOrder, Retry,
    Schedule, Want,
};
use serde::{Deserialize, Serialize};

use crate::client::rig::{PATIENCE, Rig, counts};

#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Mail {
    to: String,
    copies: u32,
}

fn number(number: u32) -> NewJob {
    NewJob::json(&number).expect("a number")
}

/// Jobs that come within a test's patience.
fn waiting() -> Want {
    Want::one().wait(PATIENCE)
}

#[tokio::test]
async fn a_job_comes_as_it_was_published_and_is_gone_when_it_is_done() {
    let rig = Rig::start().await;
    let queue = rig.queue();
    let mail = Mail { to: "ann".to_owned(), copies: 2 };
    let published =
        queue.publish(NewJob::json(&mail).expect("a mail").tries(3).alias("m")).await.expect("durable");
    let bytes = queue.publish(NewJob::bytes([0, 255])).await.expect("durable");
    let jobs = queue.consume(waiting().max(10)).await.expect("jobs");
    let ids: Vec<_> = jobs.iter().map(|job| &job.id).collect();
    assert_eq!(ids, [&published.id, &bytes.id]);
    assert_eq!(jobs[0].payload.json::<Mail>().expect("a mail"), mail);
    assert_eq!((jobs[0].attempt, jobs[0].tries, jobs[0].alias.as_deref()), (1, 3, Some("m")));
    assert_eq!(jobs[0].run_at, published.run_at);
    assert!(matches!(&jobs[1].payload, Payload::Bytes(bytes) if bytes == &[0, 255]), "{jobs:?}");
    queue.extend(&jobs[0].reservation, Duration::from_secs(60)).await.expect("extended");
    queue.ack(&jobs[0].reservation).await.expect("done");
    assert!(queue.ack(&jobs[0].reservation).await.expect_err("it is gone").is_stale());
    let acked = queue.ack_many(jobs.iter().map(|job| &job.reservation)).await.expect("an answer");
    assert_eq!((acked.acked, acked.stale), (1, vec![jobs[0].reservation.clone()]));
    assert_eq!(counts(&queue.overview().await.expect("figures")), [0; 4]);
}

#[tokio::test]
async fn a_waiting_job_is_seen_changed_and_cancelled_by_id_and_by_alias() {
    let rig = Rig::start().await;
    let queue = rig.queue();
    let hour = Duration::from_secs(3_600);
    let first = queue.publish(number(1).delay(hour).alias("a").group("g")).await.expect("durable");
    let taken = queue.publish(number(2).alias("a")).await.expect_err("it is held");
    assert_eq!((taken.status(), taken.code()), (Some(409), Some("alias_taken")));
    let kept = queue.publish(number(3).alias("a").on_conflict(OnConflict::Keep)).await.expect("kept");
    assert_eq!(kept, first);
    let seen = queue.get(Alias("a")).await.expect("a job");
    assert_eq!((&seen.id, seen.state, seen.group.as_deref()), (&first.id, JobState::Scheduled, Some("g")));
    let soon = SystemTime::now() + 2 * hour;
    let changed = queue.change(&first.id, &JobChange::new().json(&4).expect("a number").run_at(soon)).await;
    let changed = changed.expect("changed");
    assert_eq!(changed.payload.json::<u32>().expect("a number"), 4);
    assert!(changed.run_at > first.run_at);
    let scheduled = queue.jobs(Some(JobState::Scheduled), None).await.expect("a page");
    assert_eq!((scheduled.items.len(), scheduled.next), (1, None));
    assert!(queue.jobs(Some(JobState::Ready), None).await.expect("a page").items.is_empty());
    queue.cancel(Alias("a")).await.expect("cancelled");
    for error in [
        queue.cancel(&first.id).await.expect_err("it is gone"),
        queue.get(&JobId::new("nonsense")).await.expect_err("there is none"),
    ] {
        assert_eq!(error.code(), Some("unknown_job"));
    }
}

#[tokio::test]
async fn a_thousand_are_published_at_once_or_none_and_listed_page_by_page() {
    let rig = Rig::start().await;
    let queue = rig.queue();
    let jobs: Vec<_> = (0..1_000).map(number).collect();
    let published = queue.publish_many(&jobs).await.expect("durable");
    assert_eq!(published.len(), 1_000);
    let twice = [number(1).alias("a"), number(2).alias("a")];
    assert_eq!(queue.publish_many(&twice).await.expect_err("the same alias").code(), Some("alias_repeated"));
    let (mut listed, mut cursor) = (Vec::new(), None);
    loop {
        let page = queue.jobs(None, cursor.as_ref()).await.expect("a page");
        listed.extend(page.items.into_iter().map(|job| job.id));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(listed, published.into_iter().map(|job| job.id).collect::<Vec<_>>());
    let taken = queue.consume(Want::one().max(1_000)).await.expect("jobs");
    let acked = queue.ack_many(taken.iter().map(|job| &job.reservation)).await.expect("an answer");
    assert_eq!(acked.acked, 1_000);
}

#[tokio::test]
async fn a_job_comes_as_often_as_its_schedule_says() {
    let rig = Rig::start().await;
    let queue = rig.queue();
    let twice = Schedule::every(Duration::from_secs(1)).times(2);
    let published = queue.publish(number(7).recurring(twice).delay(Duration::ZERO)).await.expect("durable");
    let seen = queue.get(&published.id).await.expect("it is there");
    assert_eq!((seen.every, seen.cron, seen.executions_left), (Some(Duration::from_secs(1)), None, Some(2)));
    let (mut due, mut done) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let jobs = queue.consume(waiting()).await.expect("a job");
        assert_eq!(jobs[0].id, published.id);
        due.push(jobs[0].run_at);
        queue.ack(&jobs[0].reservation).await.expect("done");
        done.push(SystemTime::now());
    }
    // A job that is done late leaves out the times that have gone by.
    let apart = due[1].duration_since(due[0]).expect("later");
    let late = done[0].duration_since(due[0]).expect("later");
    let most = Duration::from_secs(late.as_secs() + 1);
    assert!(!apart.is_zero() && apart.subsec_nanos() == 0 && apart <= most, "{apart:?}, {late:?} late");
    assert_eq!(counts(&queue.overview().await.expect("figures")), [0; 4]);
    let nonsense = queue.publish(number(7).recurring(Schedule::cron("often"))).await;
    assert_eq!(nonsense.expect_err("no expression").code(), Some("invalid_schedule"));
}

#[tokio::test]
async fn dead_jobs_are_read_respawned_and_dropped() {
    let rig = Rig::start().await;
    let queue = rig.queue();
    queue.publish_many(&[number(1), number(2), number(3)]).await.expect("durable");
    for job in queue.consume(Want::one().max(3)).await.expect("jobs") {
        queue.release(&job.reservation, &Retry::now().because("no paper")).await.expect("released");
    }
    let dead = queue.dead(None).await.expect("a page").items;
    let told: Vec<_> = dead.iter().map(|job| (job.reason.as_str(), job.error.as_deref())).collect();
    assert_eq!(told, [("released", Some("no paper")); 3]);
    assert_eq!(queue.respawn(&[dead[2].id.clone()]).await.expect("an answer"), 1);
    assert_eq!(queue.respawn_oldest(1).await.expect("an answer"), 1);
    assert_eq!(counts(&queue.overview().await.expect("figures")), [0, 2, 0, 1]);
    queue.clear_dead().await.expect("dropped");
    assert_eq!(counts(&queue.overview().await.expect("figures")), [0, 2, 0, 0]);
}

#[tokio::test]
async fn a_queue_does_what_is_set_for_it_until_it_is_deleted() {
    let rig = Rig::start().await;
    let queue = rig.queue();
    let settings = QueueSettings {
        order: ReadyOrder::Lifo,
        concurrency: Some(1),
        rate: None,
        jobs_max: Some(2),
        dead_max: Some(10),
        dead_max_age: Some(Duration::from_secs(86_400)),
    };
    queue.set(&settings).await.expect("set");
    queue.publish_many(&[number(1), number(2)]).await.expect("durable");
    assert_eq!(queue.publish(number(3)).await.expect_err("it is full").code(), Some("queue_full"));
    queue.pause().await.expect("paused");
    assert!(queue.consume(Want::one()).await.expect("an answer").is_empty());
    let listed = rig.client.queues(Some("shop"), None).await.expect("a page").items;
    assert_eq!((listed.len(), listed[0].paused, &listed[0].settings), (1, true, &settings));
    queue.resume().await.expect("resumed");
    let jobs = queue.consume(Want::one().max(2)).await.expect("jobs");
    assert_eq!(jobs.len(), 1, "one at a time");
    assert_eq!(jobs[0].payload.json::<u32>().expect("a number"), 2, "the last one first");
    queue.delete().await.expect("deleted");
    assert_eq!(counts(&queue.overview().await.expect("figures")), [0; 4]);
    let own = rig.client.queue("shop", "_own").publish(number(1)).await.expect_err("the server's own");
    assert!(matches!(&own, Error::Refused(refusal) if refusal.status == 422), "{own:?}");
}

#[tokio::test]
async fn several_queues_are_taken_from_in_order() {
    let rig = Rig::start().await;
    for queue in ["mail", "urgent"] {
        rig.client.queue("shop", queue).publish_many(&[number(1), number(2)]).await.expect("durable");
    }
    let consumer = rig.client.consumer("shop", ["urgent", "mail"]);
    let mut came = Vec::new();
    loop {
        let jobs = consumer.consume(Want::one().max(2)).await.expect("an answer");
        if jobs.is_empty() {
            break;
        }
        came.extend(jobs.iter().map(|job| job.queue.clone()));
        let acked = consumer.ack_many(jobs.iter().map(|job| &job.reservation)).await.expect("an answer");
        assert_eq!(acked.acked, jobs.len());
    }
    assert_eq!(came, ["urgent", "urgent", "mail", "mail"]);
}
