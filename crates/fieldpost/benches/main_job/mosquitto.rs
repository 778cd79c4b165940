//! Mosquitto as the peer: a broker without persistence, which acknowledges what it has in memory.

use super::Failure;
use super::peer::Peer;

const BINARY: &str = "/usr/sbin/mosquitto";

/// Starts one that lets `in_flight` messages be unacknowledged on each connection and drops none.
pub(super) async fn start(in_flight: u16) -> Result<Peer, Failure> {
    let config = |port: u16, _: &std::path::Path| {
        format!(
            "listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\nmax_queued_messages 0\n\
             max_inflight_messages {in_flight}\nset_tcp_nodelay true\nlog_type error\nuser root\n"
        )
    };
    Peer::start(BINARY, config).await
}
