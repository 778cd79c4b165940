//! What a server asks of whoever comes in: a login, a token, TLS; and which queue of a broker is
//! meant.
//!
//! Secrets are never shown: what holds one prints `***`.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use fieldpost_client::Trust;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

/// Something that is not to be seen in a log.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps `text`.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// Whether there is nothing to keep.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text, for the server.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

/// Every text is taken: a refusal would have to repeat it.
impl FromStr for Secret {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self::new(text.to_owned()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A name and its password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameAndPassword {
    /// The name.
    pub name: String,
    /// The password.
    pub password: Secret,
}

/// Which queue of a broker, in which of its virtual hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerQueue {
    /// The virtual host; `/` unless the broker was told otherwise.
    pub vhost: String,
    /// The queue.
    pub name: String,
}

impl Default for BrokerQueue {
    /// The queue that a server consumes by default.
    fn default() -> Self {
        Self { vhost: "/".to_owned(), name: "sensors-queue".to_owned() }
    }
}

/// Whom a connection under TLS trusts, and to be whom.
#[derive(Clone)]
pub struct ClientTls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) server_name: ServerName<'static>,
}

impl ClientTls {
    /// TLS to a server that proves to be `host` by the certificates in `ca`, or by those that this
    /// machine trusts. One in `ca` may also be the server's own.
    ///
    /// # Errors
    /// When `host` is no name, the file cannot be read, or holds no certificate.
    pub fn to(host: &str, ca: Option<&Path>) -> io::Result<Self> {
        let server_name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let trust = ca.map_or_else(trust_of_system, trust_of)?;
        let config = trust.client_config().map_err(io::Error::other)?;
        Ok(Self { config: Arc::new(config), server_name })
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TLS to {:?}", self.server_name)
    }
}

fn trust_of_system() -> io::Result<Trust> {
    Trust::of_system().map_err(|error| io::Error::other(format!("{error}; name a file of your own")))
}

fn trust_of(file: &Path) -> io::Result<Trust> {
    let unreadable = |error: &dyn fmt::Display| io::Error::other(format!("{}: {error}", file.display()));
    let pem = std::fs::read(file).map_err(|error| unreadable(&error))?;
    Trust::of_pem(&pem).map_err(|error| unreadable(&error))
}

/// See the module. By default nothing is asked.
#[derive(Debug, Clone, Default)]
pub struct ConnectOptions {
    /// For MQTT and AMQP.
    pub login: Option<NameAndPassword>,
    /// For HTTP.
    pub token: Option<Secret>,
    /// Whether and how the connection is encrypted.
    pub tls: Option<ClientTls>,
    /// For AMQP.
    pub queue: BrokerQueue,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let login =
            NameAndPassword { name: "gate".to_owned(), password: Secret::new("swordfish".to_owned()) };
        let access = ConnectOptions {
            login: Some(login),
            token: Some(Secret::new("sesame".to_owned())),
            ..ConnectOptions::default()
        };
        let shown = format!("{access:?}");
        assert!(
            shown.contains("gate") && !shown.contains("swordfish") && !shown.contains("sesame"),
            "{shown}"
        );
    }

    #[test]
    fn a_file_without_certificates_is_refused_by_name() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let error = ClientTls::to("localhost", Some(file.path())).unwrap_err().to_string();
        assert!(
            error.contains(&file.path().display().to_string()) && error.contains("there is none in PEM"),
            "{error}"
        );
    }
}
