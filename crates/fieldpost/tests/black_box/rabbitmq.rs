//! A real RabbitMQ of our own for the tests of one process, on loopback, and a wire to it that can
//! be cut.
//!
//! It takes seconds to start, so the tests share one. Each uses queues of its own, and one that
//! kills it waits until the others are done. `rabbitmq/broker.sh` does the work; the broker ends
//! with this process, however that ends.

use std::fs::write;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::time::interval;

use crate::ports::free_ports;

pub(crate) mod proxy;

/// Starting takes seconds, and much longer while other tests use the cores.
const START_MAX: Duration = Duration::from_secs(180);
/// Between two attempts to reach a broker that starts.
const KNOCK_EVERY: Duration = Duration::from_millis(100);

/// The broker of this process.
pub(crate) struct RabbitMq {
    address: SocketAddr,
    tls_address: SocketAddr,
    directory: PathBuf,
    script: Mutex<Script>,
    /// Held for reading by those who need it to run.
    running: RwLock<()>,
}

struct Script {
    orders: ChildStdin,
    done: BufReader<ChildStdout>,
    _child: Child,
}

/// The broker while it runs.
pub(crate) struct InUse {
    pub(crate) broker: &'static RabbitMq,
    _running: RwLockReadGuard<'static, ()>,
}

/// The broker, for a test that kills it.
pub(crate) struct Owned {
    pub(crate) broker: &'static RabbitMq,
    _alone: RwLockWriteGuard<'static, ()>,
}

/// The broker, running.
pub(crate) async fn in_use() -> InUse {
    let broker = shared();
    let running = broker.running.read().await;
    broker.connect().await;
    InUse { broker, _running: running }
}

/// The broker, running, for this test alone.
pub(crate) async fn owned() -> Owned {
    let broker = shared();
    let alone = broker.running.write().await;
    broker.connect().await;
    Owned { broker, _alone: alone }
}

fn shared() -> &'static RabbitMq {
    static BROKER: OnceLock<RabbitMq> = OnceLock::new();
    BROKER.get_or_init(RabbitMq::start)
}

impl RabbitMq {
    fn start() -> Self {
        let directory =
            tempfile::Builder::new().prefix("fieldpost-rabbitmq-").tempdir().expect("a directory");
        let directory = directory.keep(); // the script removes it
        let shown = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
        write(directory.join("cert.pem"), shown.cert.pem()).expect("written");
        write(directory.join("key.pem"), shown.signing_key.serialize_pem()).expect("written");
        let [amqp, amqps, distribution, names] = free_ports();
        let mut child =
            Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/black_box/rabbitmq/broker.sh"))
                .arg(&directory)
                .args([amqp, amqps, distribution, names].map(|port| port.to_string()))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("a shell");
        let orders = child.stdin.take().expect("it is piped");
        let done = BufReader::new(child.stdout.take().expect("it is piped"));
        let script = Mutex::new(Script { orders, done, _child: child });
        let [address, tls_address] = [amqp, amqps].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        Self { address, tls_address, directory, script, running: RwLock::default() }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens for TLS, with a certificate that only those trust who are told of it.
    pub(crate) fn tls_url(&self) -> String {
        format!("amqps://guest:guest@{}", self.tls_address)
    }

    /// The file of that certificate.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.directory.join("cert.pem")
    }

    /// A connection, as soon as it lets us in.
    pub(crate) async fn connect(&self) -> Connection {
        let (started, mut again) = (Instant::now(), interval(KNOCK_EVERY));
        loop {
            again.tick().await;
            match Connection::connect(&url_at(self.address), ConnectionProperties::default()).await {
                Ok(connection) => return connection,
                Err(error) => assert!(
                    started.elapsed() < START_MAX,
                    "no RabbitMQ ({error}); scripts/setup test installs it. Its log:\n{}",
                    self.log_tail()
                ),
            }
        }
    }

    /// A channel of a new connection, which lives as long as the channel.
    pub(crate) async fn channel(&self) -> Channel {
        let connection = self.connect().await;
        connection.create_channel().await.expect("a channel")
    }

    fn order(&self, order: &str) {
        let mut script = self.script.lock().expect("no panic");
        writeln!(script.orders, "{order}").expect("the script runs");
        let mut done = String::new();
        script.done.read_line(&mut done).expect("the script answers");
        assert_eq!(done.trim_end(), order);
    }

    fn log_tail(&self) -> String {
        let log = std::fs::read_to_string(self.directory.join("broker.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Owned {
    /// Ends it as a power cut would.
    pub(crate) fn kill(&self) {
        self.broker.order("kill");
    }

    /// Lets it close channels that leave a message unacknowledged for half a second; those that are
    /// opened until `patient`.
    pub(crate) fn impatient(&self) {
        self.broker.order("impatient");
    }

    /// Ends that.
    pub(crate) fn patient(&self) {
        self.broker.order("patient");
    }

    /// Starts it again on the same data; it is not waited for.
    pub(crate) fn start(&self) {
        self.broker.order("start");
    }
}

/// The URL of a broker at an address.
pub(crate) fn url_at(address: SocketAddr) -> String {
    format!("amqp://guest:guest@{address}/%2f")
}

/// What the queue holds that has not been given to anyone; `None` where there is no such queue.
pub(crate) async fn waiting_in(channel: &Channel, queue: &str) -> Option<u32> {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let found = channel.queue_declare(queue.into(), passive, FieldTable::default()).await;
    found.ok().map(|queue| queue.message_count())
}
