//! A server as somebody names it on a command line: `mqtt://gate:secret@host:1883`, `https://host`,
//! `amqp://host/vhost`.
//!
//! Read strictly and shown without its password. [`ServerAddress::reach`] finds out whether anybody
//! listens there, so that a wrong address is told at once and not as a thousand broken connections.

use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use tokio::net::TcpStream;
use url::{Host, Url};

use crate::access::{ClientTls, ConnectOptions, NameAndPassword, Secret};
use crate::endpoint::Endpoint;

/// Nobody who is there takes longer to accept a connection.
const REACH_TIMEOUT: Duration = Duration::from_secs(5);

/// The protocols that a server is spoken to in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceProtocol {
    /// HTTP/1.1.
    Http,
    /// MQTT.
    Mqtt,
    /// AMQP 0-9-1.
    Amqp,
}

/// The schemes, what they mean, and the port where none is named.
const SCHEMES: [(&str, DeviceProtocol, bool, u16); 6] = [
    ("http", DeviceProtocol::Http, false, 80),
    ("https", DeviceProtocol::Http, true, 443),
    ("mqtt", DeviceProtocol::Mqtt, false, 1883),
    ("mqtts", DeviceProtocol::Mqtt, true, 8883),
    ("amqp", DeviceProtocol::Amqp, false, 5672),
    ("amqps", DeviceProtocol::Amqp, true, 5671),
];

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress {
    scheme: &'static str,
    protocol: DeviceProtocol,
    is_encrypted: bool,
    host: String,
    port: u16,
    login: Option<NameAndPassword>,
    vhost: Option<String>,
}

/// Why a text is not the address of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAnAddress {
    /// It is no URL.
    #[error("not a URL such as mqtt://127.0.0.1:1883: {0}")]
    Form(url::ParseError),
    /// Its scheme is none of those that devices speak.
    #[error("{0}:// is not spoken here; write http, https, mqtt, mqtts, amqp or amqps")]
    Scheme(String),
    /// It names no host.
    #[error("it names no host; write for instance mqtt://127.0.0.1:1883")]
    NoHost,
    /// It says more than where the server is.
    #[error("only scheme, login, host and port (for amqp also the virtual host) belong in it, not {0:?}")]
    Surplus(String),
    /// Its login or virtual host is not text.
    #[error("a %XX in it is not text")]
    Encoding,
}

impl FromStr for ServerAddress {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        let url = Url::parse(text).map_err(NotAnAddress::Form)?;
        let known = SCHEMES.iter().find(|(scheme, ..)| *scheme == url.scheme());
        let unknown = || NotAnAddress::Scheme(url.scheme().to_owned());
        let (scheme, protocol, is_encrypted, usual_port) = *known.ok_or_else(unknown)?;
        let host = match url.host().ok_or(NotAnAddress::NoHost)? {
            Host::Domain("") => return Err(NotAnAddress::NoHost),
            Host::Domain(name) => name.to_owned(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        let path = url.path().trim_start_matches('/');
        let vhost = match (protocol, path) {
            (_, "") => None,
            (DeviceProtocol::Amqp, path) => Some(decoded(path)?),
            (DeviceProtocol::Http | DeviceProtocol::Mqtt, path) => {
                return Err(NotAnAddress::Surplus(path.to_owned()));
            }
        };
        if let Some(surplus) = url.query().or(url.fragment()) {
            return Err(NotAnAddress::Surplus(surplus.to_owned()));
        }
        let port = url.port().unwrap_or(usual_port);
        Ok(Self { scheme, protocol, is_encrypted, host, port, login: login(&url)?, vhost })
    }
}

/// The address without its login.
impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, host, port, .. } = self;
        if host.contains(':') {
            write!(f, "{scheme}://[{host}]:{port}")
        } else {
            write!(f, "{scheme}://{host}:{port}")
        }
    }
}

impl ServerAddress {
    /// In which protocol the server is spoken to.
    #[must_use]
    pub const fn protocol(&self) -> DeviceProtocol {
        self.protocol
    }

    /// Looks the host up, sees whether anybody listens there, and adds to `access` what the address
    /// says of it. Certificates are trusted that `ca` holds, or this machine.
    ///
    /// # Errors
    /// When the host is not known, nobody listens, or `ca` cannot be used.
    pub async fn reach(&self, access: ConnectOptions, ca: Option<&Path>) -> io::Result<Endpoint> {
        let told = |error: &dyn fmt::Display| io::Error::other(format!("{self}: {error}"));
        let tls = if self.is_encrypted { Some(ClientTls::to(&self.host, ca)) } else { None };
        let tls = tls.transpose().map_err(|error| told(&error))?;
        let connecting = tokio::time::timeout(REACH_TIMEOUT, TcpStream::connect((&*self.host, self.port)));
        let stream = match connecting.await {
            Ok(connected) => connected.map_err(|error| told(&error))?,
            Err(_) => return Err(told(&format!("nobody accepts a connection within {REACH_TIMEOUT:?}"))),
        };
        let mut access = ConnectOptions { tls, login: access.login.or_else(|| self.login.clone()), ..access };
        if let Some(vhost) = &self.vhost {
            access.queue.vhost.clone_from(vhost);
        }
        Ok(Endpoint::at(stream.peer_addr()?).entered_with(access))
    }
}

