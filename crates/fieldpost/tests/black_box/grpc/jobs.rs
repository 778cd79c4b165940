//! The calls that are one message and get one.

use grpc::proto::{
    AckRequest, CancelRequest, ConsumeRequest, Cron, ExtendRequest, GetRequest, JobState, NewJob, OnConflict,
    PublishRequest, ReleaseRequest, cancel_request, get_request, job, job_view, new_job,
};
use prost_types::{Duration, Timestamp};
use serde_json::Value;
use tonic::Code;

use crate::grpc::rig::{
    LONG, NS, QUEUE, Rig, WAIT, consume, consuming, number, numbered, numbers, publish, publish_numbers,
    refused,
};

fn get(job: get_request::Job) -> GetRequest {
    GetRequest { namespace: NS.to_owned(), queue: QUEUE.to_owned(), job: Some(job) }
}

fn ack(reservations: Vec<String>) -> AckRequest {
    AckRequest { namespace: NS.to_owned(), queue: QUEUE.to_owned(), reservations }
}

#[tokio::test]
async fn what_is_published_is_consumed_in_order_and_acknowledged_together() {
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    let published = publish_numbers(&mut jobs, 0..50).await;
    let consumed = consume(&mut jobs, 100).await;
    assert_eq!(numbers(&consumed), (0..50).collect::<Vec<_>>());
    let same: Vec<_> = consumed.iter().zip(&published).filter(|(job, told)| job.id == told.id).collect();
    assert_eq!(same.len(), 50);
    assert!(consumed.iter().all(|job| (job.attempt, job.tries, job.queue.as_str()) == (1, 1, QUEUE)));
    let mut reservations: Vec<_> = consumed.into_iter().map(|job| job.reservation).collect();
    reservations.push("nonsense".to_owned());
    let acked = jobs.ack(ack(reservations.clone())).await.expect("answered").into_inner();
    assert_eq!((acked.acked, acked.stale), (50, vec!["nonsense".to_owned()]));
    let again = jobs.ack(ack(reservations[..50].to_vec())).await.expect("answered").into_inner();
    assert_eq!((again.acked, again.stale.len()), (0, 50));
    assert_eq!(rig.figure(QUEUE, "reserved").await, 0);
}

#[tokio::test]
async fn a_job_is_the_same_over_rest_and_grpc() {
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    let sent = [
        new_job::Payload::Json(b" { \"a b\" : [ 1.50, null ] } ".to_vec().into()),
        new_job::Payload::Data(vec![0, 255, 10].into()),
    ];
    let sent = sent.map(|payload| NewJob { payload: Some(payload), ..NewJob::default() });
    jobs.publish(publish(sent.to_vec())).await.expect("published");
    let consumed = consume(&mut jobs, 2).await;
    assert_eq!(consumed[0].payload, Some(job::Payload::Json(b"{\"a b\":[1.50,null]}".to_vec().into())));
    assert_eq!(consumed[1].payload, Some(job::Payload::Data(vec![0, 255, 10].into())));
    let id = &consumed[1].id;
    let seen: Value = rig.api.get(&format!("/v1/queues/{NS}/{QUEUE}/jobs/{id}")).await.expect("it is there");
    assert_eq!((seen["payload_base64"].as_str(), seen["state"].as_str()), (Some("AP8K"), Some("reserved")));
    // A reservation holds wherever it is shown.
    let reservations = serde_json::json!({"reservations": [consumed[0].reservation]});
    let path = format!("/v1/queues/{NS}/{QUEUE}/ack");
    let acked: Value = rig.api.post(&path, &reservations).await.expect("answered");
    assert_eq!(acked["acked"], 1);
}

#[tokio::test]
async fn a_waiting_consumer_gets_the_first_job_of_any_of_its_queues() {
    let rig = Rig::start().await;
    let (mut jobs, mut others) = (rig.jobs().await, rig.jobs().await);
    let asked = ConsumeRequest { wait: Some(WAIT), ..consuming(&["urgent", QUEUE]) };
    let waiting = tokio::spawn(async move { jobs.consume(asked).await });
    publish_numbers(&mut others, 7..8).await;
    let consumed = waiting.await.expect("no panic").expect("answered").into_inner().jobs;
    assert_eq!((numbers(&consumed), consumed[0].queue.as_str()), (vec![7], QUEUE));
}

