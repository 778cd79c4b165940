//! Locks, limits, the cache, channels and controls over gRPC: in calls of their own, and over a
//! pipeline.

use std::collections::BTreeMap;

use futures_util::stream;
use grpc::proto::coordination_client::CoordinationClient;
use grpc::proto::pipelined_answer::Answer;
use grpc::proto::pipelined_call::Request as Asked;
use grpc::proto::{
    AcquireLockRequest, AskLimitRequest, CallRefusal, DeleteCachedRequest, DeleteControlRequest,
    ExtendLockRequest, GetCachedRequest, GetControlRequest, GetLockRequest, HeldLock, LimitKind,
    ListenRequest, PipelineRequest, PipelineResponse, PipelinedCall, PublishMessageRequest, PutCachedRequest,
    PutControlRequest, QueueControl, ReleaseLockRequest, WorkState,
};
use sha2::Digest;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Code, Streaming};

use crate::grpc::access::{Guarded, by};
use crate::grpc::rig::{LONG, PATIENCE, Rig, WAIT, refused};

const SHOP: &str = "shop";

fn acquire(name: &str, owner: &str) -> AcquireLockRequest {
    let (namespace, name, owner) = (SHOP.into(), name.into(), owner.into());
    AcquireLockRequest { namespace, name, owner, ttl: Some(LONG), wait: None }
}

fn release(name: &str, owner: &str) -> ReleaseLockRequest {
    ReleaseLockRequest { namespace: SHOP.into(), name: name.into(), owner: owner.into() }
}

fn ask_limit(cost: u64) -> AskLimitRequest {
    let kind = LimitKind::Smooth.into();
    AskLimitRequest {
        namespace: SHOP.into(),
        name: "sms".into(),
        limit: 3,
        per: Some(LONG),
        cost: Some(cost),
        kind,
    }
}

fn put(key: &str, value: &[u8]) -> PutCachedRequest {
    let value = value.to_vec().into();
    PutCachedRequest { namespace: SHOP.into(), key: key.into(), value, ..PutCachedRequest::default() }
}

fn get(keys: &[&str]) -> GetCachedRequest {
    GetCachedRequest { namespace: SHOP.into(), keys: keys.iter().map(|&key| key.into()).collect() }
}

async fn client(rig: &Rig) -> CoordinationClient<Channel> {
    CoordinationClient::new(rig.channel().await)
}

#[tokio::test]
async fn a_lock_has_one_owner_and_its_fence_rises() {
    let rig = Rig::start().await;
    let mut locks = client(&rig).await;
    let first = locks.acquire_lock(acquire("a", "")).await.expect("free").into_inner();
    assert!(first.fence > 0 && !first.owner.is_empty(), "{first:?}");
    let taken = (Code::FailedPrecondition, "lock_held".to_owned());
    assert_eq!(refused(locks.acquire_lock(acquire("a", "other")).await), taken);
    let extend = |owner: &str, ttl| ExtendLockRequest {
        namespace: SHOP.into(),
        name: "a".into(),
        owner: owner.into(),
        ttl,
    };
    let extended = locks.extend_lock(extend(&first.owner, Some(WAIT))).await.expect("its own").into_inner();
    assert_eq!((extended.fence, &extended.owner), (first.fence, &first.owner));
    assert!(extended.expires_at.map(|at| at.seconds) < first.expires_at.map(|at| at.seconds));
    let missing = (Code::InvalidArgument, "missing_field".to_owned());
    assert_eq!(refused(locks.extend_lock(extend(&first.owner, None)).await), missing);
    let get = || GetLockRequest { namespace: SHOP.into(), name: "a".into() };
    let shown = locks.get_lock(get()).await.expect("shown").into_inner();
    assert_eq!((shown.held, &shown.owner, shown.fence, shown.waiting), (true, &first.owner, first.fence, 0));
    locks.release_lock(release("a", &first.owner)).await.expect("its own");
    let gone = (Code::FailedPrecondition, "not_owner".to_owned());
    assert_eq!(refused(locks.release_lock(release("a", &first.owner)).await), gone);
    let next = locks.acquire_lock(acquire("a", "other")).await.expect("free again").into_inner();
    assert!(next.fence > first.fence, "{next:?}");
}

