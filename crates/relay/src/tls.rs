//! TLS to PostgreSQL, by `sslmode`: `require` encrypts and believes any certificate, as
//! PostgreSQL's own clients do; `verify-ca` and `verify-full` check it.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};

/// Whose certificate is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsCheck {
    /// Anybody's.
    None,
    /// One of an authority that is trusted, for whatever name.
    Authority,
    /// One of an authority that is trusted, for the host's name.
    Full,
}

/// Makes the TLS of connections to PostgreSQL.
#[derive(Clone)]
pub(crate) struct PostgresTls(Arc<ClientConfig>);

impl PostgresTls {
    /// Authorities are those of a PEM file, or else those of the system.
    pub(crate) fn new(check: TlsCheck, authorities: Option<&Path>) -> Result<Self, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        let verifier: Arc<dyn ServerCertVerifier> = match check {
            TlsCheck::None => Arc::new(LenientVerifier { checked: None, provider }),
            TlsCheck::Authority | TlsCheck::Full => {
                let roots = Arc::new(roots(authorities)?);
                let checked = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
                let checked = checked.build().map_err(|error| error.to_string())?;
                match check {
                    TlsCheck::Full => checked,
                    _ => Arc::new(LenientVerifier { checked: Some(checked), provider }),
                }
            }
        };
        let config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }
}

fn roots(file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(file) => {
            let unreadable = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
            let certificates = CertificateDer::pem_file_iter(file).map_err(|error| unreadable(&error))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| unreadable(&error))?;
                roots.add(certificate).map_err(|error| unreadable(&error))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() { Err("no certificate authority is trusted".to_owned()) } else { Ok(roots) }
}

/// Does not look at the name, or at nothing. The proof that the server has its key holds all the
/// same.
#[derive(Debug)]
struct LenientVerifier {
    checked: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for LenientVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        let Some(checked) = &self.checked else { return Ok(ServerCertVerified::assertion()) };
        match checked.verify_server_cert(certificate, between, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl MakeTlsConnect<Socket> for PostgresTls {
    type Stream = EncryptedStream;
    type TlsConnect = NamedTls;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<NamedTls> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(NamedTls { config: Arc::clone(&self.0), name })
    }
}

/// The TLS of a connection to one host.
pub(crate) struct NamedTls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsConnect<Socket> for NamedTls {
    type Stream = EncryptedStream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<EncryptedStream>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move {
            let connector = tokio_rustls::TlsConnector::from(self.config);
            connector.connect(self.name, stream).await.map(|stream| EncryptedStream(Box::new(stream)))
        })
    }
}

/// A connection within TLS.
pub(crate) struct EncryptedStream(Box<tokio_rustls::client::TlsStream<Socket>>);

impl TlsStream for EncryptedStream {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for EncryptedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for EncryptedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
