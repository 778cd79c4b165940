//! The driver over the AMQP library: connects, declares, consumes, looks, settles. Decides nothing.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use base::Clock;
use base::locks::locked;
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions,
    QueueDeclareOptions,
};
use lapin::tcp::{AsyncTcpStream, TLSConfig};
use lapin::types::{FieldTable, ShortString};
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{Channel, Connection, ConnectionProperties, Consumer, Queue};
use socket2::{SockRef, Socket};
use tokio::time::timeout;

use super::attendance::Look;
use super::ending::{AmqpEnding, is_not_found};
use super::settlement::{AmqpSettlement, Settlement};
use super::{AmqpSource, AmqpUrl};

/// What RabbitMQ's own pages show us as.
const CONNECTION_NAME: &str = "fieldpost";
/// The reply code of a close for which there is nothing to say.
const OK: u16 = 200;

/// A connection that consumes. Cheap to clone.
#[derive(Clone)]
pub(super) struct Broker {
    connection: Arc<Connection>,
    channel: Channel,
    queue: ShortString,
    peer: Option<SocketAddr>,
}

impl Broker {
    /// Connects and begins to consume; gives what is delivered, and how the queue was found.
    pub(super) async fn open(
        source: &AmqpSource,
        patience: Duration,
    ) -> Result<(Self, Consumer, Queue), AmqpEnding> {
        let handshake = AmqpHandshake::default();
        let opened = timeout(patience, Self::open_patiently(source, &handshake)).await;
        opened.unwrap_or_else(|_| {
            handshake.hang_up();
            Err(AmqpEnding::TimedOut)
        })
    }

    async fn open_patiently(
        source: &AmqpSource,
        handshake: &AmqpHandshake,
    ) -> Result<(Self, Consumer, Queue), AmqpEnding> {
        let connection = Arc::new(connect(&source.url, handshake.clone()).await?);
        let queue = ShortString::from(source.queue.as_str());
        let (channel, found) = declare(&connection, &queue).await?;
        channel.basic_qos(source.prefetch.get(), BasicQosOptions::default()).await?;
        let consuming = channel.basic_consume(
            queue.clone(),
            ShortString::default(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        let deliveries = consuming.await?;
        handshake.is_over();
        let peer = handshake.peer();
        Ok((Self { connection, channel, queue, peer }, deliveries, found))
    }

    /// The address that it is connected to, if the system tells it.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Looks at the queue.
    pub(super) async fn look(self, clock: Arc<dyn Clock>) -> lapin::Result<Look> {
        let at = clock.now();
        let seen = self.declare_passively().await?;
        // RabbitMQ counts a message as gone when it is on its way to our channel. The channel may
        // hand it over after the first answer, but does so before a second one.
        self.declare_passively().await?;
        Ok(Look { at, waiting: seen.message_count(), consumers: seen.consumer_count() })
    }

    async fn declare_passively(&self) -> lapin::Result<Queue> {
        declare_passively(&self.channel, &self.queue).await
    }

    /// Tells RabbitMQ what became of messages; returns when that is written.
    pub(super) async fn settle(self, settlement: Settlement) -> lapin::Result<()> {
        let multiple = true;
        match settlement.verdict {
            AmqpSettlement::Acknowledge => {
                self.channel.basic_ack(settlement.up_to, BasicAckOptions { multiple }).await
            }
            AmqpSettlement::Reject => {
                let options = BasicNackOptions { multiple, requeue: false };
                self.channel.basic_nack(settlement.up_to, options).await
            }
        }
    }

    /// Asks RabbitMQ to send nothing more.
    pub(super) async fn stop_consuming(&self, consumer_tag: ShortString) -> lapin::Result<()> {
        self.channel.basic_cancel(consumer_tag, BasicCancelOptions::default()).await
    }

    /// Ends channel and connection: once the channel is closed, RabbitMQ has read every settlement.
    pub(super) async fn close(&self) -> lapin::Result<()> {
        self.channel.close(OK, "".into()).await?;
        self.connection.close(OK, "".into()).await
    }
}

async fn declare_passively(channel: &Channel, queue: &ShortString) -> lapin::Result<Queue> {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(queue.clone(), passive, FieldTable::default()).await
}

/// Takes the queue as it is, whatever its arguments; makes it only if it is not there.
async fn declare(connection: &Connection, queue: &ShortString) -> lapin::Result<(Channel, Queue)> {
    let channel = connection.create_channel().await?;
    match declare_passively(&channel, queue).await {
        Ok(found) => Ok((channel, found)),
        Err(error) if is_not_found(&error) => {
            // RabbitMQ closed that channel with its answer.
            let channel = connection.create_channel().await?;
            let durable = QueueDeclareOptions::durable();
            let made = channel.queue_declare(queue.clone(), durable, FieldTable::default()).await?;
            tracing::info!(queue = queue.as_str(), "made the queue, which was not there, as a durable one");
            Ok((channel, made))
        }
        Err(error) => Err(error),
    }
}

/// The socket of a connection in its handshake: the library's thread would read from it for as long
/// as the other side keeps it open. Its address stays known.
#[derive(Clone, Debug, Default)]
struct AmqpHandshake {
    socket: Arc<Mutex<Option<Socket>>>,
    peer: Arc<OnceLock<SocketAddr>>,
}

impl AmqpHandshake {
    fn begins_on(&self, socket: Socket) {
        if let Some(peer) = socket.peer_addr().ok().and_then(|peer| peer.as_socket()) {
            // Over one connection there is one.
            let _first = self.peer.set(peer);
        }
        *locked(&self.socket) = Some(socket);
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.peer.get().copied()
    }

    fn is_over(&self) {
        locked(&self.socket).take();
    }

    fn hang_up(&self) {
        if let Some(socket) = locked(&self.socket).take() {
            // An error means that it is closed already.
            let _closed = socket.shutdown(std::net::Shutdown::Both);
        }
    }
}

async fn connect(url: &AmqpUrl, handshake: AmqpHandshake) -> lapin::Result<Connection> {
    let runtime = lapin::runtime::default_runtime()?;
    let properties = ConnectionProperties::default().with_connection_name(CONNECTION_NAME.into());
    // In place, because the type of the runtime has no name here.
    let connecting = Connection::connector(
        url.uri(),
        runtime,
        async move |AMQPUri { scheme, authority, .. }, runtime| {
            let address = runtime.to_socket_addrs((authority.host.clone(), authority.port));
            let stream = AsyncTcpStream::connect(&runtime, address).await?;
            if let AsyncTcpStream::Plain(plain) = &stream {
                let socket = SockRef::from(plain.get_ref());
                // An acknowledgement is a small frame that must not wait for the next one.
                socket.set_tcp_nodelay(true)?;
                handshake.begins_on(socket.try_clone()?);
            }
            Ok(match scheme {
                AMQPScheme::AMQP => stream,
                AMQPScheme::AMQPS => stream.into_tls(&authority.host, TLSConfig::default()).await?,
            })
        },
        properties,
    );
    connecting.await
}
