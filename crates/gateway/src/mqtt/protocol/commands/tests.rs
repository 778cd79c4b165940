//! A session over a stream in memory, and commands that are handed to its listener's routes.

use std::time::Duration;

use access::{Login, Principal};
use base::{EntityId, Kind, Lineage, SystemClock, Timestamp};
use engine::settings::{RetrySettings, UnknownDevice};
use engine::{Engine, EngineSettings, PublishedCommand};
use store::MemoryStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::timeout;

use super::*;
use crate::mqtt::MqttShared;
use crate::mqtt::handshake::answer_connect;
use crate::mqtt::handshake::tests::a_place;
use crate::mqtt::limits::{COMMANDS_UNACKNOWLEDGED_V311_MAX, MqttLimits};

const CONNECT: &[u8] = b"\x10\x0e\0\x04MQTT\x04\x02\0\x3c\0\x02me";
const CONNACK: &[u8] = b"\x20\x02\0\0";

#[test]
fn packet_ids_in_use_are_not_given_out_again() {
    let mut window = PacketIds { packet_ids: Vec::new(), last_id: u16::MAX - 1 };
    assert_eq!([window.open(), window.open(), window.open()], [u16::MAX, 1, 2]);
    assert!(window.is_full(3) && !window.is_full(4));
    assert!(window.close(1) && !window.close(1));
    window.last_id = u16::MAX - 1;
    assert_eq!(window.open(), 1, "the last one is in use");
    for packet_id in [u16::MAX, 1, 2] {
        assert!(window.close(packet_id));
    }
    assert_eq!(window.packet_ids.capacity(), 0);
}

#[test]
fn a_device_that_waits_for_commands_holds_little() {
    let of_commands =
        size_of::<CommandReceiver>() + size_of::<Watcher<CommandCopy>>() + 2 * size_of::<usize>();
    assert!(of_commands <= 192, "{of_commands} bytes of 1.5 KiB, beside those of its connection");
}

/// A listener without a socket, whose routes carry what the test hands them.
struct Bench {
    shared: Arc<MqttShared>,
}

impl Bench {
    async fn start() -> Self {
        Self::knowing(Principal::anybody()).await
    }

    async fn knowing(anybody: Principal) -> Self {
        let store = Arc::new(MemoryStore::new(Lineage(7), 1));
        let clock = Arc::new(SystemClock::start(Timestamp(0)));
        let engine = Engine::start(settings(), store, clock).await.expect("an empty store");
        let mut shared = MqttShared::new(engine, MqttLimits::default());
        shared.commands = Some(CommandRoutes::new(Arc::default(), shared.metrics.commands.clone()));
        shared.anybody = Arc::new(anybody);
        Self { shared: Arc::new(shared) }
    }

    /// A client that is connected.
    async fn connect(&self, connect: &[u8]) -> DuplexStream {
        let (mut client, mut server) = duplex(4_096);
        client.write_all(connect).await.expect("room");
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            let accepted = answer_connect(&mut server, &shared, None, a_place).await;
            let accepted = accepted.expect("a right CONNECT");
            accepted.into_session(server, &shared).run().await;
        });
        client
    }

    /// A client of 3.1.1 that has this subscription.
    async fn subscriber(&self, filter: &str, qos: u8) -> DuplexStream {
        let mut client = self.connect(CONNECT).await;
        expect(&mut client, CONNACK).await;
        client.write_all(&subscribe(filter, qos)).await.expect("room");
        expect(&mut client, &[0x90, 3, 0, 5, qos.min(1)]).await;
        client
    }

    fn publish(&self, device: &str, number: u32, payload: &str) {
        let command = PublishedCommand {
            device: DeviceId::new(device).expect("an id"),
            kind: Kind::lock(),
            id: EntityId { routing: 1, at: Timestamp(2), number, tag: 3 },
            payload: payload.as_bytes().into(),
        };
        self.shared.commands.as_ref().expect("routes").publish(&command);
    }

    fn dropped(&self, reason: &'static str) -> u64 {
        self.shared.metrics.commands.dropped.counter(reason).get()
    }
}

fn subscribe(filter: &str, qos: u8) -> Vec<u8> {
    let length = filter.len() as u8;
    [&[0x82, length + 5, 0, 5, 0, length], filter.as_bytes(), &[qos]].concat()
}

