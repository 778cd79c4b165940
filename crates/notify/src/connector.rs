//! Makes the connections that notifications go out on: look-up, address check, TCP, TLS.
//!
//! There is no other way to a connection, so whatever is kept for reuse has passed the
//! [`AddressGuard`] too.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::Timestamp;
use engine::records::{AttemptError, AttemptTimings};
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use url::Host;

use crate::connection::{ByteStream, ReceiverConnection};
use crate::guard::{AddressGuard, OnlyPrivateAddresses};
use crate::resolver::{Resolver, Unresolved};
use crate::target::Origin;

/// Longest that TCP and TLS may take together; the attempt's timeout may end it sooner. Two lost
/// SYNs fit in.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// After this long without an answer the next address is tried beside the first (RFC 8305,
/// "Connection Attempt Delay").
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);
/// Most addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("every address is private")]
    Refused,
    #[error("the name has no address")]
    Unresolved,
    #[error("no connection within {CONNECT_MAX:?}")]
    TooSlow,
    #[error("no connection")]
    Tcp(#[source] io::Error),
    #[error("no agreement on TLS")]
    Tls(#[source] io::Error),
}

impl From<&ConnectError> for AttemptError {
    fn from(error: &ConnectError) -> Self {
        match error {
            ConnectError::Refused => Self::AddressRefused,
            ConnectError::Unresolved => Self::NameUnresolved,
            ConnectError::TooSlow | ConnectError::Tcp(_) => Self::ConnectFailed,
            ConnectError::Tls(error) => tls_cause(error),
        }
    }
}

impl ConnectError {
    /// When a certificate ended that is over, or when one begins to hold that does not yet.
    pub(crate) fn certificate_bound(&self) -> Option<Timestamp> {
        let Self::Tls(error) = self else { return None };
        let bound = match refused_by_tls(error)? {
            rustls::Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. }) => {
                not_after
            }
            rustls::Error::InvalidCertificate(CertificateError::NotValidYetContext {
                not_before, ..
            }) => not_before,
            _ => return None,
        };
        i64::try_from(bound.as_secs()).ok().map(|seconds| Timestamp(seconds.saturating_mul(1_000)))
    }
}

/// What the library of TLS refuses: it comes wrapped into an error of the stream.
fn refused_by_tls(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// What TLS found wrong with a receiver.
fn tls_cause(error: &io::Error) -> AttemptError {
    match refused_by_tls(error) {
        Some(rustls::Error::InvalidCertificate(error)) => certificate_cause(error),
        Some(rustls::Error::InvalidMessage(_)) => AttemptError::TlsNotSpoken,
        _ => AttemptError::TlsFailed,
    }
}

fn certificate_cause(error: &CertificateError) -> AttemptError {
    match error {
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => AttemptError::TlsExpired,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            AttemptError::TlsWrongName
        }
        // The rules of the library grow; whatever they refuse is not trusted.
        _ => AttemptError::TlsUntrusted,
    }
}

/// Makes connections.
pub(crate) struct Connector {
    guard: AddressGuard,
    resolver: Resolver,
    tls: TlsConnector,
}

impl Connector {
    pub(crate) fn new(guard: AddressGuard, tls: Arc<ClientConfig>) -> Self {
        Self { guard, resolver: Resolver::system(), tls: TlsConnector::from(tls) }
    }

    /// A new connection to `origin`, ready for a request. `timings` gets how long its parts took,
    /// also where it fails.
    pub(crate) async fn connect(
        &self,
        origin: &Origin,
        timings: &mut AttemptTimings,
    ) -> Result<ReceiverConnection, ConnectError> {
        let asked = Instant::now();
        let addresses = self.addresses(&origin.host).await;
        // An address that is written out is looked up nowhere.
        timings.dns_ms = matches!(origin.host, Host::Domain(_)).then(|| millis(asked.elapsed()));
        let admitted = self.guard.admit(&addresses?)?;
        let stream = tokio::time::timeout(CONNECT_MAX, self.stream(origin, &admitted, timings));
        let stream = stream.await.map_err(|_| ConnectError::TooSlow)??;
        Ok(ReceiverConnection::new(stream))
    }

