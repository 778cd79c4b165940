//! A session as a device's firmware would hold it: MQTT at QoS 1 through `rumqttc`.
//!
//! The client's own memory of unacknowledged publishes is not used. The server keeps no sessions
//! over a restart, and the lane repeats its reports itself, on a new client for each connection.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rumqttc::{AsyncClient, ConnectionError, Event, EventLoop, MqttOptions, Outgoing, Packet, QoS};

use super::lane::{Ending, Lane, Pause, rest};
use super::mqtt_packet::bad_packet;
use super::mqtt_wire::topic;
use crate::traffic::LaneTraffic;

const KEEP_ALIVE: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT_S: u64 = 5;

/// Carries the lane's traffic over one connection.
pub(super) async fn session<T: LaneTraffic>(lane: &mut Lane<T>, in_flight: u16) -> io::Result<Ending> {
    let in_flight = in_flight.max(1);
    let address = lane.plan.endpoint.address().await;
    let (client, mut events) = open(&lane.client_id(), address, in_flight);
    let mut packet_ids = VecDeque::new();
    loop {
        // A poll that is dropped half-way may lose what it was writing, so each is carried to its
        // end.
        let mut poll = std::pin::pin!(events.poll());
        let event = loop {
            let pause = lane.fill(in_flight.into(), Instant::now());
            publish(lane, &client)?;
            if pause == Pause::Cut {
                return Ok(Ending::Cut);
            }
            if lane.is_done(pause) {
                return Ok(Ending::Done);
            }
            tokio::select! {
                event = &mut poll => break event.map_err(broken)?,
                () = rest(pause) => {}
            }
        };
        take(event, lane, &mut packet_ids)?;
    }
}

fn open(client_id: &str, address: SocketAddr, in_flight: u16) -> (AsyncClient, EventLoop) {
    let mut options = MqttOptions::new(client_id, address.ip().to_string(), address.port());
    options.set_clean_session(true).set_keep_alive(KEEP_ALIVE).set_inflight(in_flight);
    let (client, mut events) = AsyncClient::new(options, in_flight.into());
    let mut network = events.network_options();
    network.set_tcp_nodelay(true);
    network.set_connection_timeout(CONNECT_TIMEOUT_S);
    events.set_network_options(network);
    (client, events)
}

/// Hands the client what has not been written yet; it has room for a whole window.
fn publish<T: LaneTraffic>(lane: &mut Lane<T>, client: &AsyncClient) -> io::Result<()> {
    while let Some(report) = lane.outbox.next_to_write(Instant::now()) {
        let mut payload = Vec::new();
        lane.write_payload(report, &mut payload);
        let topic = topic(&lane.plan.devices, report.device);
        client.try_publish(topic, QoS::AtLeastOnce, false, payload).map_err(io::Error::other)?;
    }
    Ok(())
}

fn take<T: LaneTraffic>(event: Event, lane: &mut Lane<T>, packet_ids: &mut VecDeque<u16>) -> io::Result<()> {
    match event {
        Event::Outgoing(Outgoing::Publish(packet_id)) => packet_ids.push_back(packet_id),
        Event::Incoming(Packet::PubAck(ack)) => {
            let expected = packet_ids.pop_front();
            if expected != Some(ack.pkid) {
                lane.outbox.disorder();
                return Err(bad_packet(&format!("PUBACK {} came instead of {expected:?}", ack.pkid)));
            }
            lane.outbox.acknowledge(1, Instant::now());
        }
        Event::Incoming(_) | Event::Outgoing(_) => {}
    }
    Ok(())
}

fn broken(error: ConnectionError) -> io::Error {
    match error {
        ConnectionError::Io(error) => error,
        other => io::Error::other(other),
    }
}
