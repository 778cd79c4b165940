//! TLS: which servers are believed.

use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;

use crate::cli::rig::{Ended, ended, program};
use crate::cli::scripted::{Scripted, answer};

/// A server with a certificate of its own, and that certificate as a file has it.
fn server(answers: Vec<String>) -> (Scripted, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has cipher suites for them")
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .expect("the key is that of the certificate");
    (Scripted::with_tls(Arc::new(config), answers), cert.pem())
}

/// Lists devices, trusting what is in a file of that text.
fn list(url: &str, trusted: &str) -> Ended {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), trusted).expect("written");
    let output = program(url).args(["device", "ls"]).env("SSL_CERT_FILE", file.path()).output();
    ended(&output.expect("it runs"))
}

#[test]
fn a_server_is_believed_whose_certificate_the_system_trusts() {
    let (server, certificate) = server(vec![answer("200 OK", "", r#"{"items":[],"next_cursor":null}"#)]);
    let ended = list(&server.url, &certificate);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), "no devices\n"));
    assert_eq!(server.asked().len(), 1);
}

/// The server's thread finds that it is hung up on, which is as it should be and not looked at.
#[test]
fn any_other_is_not_asked_anything() {
    let (asked, _) = server(vec![answer("200 OK", "", r#"{"items":[],"next_cursor":null}"#)]);
    let (_, another) = server(Vec::new());
    let ended = list(&asked.url, &another);
    assert_eq!((ended.code, ended.out.as_str()), (Some(3), ""), "{ended:?}");
    assert!(ended.err.contains("TLS failed") && ended.err.contains("SSL_CERT_FILE"), "{ended:?}");
}
