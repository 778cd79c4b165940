//! The server's certificate: read at the start, and again on SIGHUP or when one of its files has changed.
//!
//! A certificate that cannot be used at the start ends the start. One that cannot be used later is told and left: the one
//! before goes on serving, and the files are looked at again. Connections keep the certificate that they began with.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use base::{Timestamp, hash};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::signal::unix::Signal;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{error, info, warn};
use x509_cert::der::Decode;

use crate::config;

pub(super) use gateway::listen::TlsSource;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Most bytes that are read of a file; a chain of certificates has a few thousand.
const FILE_BYTES_MAX: u64 = 1_024 * 1_024;

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    #[error("{0}: {1} cannot be read: {2}")]
    File(&'static str, PathBuf, io::Error),
    #[error("{0}: {1} has no {2} in PEM: {3}")]
    Pem(&'static str, PathBuf, &'static str, pem::Error),
    #[error("tls.cert: {0} is no X.509 certificate: {1}")]
    Certificate(PathBuf, x509_cert::der::Error),
    #[error("tls.cert and tls.key: {0} and {1} cannot be used together: {2}")]
    Pair(PathBuf, PathBuf, rustls::Error),
}

/// The certificate that is served, and what is known of its files.
#[derive(Debug)]
pub(super) struct Certificate {
    files: config::Tls,
    served: TlsSource,
    /// Of what was in the files when they were last looked at.
    looked_at: u64,
    figures: Figures,
}

/// A certificate that can be served.
struct Usable {
    config: Arc<ServerConfig>,
    expires: Timestamp,
}

#[derive(Clone, Debug, Default)]
struct Figures {
    expiry: Gauge,
    loads: Family<Loaded, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Loaded {
    result: &'static str,
}

impl Certificate {
    /// Reads the files.
    ///
    /// # Errors
    /// When a certificate and its key cannot be made of them.
    pub(super) fn load(files: &config::Tls) -> Result<Self, Unusable> {
        let found = Found::look(files);
        let looked_at = found.fingerprint();
        let usable = found.use_it(files)?;
        let figures = Figures::default();
        figures.loaded(&usable);
        tell(files, &usable);
        Ok(Self { files: files.clone(), served: Arc::new(ArcSwap::new(usable.config)), looked_at, figures })
    }

    /// Where listeners find the certificate that is served.
    pub(super) fn source(&self) -> TlsSource {
        Arc::clone(&self.served)
    }

    /// Puts `fieldpost_tls_*` into the registry.
    pub(super) fn register_metrics(&self, registry: &mut Registry) {
        self.figures.register(registry);
    }

    /// Serves what is in the files now, if they have changed or it was asked for.
    fn look(&mut self, asked_for: bool) {
        let found = Found::look(&self.files);
        let fingerprint = found.fingerprint();
        if fingerprint == self.looked_at && !asked_for {
            return;
        }
        self.looked_at = fingerprint;
        match found.use_it(&self.files) {
            Ok(usable) => {
                self.figures.loaded(&usable);
                tell(&self.files, &usable);
                self.served.store(usable.config);
            }
            Err(unusable) => {
                self.figures.refused();
                error!("{unusable}; the certificate of before is served on");
            }
        }
    }
}

/// Looks at the files of the certificate whenever it is time or asked for with a hangup, until the server stops. Without a
/// certificate a hangup is only told: it must not end the server either.
pub(super) async fn follow(
    mut certificate: Option<Certificate>,
    mut hangups: Signal,
    mut stop: watch::Receiver<bool>,
) {
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let asked_for = tokio::select! {
            _ = ticks.tick(), if certificate.is_some() => false,
            Some(()) = hangups.recv() => true,
            // A sender that has gone means the same as one that says stop.
            _ = stop.wait_for(|stop| *stop) => return,
        };
        let Some(mut looking) = certificate.take() else {
            info!("SIGHUP: there is no certificate to read again; settings are read at the start only");
            continue;
        };
        let looked = spawn_blocking(move || {
            looking.look(asked_for);
            looking
        });
        match looked.await {
            Ok(looked) => certificate = Some(looked),
            Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
            Err(_) => return,
        }
    }
}

/// What is in the files. They are small, so they are read whenever they are looked at: times and sizes of files may stay as they
/// were while what is in them changes.
struct Found {
    cert: Result<Vec<u8>, Unusable>,
    key: Result<Vec<u8>, Unusable>,
}

impl Found {
    fn look(files: &config::Tls) -> Self {
        Self { cert: contents("tls.cert", &files.cert), key: contents("tls.key", &files.key) }
    }

    /// Tells it from what was there before; that a file cannot be read is something to tell, too.
    fn fingerprint(&self) -> u64 {
        let of = |seed, found: &Result<Vec<u8>, Unusable>| match found {
            Ok(bytes) => hash::derived(seed, bytes),
            Err(unusable) => hash::derived(seed, unusable.to_string().as_bytes()),
        };
        of(of(0, &self.cert), &self.key)
    }

    fn use_it(self, files: &config::Tls) -> Result<Usable, Unusable> {
        let without_cert = || without("tls.cert", &files.cert, "certificate");
        let chain = CertificateDer::pem_slice_iter(&self.cert?).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(without_cert())?;
        let own = chain.first().ok_or(pem::Error::NoItemsFound).map_err(without_cert())?;
        let expires = expiry(own).map_err(|error| Unusable::Certificate(files.cert.clone(), error))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key?);
        let key = key.map_err(without("tls.key", &files.key, "private key"))?;
        let config = server_config(chain, key);
        let config = config.map_err(|error| Unusable::Pair(files.cert.clone(), files.key.clone(), error))?;
        Ok(Usable { config: Arc::new(config), expires })
    }
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

fn tell(files: &config::Tls, usable: &Usable) {
    let (cert, expires) = (files.cert.display(), usable.expires);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, base::time::millis);
    if expires <= Timestamp(now) {
        warn!(%cert, %expires, "the certificate has expired: clients will refuse it");
    } else {
        info!(%cert, %expires, "the certificate is served");
    }
}

impl Figures {
    fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "fieldpost_tls_certificate_expiry",
            "When the certificate that is served expires, in seconds since 1970",
            Unit::Seconds,
            self.expiry.clone(),
        );
        registry.register(
            "fieldpost_tls_certificate_loads",
            "Certificates that were read, by result: served, refused",
            self.loads.clone(),
        );
    }

    fn loaded(&self, usable: &Usable) {
        self.expiry.set(usable.expires.0.div_euclid(1_000));
        self.loads.get_or_create(&Loaded { result: "served" }).inc();
    }

    fn refused(&self) {
        self.loads.get_or_create(&Loaded { result: "refused" }).inc();
    }
}

#[cfg(test)]
mod tests;
