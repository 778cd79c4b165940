//! The end of a server: asked to, streams end well; killed, nothing that was told is forgotten.

use std::collections::BTreeSet;

use grpc::proto::ConsumeRequest;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::grpc::rig::{QUEUE, Rig, WAIT, Worker, consume, consuming, number, publish_numbers};

#[tokio::test]
async fn asked_to_stop_it_lets_workers_say_their_last_words() {
    let mut rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    publish_numbers(&mut jobs, 0..3).await;
    let mut worker = Worker::open(&mut jobs, &[QUEUE], 10).await;
    let got = worker.jobs(3).await;
    let mut waiting_jobs = rig.jobs().await;
    let wait = ConsumeRequest { wait: Some(WAIT), ..consuming(&["other"]) };
    let waiting = tokio::spawn(async move { waiting_jobs.consume(wait).await });
    let stopping = async {
        let heard = worker.hear().await.expect("no refusal").expect("it says so before it ends");
        assert!(heard.stopping && heard.jobs.is_empty(), "{heard:?}");
        worker.ack(&got[..2], 5).await;
        worker.close();
        worker.until_acked(2).await;
        assert_eq!(worker.hear().await.expect("it ends with OK"), None);
    };
    let (status, ()) = tokio::join!(rig.stop(), stopping);
    assert!(status.success());
    // Either it was asked before the stop, and is answered with nothing, or it came too late.
    if let Ok(answer) = waiting.await.expect("no panic") {
        assert_eq!(answer.into_inner().jobs, []);
    }
    rig.restart_stopped().await;
    let mut jobs = rig.jobs().await;
    assert_eq!((rig.figure(QUEUE, "reserved").await, rig.figure(QUEUE, "ready").await), (1, 0));
    let mut worker = Worker::open(&mut jobs, &[QUEUE], 0).await;
    worker.ack(&got[2..], 0).await;
    worker.until_acked(1).await;
}

#[tokio::test]
async fn a_worker_that_goes_on_speaking_does_not_keep_a_server_from_ending() {
    let mut rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    let mut worker = Worker::open(&mut jobs, &[QUEUE], 10).await;
    publish_numbers(&mut jobs, 0..1).await;
    worker.jobs(1).await;
    assert!(rig.stop().await.success());
}

#[tokio::test]
async fn killed_at_work_it_forgets_no_job_and_repeats_none_that_was_done() {
    const JOBS: usize = 3_000;
    let mut rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    for first in (0..JOBS).step_by(1_000) {
        publish_numbers(&mut jobs, first..first + 1_000).await;
    }
    let mut worker = Worker::open(&mut jobs, &[QUEUE], 500).await;
    let (mut said, mut acked) = (Vec::new(), 0);
    while acked < 1_000 {
        let heard = worker.hear().await.expect("no refusal").expect("it goes on");
        acked = heard.acked;
        if !heard.jobs.is_empty() {
            worker.ack(&heard.jobs, heard.jobs.len() as u32).await;
            said.extend(heard.jobs);
        }
    }
    rig.restart().await;
    let mut jobs = rig.jobs().await;
    // What was sent and not done is reserved still; what was done does not come again.
    let mut worker = Worker::open(&mut jobs, &[QUEUE], 0).await;
    let numbers_said: BTreeSet<_> = said.iter().map(number).collect();
    worker.ack(&said, 0).await;
    let (mut done, mut stale) = (0, 0);
    while done + stale < said.len() as u64 {
        let heard = worker.hear().await.expect("no refusal").expect("it goes on");
        (done, stale) = (heard.acked, stale + heard.refused.len() as u64);
    }
    assert!(stale >= acked, "{acked} were told to be done, {stale} are");
    let mut rest = BTreeSet::new();
    loop {
        let more = consume(&mut jobs, 1_000).await;
        if more.is_empty() {
            break;
        }
        rest.extend(more.iter().map(number));
    }
    assert!(rest.is_disjoint(&numbers_said), "{:?}", rest.intersection(&numbers_said).next());
    let reserved = rig.figure(QUEUE, "reserved").await as usize;
    assert!(rest.len() <= reserved && reserved + numbers_said.len() <= JOBS);
    // Those that were leased and never reached the worker come when their reservation ends.
    assert_eq!(numbers_said.len() + reserved, JOBS);
}

#[tokio::test]
async fn health_is_told_to_whoever_asks() {
    let mut rig = Rig::start().await;
    let mut health = HealthClient::new(rig.channel().await);
    let services = ["Jobs", "Reports", "Commands", "Rollouts", "Tasks", "Streams", "Coordination"]
        .map(|service| format!("fieldpost.v1.{service}"));
    for service in services.into_iter().chain([String::new()]) {
        let request = HealthCheckRequest { service };
        let told = health.check(request.clone()).await.expect("known").into_inner().status();
        assert_eq!(told, ServingStatus::Serving, "{request:?}");
    }
    let request = HealthCheckRequest { service: "fieldpost.v1.Nothing".to_owned() };
    assert_eq!(health.check(request).await.expect_err("unknown").code(), Code::NotFound);
    let mut watching = health.watch(HealthCheckRequest::default()).await.expect("known").into_inner();
    let first = watching.message().await.expect("no refusal").expect("a first one");
    assert_eq!(first.status(), ServingStatus::Serving);
    let watched = async {
        let last = watching.message().await.expect("no refusal").expect("a last one");
        assert_eq!(last.status(), ServingStatus::NotServing);
        assert_eq!(watching.message().await.expect("no refusal"), None);
    };
    let (status, ()) = tokio::join!(rig.stop(), watched);
    assert!(status.success());
}

#[tokio::test]
async fn the_oldest_watch_of_an_address_makes_room_for_its_newest() {
    const OF_ADDRESS_MAX: usize = 64;
    const OF_CONNECTION: usize = 13;
    let rig = Rig::start().await;
    let mut watches = Vec::new();
    while watches.len() <= OF_ADDRESS_MAX {
        let mut health = HealthClient::new(rig.channel().await);
        for _ in 0..OF_CONNECTION {
            let request = HealthCheckRequest::default();
            let mut watching = health.watch(request).await.expect("told to anybody").into_inner();
            let first = watching.message().await.expect("no refusal").expect("a first one");
            assert_eq!(first.status(), ServingStatus::Serving);
            watches.push(watching);
        }
    }
    assert_eq!(watches.len(), OF_ADDRESS_MAX + 1);
    let replaced = watches[0].message().await.expect_err("a newer one has its place");
    assert_eq!(replaced.code(), Code::ResourceExhausted);
    let mut health = HealthClient::new(rig.channel().await);
    assert!(health.check(HealthCheckRequest::default()).await.is_ok(), "checks have places of their own");
}
