//! Who stays and who goes, by a clock that is moved.

use std::net::Ipv4Addr;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{advance, pause, sleep};

use super::*;
use crate::listen::Handshakes;

fn pool(places: usize) -> Arc<ConnectionPool> {
    Arc::new(ConnectionPool::new(Capacity::new(places)))
}

/// A peer of the host with this number.
fn peer(host: u32) -> SocketAddr {
    (Ipv4Addr::from_bits(0x0a00_0000 + host), 1_883).into()
}

fn state(since_ms: u64, moved: u64, phase: Phase) -> ConnectionState {
    let state = ConnectionState::new(peer(1), Instant::now(), phase);
    state.since_ms.store(since_ms, Ordering::Relaxed);
    state.window.store(60_000 / PACE_WINDOW_MS, Ordering::Relaxed);
    state.moved.store(moved, Ordering::Relaxed);
    state
}

#[test]
fn who_moves_least_goes_first_and_who_makes_progress_stays() {
    use Phase::{Handshake, Silent, Unadmitted, UnderWay};
    for (since_ms, moved, phase, expect) in [
        (59_500, 0, Silent, None),
        (59_000, 0, Silent, Some((0, 59_000))),
        (59_000, 50, Silent, Some((50, 59_000))),
        (31_000, 0, UnderWay, None),
        (30_000, 0, UnderWay, Some((0, 30_000))),
        (30_000, 30 * 63, UnderWay, Some((63, 30_000))),
        (30_000, 30 * 64, UnderWay, None),
        (1_000, 30 * 64, UnderWay, None),
        (56_000, 0, Handshake, None),
        (55_000, 0, Handshake, Some((0, 55_000))),
        (55_000, 300, Handshake, Some((60, 55_000))),
        (55_000, 320, Handshake, None),
        (50_000, 3_000, Handshake, None),
        (56_000, 9_000, Unadmitted, None),
        (55_000, 9_000, Unadmitted, Some((1_800, 55_000))),
    ] {
        let shares = AddressShares { of_many: false, for_few: true };
        let rank = state(since_ms, moved, phase).rank(60_000, shares);
        let rank = rank.map(|rank| (rank.pace, rank.since_ms));
        assert_eq!(rank, expect, "{since_ms} {moved} {phase:?}");
    }
}

#[test]
fn who_has_more_than_a_share_goes_first_for_who_has_less() {
    use Phase::{Handshake, UnderWay};
    for (since_ms, moved, phase, of_many, for_few, expect) in [
        (58_000, 0, Handshake, true, false, true),
        (58_000, 0, Handshake, false, true, false),
        (58_000, 9_000, Handshake, true, false, false),
        (58_000, 9_000, Handshake, true, true, false),
        (55_000, 9_000, Handshake, true, true, true),
        (59_000, 9_000, Handshake, true, true, false),
        (30_000, 9_000, UnderWay, true, true, true),
        (30_000, 9_000, UnderWay, true, false, false),
        (31_000, 9_000, UnderWay, true, true, false),
    ] {
        let rank = state(since_ms, moved, phase).rank(60_000, AddressShares { of_many, for_few });
        assert_eq!(rank.is_some(), expect, "{since_ms} {moved} {phase:?} {of_many} {for_few}");
    }
}

#[test]
fn progress_of_long_ago_counts_no_more() {
    let state = state(0, 9_000_000, Phase::UnderWay);
    let goes = |now_ms| state.rank(now_ms, AddressShares { of_many: false, for_few: true }).is_some();
    assert_eq!([60_000, 89_000, 119_000, 120_000].map(goes), [false, false, false, true]);
}

#[test]
fn who_is_admitted_goes_last_of_the_idle_and_for_no_address_above_its_share() {
    let (idle, stranger) = (state(1_000, 0, Phase::UnderWay), state(55_000, 9_000, Phase::Unadmitted));
    idle.admitted.store(true, Ordering::Relaxed);
    let rank =
        |state: &ConnectionState, for_few| state.rank(60_000, AddressShares { of_many: false, for_few });
    assert!(rank(&stranger, true) < rank(&idle, true), "it moves, and never said who it is");
    assert!(rank(&stranger, false).is_some() && rank(&idle, false).is_none());
}

