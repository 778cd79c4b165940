//! Work streams: credits bound what comes, and every job is done, given back, or comes again.

use std::collections::BTreeSet;

use grpc::proto::coordination_client::CoordinationClient;
use grpc::proto::jobs_client::JobsClient;
use grpc::proto::work_request::{Acks, Extension, Open, Release};
use grpc::proto::{
    DeleteControlRequest, Job, NewJob, PublishRequest, PutControlRequest, QueueControl, WorkRequest,
    WorkState, new_job,
};
use tonic::Code;

use crate::grpc::rig::{
    LONG, NS, PATIENCE, QUEUE, Rig, Worker, consume, consuming, number, numbered, numbers, publish,
    publish_numbers, refused,
};

#[tokio::test]
async fn no_more_jobs_come_than_there_are_credits() {
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    publish_numbers(&mut jobs, 0..10).await;
    let mut worker = Worker::open(&mut jobs, &[QUEUE], 3).await;
    let first = worker.jobs(3).await;
    assert_eq!(numbers(&first), [0, 1, 2]);
    // The answer to an acknowledgement without credits has no jobs: that there are more is no
    // reason to send them.
    worker.ack(&first, 0).await;
    let heard = worker.until_acked(3).await;
    assert!(heard.iter().all(|heard| heard.jobs.is_empty() && heard.refused.is_empty()), "{heard:?}");
    assert_eq!(rig.figure(QUEUE, "ready").await, 7);
    worker.say(WorkRequest { credits: 2, ..WorkRequest::default() }).await;
    assert_eq!(numbers(&worker.jobs(2).await), [3, 4]);
}

#[tokio::test]
async fn a_thousand_jobs_are_done_in_few_messages_and_none_twice() {
    const JOBS: usize = 20_000;
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    for first in (0..JOBS).step_by(1_000) {
        publish_numbers(&mut jobs, first..first + 1_000).await;
    }
    let mut worker = Worker::open(&mut jobs, &[QUEUE], 2_000).await;
    let (mut done, mut messages, mut acked) = (BTreeSet::new(), 0, 0);
    while acked < JOBS as u64 {
        let heard = worker.hear().await.expect("no refusal").expect("it goes on");
        assert_eq!(heard.refused, []);
        assert!(heard.acked >= acked, "the count only grows");
        (acked, messages) = (heard.acked, messages + usize::from(!heard.jobs.is_empty()));
        let fresh = heard.jobs.iter().filter(|job| done.insert(number(job))).count();
        assert_eq!(fresh, heard.jobs.len(), "none comes twice");
        if fresh > 0 {
            worker.ack(&heard.jobs, fresh as u32).await;
        }
    }
    assert_eq!((done.len(), acked), (JOBS, JOBS as u64));
    assert!(messages <= JOBS / 20, "{messages} messages");
    worker.close();
    assert_eq!(worker.hear().await.expect("no refusal"), None);
    assert_eq!(rig.figure(QUEUE, "reserved").await, 0);
}

#[tokio::test]
async fn a_job_that_is_published_later_comes_at_once() {
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    let mut worker = Worker::open(&mut jobs, &[QUEUE], 5).await;
    for round in 0..3 {
        publish_numbers(&mut jobs, round..round + 1).await;
        let got = worker.jobs(1).await;
        assert_eq!(numbers(&got), [round]);
        worker.ack(&got, 1).await;
        worker.until_acked(round as u64 + 1).await;
    }
}

#[tokio::test]
async fn what_is_stale_is_told_one_by_one_and_the_rest_is_done() {
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    publish_numbers(&mut jobs, 0..2).await;
    let mut worker = Worker::open(&mut jobs, &[QUEUE], 2).await;
    let got = worker.jobs(2).await;
    worker.ack(&got[..1], 0).await;
    worker.until_acked(1).await;
    let reservations = vec![got[0].reservation.clone(), "nonsense".to_owned(), got[1].reservation.clone()];
    let acks = vec![Acks { reservations: reservations.clone(), ..Acks::default() }];
    worker.say(WorkRequest { acks, ..WorkRequest::default() }).await;
    let refused: Vec<_> = worker.until_acked(2).await.into_iter().flat_map(|heard| heard.refused).collect();
    let stale: BTreeSet<_> = refused.iter().map(|refusal| refusal.reservation.as_str()).collect();
    assert_eq!(stale, BTreeSet::from([reservations[0].as_str(), "nonsense"]));
    assert!(refused.iter().all(|refusal| refusal.code == "stale_reservation"), "{refused:?}");
}

