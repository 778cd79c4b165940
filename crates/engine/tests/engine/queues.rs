//! Queues as the edges hold them, over a store in memory and a clock that the test moves.

mod aliases;
mod dropping;
mod floods;
mod idempotency;
mod leaving;
mod retention;
pub(crate) mod rig;
mod several;
mod stats;

use std::sync::atomic::Ordering;
use std::time::Duration;

use base::{Clock, Timestamp};
use engine::queries::LOOKED_AT_MAX;
use engine::queues::{
    ConsumeTerms, Dead, DueTime, JobChange, JobRef, JobRelease, JobState, NewJob, QueueName, RecurrenceTerms,
};
use engine::records;
use records::{QueueOrder, QueueSettings};
use rig::{NOON, Rig, SECOND, job, later, orders, text, want};

#[tokio::test]
async fn a_queue_says_how_fast_jobs_go_through_it() {
    let rig = Rig::start().await;
    let rates = async || rig.queues().stats(&orders()).await.expect("asked").rates;
    assert!(rates().await.is_zero());
    for payload in ["1", "2", "3"] {
        rig.publish(job(payload)).await;
    }
    let taken = rig.consume(2).await;
    rig.queues().ack(&orders(), vec![taken[0].1, taken[0].1]).await.expect("asked");
    let per_minute = |rate: f64| (rate * 60.0).round();
    let found = rates().await;
    let [published, consumed, acked] = [found.published, found.consumed, found.acked].map(per_minute);
    assert_eq!((published, consumed, acked), (3.0, 2.0, 1.0), "{found:?}");
    rig.pass(120 * SECOND);
    assert!(rates().await.is_zero());
}

#[tokio::test]
async fn the_last_try_leaves_a_dead_letter_that_can_be_respawned() {
    let rig = Rig::start().await;
    let id = rig.publish(NewJob { alias: Some("a".into()), ..job("1") }).await;
    let (_, held, _) = rig.consume(1).await.remove(0);
    let release = JobRelease { error: Some("no paper".into()), ..JobRelease::default() };
    rig.queues().release(&orders(), held, release).await.expect("released");
    rig.publish(job("2")).await;
    rig.consume(1).await;
    rig.pass(10 * SECOND);
    assert_eq!(rig.counts().await, [0, 0, 0, 2]);
    rig.restart().await;
    let dead = rig.queues().dead(&orders(), None, 10).await.expect("asked");
    let seen: Vec<_> = dead
        .iter()
        .map(|it| (text(&it.payload), it.dead.reason.as_str(), it.dead.error.as_deref(), it.dead.attempt))
        .collect();
    assert_eq!(
        seen,
        [("1".to_owned(), "released", Some("no paper"), 1), ("2".to_owned(), "timed_out", None, 1)]
    );
    let respawned = rig.queues().respawn(&orders(), Dead::Ids(vec![id, id]), None).await.expect("asked");
    assert_eq!((respawned, rig.counts().await), (1, [0, 1, 0, 1]));
    let again = rig.queues().job(&orders(), JobRef::Alias("a".into())).await.expect("it has its alias");
    assert_eq!((again.id, again.attempt, again.state), (id, 0, JobState::Ready));
    assert_eq!(rig.queues().delete_dead(&orders(), None).await.expect("asked"), 1);
    assert_eq!(rig.counts().await, [0, 1, 0, 0]);
}

#[tokio::test]
async fn a_recurring_job_is_worth_doing_as_long_after_another_time() {
    let rig = Rig::start().await;
    let recurs = Some(RecurrenceTerms::Every { interval: 60 * SECOND, executions: None });
    let id = rig.publish(NewJob { recurs, ttl: Some(10 * SECOND), ..job("1") }).await;
    let change = JobChange { payload: None, due: Some(DueTime::After(120 * SECOND)) };
    let seen = rig.queues().change(&orders(), JobRef::Id(id), change).await.expect("its ttl goes with it");
    assert_eq!(seen.expires_at, Some(Timestamp(NOON + 130_000)));
    rig.pass(120 * SECOND);
    assert_eq!(rig.payloads(1).await, ["1"]);
}

#[tokio::test]
async fn leases_that_do_not_reach_their_consumer_cost_no_part_of_a_rate() {
    let rig = Rig::start().await;
    let settings = QueueSettings { rate: Some(1.0), ..QueueSettings::default() };
    rig.queues().set(&orders(), settings).await.expect("set");
    rig.publish(job("1")).await;
    rig.publish(job("2")).await;
    let (jobs, hand_over) = rig.queues().consume(&[orders()], want(2)).await.expect("asked");
    assert_eq!(jobs.len(), 1);
    drop(hand_over);
    assert_eq!(rig.payloads(2).await, ["1"], "again, and at once");
}