#[test]
fn a_network_of_ipv6_is_one_source() {
    let source = |text: &str| SourceNetwork::of(text.parse().expect("an address"));
    assert_eq!(source("[2001:db8::1:0:0:7]:1"), source("[2001:db8::2:0:0:9]:2"));
    assert_eq!(source("[2001:db8:0:1::1]:1"), source("[2001:db8:0:2::1]:1"));
    assert_ne!(source("[2001:db8:0:100::1]:1"), source("[2001:db8:0:200::1]:1"));
    assert_eq!(source("[::ffff:10.0.0.1]:1"), source("10.0.0.1:9"));
    assert_ne!(source("10.0.0.1:1"), source("10.0.0.2:1"));
}

#[tokio::test]
async fn a_newcomer_takes_the_place_of_who_says_nothing() {
    pause();
    let pool = pool(2);
    let silent = pool.enter(peer(1)).await.expect("room");
    let quick = pool.enter(peer(1)).await.expect("room");
    advance(Duration::from_secs(60)).await;
    quick.begins();
    let leaves = tokio::spawn(async move { silent.evicted().await });
    let newcomer = pool.enter(peer(1)).await;
    assert!(newcomer.is_some());
    leaves.await.expect("evicted");
    assert!(pool.enter(peer(1)).await.is_none(), "everybody is quick");
}

#[tokio::test]
async fn who_speaks_up_in_time_stays() {
    pause();
    let pool = pool(1);
    let pooled = pool.enter(peer(1)).await.expect("room");
    advance(Duration::from_secs(60)).await;
    assert_eq!(pool.evict(peer(2), Instant::now()), 1);
    pooled.begins();
    let left = timeout(Duration::ZERO, pooled.evicted()).await;
    assert!(left.is_err());
}

#[tokio::test]
async fn whose_turn_it_is_enters_when_somebody_leaves() {
    pause();
    let pool = pool(1);
    let pooled = pool.enter(peer(1)).await.expect("room");
    let next = tokio::spawn({
        let pool = Arc::clone(&pool);
        async move { pool.enter_in_turn(peer(2)).await.is_some() }
    });
    tokio::task::yield_now().await;
    assert!(!next.is_finished());
    assert!(pool.enter_in_turn(peer(1)).await.is_none(), "its address has its share");
    drop(pooled);
    assert!(next.await.expect("no panic"));
    pool.all_left().await;
    let table = locked(&pool.table);
    assert!(table.states.is_empty() && table.by_source.is_empty());
}

