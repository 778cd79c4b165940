//! The certificate that is served: read at the start, and again on SIGHUP or when one of its files
//! has changed.
//!
//! A certificate that cannot be used at the start ends the start. One that cannot be used later is
//! told and left: the one before goes on serving, and the files are looked at again. Connections
//! keep the certificate that they began with.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use base::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::signal::unix::Signal;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{error, info, warn};

use crate::certificate::{CertificateFiles, Unusable, Usable};
use crate::config;

pub(super) use net::listen::TlsSource;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The certificate that is served, and what is known of its files.
#[derive(Debug)]
pub(super) struct Certificate {
    files: config::TlsSettings,
    served: TlsSource,
    /// Of what was in the files when they were last looked at.
    looked_at: u64,
    metrics: CertificateMetrics,
    expires: watch::Sender<Timestamp>,
}

#[derive(Clone, Debug, Default)]
struct CertificateMetrics {
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
    pub(super) fn load(files: &config::TlsSettings) -> Result<Self, Unusable> {
        let found = CertificateFiles::look(files);
        let looked_at = found.fingerprint();
        let usable = found.pair(files)?;
        let metrics = CertificateMetrics::default();
        metrics.loaded(&usable);
        tell(files, &usable);
        let expires = watch::Sender::new(usable.expires);
        let served = Arc::new(ArcSwap::new(usable.config));
        Ok(Self { files: files.clone(), served, looked_at, metrics, expires })
    }

    /// When the certificate that is served expires.
    pub(super) fn expires(&self) -> watch::Receiver<Timestamp> {
        self.expires.subscribe()
    }

    /// Where listeners find the certificate that is served.
    pub(super) fn source(&self) -> TlsSource {
        Arc::clone(&self.served)
    }

    /// Puts `fieldpost_tls_*` into the registry.
    pub(super) fn register_metrics(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }

    /// Serves what is in the files now, if they have changed or it was asked for.
    fn look(&mut self, asked_for: bool) {
        let found = CertificateFiles::look(&self.files);
        let fingerprint = found.fingerprint();
        if fingerprint == self.looked_at && !asked_for {
            return;
        }
        self.looked_at = fingerprint;
        match found.pair(&self.files) {
            Ok(usable) => {
                self.metrics.loaded(&usable);
                tell(&self.files, &usable);
                self.expires.send_replace(usable.expires);
                self.served.store(usable.config);
            }
            Err(unusable) => {
                self.metrics.refused();
                error!("{}: {unusable}; the certificate of before is served on", unusable.key());
            }
        }
    }
}

/// Looks at the files of the certificate whenever it is time or asked for with a hangup, until the
/// server stops. Without a certificate a hangup is only told: it must not end the server either.
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

fn tell(files: &config::TlsSettings, usable: &Usable) {
    let (cert, expires) = (files.cert.display(), usable.expires);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, base::time::millis);
    if expires <= Timestamp(now) {
        warn!(%cert, %expires, "the certificate has expired: clients will refuse it");
    } else {
        info!(%cert, %expires, "the certificate is served");
    }
}

impl CertificateMetrics {
    fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "fieldpost_tls_certificate_expiry",
            "When the certificate that is served expires, in seconds since 1970",
            Unit::Seconds,
            self.expiry.clone(),
        );
        let help = "Certificates that were read, by result: served, refused";
        registry.register("fieldpost_tls_certificate_loads", help, self.loads.clone());
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