#[tokio::test]
async fn jobs_of_earlier_queues_come_first() {
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    for (queue, number) in [("later", 2), ("first", 1)] {
        let request = PublishRequest { queue: queue.to_owned(), ..publish(vec![numbered(number)]) };
        jobs.publish(request).await.expect("published");
    }
    for expect in [1, 2] {
        let consumed = jobs.consume(consuming(&["first", "later"])).await.expect("answered").into_inner();
        assert_eq!(numbers(&consumed.jobs), [expect]);
    }
}

#[tokio::test]
async fn a_released_job_comes_again_until_its_tries_are_used_up() {
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    jobs.publish(publish(vec![NewJob { tries: Some(2), ..numbered(1) }])).await.expect("published");
    for attempt in [1, 2] {
        let consumed = consume(&mut jobs, 1).await;
        assert_eq!(consumed[0].attempt, attempt);
        let release = ReleaseRequest {
            namespace: NS.to_owned(),
            queue: QUEUE.to_owned(),
            reservation: consumed[0].reservation.clone(),
            error: "no such mailbox".to_owned(),
            delay: None,
        };
        jobs.release(release.clone()).await.expect("given back");
        assert_eq!(
            refused(jobs.release(release).await),
            (Code::FailedPrecondition, "stale_reservation".to_owned())
        );
    }
    let dead: Vec<Value> = rig.api.list(&format!("/v1/queues/{NS}/{QUEUE}/dead")).await.expect("a list");
    assert_eq!((dead.len(), dead[0]["error"].as_str()), (1, Some("no such mailbox")));
}

#[tokio::test]
async fn a_reservation_can_be_made_longer_and_ends_with_its_time() {
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    jobs.publish(publish(vec![NewJob { tries: Some(3), ..numbered(1) }])).await.expect("published");
    let short =
        ConsumeRequest { ttr: Some(Duration { seconds: 0, nanos: 50_000_000 }), ..consuming(&[QUEUE]) };
    let first = jobs.consume(short).await.expect("answered").into_inner().jobs;
    let wait = ConsumeRequest { wait: Some(WAIT), ..consuming(&[QUEUE]) };
    let second = jobs.consume(wait).await.expect("answered").into_inner().jobs;
    assert_eq!((first[0].id.as_str(), second[0].attempt), (second[0].id.as_str(), 2));
    let extend = |reservation: &str| ExtendRequest {
        namespace: NS.to_owned(),
        queue: QUEUE.to_owned(),
        reservation: reservation.to_owned(),
        ttr: Some(LONG),
    };
    let until = jobs.extend(extend(&second[0].reservation)).await.expect("kept").into_inner().until;
    assert!(until.expect("a time").seconds > second[0].run_at.expect("a time").seconds + 2_000);
    let stale = jobs.extend(extend(&first[0].reservation)).await;
    assert_eq!(refused(stale), (Code::FailedPrecondition, "stale_reservation".to_owned()));
}

#[tokio::test]
async fn a_job_is_looked_at_and_cancelled_by_its_id_or_its_alias() {
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    let named = NewJob {
        alias: Some("invoice 7".to_owned()),
        group: Some("g".to_owned()),
        due: Some(new_job::Due::Delay(LONG)),
        ttl: Some(Duration { seconds: 86_400, nanos: 0 }),
        tries: Some(4),
        ..numbered(5)
    };
    let published = jobs.publish(publish(vec![named.clone()])).await.expect("published").into_inner().jobs;
    let by_alias = get(get_request::Job::Alias("invoice 7".to_owned()));
    let by_id = get(get_request::Job::Id(published[0].id.clone()));
    for asked in [by_alias.clone(), by_id] {
        let seen = jobs.get(asked).await.expect("it is there").into_inner().job.expect("a job");
        assert_eq!((&seen.id, seen.run_at), (&published[0].id, published[0].run_at));
        assert_eq!((seen.state(), seen.attempt, seen.tries), (JobState::Scheduled, 0, 4));
        assert_eq!((seen.alias.as_deref(), seen.group.as_deref()), (Some("invoice 7"), Some("g")));
        assert_eq!(seen.payload, Some(job_view::Payload::Json(b"5".to_vec().into())));
        assert!(seen.expires_at.expect("a ttl").seconds > seen.published_at.expect("a time").seconds);
    }
    let taken = jobs.publish(publish(vec![named.clone()])).await;
    assert_eq!(refused(taken), (Code::AlreadyExists, "alias_taken".to_owned()));
    let keep = NewJob { on_conflict: OnConflict::Keep.into(), ..named };
    let kept = jobs.publish(publish(vec![keep])).await.expect("answered").into_inner().jobs;
    assert_eq!(kept[0].id, published[0].id);
    let cancel = CancelRequest {
        namespace: NS.to_owned(),
        queue: QUEUE.to_owned(),
        job: Some(cancel_request::Job::Alias("invoice 7".to_owned())),
    };
    jobs.cancel(cancel.clone()).await.expect("cancelled");
    for gone in [refused(jobs.cancel(cancel).await), refused(jobs.get(by_alias).await)] {
        assert_eq!(gone, (Code::NotFound, "unknown_job".to_owned()));
    }
}

