//! TLS below the requests: which server is believed is decided by the client crate, for every command alike.
//!
//! The HTTP library brings TLS of its own, but no way to believe one certificate of one server.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use fieldpost_client::{TlsFault, Trust};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport, TransportAdapter,
};

use super::failure::Failure;
use super::lines;

/// Most bytes of a file of certificates; that of a whole system has a few hundred thousand.
const CA_BYTES_MAX: u64 = 16 * 1_024 * 1_024;

/// What `--ca` names, or what the system trusts.
pub(super) fn trust(ca: Option<&Path>) -> Result<Trust, Failure> {
    let Some(file) = ca else {
        let advice = "--ca names the certificate or the authority to trust";
        return Trust::of_system().map_err(|error| Failure::Usage(format!("{error}; {advice}")));
    };
    let mut pem = Vec::new();
    let read = File::open(file).and_then(|opened| opened.take(CA_BYTES_MAX).read_to_end(&mut pem));
    read.map_err(|error| lines::unreadable(file, &error))?;
    Trust::of_pem(&pem).map_err(|error| Failure::Usage(format!("--ca {}: {error}", file.display())))
}

/// What TLS found wrong with a server, and what to do about it.
pub(super) fn told(fault: TlsFault, error: &dyn fmt::Display) -> String {
    let advice = match fault {
        TlsFault::Untrusted => "; --ca or SSL_CERT_FILE names the certificate or the authority to trust",
        TlsFault::WrongName => "; --url has to name the server as its certificate does",
        TlsFault::NoTls => "; does its URL begin with http://?",
        _ => "",
    };
    match fault {
        TlsFault::Other => format!("TLS failed ({error}){advice}"),
        fault => format!("TLS failed: {fault} ({error}){advice}"),
    }
}

/// Speaks TLS over the connection that is handed to it.
pub(super) struct TlsConnector(Arc<ClientConfig>);

impl TlsConnector {
    pub(super) fn new(trust: Trust) -> Result<Self, Failure> {
        let config = trust.client_config().map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(Self(Arc::new(config)))
    }
}

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = Either<In, TlsStream>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        let Some(below) = chained else { return Ok(None) };
        if !details.needs_tls() || below.is_tls() {
            return Ok(Some(Either::A(below)));
        }
        let host = details.uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name =
            ServerName::try_from(host).map_err(|_| Error::Tls("its name cannot be in a certificate"))?;
        let mut connection = ClientConnection::new(Arc::clone(&self.0), name)?;
        let mut below = TransportAdapter::new(below.boxed(), Arc::clone(&details.current_time));
        below.set_timeout(details.timeout);
        connection.complete_io(&mut below).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                Error::Tls("it closed the connection where TLS was to begin: does it speak TLS?")
            }
            _ => Error::Io(error),
        })?;
        let stream = StreamOwned::new(connection, below);
        let buffers =
            LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(Either::B(TlsStream { stream, buffers })))
    }
}

impl fmt::Debug for TlsConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConnector").finish_non_exhaustive()
    }
}

/// A connection that speaks TLS.
pub(super) struct TlsStream {
    stream: StreamOwned<ClientConnection, TransportAdapter>,
    buffers: LazyBuffers,
}

impl Transport for TlsStream {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.sock.set_timeout(timeout);
        let output = self.buffers.output();
        Ok(self.stream.write_all(&output[..amount])?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.sock.set_timeout(timeout);
        let amount = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

impl fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsStream").finish_non_exhaustive()
    }
}
