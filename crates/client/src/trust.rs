//! Which servers are believed over TLS, and what was wrong with one that is not.
//!
//! Authorities are those of the system, or those of a file. A certificate of that file is believed
//! also when a server shows it as its own. `openssl req -x509` makes one that is an authority and a
//! server at once, which the rules for the public web refuse. Its name and its dates hold all the
//! same, and so does the proof that the server has its key.

use std::error::Error as StdError;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::asn1::{PrintableStringRef, Utf8StringRef};
use x509_cert::der::oid::AssociatedOid;
use x509_cert::der::oid::db::rfc4519::CN;
use x509_cert::ext::pkix::SubjectAltName;

use crate::error::SetupError;

/// The authorities and certificates that are trusted.
#[derive(Clone, Debug)]
pub struct Trust {
    roots: RootCertStore,
    /// Believed when a server shows exactly one of them.
    pinned: Vec<CertificateDer<'static>>,
}

impl Trust {
    /// The certificate authorities of the system; `SSL_CERT_FILE` and `SSL_CERT_DIR` name others.
    ///
    /// # Errors
    /// When there are none.
    pub fn of_system() -> Result<Self, SetupError> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let why = found.errors.first().map_or_else(|| "there are none".to_owned(), ToString::to_string);
            return Err(SetupError::Authorities(why));
        }
        Ok(Self { roots, pinned: Vec::new() })
    }

    /// The certificates of a PEM text and nothing else, each as an authority and as that of a
    /// server.
    ///
    /// # Errors
    /// When there is none, or one cannot be read.
    pub fn of_pem(pem: &[u8]) -> Result<Self, SetupError> {
        let pinned = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
        let pinned = pinned.map_err(|error| SetupError::Certificates(error.to_string()))?;
        if pinned.is_empty() {
            return Err(SetupError::Certificates("there is none in PEM".to_owned()));
        }
        let mut roots = RootCertStore::empty();
        for certificate in &pinned {
            roots.add(certificate.clone()).map_err(|error| SetupError::Certificates(error.to_string()))?;
        }
        Ok(Self { roots, pinned })
    }

    /// The settings of connections that believe it.
    ///
    /// # Errors
    /// When the TLS library refuses its own settings.
    #[doc(hidden)]
    pub fn client_config(self) -> Result<ClientConfig, SetupError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let rules =
            WebPkiServerVerifier::builder_with_provider(Arc::new(self.roots), Arc::clone(&provider)).build();
        let rules = rules.map_err(|error| SetupError::Authorities(error.to_string()))?;
        let verifier = PinnedVerifier { pinned: self.pinned, rules, provider: Arc::clone(&provider) };
        Ok(ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth())
    }
}

/// The rules of the public web, but for certificates that were given one by one.
#[derive(Debug)]
struct PinnedVerifier {
    pinned: Vec<CertificateDer<'static>>,
    rules: Arc<WebPkiServerVerifier>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if !self.pinned.iter().any(|pinned| pinned == end_entity) {
            return self.rules.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        }
        check_dates_and_name(end_entity, server_name, now)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn check_dates_and_name(
    der: &CertificateDer<'_>,
    name: &ServerName<'_>,
    now: UnixTime,
) -> Result<(), CertificateError> {
    let certificate = Certificate::from_der(der).map_err(|_| CertificateError::BadEncoding)?;
    let validity = &certificate.tbs_certificate.validity;
    if now.as_secs() < validity.not_before.to_unix_duration().as_secs() {
        return Err(CertificateError::NotValidYet);
    }
    if now.as_secs() > validity.not_after.to_unix_duration().as_secs() {
        return Err(CertificateError::Expired);
    }
    let parsed = ParsedCertificate::try_from(der).map_err(|_| CertificateError::BadEncoding)?;
    let is_named = verify_server_name(&parsed, name).is_ok() || is_common_name(&certificate, name);
    if is_named { Ok(()) } else { Err(CertificateError::NotValidForName) }
}

/// Whether a certificate without alternative names has this one as its common name, where `openssl
/// req -subj /CN=host` puts it.
fn is_common_name(certificate: &Certificate, name: &ServerName<'_>) -> bool {
    let extensions = certificate.tbs_certificate.extensions.as_deref().unwrap_or_default();
    if extensions.iter().any(|extension| extension.extn_id == SubjectAltName::OID) {
        return false;
    }
    let attributes = certificate.tbs_certificate.subject.0.iter().flat_map(|names| names.0.iter());
    let mut common_names = attributes.filter(|attribute| attribute.oid == CN);
    common_names.any(|attribute| {
        let value = &attribute.value;
        let utf8 = value.decode_as::<Utf8StringRef<'_>>().map(|text| text.as_str().to_owned());
        let text = utf8
            .or_else(|_| value.decode_as::<PrintableStringRef<'_>>().map(|text| text.as_str().to_owned()));
        text.is_ok_and(|text| is_name(&text, name))
    })
}

fn is_name(text: &str, name: &ServerName<'_>) -> bool {
    match name {
        ServerName::DnsName(name) => name.as_ref().eq_ignore_ascii_case(text),
        ServerName::IpAddress(address) => text.parse() == Ok(IpAddr::from(*address)),
        _ => false,
    }
}

/// What was wrong with a server that was asked over TLS.
///
/// The sender of webhooks tells the same faults apart for the attempts that it records, and copies
/// between nodes for what they show. The mappings stay apart: one crate below all would have to
/// know TLS, and `base` knows none. Nothing of the server is compiled into programs that use this
/// client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsFault {
    /// No authority that is trusted stands for its certificate.
    Untrusted,
    /// Its certificate is no longer valid.
    Expired,
    /// Its certificate is not valid yet.
    NotYetValid,
    /// Its certificate is for another name.
    WrongName,
    /// It does not speak TLS.
    NoTls,
    /// The two do not agree on TLS.
    Other,
}

impl TlsFault {
    /// What TLS found, if that is what stands behind an error.
    #[must_use]
    pub fn behind(error: &(dyn StdError + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref::<rustls::Error>() {
                return Some(Self::of(found));
            }
            // An error that is wrapped into one of the stream is no source of it.
            let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
            next = wrapped.map(|wrapped| wrapped as &(dyn StdError + 'static)).or_else(|| error.source());
        }
        None
    }

    /// The fault in plain words, with those of the library in brackets.
    #[must_use]
    pub fn explained(self, cause: &dyn fmt::Display) -> String {
        match self {
            Self::Other => format!("TLS failed ({cause})"),
            fault => format!("TLS failed: {fault} ({cause})"),
        }
    }

    fn of(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(error) => Self::of_certificate(error),
            rustls::Error::InvalidMessage(_) => Self::NoTls,
            _ => Self::Other,
        }
    }

    fn of_certificate(error: &CertificateError) -> Self {
        match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Self::NotYetValid,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Self::WrongName
            }
            // The rules of the library grow; whatever they refuse is not believed.
            _ => Self::Untrusted,
        }
    }
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Untrusted => "its certificate is not trusted",
            Self::Expired => "its certificate has expired",
            Self::NotYetValid => "its certificate is not valid yet",
            Self::WrongName => "its certificate is for another name",
            Self::NoTls => "it does not speak TLS",
            Self::Other => "TLS failed",
        })
    }
}
