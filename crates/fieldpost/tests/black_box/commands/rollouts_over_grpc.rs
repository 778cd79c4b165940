//! The service `Rollouts` of gRPC: the same rollouts as over HTTP.

use grpc::proto::new_command::Notify;
use grpc::proto::rollouts_client::RolloutsClient;
use grpc::proto::{
    CallRolloutRequest, CreateRolloutRequest, DeviceList, GetRolloutRequest, ListRolloutsRequest, NewCommand,
    NewRollout, Rollout, RolloutCall, RolloutDeviceStatus, RolloutDevicesRequest, RolloutStage,
    RolloutStatus, RolloutStop, RolloutWindow, WatchRolloutRequest, WatchRolloutResponse,
};
use serde_json::{Value, json};
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Code, Streaming};

use crate::commands::device::{Device, Version};
use crate::commands::over_grpc::{channel, new, refused};
use crate::commands::with_locks;
use crate::contract::rig::{PATIENCE, Rig};

async fn client(rig: &Rig) -> RolloutsClient<Channel> {
    RolloutsClient::new(channel(rig).await)
}

fn to_all(command: NewCommand) -> NewRollout {
    NewRollout { command: Some(command), selector: Some(String::new()), ..NewRollout::default() }
}

fn create(id: &str, rollout: NewRollout) -> CreateRolloutRequest {
    CreateRolloutRequest { rollout: Some(rollout), id: id.to_owned(), idempotency_key: String::new() }
}

async fn begin(client: &mut RolloutsClient<Channel>, id: &str, rollout: NewRollout) -> Rollout {
    let begun = client.create(create(id, rollout)).await.expect("begun").into_inner();
    begun.rollout.expect("a rollout")
}

/// A rollout as HTTP shows it, once both locks were found. Its beginning waits only shortly for
/// that.
async fn with_both(rig: &Rig, id: &str) -> Value {
    let path = format!("/v1/rollouts/{id}");
    let has_both = |rollout: &Value| rollout["devices"] == 2;
    rig.api.until(&path, PATIENCE, has_both).await.expect("they are found")
}

async fn call(
    client: &mut RolloutsClient<Channel>,
    id: &str,
    call: RolloutCall,
) -> Result<(), (Code, String)> {
    let request = CallRolloutRequest { id: id.to_owned(), call: call.into() };
    match client.call(request).await {
        Ok(_) => Ok(()),
        Err(status) => Err(refused::<()>(Err(status))),
    }
}

/// The first that a watch tells and that is so.
async fn told(watch: &mut Streaming<WatchRolloutResponse>, is_so: impl Fn(&Rollout) -> bool) -> Rollout {
    let waiting = async {
        loop {
            let message = watch.message().await.expect("it goes on").expect("it has not ended");
            let rollout = message.rollout.expect("a rollout");
            if is_so(&rollout) {
                return rollout;
            }
        }
    };
    timeout(PATIENCE, waiting).await.expect("it comes to that")
}

