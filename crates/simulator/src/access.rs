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

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

/// Something that is not to be seen in a log.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps `text`.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
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
pub struct Login {
    /// The name.
    pub name: String,
    /// The password.
    pub password: Secret,
}

/// Which queue of a broker, in which of its virtual hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// The virtual host; `/` unless the broker was told otherwise.
    pub vhost: String,
    /// The queue.
    pub name: String,
}

impl Default for Queue {
    /// The queue that a server consumes by default.
    fn default() -> Self {
        Self { vhost: "/".to_owned(), name: "sensors-queue".to_owned() }
    }
}

/// Whom a connection under TLS trusts, and to be whom.
#[derive(Clone)]
pub struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) server_name: ServerName<'static>,
    /// The certificates in `ca` as they are in the file, for a library that reads them itself.
    pub(crate) ca_pem: Option<Arc<str>>,
}

impl Tls {
    /// TLS to a server that proves to be `host` by the certificates in `ca`, or by those that this
    /// machine trusts.
    ///
    /// # Errors
    /// When `host` is no name, the file cannot be read, or holds no certificate.
    pub fn to(host: &str, ca: Option<&Path>) -> io::Result<Self> {
        let server_name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let roots = ca.map_or_else(native_roots, roots_of)?;
        let ca_pem = ca.map(std::fs::read_to_string).transpose()?.map(Arc::from);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { config: Arc::new(config), server_name, ca_pem })
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TLS to {:?}", self.server_name)
    }
}

fn native_roots() -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(io::Error::other(
            "this machine trusts no certificate authority; name a file of your own",
        ));
    }
    Ok(roots)
}

fn roots_of(file: &Path) -> io::Result<RootCertStore> {
    let unreadable = |error: &dyn fmt::Display| io::Error::other(format!("{}: {error}", file.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unreadable(&error))? {
        let certificate = certificate.map_err(|error| unreadable(&error))?;
        roots.add(certificate).map_err(|error| unreadable(&error))?;
    }
    if roots.is_empty() { Err(unreadable(&"no certificate in it")) } else { Ok(roots) }
}

/// See the module. By default nothing is asked.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// For MQTT and AMQP.
    pub login: Option<Login>,
    /// For HTTP.
    pub token: Option<Secret>,
    /// Whether and how the connection is encrypted.
    pub tls: Option<Tls>,
    /// For AMQP.
    pub queue: Queue,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let login = Login { name: "gate".to_owned(), password: Secret::new("swordfish".to_owned()) };
        let access =
            Access { login: Some(login), token: Some(Secret::new("sesame".to_owned())), ..Access::default() };
        let shown = format!("{access:?}");
        assert!(
            shown.contains("gate") && !shown.contains("swordfish") && !shown.contains("sesame"),
            "{shown}"
        );
    }

    #[test]
    fn a_file_without_certificates_is_refused_by_name() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let error = Tls::to("localhost", Some(file.path())).unwrap_err().to_string();
        assert!(
            error.contains(&file.path().display().to_string()) && error.contains("no certificate"),
            "{error}"
        );
    }
}
