//! The receiver, spoken to as the server would.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use standardwebhooks::Webhook;

use super::*;
use crate::wire_time::wall_now_ms;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const PATIENCE: Duration = Duration::from_secs(10);

/// Posts signed notifications over connections that are kept.
struct Sender {
    url: String,
    secret: Webhook,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Sender {
    fn to(receiver: &WebhookReceiver) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { url: receiver.url(), secret: Webhook::new(SECRET).expect("a secret"), client }
    }

    /// The status answered; none when there was no answer.
    async fn post(&self, id: &str, body: &str) -> Option<StatusCode> {
        let timestamp = wall_now_ms() / 1000;
        let request = Request::post(&self.url)
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp)
            .header(
                "webhook-signature",
                self.secret.sign(id, timestamp, body.as_bytes()).expect("it can be signed"),
            )
            .body(Full::from(body.to_owned()))
            .expect("a request");
        self.client.request(request).await.ok().map(|response| response.status())
    }
}

fn body(device: &str, sequence: u64) -> String {
    format!(
        r#"{{"type":"device.changed","timestamp":"2026-11-21T01:02:03.456Z","data":{{"device_id":"{device}",
        "kind":"lock","address":null,"value":{},"previous":0,"connection":"online",
        "changed_at":"2026-11-21T01:02:03.456Z","last_seen_at":"2026-11-21T01:02:03.456Z",
        "sequence":{sequence},"types":["device.changed"],"skipped":0}}}}"#,
        sequence % 2
    )
}

async fn opened(retain: Retain) -> (WebhookReceiver, Sender) {
    let receiver = WebhookReceiver::open(retain).expect("a free port");
    receiver.trust(SECRET).expect("a secret");
    let sender = Sender::to(&receiver);
    (receiver, sender)
}

#[tokio::test]
async fn what_is_signed_is_taken_and_remembered() {
    let (receiver, sender) = opened(Retain::Everything).await;
    assert_eq!(sender.post("m1", &body("d1", 1)).await, Some(StatusCode::OK));
    receiver.until(PATIENCE, |ledger| ledger.counts().taken == 1).await.expect("it comes in time");
    let ledger = receiver.ledger();
    assert_eq!(ledger.latest("d1").map(|latest| latest.notification.sequence), Some(1));
    assert_eq!((ledger.arrivals().len(), ledger.seen("m1")), (1, Some((1, 1))));
    assert_eq!(ledger.taken_of_kind(DeviceEventKind::Changed), 1);
}

#[tokio::test]
async fn a_wrong_signature_is_turned_away() {
    let (receiver, mut sender) = opened(Retain::Everything).await;
    sender.secret = Webhook::new("whsec_AAAA").expect("a secret");
    assert_eq!(sender.post("m1", &body("d1", 1)).await, Some(StatusCode::UNAUTHORIZED));
    assert_eq!((receiver.counts().forged, receiver.counts().arrivals), (1, 0));
    assert!(receiver.trust("nonsense").is_err());
}

#[tokio::test]
async fn an_unreadable_body_is_counted_and_described() {
    let (receiver, sender) = opened(Retain::Latest).await;
    assert_eq!(sender.post("m1", "{}").await, Some(StatusCode::BAD_REQUEST));
    assert_eq!(receiver.counts().malformed, 1);
    assert!(receiver.ledger().complaints()[0].contains("missing field"));
    assert_eq!(sender.post("m2", r#"{"type":"client.test"}"#).await, Some(StatusCode::OK));
    assert_eq!(receiver.counts().tests, 1);
}

#[tokio::test]
async fn a_message_about_a_pick_is_kept_as_it_came() {
    let (mut receiver, sender) = opened(Retain::Everything).await;
    receiver.behave(Behaviour::Failing(503)).await;
    let body = r#"{"type":"campaign.result","id":"cmd_1","data":{"device_id":"d1"}}"#;
    assert_eq!(sender.post("cmd_1", body).await, Some(StatusCode::SERVICE_UNAVAILABLE));
    receiver.behave(Behaviour::Up).await;
    assert_eq!(sender.post("cmd_1", body).await, Some(StatusCode::OK));
    let ledger = receiver.ledger();
    let replies: Vec<_> = ledger.pick_messages().iter().map(|message| message.reply).collect();
    assert_eq!(replies, [WebhookReply::Status(503), WebhookReply::Status(200)]);
    assert_eq!(ledger.pick_messages()[1].body["data"]["device_id"], "d1");
    assert_eq!(ledger.counts().malformed, 0);
}

#[tokio::test]
async fn repeats_are_counted_and_their_bodies_compared() {
    let (receiver, sender) = opened(Retain::Ids).await;
    sender.post("m1", &body("d1", 1)).await;
    sender.post("m1", &body("d1", 1)).await;
    assert_eq!((receiver.counts().repeats, receiver.counts().altered), (1, 0));
    sender.post("m1", &body("d1", 2)).await;
    sender.post("m2", &body("d1", 1)).await;
    let ledger = receiver.ledger();
    let counts = ledger.counts();
    assert_eq!((counts.repeats, counts.altered, counts.backwards), (2, 1, 1));
    assert_eq!((ledger.ids_seen(), ledger.arrivals().len()), (2, 0));
}

#[tokio::test]
async fn each_behaviour_is_in_force_once_it_is_set() {
    let (mut receiver, sender) = opened(Retain::Everything).await;
    let place = "http://127.0.0.1:1/".to_owned();
    for (behaviour, status) in [
        (Behaviour::Up, Some(200)),
        (Behaviour::Failing(503), Some(503)),
        (Behaviour::Gone, Some(410)),
        (Behaviour::Down, None),
        (Behaviour::Redirecting(place), Some(302)),
        (Behaviour::Up, Some(200)),
    ] {
        receiver.behave(behaviour.clone()).await;
        let answered = sender.post("m1", &body("d1", 1)).await.map(|status| status.as_u16());
        assert_eq!(answered, status, "{behaviour:?}");
    }
    assert_eq!(receiver.counts().taken, 2);
}

#[tokio::test]
async fn the_port_stays_its_own_while_it_is_down() {
    let (mut receiver, sender) = opened(Retain::Latest).await;
    let address = receiver.address();
    receiver.behave(Behaviour::Down).await;
    let refused = tokio::net::TcpStream::connect(address).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    assert!(std::net::TcpListener::bind(address).is_err(), "another process could take the port");
    receiver.behave(Behaviour::Up).await;
    assert_eq!(sender.post("m1", &body("d1", 1)).await, Some(StatusCode::OK));
}

#[tokio::test]
async fn a_hanging_receiver_reads_and_does_not_answer_until_it_changes() {
    let (mut receiver, sender) = opened(Retain::Everything).await;
    receiver.behave(Behaviour::Hanging).await;
    let posting = tokio::spawn(async move { sender.post("m1", &body("d1", 1)).await });
    receiver.until(PATIENCE, |ledger| ledger.counts().arrivals == 1).await.expect("it comes in time");
    assert_eq!(receiver.ledger().arrivals()[0].reply, WebhookReply::None);
    assert!(!posting.is_finished());
    receiver.behave(Behaviour::Up).await;
    assert_eq!(posting.await.expect("it does not panic"), None);
}

#[tokio::test]
async fn waiting_ends_with_the_patience() {
    let (receiver, _) = opened(Retain::Latest).await;
    let late = receiver.until(Duration::from_millis(10), |ledger| ledger.counts().taken == 1).await;
    assert_eq!(late.unwrap_err().counts, Counts::default());
}