#[tokio::test]
async fn jobs_are_released_and_extended_on_the_stream() {
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    let twice = |number| NewJob { tries: Some(2), ..numbered(number) };
    jobs.publish(publish(vec![twice(0), twice(1)])).await.expect("published");
    let mut worker = Worker::open(&mut jobs, &[QUEUE], 2).await;
    let got = worker.jobs(2).await;
    let extended = |job: &Job, ttr| {
        let reservation = job.reservation.clone();
        vec![Extension { reservation, ttr: Some(ttr), ..Extension::default() }]
    };
    let reservation = got[1].reservation.clone();
    let releases = vec![Release { reservation, error: "busy".to_owned(), ..Release::default() }];
    let extensions = extended(&got[0], LONG);
    worker.say(WorkRequest { extensions, releases, credits: 1, ..WorkRequest::default() }).await;
    let again = worker.jobs(1).await;
    assert_eq!((numbers(&again), again[0].attempt), (vec![1], 2));
    // That one has a second from now and runs out; the other is kept.
    let extensions = extended(&again[0], prost_types::Duration { seconds: 1, nanos: 0 });
    worker.say(WorkRequest { extensions, ..WorkRequest::default() }).await;
    rig.until_figure("dead", 1).await;
    worker.ack(&got[..1], 0).await;
    assert_eq!(worker.until_acked(1).await.into_iter().flat_map(|heard| heard.refused).count(), 0);
}

#[tokio::test]
async fn a_stream_of_several_queues_takes_earlier_ones_first_and_names_them() {
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    for (queue, number) in [("later", 2), ("first", 1)] {
        let request = PublishRequest { queue: queue.to_owned(), ..publish(vec![numbered(number)]) };
        jobs.publish(request).await.expect("published");
    }
    let mut worker = Worker::open(&mut jobs, &["first", "later"], 1).await;
    for (expect, queue) in [(1, "first"), (2, "later")] {
        let got = worker.jobs(1).await;
        assert_eq!((numbers(&got), got[0].queue.as_str()), (vec![expect], queue));
        let reservations = vec![got[0].reservation.clone()];
        let acks = vec![Acks { queue: queue.to_owned(), reservations }];
        worker.say(WorkRequest { acks, credits: 1, ..WorkRequest::default() }).await;
    }
    worker.until_acked(2).await;
    let unnamed = vec![Acks { queue: String::new(), reservations: vec!["x".to_owned()] }];
    worker.say(WorkRequest { acks: unnamed, ..WorkRequest::default() }).await;
    assert_eq!(refused(worker.hear().await), (Code::InvalidArgument, "invalid_queue".to_owned()));
}

#[tokio::test]
async fn the_next_queue_of_a_stream_fills_up_the_credits_that_earlier_ones_leave() {
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    for (queue, carried) in [("later", 3..5), ("first", 1..3)] {
        let request = PublishRequest { queue: queue.to_owned(), ..publish(carried.map(numbered).collect()) };
        jobs.publish(request).await.expect("published");
    }
    let mut worker = Worker::open(&mut jobs, &["first", "later"], 3).await;
    // One message: where each queue is asked alone, each has a message of its own.
    let got = worker.hear().await.expect("no refusal").expect("it goes on").jobs;
    assert_eq!(numbers(&got), [1, 2, 3]);
    let queues: Vec<_> = got.iter().map(|job| job.queue.as_str()).collect();
    assert_eq!(queues, ["first", "first", "later"]);
}