fn login(url: &Url) -> Result<Option<NameAndPassword>, NotAnAddress> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok(None);
    }
    let password = Secret::new(decoded(url.password().unwrap_or(""))?);
    Ok(Some(NameAndPassword { name: decoded(url.username())?, password }))
}

/// `text` with each `%XX` as the byte that it stands for.
fn decoded(text: &str) -> Result<String, NotAnAddress> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let pair = after.get(..2).filter(|_| *byte == b'%');
        let code = pair.and_then(|pair| std::str::from_utf8(pair).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(code) => {
                bytes.push(code);
                rest = &after[2..];
            }
            None => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).map_err(|_| NotAnAddress::Encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ServerAddress, NotAnAddress> {
        text.parse()
    }

    #[test]
    fn an_address_says_where_and_how() {
        for (text, shown, protocol, is_encrypted) in [
            ("mqtt://127.0.0.1", "mqtt://127.0.0.1:1883", DeviceProtocol::Mqtt, false),
            ("mqtts://gate.example:1/", "mqtts://gate.example:1", DeviceProtocol::Mqtt, true),
            ("http://[::1]:8080", "http://[::1]:8080", DeviceProtocol::Http, false),
            ("https://host", "https://host:443", DeviceProtocol::Http, true),
            ("amqps://host/%2f", "amqps://host:5671", DeviceProtocol::Amqp, true),
        ] {
            let address = read(text).expect("an address");
            assert_eq!((address.to_string().as_str(), address.protocol), (shown, protocol));
            assert_eq!(address.is_encrypted, is_encrypted, "{text}");
        }
    }

    #[test]
    fn a_login_is_read_and_not_shown() {
        let address = read("amqp://us%3Aer:p%40ss@host/plant").expect("an address");
        let login = NameAndPassword { name: "us:er".to_owned(), password: Secret::new("p@ss".to_owned()) };
        assert_eq!((&address.login, address.vhost.as_deref()), (&Some(login), Some("plant")));
        assert!(!format!("{address} {address:?}").contains("p@ss"));
        assert_eq!(read("amqp://host/%2f").expect("an address").vhost.as_deref(), Some("/"));
        assert_eq!(read("amqp://host/").expect("an address").vhost, None);
    }

    #[test]
    fn what_is_no_address_is_told_why() {
        assert!(matches!(read("127.0.0.1:1883"), Err(NotAnAddress::Form(_) | NotAnAddress::Scheme(_))));
        assert_eq!(read("tcp://host"), Err(NotAnAddress::Scheme("tcp".to_owned())));
        assert_eq!(read("mqtt://host/topic"), Err(NotAnAddress::Surplus("topic".to_owned())));
        assert_eq!(read("http://host?a=b"), Err(NotAnAddress::Surplus("a=b".to_owned())));
        assert_eq!(read("mqtt:///"), Err(NotAnAddress::NoHost));
        assert_eq!(read("mqtt://%ff@host"), Err(NotAnAddress::Encoding));
    }

    #[tokio::test]
    async fn an_address_where_nobody_listens_is_told() {
        // Bound, and never listens: nobody else is given the port afterwards.
        let reservation = tokio::net::TcpSocket::new_v4().expect("a socket");
        reservation.set_reuseaddr(true).expect("is set");
        reservation.bind(([127, 0, 0, 1], 0).into()).expect("a free port");
        let address = reservation.local_addr().expect("it is bound");
        let listener = tokio::net::TcpListener::bind(address).await.expect("it is free");
        let named = read(&format!("mqtt://gate:secret@localhost:{}", address.port())).expect("an address");
        let endpoint = named.reach(ConnectOptions::default(), None).await.expect("somebody listens");
        assert_eq!(endpoint.address().await, address);
        assert_eq!(endpoint.access().login.as_ref().map(|login| login.name.as_str()), Some("gate"));
        drop(listener);
        let error = named.reach(ConnectOptions::default(), None).await.unwrap_err().to_string();
        assert!(error.contains("mqtt://localhost") && !error.contains("secret"), "{error}");
    }
}