#[tokio::test]
async fn limits_values_channels_and_controls_are_those_of_http() {
    let mut rig = Rig::start().await;
    let mut calls = client(&rig).await;
    let mut allowed = Vec::new();
    for cost in [2, 2, 1] {
        allowed.push(calls.ask_limit(ask_limit(cost)).await.expect("answered").into_inner().allowed);
    }
    assert_eq!(allowed, [true, false, true]);
    let of_no_kind = AskLimitRequest { kind: 9, ..ask_limit(1) };
    let unknown = (Code::InvalidArgument, "unknown_word".to_owned());
    assert_eq!(refused(calls.ask_limit(of_no_kind).await), unknown);
    let csv = PutCachedRequest { content_type: "text/csv".into(), ..put("user:7", b"a,b") };
    calls.put_cached(csv).await.expect("put");
    for content_type in ["text/plain\r\nx: y", "text/pl\u{e4}in"] {
        let odd = PutCachedRequest { content_type: content_type.into(), ..put("user:7", b"x") };
        let invalid = (Code::InvalidArgument, "invalid_parameter".to_owned());
        assert_eq!(refused(calls.put_cached(odd).await), invalid, "{content_type:?}");
    }
    let again = PutCachedRequest { if_absent: true, ..put("user:7", b"x") };
    assert_eq!(refused(calls.put_cached(again).await), (Code::AlreadyExists, "exists".to_owned()));
    let found = calls.get_cached(get(&["user:7", "none"])).await.expect("found").into_inner();
    assert_eq!(found.items.into_iter().collect::<Vec<_>>(), [("user:7".to_owned(), b"a,b".to_vec().into())]);
    assert_eq!(found.content_types.into_iter().collect::<Vec<_>>(), [("user:7".into(), "text/csv".into())]);
    let keys = vec!["user:7".into(), "none".into()];
    let delete = DeleteCachedRequest { namespace: SHOP.into(), keys };
    assert_eq!(calls.delete_cached(delete).await.expect("deleted").into_inner().deleted, 1);

    let listen = ListenRequest { namespace: SHOP.into(), channels: vec!["ord*".into()] };
    let mut heard = calls.listen(listen).await.expect("listens").into_inner();
    let say = PublishMessageRequest {
        namespace: SHOP.into(),
        channel: "orders".into(),
        message: "{\"n\":1}".into(),
    };
    assert_eq!(calls.publish(say).await.expect("published").into_inner().receivers, 1);
    let message =
        timeout(PATIENCE, heard.message()).await.expect("told").expect("no refusal").expect("goes on");
    assert_eq!((message.channel.as_str(), message.message.as_str()), ("orders", "{\"n\":1}"));

    let (namespace, queue) = (SHOP.to_owned(), "mail".to_owned());
    let look = || GetControlRequest { namespace: namespace.clone(), queue: queue.clone() };
    let none = (Code::NotFound, "no_control".to_owned());
    assert_eq!(refused(calls.get_control(look()).await), none);
    let control = QueueControl { state: WorkState::Drain.into(), max_in_flight: Some(2), data: None };
    let put = PutControlRequest {
        namespace: namespace.clone(),
        queue: queue.clone(),
        control: Some(control.clone()),
    };
    calls.put_control(put).await.expect("put");
    assert_eq!(calls.get_control(look()).await.expect("there").into_inner(), control);
    calls.delete_control(DeleteControlRequest { namespace, queue }).await.expect("deleted");
    assert_eq!(
        refused(calls.get_control(GetControlRequest { namespace: SHOP.into(), queue: "mail".into() }).await),
        none
    );
    assert!(rig.stop().await.success(), "a listener does not hold up the stop");
}