#[tokio::test]
async fn a_rollout_is_the_same_over_grpc_and_http() {
    let rig = with_locks().await;
    let mut rollouts = client(&rig).await;
    let command = NewCommand { origin: Some("ci".to_owned()), ..new(&json!({"open": 1})) };
    let rollout = NewRollout {
        rate: Some(60),
        in_flight: Some(5),
        stages: vec![RolloutStage { share: 0.5, approve: true, ..RolloutStage::default() }],
        stop: Some(RolloutStop { failed_share: 0.1, after: Some(50) }),
        ..to_all(command)
    };
    begin(&mut rollouts, "night", rollout.clone()).await;
    let over_http = with_both(&rig, "night").await;
    let expect = json!({"id": "night", "status": "running", "origin": "ci", "selector": "", "devices": 2,
        "waiting": 2, "stage": 1});
    for (name, value) in expect.as_object().expect("an object") {
        assert_eq!(&over_http[name], value, "{name}: {over_http}");
    }
    let got = rollouts.get(GetRolloutRequest { id: "night".to_owned() }).await.expect("it is there");
    let got = got.into_inner().rollout.expect("a rollout");
    assert_eq!(
        (got.status(), got.devices, got.stage, got.origin()),
        (RolloutStatus::Running, 2, Some(1), "ci")
    );
    call(&mut rollouts, "night", RolloutCall::Pause).await.expect("paused");
    assert_eq!(rig.get("/v1/rollouts/night").await["status"], "paused");
    call(&mut rollouts, "night", RolloutCall::Resume).await.expect("it goes on");
    call(&mut rollouts, "night", RolloutCall::Cancel).await.expect("cancelled");
    let finished = Err((Code::FailedPrecondition, "finished".to_owned()));
    assert_eq!(call(&mut rollouts, "night", RolloutCall::Resume).await, finished);
    let same = begin(&mut rollouts, "night", rollout).await;
    assert_eq!((same.status(), same.cancelled), (RolloutStatus::Cancelled, 2), "the same request again");
}

#[tokio::test]
async fn a_watch_tells_of_each_move_until_the_end() {
    let rig = with_locks().await;
    let mut rollouts = client(&rig).await;
    begin(&mut rollouts, "r", to_all(new(&json!(1)))).await;
    with_both(&rig, "r").await;
    let watched = rollouts.watch(WatchRolloutRequest { id: "r".to_owned() }).await.expect("it is there");
    let mut watch = watched.into_inner();
    let first = told(&mut watch, |_| true).await;
    assert_eq!((first.waiting, first.acknowledged), (2, 0));
    for (id, done) in [("0xA", 1), ("0xB", 2)] {
        let mut device = Device::ready(&rig, Version::New, id).await;
        let (command, _) = device.command().await;
        device.answer(&command, true, &Value::Null).await;
        told(&mut watch, |rollout| rollout.acknowledged == done).await;
    }
    let end = timeout(PATIENCE, async {
        let mut last = None;
        while let Some(message) = watch.message().await.expect("it ends well") {
            last = message.rollout;
        }
        last
    });
    let last = end.await.expect("it ends");
    if let Some(last) = last {
        assert_eq!(last.status(), RolloutStatus::Done);
    }
    let now = rig.get("/v1/rollouts/r").await;
    assert_eq!(now["status"], "done");
}

#[tokio::test]
async fn rollouts_and_their_devices_are_listed_page_by_page() {
    let rig = with_locks().await;
    let mut rollouts = client(&rig).await;
    for id in ["a", "b", "c"] {
        begin(&mut rollouts, id, to_all(new(&json!(id)))).await;
        with_both(&rig, id).await;
    }
    let (mut ids, mut page) = (Vec::new(), bytes::Bytes::new());
    loop {
        let request = ListRolloutsRequest { limit: Some(2), page };
        let answer = rollouts.list(request).await.expect("a page").into_inner();
        ids.extend(answer.rollouts.into_iter().map(|rollout| rollout.id));
        page = answer.next_page;
        if page.is_empty() {
            break;
        }
    }
    assert_eq!(ids, ["a", "b", "c"]);
    let (mut devices, mut page) = (Vec::new(), bytes::Bytes::new());
    loop {
        let status = RolloutDeviceStatus::Waiting.into();
        let request = RolloutDevicesRequest { id: "a".to_owned(), status, limit: Some(1), page };
        let answer = rollouts.devices(request).await.expect("a page").into_inner();
        devices.extend(answer.devices.into_iter().map(|device| device.device_id));
        page = answer.next_page;
        if page.is_empty() {
            break;
        }
    }
    devices.sort();
    assert_eq!(devices, ["0xA", "0xB"]);
    let status = RolloutDeviceStatus::Failed.into();
    let none = RolloutDevicesRequest { id: "a".to_owned(), status, ..RolloutDevicesRequest::default() };
    assert!(rollouts.devices(none).await.expect("a page").into_inner().devices.is_empty());
}