#[tokio::test]
async fn a_recurring_job_comes_again_and_a_dead_run_does_not_end_it() {
    let rig = Rig::start().await;
    let recurs = Some(RecurrenceTerms::Every { interval: 60 * SECOND, executions: Some(3) });
    let id = rig.publish(NewJob { recurs, ..job("1") }).await;
    assert!(rig.payloads(1).await.is_empty(), "one interval from now");
    rig.pass(60 * SECOND);
    let (_, held, _) = rig.consume(1).await.remove(0);
    rig.queues().ack(&orders(), vec![held]).await.expect("asked");
    assert_eq!(rig.counts().await, [1, 0, 0, 0]);
    rig.restart().await;
    rig.pass(150 * SECOND);
    let (_, held, attempt) = rig.consume(1).await.remove(0);
    assert_eq!(attempt, 1);
    rig.queues().release(&orders(), held, JobRelease::default()).await.expect("it holds");
    assert_eq!(rig.counts().await, [0, 1, 0, 1], "a dead letter, and a run for the one that was missed");
    let dead = rig.queues().dead(&orders(), None, 1).await.expect("asked");
    assert_ne!(dead[0].dead.id, id);
    let (_, held, _) = rig.consume(1).await.remove(0);
    rig.queues().ack(&orders(), vec![held]).await.expect("asked");
    assert_eq!(rig.counts().await, [0, 0, 0, 1], "three runs were asked for");
}

#[tokio::test]
async fn a_calendar_follows_the_wall_clock() {
    let rig = Rig::start().await;
    let recurs = RecurrenceTerms::Cron { expression: "0 13 * * *".into(), zone: None, executions: None };
    rig.publish(NewJob { recurs: Some(recurs), ..job("1") }).await;
    let seen =
        rig.queues().jobs(&orders(), None, None, (1, LOOKED_AT_MAX)).await.expect("listed").found.remove(0);
    assert_eq!(seen.run_at, Timestamp(NOON - NOON % 86_400_000 + 13 * 3_600_000).max(seen.run_at));
    let wait = seen.run_at.since(Timestamp(NOON));
    // The wall clock is put forward: the calendar follows it, a delay does not.
    rig.publish(later("2", wait)).await;
    rig.clock.wall.fetch_add(wait.as_millis() as i64, Ordering::SeqCst);
    assert_eq!(rig.payloads(5).await, ["1"]);
    let wrong = RecurrenceTerms::Cron { expression: "0 13 30 2 *".into(), zone: None, executions: None };
    let refused =
        rig.queues().publish(&orders(), vec![NewJob { recurs: Some(wrong), ..job("1") }], None).await;
    assert_eq!(refused.expect_err("it never comes").code, "invalid_schedule");
}

#[tokio::test]
async fn a_job_of_the_wall_clock_is_due_at_once_when_that_is_put_forward() {
    let rig = Rig::start().await;
    let hour = 3_600 * SECOND;
    rig.publish(NewJob { due: Some(DueTime::At(Timestamp(NOON).after(hour))), ..job("1") }).await;
    let (queues, patient) = (rig.queues(), ConsumeTerms { wait: 60 * SECOND, ..want(1) });
    let waiting = tokio::spawn(async move { queues.consume(&[orders()], patient).await });
    rig.until_waiting(1).await;
    rig.step_wall(hour);
    let told = tokio::time::timeout(5 * SECOND, waiting).await.expect("at once").expect("ends");
    let (jobs, hand_over) = told.expect("asked");
    hand_over.done();
    assert_eq!(jobs.len(), 1);
}

#[tokio::test]
async fn settings_hold_and_survive() {
    let rig = Rig::start().await;
    let settings = QueueSettings {
        order: QueueOrder::Lifo,
        concurrency: Some(1),
        jobs_max: Some(2),
        dead_max: Some(1),
        ..QueueSettings::default()
    };
    rig.queues().set(&orders(), settings).await.expect("set");
    rig.restart().await;
    rig.publish(job("1")).await;
    rig.publish(job("2")).await;
    let refused = rig.queues().publish(&orders(), vec![job("3")], None).await;
    assert_eq!(refused.expect_err("two at most").code, "queue_full");
    let (payload, held, _) = rig.consume(5).await.remove(0);
    assert_eq!(payload, "2", "the newest first, one at a time");
    rig.queues().release(&orders(), held, JobRelease::default()).await.expect("it holds");
    let (payload, held, _) = rig.consume(5).await.remove(0);
    assert_eq!(payload, "1");
    rig.queues().release(&orders(), held, JobRelease::default()).await.expect("it holds");
    let dead = rig.queues().dead(&orders(), None, 5).await.expect("asked");
    assert_eq!(dead.iter().map(|it| text(&it.payload)).collect::<Vec<_>>(), ["1"], "the oldest went");
    let wrong = QueueSettings { rate: Some(0.0), ..settings };
    assert_eq!(rig.queues().set(&orders(), wrong).await.expect_err("no rate").code, "invalid_settings");
}