/// A pipeline, and the answers that came over it.
struct Pipeline {
    messages: Option<mpsc::Sender<PipelineRequest>>,
    answers: Streaming<PipelineResponse>,
    came: BTreeMap<u64, Answer>,
}

impl Pipeline {
    async fn open(channel: Channel, token: &str) -> Self {
        let (messages, queue) = mpsc::channel(16);
        let requests = stream::unfold(queue, |mut queue| async { Some((queue.recv().await?, queue)) });
        let request = by(token, requests);
        let answers =
            CoordinationClient::new(channel).pipeline(request).await.expect("it opens").into_inner();
        Self { messages: Some(messages), answers, came: BTreeMap::new() }
    }

    /// Sends calls in one message, by their number.
    async fn send(&self, calls: impl IntoIterator<Item = (u64, Asked)>) {
        let calls = calls.into_iter().map(|(id, request)| PipelinedCall { id, request: Some(request) });
        let message = PipelineRequest { calls: calls.collect() };
        self.messages.as_ref().expect("open").send(message).await.expect("it is taken");
    }

    /// Reads until that call is answered.
    async fn answer(&mut self, id: u64) -> Answer {
        loop {
            if let Some(answer) = self.came.remove(&id) {
                return answer;
            }
            let response = timeout(PATIENCE, self.answers.message()).await.expect("something comes");
            for answer in response.expect("no refusal").expect("it goes on").answers {
                let before = self.came.insert(answer.id, answer.answer.expect("an answer"));
                assert_eq!(before, None, "answered once");
            }
        }
    }

    async fn refusal(&mut self, id: u64) -> (Code, String) {
        match self.answer(id).await {
            Answer::Refused(CallRefusal { status, code, .. }) => (Code::from_i32(status), code),
            other => panic!("it is refused: {other:?}"),
        }
    }