#[tokio::test]
async fn a_slow_worker_is_not_sent_more_than_it_takes_and_what_it_has_not_taken_goes_to_another() {
    const JOBS: usize = 400;
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    for _ in 0..JOBS / 10 {
        let large = || {
            let text = format!("\"{}\"", "x".repeat(100_000));
            NewJob { payload: Some(new_job::Payload::Json(text.into())), ..NewJob::default() }
        };
        jobs.publish(publish((0..10).map(|_| large()).collect())).await.expect("published");
    }
    let mut slow_jobs = rig.jobs().await;
    let slow = Worker::open(&mut slow_jobs, &[QUEUE], JOBS as u32).await;
    // It reads nothing. What is reserved is what fits into the connection and the few answers that
    // are made ahead.
    let path = format!("/v1/queues/{NS}/{QUEUE}");
    let some = |overview: &serde_json::Value| overview["reserved"].as_u64() > Some(0);
    let overview: serde_json::Value = rig.api.until(&path, PATIENCE, some).await.expect("it is sent some");
    let reserved = overview["reserved"].as_u64().expect("a number");
    assert!(reserved < JOBS as u64, "{overview}");
    drop((slow, slow_jobs));
    let back = |overview: &serde_json::Value| overview["ready"].as_u64() >= Some(JOBS as u64 * 3 / 4);
    let overview: serde_json::Value = rig.api.until(&path, PATIENCE, back).await.expect("most come back");
    let ready = overview["ready"].as_u64().expect("a number");
    let mut worker = Worker::open(&mut jobs, &[QUEUE], ready as u32).await;
    let got = worker.jobs(ready as usize).await;
    assert!(got.iter().all(|job| job.attempt == 1), "what was not handed over does not count");
}

#[tokio::test]
async fn of_a_lease_in_several_messages_a_worker_keeps_those_that_it_was_sent() {
    const JOBS: usize = 100;
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    let large = || {
        let text = format!("\"{}\"", "x".repeat(100_000));
        NewJob { payload: Some(new_job::Payload::Json(text.into())), ..NewJob::default() }
    };
    for _ in 0..JOBS / 10 {
        jobs.publish(publish((0..10).map(|_| large()).collect())).await.expect("published");
    }
    // What the connection takes ahead of the worker is small beside a message.
    let mut worker_jobs = JobsClient::new(rig.narrow_channel().await);
    let mut worker = Worker::open(&mut worker_jobs, &[QUEUE], JOBS as u32).await;
    let sent = worker.hear().await.expect("no refusal").expect("it goes on").jobs;
    assert!((2..JOBS / 2).contains(&sent.len()), "{} in the first of several messages", sent.len());
    drop((worker, worker_jobs));
    let path = format!("/v1/queues/{NS}/{QUEUE}");
    let back = |overview: &serde_json::Value| overview["ready"].as_u64() >= Some(JOBS as u64 / 2);
    let _overview: serde_json::Value = rig.api.until(&path, PATIENCE, back).await.expect("others come back");
    // They would be the first in line.
    let next = consume(&mut jobs, 1).await;
    assert_eq!((next.len(), next[0].attempt), (1, 1));
    assert!(sent.iter().all(|job| job.id < next[0].id), "none of those comes again");
    let mut other = Worker::open(&mut jobs, &[QUEUE], 0).await;
    other.ack(&sent, 0).await;
    let refused: Vec<_> =
        other.until_acked(sent.len() as u64).await.into_iter().flat_map(|heard| heard.refused).collect();
    assert_eq!(refused, []);
}

#[tokio::test]
async fn jobs_stay_reserved_when_a_stream_ends_and_can_be_acknowledged_elsewhere() {
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    publish_numbers(&mut jobs, 0..2).await;
    let mut worker = Worker::open(&mut jobs, &[QUEUE], 2).await;
    let got = worker.jobs(2).await;
    drop(worker);
    assert_eq!(consume(&mut jobs, 10).await, []);
    let mut other = Worker::open(&mut jobs, &[QUEUE], 0).await;
    other.ack(&got, 0).await;
    other.until_acked(2).await;
    assert_eq!(rig.figure(QUEUE, "reserved").await, 0);
}