/// The PUBLISH of a command to a lock, as a client of 3.1.1 is sent it.
fn published(device: &str, number: u32, payload: &str, packet_id: Option<u16>) -> Vec<u8> {
    let id = EntityId { routing: 1, at: Timestamp(2), number, tag: 3 };
    let id = id.to_text(engine::commands::COMMAND_ID_PREFIX);
    let topic = format!("dev/lock/{device}");
    let mut body = [&[0, topic.len() as u8], topic.as_bytes()].concat();
    body.extend(packet_id.map(u16::to_be_bytes).into_iter().flatten());
    body.extend(format!(r#"{{"message_id":"{id}","payload":{payload}}}"#).bytes());
    let first = if packet_id.is_some() { 0x32 } else { 0x30 };
    [&[first, body.len() as u8], &*body].concat()
}

async fn expect(client: &mut DuplexStream, bytes: &[u8]) {
    let mut received = vec![0; bytes.len()];
    let read = timeout(Duration::from_secs(20), client.read_exact(&mut received));
    read.await.expect("in time").expect("an open connection");
    assert_eq!(received, bytes, "{received:x?} is not {bytes:x?}");
}

#[tokio::test]
async fn a_command_comes_with_the_qos_of_its_subscription() {
    let bench = Bench::start().await;
    for (filter, qos, packet_id) in
        [("dev/lock/0xA", 0, None), ("dev/+/0xA", 1, Some(1)), ("#", 2, Some(1)), ("dev/lock/+", 1, Some(1))]
    {
        let mut client = bench.subscriber(filter, qos).await;
        bench.publish("0xA", 1, "7");
        expect(&mut client, &published("0xA", 1, "7", packet_id)).await;
        client.write_all(b"\xe0\0").await.expect("room");
        assert_eq!(client.read(&mut [0]).await.expect("the end"), 0);
    }
    bench.publish("0xA", 1, "7");
    assert_eq!(bench.dropped("nobody"), 1);
    assert_eq!(bench.shared.metrics.commands.waiting_bytes.get(), 0);
    assert_eq!(bench.shared.metrics.commands.unacknowledged.get(), 0);
}

#[tokio::test]
async fn no_more_commands_come_than_a_client_acknowledges() {
    let bench = Bench::start().await;
    let mut client = bench.subscriber("dev/lock/0xA", 1).await;
    let most = u32::from(COMMANDS_UNACKNOWLEDGED_V311_MAX);
    for number in 0..most + 2 {
        bench.publish("0xA", number, "0");
    }
    for number in 0..most {
        expect(&mut client, &published("0xA", number, "0", Some(number as u16 + 1))).await;
    }
    client.write_all(b"\xc0\0").await.expect("room");
    expect(&mut client, b"\xd0\0").await;
    client.write_all(b"\x40\x02\0\x02\xc0\0").await.expect("room");
    let next = published("0xA", most, "0", Some(most as u16 + 1));
    let both = [&next[..], b"\xd0\0"].concat();
    let mut received = vec![0; both.len()];
    client.read_exact(&mut received).await.expect("an open connection");
    assert!(received == both || received == [b"\xd0\0", &next[..]].concat(), "{received:x?}");
    client.write_all(b"\x40\x02\0\x09\x40\x02\xff\xff").await.expect("room");
    expect(&mut client, &published("0xA", most + 1, "0", Some(most as u16 + 2))).await;
}

#[tokio::test]
async fn a_client_is_sent_nothing_that_is_too_large_for_it() {
    // MQTT 5, with a receive maximum of 1 and a maximum packet size of 120.
    const CONNECT_V5: &[u8] = b"\x10\x17\0\x04MQTT\x05\x02\0\x3c\x08\x21\0\x01\x27\0\0\0\x78\0\x02me";
    let bench = Bench::start().await;
    let mut client = bench.connect(CONNECT_V5).await;
    let mut connack = [0; 2];
    client.read_exact(&mut connack).await.expect("a CONNACK");
    client.read_exact(&mut vec![0; connack[1].into()]).await.expect("all of it");
    client.write_all(b"\x82\x12\0\x05\0\0\x0cdev/lock/0xA\x01").await.expect("room");
    expect(&mut client, &[0x90, 4, 0, 5, 0, 1]).await;
    bench.publish("0xA", 1, &"1".repeat(60));
    for number in [2, 3] {
        bench.publish("0xA", number, "0");
    }
    let v5 = |number, packet_id| {
        let mut packet = published("0xA", number, "0", Some(packet_id));
        packet.insert(2 + 2 + 12 + 2, 0);
        packet[1] += 1;
        packet
    };
    expect(&mut client, &v5(2, 2)).await;
    assert_eq!(bench.dropped("too_large"), 1);
    client.write_all(b"\x40\x03\0\x02\x83").await.expect("room");
    expect(&mut client, &v5(3, 3)).await;
}

#[tokio::test]
async fn a_device_is_heard_while_it_takes_a_large_command() {
    let bench = Bench::start().await;
    let mut client = bench.subscriber("dev/lock/0xA", 0).await;
    bench.publish("0xA", 1, &format!("\"{}\"", "x".repeat(base::limits::COMMAND_PAYLOAD_BYTES_MAX - 2)));
    // Nothing of it is read, and yet a goodbye is heard.
    client.write_all(b"\xc0\0\xe0\0").await.expect("room");
    let heard = async {
        while bench.shared.metrics.connections.get() > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(20), heard).await.expect("in time");
}

#[tokio::test]
async fn a_session_that_never_began_is_taken_back() {
    let bench = Bench::start().await;
    let engine = &bench.shared.engine;
    let device = engine::NewDevice { id: "0xA".into(), ..engine::NewDevice::default() };
    engine.create_device(device).await.expect("a new device");
    let id = DeviceId::new("0xA").expect("an id");
    let is_connected = || engine.queries().device(&id).expect("readable").expect("registered").connected;
    let (mut client, mut server) = duplex(4_096);
    client.write_all(b"\x10\x0f\0\x04MQTT\x04\x02\0\x3c\0\x030xA").await.expect("room");
    let accepted = answer_connect(&mut server, &bench.shared, None, a_place).await;
    assert!(accepted.is_ok() && is_connected());
    drop(accepted);
    let taken_back = async {
        while is_connected() {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(20), taken_back).await.expect("in time");
}

#[tokio::test]
async fn what_is_unsubscribed_from_comes_no_more() {
    let bench = Bench::start().await;
    let mut client = bench.subscriber("dev/lock/0xA", 0).await;
    client.write_all(&subscribe("dev/lock/0xB", 0)).await.expect("room");
    expect(&mut client, &[0x90, 3, 0, 5, 0]).await;
    client.write_all(b"\xa2\x10\0\x07\0\x0cdev/lock/0xA").await.expect("room");
    expect(&mut client, b"\xb0\x02\0\x07").await;
    bench.publish("0xA", 1, "0");
    bench.publish("0xB", 2, "0");
    expect(&mut client, &published("0xB", 2, "0", None)).await;
    assert_eq!(bench.dropped("nobody"), 1);
}

#[tokio::test]
async fn a_device_that_has_lost_its_label_is_shown_to_its_site_no_more() {
    let login = Login::Label { key: "site".into(), value: "12".into() };
    let bench = Bench::knowing(Principal { number: 1, username: "site".into(), login }).await;
    let engine = &bench.shared.engine;
    for id in ["0xA", "0xB"] {
        let labels = Some(vec![("site".to_owned(), "12".to_owned())]);
        let device = engine::NewDevice { id: id.into(), labels, ..engine::NewDevice::default() };
        engine.create_device(device).await.expect("a new device");
    }
    let mut client = bench.subscriber("dev/lock/0xA", 0).await;
    client.write_all(&subscribe("dev/lock/0xB", 0)).await.expect("room");
    expect(&mut client, &[0x90, 3, 0, 5, 0]).await;
    let gone = engine::Patch::Set(vec![("site".to_owned(), None)]);
    let patch = engine::DevicePatch { labels: gone, ..engine::DevicePatch::default() };
    let id = DeviceId::new("0xA").expect("an id");
    engine.patch_device(id, patch, engine::OnlyIf::default()).await.expect("known");
    bench.publish("0xA", 1, "0");
    bench.publish("0xB", 2, "0");
    expect(&mut client, &published("0xB", 2, "0", None)).await;
    assert_eq!(bench.dropped("not_allowed"), 1);
}

fn settings() -> EngineSettings {
    EngineSettings {
        device_ids: base::DeviceIdForm::DEFAULT,
        unknown: UnknownDevice::Reject,
        report_interval: Duration::from_secs(3_600),
        loss_grace: Duration::ZERO,
        restart_grace: Duration::from_secs(120),
        ways_configured: [true, true, false],
        retry: RetrySettings {
            base: Duration::from_secs(30),
            max: Duration::from_secs(3_600),
            attempts_max: 10,
        },
        attempt_timeout: Duration::from_secs(10),
        stale_probe: Duration::from_secs(3_600),
        keep: engine::settings::RetentionLimits::default(),
        jobs_resident_max: 65_536,
        node_name: None,
        directory_mark: None,
        streams_memory_bytes: 64_000_000,
        block_storages: Default::default(),
        coordination: engine::CoordinationSettings::default(),
        commands: engine::CommandSettings::default(),
        operations: engine::OperationSettings::default(),
        campaigns: engine::CampaignSettings::default(),
        notices: engine::notices::NoticeSettings::default(),
        allow_private: false,
        render: Arc::new(|_| Vec::new()),
        check_payload: engine::settings::any_payload(),
    }
}