#[tokio::test]
async fn a_repeated_publish_is_answered_as_before() {
    let mut rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    let request = PublishRequest { idempotency_key: "order 12".to_owned(), ..publish(vec![numbered(1)]) };
    let first = jobs.publish(request.clone()).await.expect("published").into_inner();
    rig.restart().await;
    let mut jobs = rig.jobs().await;
    assert_eq!(jobs.publish(request.clone()).await.expect("answered").into_inner(), first);
    assert_eq!(consume(&mut jobs, 10).await.len(), 1);
    let other = PublishRequest { jobs: vec![numbered(2)], ..request };
    let reused = jobs.publish(other).await;
    assert_eq!(refused(reused), (Code::InvalidArgument, "idempotency_key_reused".to_owned()));
}

#[tokio::test]
async fn what_is_not_allowed_is_refused_with_the_code_that_rest_gives() {
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    let due = |seconds, nanos| Some(new_job::Due::RunAt(Timestamp { seconds, nanos }));
    let delay = |seconds| Some(new_job::Due::Delay(Duration { seconds, nanos: 0 }));
    let json = |text: &str| Some(new_job::Payload::Json(text.as_bytes().to_vec().into()));
    let large = Some(new_job::Payload::Data(vec![0; 1_024 * 1_024 + 1].into()));
    for (job, expect) in [
        (NewJob { payload: None, ..numbered(0) }, "missing_field"),
        (NewJob { payload: json("{"), ..numbered(0) }, "unreadable"),
        (NewJob { payload: large, ..numbered(0) }, "payload_too_large"),
        (NewJob { tries: Some(0), ..numbered(0) }, "invalid_tries"),
        (NewJob { due: delay(-1), ..numbered(0) }, "invalid_duration"),
        (NewJob { due: due(0, -1), ..numbered(0) }, "invalid_time"),
        (NewJob { alias: Some(String::new()), ..numbered(0) }, "invalid_name"),
        (NewJob { on_conflict: 9, ..numbered(0) }, "unknown_word"),
        (NewJob { executions: Some(1), ..numbered(0) }, "missing_field"),
        (NewJob { due: due(99_999_999_999, 0), ..numbered(0) }, "invalid_time"),
        (NewJob { ttl: Some(Duration::default()), ..numbered(0) }, "invalid_duration"),
    ] {
        let answer = jobs.publish(publish(vec![numbered(1), job])).await;
        assert_eq!(refused(answer), (Code::InvalidArgument, expect.to_owned()));
    }
    let none = jobs.publish(publish(Vec::new())).await;
    assert_eq!(refused(none), (Code::InvalidArgument, "too_many_jobs".to_owned()));
    let very_many = jobs.publish(publish(vec![NewJob::default(); 17_001])).await;
    assert_eq!(refused(very_many), (Code::InvalidArgument, "too_many_items".to_owned()));
    let acked = jobs.ack(ack(vec![String::new(); 1_001])).await;
    assert_eq!(refused(acked), (Code::InvalidArgument, "too_many_jobs".to_owned()));
    let own = PublishRequest { queue: "_own".to_owned(), ..publish(vec![numbered(1)]) };
    assert_eq!(refused(jobs.publish(own).await), (Code::InvalidArgument, "reserved_name".to_owned()));
    let unknown = jobs.get(get(get_request::Job::Id("nonsense".to_owned()))).await;
    assert_eq!(refused(unknown), (Code::NotFound, "unknown_job".to_owned()));
    assert_eq!(consume(&mut jobs, 10).await, [], "all or none");
}

