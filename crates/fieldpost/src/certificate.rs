//! A certificate and its private key in PEM files: read, checked against each other, and told where
//! they cannot be used.
//!
//! The settings are checked with it, so that `check-config` refuses what a start would refuse; a
//! running server reads its files with it again. Which certificate is served, and since when, is
//! not known here.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Timestamp, hash};
use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_cert::der::Decode;

use crate::config::{Fault, TlsSettings};

/// Most bytes that are read of a file; a chain of certificates has a few thousand.
const FILE_BYTES_MAX: u64 = 1_024 * 1_024;

/// Why a certificate cannot be used. Its text does not repeat the key of the settings that it is
/// about.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    #[error("{1} cannot be read: {2}")]
    File(&'static str, PathBuf, io::Error),
    #[error("{1} has no {2} in PEM: {3}")]
    Pem(&'static str, PathBuf, &'static str, pem::Error),
    #[error("{0} is no X.509 certificate: {1}")]
    Certificate(PathBuf, x509_cert::der::Error),
    #[error("{1} and the certificate {0} cannot be used together: {2}")]
    Pair(PathBuf, PathBuf, rustls::Error),
}

impl Unusable {
    /// The key of the settings that names the file to blame.
    pub(crate) fn key(&self) -> &'static str {
        match self {
            Self::File(key, ..) | Self::Pem(key, ..) => key,
            Self::Certificate(..) => CERT,
            Self::Pair(..) => KEY,
        }
    }

    fn to_fault(&self) -> Fault {
        let right = match self {
            Self::File(..) => "name a file that this user may read, or leave both tls.cert and tls.key empty",
            Self::Pem(CERT, ..) | Self::Certificate(..) => {
                "name a file with the certificate in PEM, its chain behind it"
            }
            Self::Pem(..) => "name a file with the private key in PEM, without a password",
            Self::Pair(..) => "name the key that the certificate was made for",
        };
        Fault { key: self.key(), wrong: self.to_string(), right }
    }
}

/// A certificate that can be served.
pub(crate) struct Usable {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) expires: Timestamp,
}

const CERT: &str = "tls.cert";
const KEY: &str = "tls.key";

/// What is in the files. They are small, so they are read whenever they are looked at. Times and
/// sizes of files may stay as they were while what is in them changes.
pub(crate) struct CertificateFiles {
    cert: Result<Vec<u8>, Unusable>,
    key: Result<Vec<u8>, Unusable>,
}

impl CertificateFiles {
    /// Reads both files.
    pub(crate) fn look(files: &TlsSettings) -> Self {
        Self { cert: contents(CERT, &files.cert), key: contents(KEY, &files.key) }
    }

    /// Tells it from what was there before; that a file cannot be read is something to tell, too.
    pub(crate) fn fingerprint(&self) -> u64 {
        let of = |seed, found: &Result<Vec<u8>, Unusable>| match found {
            Ok(bytes) => hash::derived(seed, bytes),
            Err(unusable) => hash::derived(seed, unusable.to_string().as_bytes()),
        };
        of(of(0, &self.cert), &self.key)
    }

    /// The certificate and its key, if they can be served.
    pub(crate) fn pair(self, files: &TlsSettings) -> Result<Usable, Unusable> {
        pair(chain(self.cert, files)?, key(self.key, files)?, files)
    }
}

/// Everything that keeps them from being served: what is wrong with each file, else with the two
/// together.
pub(crate) fn faults(files: &TlsSettings) -> Vec<Fault> {
    let found = CertificateFiles::look(files);
    let unusable: Vec<_> = match (chain(found.cert, files), key(found.key, files)) {
        (Ok(chain), Ok(key)) => pair(chain, key, files).err().into_iter().collect(),
        (chain, key) => chain.err().into_iter().chain(key.err()).collect(),
    };
    unusable.iter().map(Unusable::to_fault).collect()
}

/// A certificate with those that lead from it to an authority, and when it expires.
type Chain = (Vec<CertificateDer<'static>>, Timestamp);

fn chain(cert: Result<Vec<u8>, Unusable>, files: &TlsSettings) -> Result<Chain, Unusable> {
    let without_cert = || without(CERT, &files.cert, "certificate");
    let chain = CertificateDer::pem_slice_iter(&cert?).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(without_cert())?;
    let own = chain.first().ok_or(pem::Error::NoItemsFound).map_err(without_cert())?;
    let expires = expiry(own).map_err(|error| Unusable::Certificate(files.cert.clone(), error))?;
    Ok((chain, expires))
}

fn key(key: Result<Vec<u8>, Unusable>, files: &TlsSettings) -> Result<PrivateKeyDer<'static>, Unusable> {
    PrivateKeyDer::from_pem_slice(&key?).map_err(without(KEY, &files.key, "private key"))
}

fn pair(
    (chain, expires): Chain,
    key: PrivateKeyDer<'static>,
    files: &TlsSettings,
) -> Result<Usable, Unusable> {
    let config = server_config(chain, key);
    let config = config.map_err(|error| Unusable::Pair(files.cert.clone(), files.key.clone(), error))?;
    Ok(Usable { config: Arc::new(config), expires })
}

fn without(key: &'static str, path: &Path, what: &'static str) -> impl FnOnce(pem::Error) -> Unusable {
    let path = path.to_owned();
    move |error| Unusable::Pem(key, path, what, error)
}

fn contents(key: &'static str, path: &Path) -> Result<Vec<u8>, Unusable> {
    let mut bytes = Vec::new();
    let reading = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
    reading.map_err(|error| Unusable::File(key, path.to_owned(), error))?;
    Ok(bytes)
}

/// No protocol is named (ALPN): the same certificate serves HTTP and MQTT.
fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
}

fn expiry(certificate: &CertificateDer<'_>) -> Result<Timestamp, x509_cert::der::Error> {
    let certificate = x509_cert::Certificate::from_der(certificate)?;
    let since_1970 = certificate.tbs_certificate.validity.not_after.to_unix_duration();
    Ok(Timestamp(base::time::millis(since_1970)))
}