    async fn addresses(&self, host: &Host<String>) -> Result<Arc<[IpAddr]>, ConnectError> {
        Ok(match host {
            Host::Ipv4(address) => Arc::from([IpAddr::V4(*address)]),
            Host::Ipv6(address) => Arc::from([IpAddr::V6(*address)]),
            Host::Domain(name) => self.resolver.resolve(name).await?,
        })
    }

    async fn stream(
        &self,
        origin: &Origin,
        addresses: &[IpAddr],
        timings: &mut AttemptTimings,
    ) -> Result<Box<dyn ByteStream>, ConnectError> {
        let (port, began) = (origin.port, Instant::now());
        let tcp = first_to_answer(addresses, |address| TcpStream::connect(SocketAddr::new(address, port)));
        let tcp = tcp.await.map_err(ConnectError::Tcp)?;
        timings.connect_ms = Some(millis(began.elapsed()));
        // A request is written at once; waiting for more would only delay it.
        tcp.set_nodelay(true).map_err(ConnectError::Tcp)?;
        if !origin.tls {
            return Ok(Box::new(tcp));
        }
        let name = server_name(&origin.host).map_err(ConnectError::Tls)?;
        let began = Instant::now();
        let tls = self.tls.connect(name, tcp).await.map_err(ConnectError::Tls)?;
        timings.tls_ms = Some(millis(began.elapsed()));
        Ok(Box::new(tls))
    }
}

/// Whole milliseconds.
pub(crate) fn millis(took: Duration) -> u32 {
    u32::try_from(took.as_millis()).unwrap_or(u32::MAX)
}

impl From<OnlyPrivateAddresses> for ConnectError {
    fn from(_: OnlyPrivateAddresses) -> Self {
        Self::Refused
    }
}

impl From<Unresolved> for ConnectError {
    fn from(_: Unresolved) -> Self {
        Self::Unresolved
    }
}

fn server_name(host: &Host<String>) -> io::Result<ServerName<'static>> {
    Ok(match host {
        Host::Ipv4(address) => ServerName::from(IpAddr::V4(*address)),
        Host::Ipv6(address) => ServerName::from(IpAddr::V6(*address)),
        Host::Domain(name) => ServerName::try_from(name.clone()).map_err(io::Error::other)?,
    })
}

/// Connects to the addresses in order, each beside those before it that have not answered yet, and
/// takes the first that does.
async fn first_to_answer<T, F>(addresses: &[IpAddr], connect: impl Fn(IpAddr) -> F) -> io::Result<T>
where
    T: Send + 'static,
    F: Future<Output = io::Result<T>> + Send + 'static,
{
    let mut waiting = addresses.iter().take(ADDRESSES_MAX);
    let mut connecting = JoinSet::new();
    let mut failure = io::Error::other("no address");
    loop {
        if let Some(address) = waiting.next() {
            connecting.spawn(connect(*address));
        }
        let more = waiting.len() > 0;
        tokio::select! {
            answered = connecting.join_next() => match answered {
                Some(Ok(Ok(stream))) => return Ok(stream),
                Some(Ok(Err(error))) => failure = error,
                Some(Err(stopped)) => failure = io::Error::other(stopped),
                None => return Err(failure),
            },
            () = tokio::time::sleep(NEXT_ADDRESS_AFTER), if more => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses 1 refuse, addresses 2 never answer, others do.
    async fn connect(address: IpAddr) -> io::Result<IpAddr> {
        match address.to_string().as_str() {
            "192.0.2.1" => Err(io::ErrorKind::ConnectionRefused.into()),
            "192.0.2.2" => std::future::pending().await,
            _ => Ok(address),
        }
    }

    async fn check(last_octets: &[u8], expect: Result<u8, io::ErrorKind>) {
        let addresses: Vec<IpAddr> = last_octets.iter().map(|last| [192, 0, 2, *last].into()).collect();
        let answered = first_to_answer(&addresses, connect).await.map_err(|error| error.kind());
        assert_eq!(answered, expect.map(|last| IpAddr::from([192, 0, 2, last])), "{last_octets:?}");
    }

    #[tokio::test]
    async fn an_address_that_fails_or_is_silent_does_not_keep_from_the_next() {
        check(&[3], Ok(3)).await;
        check(&[1, 1, 4], Ok(4)).await;
        check(&[2, 1, 5], Ok(5)).await;
        check(&[1, 1], Err(io::ErrorKind::ConnectionRefused)).await;
        check(&[], Err(io::ErrorKind::Other)).await;
    }
}