#[tokio::test]
async fn a_recurring_job_comes_again() {
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    let every = NewJob {
        recurs: Some(new_job::Recurs::Every(Duration { seconds: 1, nanos: 0 })),
        due: Some(new_job::Due::Delay(Duration::default())),
        executions: Some(2),
        ..numbered(3)
    };
    let published = jobs.publish(publish(vec![every])).await.expect("published").into_inner().jobs;
    let seen = jobs.get(get(get_request::Job::Id(published[0].id.clone()))).await.expect("it is there");
    let seen = seen.into_inner().job.expect("a job");
    let schedule = job_view::Recurs::Every(Duration { seconds: 1, nanos: 0 });
    assert_eq!((seen.recurs, seen.executions_left), (Some(schedule), Some(2)));
    let wait = ConsumeRequest { wait: Some(WAIT), ..consuming(&[QUEUE]) };
    let mut ids = Vec::new();
    for _ in 0..2 {
        let run = jobs.consume(wait.clone()).await.expect("answered").into_inner().jobs.remove(0);
        assert_eq!(number(&run), 3);
        jobs.ack(ack(vec![run.reservation])).await.expect("answered");
        ids.push(run.id);
    }
    assert_eq!(ids[0], ids[1]);
    assert_eq!(rig.figure(QUEUE, "scheduled").await, 0);
}

#[tokio::test]
async fn a_calendar_is_shown_as_it_was_given() {
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    for tz in ["", "Europe/Berlin"] {
        let cron = Cron { expression: "0 9 * * 1".to_owned(), tz: tz.to_owned() };
        let job = NewJob { recurs: Some(new_job::Recurs::Cron(cron.clone())), ..numbered(1) };
        let published = jobs.publish(publish(vec![job])).await.expect("published").into_inner().jobs;
        let seen = jobs.get(get(get_request::Job::Id(published[0].id.clone()))).await.expect("it is there");
        let seen = seen.into_inner().job.expect("a job");
        assert_eq!((seen.recurs, seen.executions_left), (Some(job_view::Recurs::Cron(cron)), None));
    }
}

#[tokio::test]
async fn the_next_queue_fills_up_what_those_before_it_have_left() {
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await;
    for (queue, count) in [("second", 3), ("first", 2)] {
        let request = PublishRequest { queue: queue.to_owned(), ..publish(vec![numbered(1); count]) };
        jobs.publish(request).await.expect("published");
    }
    let request = ConsumeRequest { max: Some(4), ..consuming(&["first", "second"]) };
    let got = jobs.consume(request).await.expect("answered").into_inner().jobs;
    let queues: Vec<_> = got.iter().map(|job| job.queue.as_str()).collect();
    assert_eq!(queues, ["first", "first", "second", "second"]);
}

#[tokio::test]
async fn large_messages_are_taken_up_to_their_limit() {
    let rig = Rig::start().await;
    let mut jobs = rig.jobs().await.max_encoding_message_size(64 << 20).max_decoding_message_size(64 << 20);
    let large = |count: usize| {
        let data = vec![7; 1_000_000];
        let job = NewJob { payload: Some(new_job::Payload::Data(data.into())), ..NewJob::default() };
        publish(vec![job; count])
    };
    // More at a time than there are places for.
    let many = (0..20).map(|_| {
        let mut jobs = jobs.clone();
        async move { jobs.publish(large(2)).await.expect("published").into_inner().jobs.len() }
    });
    assert_eq!(futures_util::future::join_all(many).await.iter().sum::<usize>(), 40);
    let too_large = (Code::ResourceExhausted, "body_too_large".to_owned());
    assert_eq!(refused(jobs.publish(large(17)).await), too_large, "over 16 MiB");
    let mut got = 0;
    while got < 40 {
        let more = consume(&mut jobs, 40).await;
        assert!(
            more.iter()
                .all(|job| matches!(&job.payload, Some(job::Payload::Data(data)) if data.len() == 1_000_000))
        );
        assert!(!more.is_empty(), "{got} came");
        got += more.len();
    }
}