#[tokio::test]
async fn a_deleted_queue_is_gone_at_once_and_its_jobs_soon() {
    let rig = Rig::start().await;
    for n in 0..3 {
        let jobs = (0..1_000).map(|_| later(&n.to_string(), 60 * SECOND)).collect();
        rig.queues().publish(&orders(), jobs, None).await.expect("published");
    }
    rig.publish(job("1")).await;
    let (_, held, _) = rig.consume(1).await.remove(0);
    rig.queues().delete(&orders()).await.expect("deleted");
    assert_eq!(rig.counts().await, [0; 4]);
    let acked = rig.queues().ack(&orders(), vec![held]).await.expect("asked");
    assert_eq!(acked.stale, [0]);
    rig.publish(job("2")).await;
    assert_eq!(rig.payloads(5).await, ["2"]);
    let listed = rig.queues().list(Some("shop"), None, 10).await.expect("listed");
    assert_eq!(listed.iter().map(|it| it.name.to_string()).collect::<Vec<_>>(), ["shop/orders"]);
    rig.restart().await;
    rig.pass(61 * SECOND);
    assert!(rig.payloads(5).await.is_empty(), "nothing of the old queue comes again");
}

#[tokio::test]
async fn more_jobs_than_may_be_resident_come_in_order_and_none_is_forgotten() {
    let rig = Rig::start().await;
    // 1,024 may be resident; the rest is in the store.
    for round in 0..3_i64 {
        let jobs = (0..1_000_i64).map(|n| {
            let at = 1 + (n * 7_919 + round * 37) % 5_000;
            later(&at.to_string(), Duration::from_millis(at.unsigned_abs()))
        });
        rig.queues().publish(&orders(), jobs.collect(), None).await.expect("published");
    }
    assert_eq!(rig.counts().await, [3_000, 0, 0, 0]);
    let named = NewJob { alias: Some("far".into()), ..later("\"far\"", 3_600 * SECOND) };
    let far = rig.publish(named.clone()).await;
    let refused = rig.queues().publish(&orders(), vec![named], None).await;
    assert_eq!(refused.expect_err("parked, but held").code, "alias_taken");
    rig.restart().await;
    assert_eq!(rig.counts().await, [3_001, 0, 0, 0]);
    let seen = rig.queues().job(&orders(), JobRef::Alias("far".into())).await.expect("it is there");
    assert_eq!((seen.id, seen.state), (far, JobState::Scheduled));
    let mut last = 0;
    for _ in 0..5 {
        rig.pass(SECOND);
        let now = rig.clock.now().0 - NOON;
        let due: i64 = rig.counts().await[1].cast_signed();
        for _ in 0..due {
            let (payload, held, _) = rig.consume(1).await.remove(0);
            let at: i64 = payload.parse().expect("a number");
            assert!(last <= at && at <= now, "{last} then {at}, at {now}");
            last = at;
            assert_eq!(rig.queues().ack(&orders(), vec![held]).await.expect("asked").acked, 1);
        }
    }
    assert_eq!(rig.counts().await, [1, 0, 0, 0]);
    rig.queues().cancel(&orders(), JobRef::Id(far)).await.expect("it is parked");
    assert_eq!(rig.counts().await, [0; 4]);
}

#[tokio::test]
async fn a_long_line_of_ready_jobs_keeps_its_order_beside_a_short_one() {
    let rig = Rig::start().await;
    let other = QueueName::new("shop", "other").expect("a name");
    for round in 0..3 {
        let jobs = (0..1_000).map(|n| job(&(round * 1_000 + n).to_string())).collect();
        rig.queues().publish(&orders(), jobs, None).await.expect("published");
    }
    rig.queues().publish(&other, vec![job("1")], None).await.expect("published");
    rig.restart().await;
    assert_eq!(rig.counts().await, [0, 3_000, 0, 0]);
    let (jobs, hand_over) = rig.queues().consume(&[other], want(5)).await.expect("asked");
    hand_over.done();
    assert_eq!(jobs.len(), 1, "a short line is not behind a long one");
    let mut all = Vec::new();
    while all.len() < 3_000 {
        let some = rig.payloads(300).await;
        assert!(!some.is_empty(), "after {}", all.len());
        all.extend(some.iter().map(|text| text.parse::<usize>().expect("a number")));
    }
    assert_eq!(all, (0..3_000).collect::<Vec<_>>());
}
