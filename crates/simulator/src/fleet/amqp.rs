//! A session over AMQP 0-9-1: persistent messages to a queue, with publisher confirms.
//!
//! What a confirm vouches for is that the broker has the message, not that a server behind it
//! accepts it. A message that no queue takes comes back and counts as refused. The broker may
//! confirm in any order; the lane settles in its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::runtime::default_runtime;
use lapin::tcp::RustlsConnector;
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};
use lapin::{AsyncTcpStream, BasicProperties, Channel, Confirmation, ConnectionProperties, PublisherConfirm};

use super::lane::{Ending, Lane, Pause, rest};
use super::{Plan, payload};
use crate::client_stream::{CONNECT_TIMEOUT, permit_to_connect};
use crate::endpoint::Endpoint;
use crate::traffic::{LaneTraffic, SimulatedReport};

/// A message that survives a restart of the broker.
const PERSISTENT: u8 = 2;

/// The login of a broker that was not told of any other.
const USUAL_LOGIN: &str = "guest";

/// Why a message was refused.
const UNROUTABLE: &str = "no queue takes it";
const NACKED: &str = "the broker refuses it";

/// Carries the lane's traffic over one connection.
pub(super) async fn session<T: LaneTraffic>(lane: &mut Lane<T>, in_flight: usize) -> io::Result<Ending> {
    let timeout = |_| io::Error::new(io::ErrorKind::TimedOut, "not let in in time");
    let opening = tokio::time::timeout(CONNECT_TIMEOUT, open(&lane.plan.endpoint));
    let (connection, channel) = opening.await.map_err(timeout)??;
    let mut confirms = FuturesOrdered::new();
    loop {
        let now = Instant::now();
        let pause = lane.fill(in_flight.max(1), now);
        while let Some(report) = lane.outbox.next_to_write(now) {
            confirms.push_back(publish(&lane.plan, &channel, report).await?);
        }
        if pause == Pause::Cut {
            // The library has no way to drop a connection without a word; what is unconfirmed is
            // left so.
            close(&connection).await?;
            return Ok(Ending::Cut);
        }
        if lane.is_done(pause) {
            close(&connection).await?;
            return Ok(Ending::Done);
        }
        tokio::select! {
            Some(confirmed) = confirms.next() => settle(lane, &confirmed.map_err(io::Error::other)?),
            () = rest(pause) => {}
        }
    }
}

async fn open(endpoint: &Endpoint) -> io::Result<(lapin::Connection, Channel)> {
    let _permit = permit_to_connect().await;
    let address = endpoint.address().await;
    let tls = endpoint.access().tls.as_ref().map(|tls| RustlsConnector::from(Arc::clone(&tls.config)));
    let runtime = default_runtime().map_err(io::Error::other)?;
    // The library's own way knows nothing of a certificate that is authority and server at once.
    let connection = lapin::Connection::connector(
        uri(endpoint, address),
        runtime,
        async move |uri: AMQPUri, runtime| -> lapin::Result<AsyncTcpStream<_>> {
            let stream = AsyncTcpStream::connect(&runtime, address).await?;
            match &tls {
                Some(tls) => Ok(stream.into_rustls(tls, &uri.authority.host).await?),
                None => Ok(stream),
            }
        },
        ConnectionProperties::default(),
    );
    let connection = connection.await.map_err(io::Error::other)?;
    let channel = connection.create_channel().await.map_err(io::Error::other)?;
    channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(io::Error::other)?;
    Ok((connection, channel))
}

fn uri(endpoint: &Endpoint, address: SocketAddr) -> AMQPUri {
    let access = endpoint.access();
    let (username, password) = access
        .login
        .as_ref()
        .map_or((USUAL_LOGIN, USUAL_LOGIN), |login| (login.name.as_str(), login.password.reveal()));
    // Under TLS the broker has to be who its certificate says, so it is called by its name.
    let (scheme, host) = match &access.tls {
        Some(tls) => (AMQPScheme::AMQPS, tls.server_name.to_str().into_owned()),
        None => (AMQPScheme::AMQP, address.ip().to_string()),
    };
    AMQPUri {
        scheme,
        authority: AMQPAuthority {
            userinfo: AMQPUserInfo { username: username.to_owned(), password: password.to_owned() },
            host,
            port: address.port(),
        },
        vhost: access.queue.vhost.clone(),
        query: AMQPQueryString::default(),
    }
}

async fn publish(plan: &Plan, channel: &Channel, report: SimulatedReport) -> io::Result<PublisherConfirm> {
    let mut message = Vec::new();
    payload::write_message(plan.payload, &plan.devices, report, &mut message);
    let mut properties = BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_content_type("application/json".into());
    if let Some(id) = payload::id_of(plan.payload, report) {
        properties = properties.with_message_id(id.into());
    }
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let queue = plan.endpoint.access().queue.name.as_str();
    let sent = channel.basic_publish("".into(), queue.into(), options, &message, properties).await;
    sent.map_err(io::Error::other)
}

fn settle<T: LaneTraffic>(lane: &mut Lane<T>, confirmed: &Confirmation) {
    match confirmed {
        Confirmation::Ack(None) => lane.outbox.acknowledge(1, Instant::now()),
        Confirmation::Ack(Some(_)) => lane.outbox.refuse_oldest(UNROUTABLE),
        Confirmation::Nack(_) | Confirmation::NotRequested => lane.outbox.refuse_oldest(NACKED),
    }
}

async fn close(connection: &lapin::Connection) -> io::Result<()> {
    const REPLY_SUCCESS: u16 = 200;
    connection.close(REPLY_SUCCESS, "".into()).await.map_err(io::Error::other)
}