#[tokio::test]
async fn a_repeat_over_grpc_begins_nothing_again() {
    let rig = with_locks().await;
    let mut rollouts = client(&rig).await;
    let keyed = |payload: i32| {
        let notify = Some(Notify::NotifyUrl("https://ops.example/done".to_owned()));
        let rollout = to_all(NewCommand { notify, ..new(&json!(payload)) });
        CreateRolloutRequest { idempotency_key: "k1".to_owned(), ..create("", rollout) }
    };
    let first = rollouts.create(keyed(1)).await.expect("begun").into_inner();
    assert_eq!(first.notify_secret.len(), 32, "a secret is made");
    let again = rollouts.create(keyed(1)).await.expect("the same").into_inner();
    assert_eq!(again.notify_secret, first.notify_secret);
    assert_eq!(again.rollout.map(|rollout| rollout.id), first.rollout.map(|rollout| rollout.id));
    let other = refused(rollouts.create(keyed(2)).await);
    assert_eq!(other, (Code::InvalidArgument, "idempotency_key_reused".to_owned()));
    assert_eq!(rig.items("/v1/rollouts").await.len(), 1);
}

#[tokio::test]
async fn what_is_refused_over_http_is_refused_over_grpc() {
    let rig = with_locks().await;
    let mut rollouts = client(&rig).await;
    let all = || to_all(new(&json!(1)));
    let stage = |share| RolloutStage { share, ..RolloutStage::default() };
    let named = |ids: &[&str]| {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        NewRollout { selector: None, devices: Some(DeviceList { ids }), ..all() }
    };
    let window = RolloutWindow {
        cron: "at night".to_owned(),
        open_for: Some(prost_types::Duration { seconds: 1, nanos: 0 }),
        tz: String::new(),
    };
    for (request, word) in [
        (create("", NewRollout { selector: None, ..all() }), "missing_field"),
        (create("a.b", all()), "invalid_id"),
        (create("", named(&["a/b"])), "invalid_id"),
        (create("", NewRollout { include_later: true, ..named(&["0xA"]) }), "conflicting_fields"),
        (
            CreateRolloutRequest { idempotency_key: "k".to_owned(), ..create("r", all()) },
            "conflicting_fields",
        ),
        (create("", NewRollout { selector: Some("A=1".to_owned()), ..all() }), "bad_selector"),
        (create("", NewRollout { rate: Some(0), ..all() }), "invalid_number"),
        (create("", NewRollout { stages: vec![stage(2.0)], ..all() }), "invalid_number"),
        (create("", NewRollout { stages: vec![stage(0.5), stage(0.1)], ..all() }), "invalid_stages"),
        (create("", NewRollout { window: Some(window), ..all() }), "invalid_schedule"),
        (create("", NewRollout { command: None, ..all() }), "unreadable"),
    ] {
        let refusal = refused(rollouts.create(request).await);
        assert_eq!(refusal, (Code::InvalidArgument, word.to_owned()), "{word}");
    }
    let unknown = (Code::NotFound, "unknown_rollout".to_owned());
    let get = rollouts.get(GetRolloutRequest { id: "none".to_owned() }).await;
    assert_eq!(refused(get), unknown);
    assert_eq!(call(&mut rollouts, "none", RolloutCall::Pause).await, Err(unknown.clone()));
    let said = call(&mut rollouts, "none", RolloutCall::Unspecified).await;
    assert_eq!(said, Err((Code::InvalidArgument, "unknown_word".to_owned())));
    let watched = rollouts.watch(WatchRolloutRequest { id: "none".to_owned() }).await.expect("a stream");
    assert_eq!(refused(watched.into_inner().message().await), unknown);
    assert!(rig.items("/v1/rollouts").await.is_empty());
}
