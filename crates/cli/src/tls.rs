//! Which servers are believed over TLS, and what to do about one that is not.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use fieldpost_client::{TlsFault, Trust};

use super::failure::CommandFailure;
use super::input;

/// Most bytes of a file of certificates; that of a whole system has a few hundred thousand.
const CA_BYTES_MAX: u64 = 16 * 1_024 * 1_024;

/// What `--ca` names, or what the system trusts.
pub(super) fn trust(ca: Option<&Path>) -> Result<Trust, CommandFailure> {
    let Some(file) = ca else {
        let advice = "--ca names the certificate or the authority to trust";
        return Trust::of_system().map_err(|error| CommandFailure::Usage(format!("{error}; {advice}")));
    };
    let mut pem = Vec::new();
    let read = File::open(file).and_then(|opened| opened.take(CA_BYTES_MAX).read_to_end(&mut pem));
    read.map_err(|error| input::unreadable(file, &error))?;
    Trust::of_pem(&pem).map_err(|error| CommandFailure::Usage(format!("--ca {}: {error}", file.display())))
}

/// What TLS found wrong with a server, and what to do about it.
pub(super) fn describe(fault: TlsFault, error: &dyn fmt::Display) -> String {
    let advice = match fault {
        TlsFault::Untrusted => "; --ca or SSL_CERT_FILE names the certificate or the authority to trust",
        TlsFault::WrongName => "; --url has to name the server as its certificate does",
        TlsFault::NoTls => "; does its URL begin with http://?",
        _ => "",
    };
    format!("{}{advice}", fault.explained(error))
}