#[tokio::test]
async fn a_worker_that_closes_its_side_hears_what_is_left_and_gets_nothing_more() {
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    publish_numbers(&mut jobs, 0..10).await;
    let mut worker = Worker::open(&mut jobs, &[QUEUE], 5).await;
    let got = worker.jobs(5).await;
    worker.ack(&got, 0).await;
    worker.close();
    let last = worker.until_acked(5).await;
    assert!(last.iter().all(|heard| heard.jobs.is_empty()));
    assert_eq!(worker.hear().await.expect("no refusal"), None);
    assert_eq!((rig.figure(QUEUE, "ready").await, rig.figure(QUEUE, "reserved").await), (5, 0));
}

/// Has the workers of the queue do this.
async fn control(rig: &Rig, state: WorkState) -> QueueControl {
    let control = QueueControl { state: state.into(), max_in_flight: Some(2), data: Some("[1]".to_owned()) };
    let put = PutControlRequest {
        namespace: NS.to_owned(),
        queue: QUEUE.to_owned(),
        control: Some(control.clone()),
    };
    CoordinationClient::new(rig.channel().await).put_control(put).await.expect("put");
    control
}

/// What the worker is told to do next; jobs may come before.
async fn told(worker: &mut Worker) -> QueueControl {
    loop {
        let heard = worker.hear().await.expect("no refusal").expect("the stream goes on");
        if let Some(control) = heard.control {
            return control;
        }
    }
}

#[tokio::test]
async fn a_worker_is_told_what_to_do_when_it_begins_and_at_each_change() {
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    let mut early = Worker::open(&mut jobs, &[QUEUE, "other"], 5).await;
    publish_numbers(&mut jobs, 0..1).await;
    assert_eq!(numbers(&early.jobs(1).await), [0], "nothing is said, and it works");
    let drains = control(&rig, WorkState::Drain).await;
    assert_eq!(told(&mut early).await, drains);
    let mut late = Worker::open(&mut jobs, &[QUEUE], 0).await;
    assert_eq!(told(&mut late).await, drains);
    // The first queue's counts.
    for (queues, expect) in [([QUEUE, "other"], Some(drains)), (["other", QUEUE], None)] {
        let consumed = jobs.consume(consuming(&queues)).await.expect("answered").into_inner();
        assert_eq!(consumed.control, expect, "{queues:?}");
    }
    let runs = control(&rig, WorkState::Run).await;
    for worker in [&mut early, &mut late] {
        assert_eq!(told(worker).await, runs);
    }
    let nothing = DeleteControlRequest { namespace: NS.to_owned(), queue: QUEUE.to_owned() };
    CoordinationClient::new(rig.channel().await).delete_control(nothing).await.expect("deleted");
    assert_eq!(told(&mut late).await, QueueControl::default());
}

#[tokio::test]
async fn a_stream_that_is_used_wrongly_is_ended_and_says_why() {
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    let open = |namespace: &str, queues: &[&str]| Open {
        namespace: namespace.to_owned(),
        queues: queues.iter().map(|&queue| queue.to_owned()).collect(),
        ttr: None,
    };
    for (open, expect) in [
        (None, "missing_field"),
        (Some(open(NS, &[])), "too_many_queues"),
        (Some(open(NS, &["a b"])), "invalid_name"),
        (Some(open("_own", &["a"])), "reserved_name"),
        (Some(Open { ttr: Some(prost_types::Duration::default()), ..open(NS, &["a"]) }), "invalid_ttr"),
    ] {
        let first = WorkRequest { open, credits: 1, ..WorkRequest::default() };
        let mut worker = Worker::say_first(&mut jobs, first).await;
        assert_eq!(refused(worker.hear().await), (Code::InvalidArgument, expect.to_owned()));
    }
    let mut worker = Worker::open(&mut jobs, &[QUEUE], 1).await;
    worker.say(WorkRequest { open: Some(open(NS, &[QUEUE])), ..WorkRequest::default() }).await;
    assert_eq!(refused(worker.hear().await), (Code::InvalidArgument, "already_open".to_owned()));
    let mut worker = Worker::open(&mut jobs, &[QUEUE], 1).await;
    let acks = vec![Acks { reservations: vec![String::new(); 10_001], ..Acks::default() }];
    worker.say(WorkRequest { acks, ..WorkRequest::default() }).await;
    assert_eq!(refused(worker.hear().await), (Code::InvalidArgument, "too_many_jobs".to_owned()));
}
