//! Whom TLS believes: the certificate authorities of the system, as its operator has set them up.
//!
//! `SSL_CERT_FILE` and `SSL_CERT_DIR` take their place, so that receivers behind a private
//! authority can be reached without rebuilding anything.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

/// The settings of TLS with the system's roots. Without any, https is still tried and fails, as an
/// attempt that says so.
pub(crate) fn system_tls() -> Arc<ClientConfig> {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "a certificate authority could not be read");
    }
    let mut roots = RootCertStore::empty();
    let (good, bad) = roots.add_parsable_certificates(found.certs);
    if good == 0 {
        tracing::warn!(
            "no certificate authority found: notifications to https URLs will fail with tls_untrusted"
        );
    }
    tracing::debug!(good, bad, "certificate authorities loaded");
    tls(roots)
}

/// The settings of TLS with these roots.
pub(crate) fn tls(roots: RootCertStore) -> Arc<ClientConfig> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has cipher suites for the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}
