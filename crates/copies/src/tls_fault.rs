//! What TLS found wrong with a node, in plain words.
//!
//! The sender of webhooks and the client library tell the same faults apart, as codes and as types
//! of their own. No crate below all three knows TLS.

use std::error::Error;
use std::io;

use rustls::CertificateError;

/// What TLS found, if that is what stands behind an error.
pub(crate) fn behind(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<rustls::Error>() {
            return Some(words(found));
        }
        // An error that is wrapped into one of the stream is no source of it.
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = wrapped.map(|wrapped| wrapped as &(dyn Error + 'static)).or_else(|| error.source());
    }
    None
}

fn words(found: &rustls::Error) -> &'static str {
    match found {
        rustls::Error::InvalidCertificate(error) => match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for another name"
            }
            // The rules of the library grow; whatever they refuse is not believed.
            _ => "its certificate is not trusted",
        },
        rustls::Error::InvalidMessage(_) => "it does not speak TLS",
        _ => "the two do not agree on it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_its_words_however_it_is_wrapped() {
        for (error, expect) in [
            (CertificateError::UnknownIssuer, "its certificate is not trusted"),
            (CertificateError::Expired, "its certificate has expired"),
            (CertificateError::NotValidYet, "its certificate is not valid yet"),
            (CertificateError::NotValidForName, "its certificate is for another name"),
        ] {
            let stream = io::Error::new(io::ErrorKind::InvalidData, rustls::Error::InvalidCertificate(error));
            assert_eq!(behind(&io::Error::other(stream)), Some(expect));
        }
        assert_eq!(behind(&io::Error::from(io::ErrorKind::ConnectionRefused)), None);
    }
}