#[tokio::test]
async fn one_address_gives_way_to_another() {
    pause();
    let pool = pool(16);
    let mut of_one = Vec::new();
    for _ in 0..16 {
        let pooled = pool.enter(peer(1)).await.expect("room");
        pooled.begins();
        of_one.push(pooled);
    }
    advance(UNDER_WAY_MIN).await;
    of_one.iter().for_each(|pooled| pooled.moved(1_000_000));
    assert!(pool.enter(peer(1)).await.is_none(), "everybody makes progress");
    let leaving: Vec<_> =
        of_one.into_iter().map(|pooled| tokio::spawn(async move { pooled.evicted().await })).collect();
    assert!(pool.enter(peer(2)).await.is_some(), "its address has less than its share");
    assert_eq!(leaving.iter().filter(|leaving| leaving.is_finished()).count(), 1);
    leaving.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn idle_strangers_go_before_a_fleet_behind_one_address() {
    pause();
    let pool = Arc::new(ConnectionPool::of_handshakes(Capacity::new(16)));
    let (mut fleet, mut strangers) = (Vec::new(), Vec::new());
    for host in 2..10 {
        fleet.push(pool.enter(peer(1)).await.expect("room"));
        strangers.push(pool.enter(peer(host)).await.expect("room"));
    }
    advance(HANDSHAKE_MIN).await;
    fleet.iter().for_each(|pooled| pooled.moved(10_000));
    assert_eq!(pool.evict(peer(99), Instant::now()), 1);
    let mut leave = [0, 0];
    for (leave, connections) in leave.iter_mut().zip([&fleet, &strangers]) {
        for pooled in connections {
            *leave += usize::from(timeout(Duration::ZERO, pooled.evicted()).await.is_ok());
        }
    }
    assert_eq!(leave, [0, 1]);
}

/// What a server needs for TLS, and a client that trusts it. The client says much at first: it
/// offers protocols that the server does not know.
fn tls() -> (Arc<ServerConfig>, ClientConnection) {
    let names = ["localhost".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).expect("a certificate");
    let mut trusted = RootCertStore::empty();
    trusted.add(cert.der().clone()).expect("a certificate");
    let mut client = ClientConfig::builder().with_root_certificates(trusted).with_no_client_auth();
    client.alpn_protocols = (b'a'..=b'd').map(|letter| vec![letter; 200]).collect();
    let name = ServerName::try_from("localhost").expect("a name");
    let client = ClientConnection::new(Arc::new(client), name).expect("a right configuration");
    let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
    let server = ServerConfig::builder().with_no_client_auth();
    let server = server.with_single_cert(vec![cert.der().clone()], key).expect("a right key");
    (Arc::new(server), client)
}

#[tokio::test]
async fn a_tls_handshake_that_comes_in_pieces_keeps_its_place() {
    pause();
    let (config, mut client) = tls();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let mut stream = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("it listens");
    let (accepted, _) = listener.accept().await.expect("it came");
    let mut hello = Vec::new();
    client.write_tls(&mut hello).expect("in memory");
    let (first, second) = hello.split_at(hello.len() / 2);
    stream.write_all(first).await.expect("sent");
    while accepted.peek(&mut vec![0; first.len()]).await.expect("it is there") < first.len() {}

    let pool = Arc::new(ConnectionPool::of_handshakes(Capacity::new(1)));
    let pooled = pool.enter(peer(1)).await.expect("room");
    let handshake = tokio::spawn(async move {
        let handshakes = Handshakes::new();
        tokio::select! {
            agreed = handshakes.agree(accepted, config, &pooled) => agreed.is_ok(),
            () = pooled.evicted() => false,
        }
    });
    yield_now().await;
    // Until a newcomer comes it has moved so much that it may just stay.
    let slowest = |bytes: usize| Duration::from_millis(bytes as u64 * 1_000 / PACE_MIN);
    assert!(slowest(first.len()) > HANDSHAKE_MIN);
    advance(slowest(first.len())).await;
    assert!(pool.enter(peer(2)).await.is_none(), "what it said counts");

    stream.write_all(second).await.expect("sent");
    let (mut buffer, mut told) = ([0; 4_096], 0);
    while client.is_handshaking() {
        let read = stream.read(&mut buffer).await.expect("an open connection");
        assert!(read > 0, "it is not over");
        told += read;
        let mut unread = &buffer[..read];
        while !unread.is_empty() {
            client.read_tls(&mut unread).expect("in memory");
            client.process_new_packets().expect("a right answer");
        }
    }
    advance(slowest(hello.len() + told) - slowest(first.len())).await;
    assert!(pool.enter(peer(2)).await.is_none(), "what it was told counts too");

    let mut last = Vec::new();
    client.write_tls(&mut last).expect("in memory");
    stream.write_all(&last).await.expect("sent");
    assert!(handshake.await.expect("no panic"), "they agree");
}

/// Connections that wait to be accepted, in order.
type Backlog = mpsc::UnboundedSender<(SocketAddr, Does)>;

/// What a connection does once it is accepted.
enum Does {
    Nothing,
    /// It agrees on TLS and says who it is: each flight takes so long. If it has to leave it comes
    /// again.
    Connects {
        flight: Duration,
        backlog: Backlog,
        done: mpsc::UnboundedSender<SocketAddr>,
    },
    /// It sends so much a second, and never says who it is.
    Drips,
}

impl Does {
    /// It was closed at once: a device comes again after a second.
    fn again(self, peer: SocketAddr) {
        let Self::Connects { backlog, .. } = &self else { return };
        let backlog = backlog.clone();
        tokio::spawn(async move {
            sleep(Duration::from_secs(1)).await;
            backlog.send((peer, self)).expect("it listens");
        });
    }
}

/// Has connections make their handshakes as a listener does, each for at most so long.
fn listen(places: usize, timeout_after: Duration) -> Backlog {
    let (backlog, mut waiting) = mpsc::unbounded_channel::<(SocketAddr, Does)>();
    let pool = Arc::new(ConnectionPool::of_handshakes(Capacity::new(places)));
    tokio::spawn(async move {
        let mut handshakes = JoinSet::new();
        while let Some((peer, does)) = waiting.recv().await {
            match pool.enter_in_turn(peer).await {
                Some(pooled) => drop(handshakes.spawn(timeout(timeout_after, handshake(pooled, does)))),
                None => does.again(peer),
            }
            while handshakes.try_join_next().is_some() {}
        }
    });
    backlog
}

async fn handshake(pooled: PooledConnection, does: Does) {
    match does {
        Does::Nothing => pooled.evicted().await,
        Does::Drips => {
            let drips = async {
                loop {
                    pooled.moved(65);
                    sleep(Duration::from_secs(1)).await;
                }
            };
            tokio::select! {
                () = drips => {}
                () = pooled.evicted() => {}
            }
        }
        Does::Connects { flight, backlog, done } => {
            let connects = async {
                for bytes in [2_000, 150] {
                    pooled.moved(150);
                    sleep(flight).await;
                    pooled.moved(bytes);
                }
            };
            tokio::select! {
                () = connects => done.send(pooled.peer()).expect("somebody counts"),
                () = pooled.evicted() => {
                    let again = Does::Connects { flight, backlog: backlog.clone(), done };
                    backlog.send((pooled.peer(), again)).expect("it listens");
                }
            }
        }
    }
}

/// How long it takes until so many devices have connected, each from the host that `host` says.
/// Meanwhile other hosts open so many connections a second that never say who they are.
async fn fleet_connects(
    places: usize,
    host: impl Fn(u32) -> u32,
    idle_per_second: u32,
    (others, drip): (u32, bool),
) -> Duration {
    const DEVICES: u32 = 1_500;
    let (backlog, start) = (listen(places, Duration::from_secs(10)), Instant::now());
    let (done, mut connected) = mpsc::unbounded_channel();
    let flood = tokio::spawn({
        let backlog = backlog.clone();
        async move {
            loop {
                for number in 0..idle_per_second / 10 {
                    let does = if drip { Does::Drips } else { Does::Nothing };
                    backlog.send((peer(1_000_000 + number % others), does)).expect("it listens");
                }
                sleep(Duration::from_millis(100)).await;
            }
        }
    });
    sleep(Duration::from_secs(10)).await;
    for device in 0..DEVICES {
        let (backlog, done) = (backlog.clone(), done.clone());
        let flight = Duration::from_millis(1_500);
        let connects = Does::Connects { flight, backlog: backlog.clone(), done };
        backlog.send((peer(host(device)), connects)).expect("it listens");
    }
    for _ in 0..DEVICES {
        connected.recv().await.expect("they connect");
    }
    flood.abort();
    start.elapsed() - Duration::from_secs(10)
}

#[tokio::test]
async fn a_fleet_on_slow_links_connects() {
    pause();
    let of_its_own: fn(u32) -> u32 = |device| 1 + device;
    let shared: fn(u32) -> u32 = |_| 1;
    for (places, host, idle_per_second, attack, within_secs) in [
        (4_096, of_its_own, 0, (1, false), 4),
        (4_096, shared, 0, (1, false), 4),
        (4_096, of_its_own, 500, (1, false), 6),
        (4_096, shared, 500, (1, false), 6),
        (4_096, of_its_own, 1_000, (1, true), 10),
        (256, of_its_own, 0, (1, false), 30),
        (256, shared, 0, (1, false), 30),
    ] {
        let took = fleet_connects(places, host, idle_per_second, attack).await;
        assert!(took.as_secs() < within_secs, "{places} {idle_per_second} {attack:?}: {took:?}");
    }
}