    async fn held(&mut self, id: u64) -> HeldLock {
        match self.answer(id).await {
            Answer::HeldLock(held) => held,
            other => panic!("it is held: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_call_that_waits_holds_up_no_other_of_its_pipeline() {
    let rig = Rig::start().await;
    let mut pipeline = Pipeline::open(rig.channel().await, "").await;
    let waits = AcquireLockRequest { wait: Some(WAIT), ..acquire("a", "y") };
    pipeline.send([(1, Asked::AcquireLock(acquire("a", "x")))]).await;
    let first = pipeline.held(1).await;
    pipeline
        .send([
            (2, Asked::AcquireLock(waits)),
            (3, Asked::PutCached(put("k", b"v"))),
            (4, Asked::GetCached(get(&["k"]))),
            (5, Asked::AskLimit(ask_limit(1))),
        ])
        .await;
    let Answer::GetCached(found) = pipeline.answer(4).await else { panic!("values") };
    assert_eq!(found.items["k"], b"v".as_slice(), "calls begin in their order");
    assert!(matches!(pipeline.answer(5).await, Answer::AskLimit(answer) if answer.allowed));
    assert!(!pipeline.came.contains_key(&2), "it waits");
    pipeline.send([(6, Asked::ReleaseLock(release("a", "x")))]).await;
    let second = pipeline.held(2).await;
    assert!(second.fence > first.fence && second.owner == "y", "{second:?}");
}

#[tokio::test]
async fn a_pipeline_says_what_is_wrong_with_a_call_and_goes_on() {
    let rig = Rig::start().await;
    let mut pipeline = Pipeline::open(rig.channel().await, "").await;
    let unknown = PipelineRequest { calls: vec![PipelinedCall { id: 1, request: None }] };
    pipeline.messages.as_ref().expect("open").send(unknown).await.expect("taken");
    assert_eq!(pipeline.refusal(1).await, (Code::InvalidArgument, "missing_field".to_owned()));
    let large = vec![b'x'; 64 * 1_024 + 1];
    pipeline.send([(2, Asked::PutCached(put("k", &large))), (3, Asked::GetCached(get(&["k"])))]).await;
    assert_eq!(pipeline.refusal(3).await, (Code::InvalidArgument, "answer_too_large".to_owned()));
    pipeline.send([(4, Asked::ReleaseLock(release("a", "x")))]).await;
    assert_eq!(pipeline.refusal(4).await, (Code::FailedPrecondition, "not_owner".to_owned()));
    let many = (0..1_001).map(|id| (id, Asked::GetCached(get(&["none"]))));
    pipeline.send(many).await;
    let ended = async {
        loop {
            match pipeline.answers.message().await {
                Ok(Some(_)) => {}
                ended => return ended,
            }
        }
    };
    let ended = timeout(PATIENCE, ended).await.expect("it ends");
    assert_eq!(refused(ended), (Code::InvalidArgument, "too_many_calls".to_owned()));
}

#[tokio::test]
async fn a_pipeline_that_is_closed_ends_when_its_calls_have() {
    let rig = Rig::start().await;
    let mut pipeline = Pipeline::open(rig.channel().await, "").await;
    pipeline.send([(1, Asked::AcquireLock(acquire("a", "x")))]).await;
    pipeline.held(1).await;
    let waits = AcquireLockRequest { wait: Some(WAIT), ..acquire("a", "y") };
    let values = (10..1_000).map(|id| (id, Asked::GetCached(get(&["none"]))));
    pipeline.send(values.chain([(2, Asked::AcquireLock(waits))])).await;
    pipeline.messages = None;
    client(&rig).await.release_lock(release("a", "x")).await.expect("released");
    for id in 10..1_000 {
        assert!(matches!(pipeline.answer(id).await, Answer::GetCached(_)), "{id}");
    }
    pipeline.held(2).await;
    let end = timeout(PATIENCE, pipeline.answers.message()).await.expect("it ends");
    assert_eq!(end.expect("no refusal"), None);
}

#[tokio::test]
async fn each_call_of_a_pipeline_is_one_of_its_token() {
    let digest: String = sha2::Sha256::digest("hasty").iter().map(|byte| format!("{byte:02x}")).collect();
    let hasty = format!(
        "[[auth.tokens]]\nname = \"hasty\"\nsha256 = \"{digest}\"\nscopes = [\"coordinate:shop\"]\n\
         requests_per_second = 3\n"
    );
    let server = Guarded::start_in(tempfile::tempdir().expect("a folder"), &hasty).await;
    let mut pipeline = Pipeline::open(server.channel().await, "hasty").await;
    pipeline.send((0..100).map(|id| (id, Asked::GetCached(get(&["none"]))))).await;
    let mut refusals = 0;
    for id in 0..100 {
        match pipeline.answer(id).await {
            Answer::GetCached(_) => {}
            Answer::Refused(refusal) => {
                assert_eq!(refusal.code, "too_many_requests");
                refusals += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    // The stream itself is one of three, and a slow machine lets another second begin.
    assert!((50..=98).contains(&refusals), "{refusals} of a hundred");

    let mut pipeline = Pipeline::open(server.channel().await, "mailer").await;
    pipeline.send([(1, Asked::GetCached(get(&["k"])))]).await;
    let forbidden = (Code::PermissionDenied, "forbidden".to_owned());
    assert_eq!(pipeline.refusal(1).await, forbidden);
    let mut calls = CoordinationClient::new(server.channel().await);
    assert_eq!(refused(calls.get_cached(by("mailer", get(&["k"]))).await), forbidden);
    let control = Some(QueueControl { state: WorkState::Run.into(), ..QueueControl::default() });
    let control = PutControlRequest { namespace: "mail".into(), queue: "out".into(), control };
    calls.put_control(by("mailer", control)).await.expect("jobs:mail may say it");
}
