//! TLS: which servers are believed, and what is said of one that is not.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rcgen::{CertificateParams, CertifiedKey, KeyPair, date_time_ymd, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::cli::rig::{Ended, ended, program};
use crate::cli::scripted::{Scripted, answer};

/// A server with a certificate of its own, and that certificate as a file has it.
fn server(answers: Vec<String>) -> (Scripted, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
    (Scripted::with_tls(config(cert.der().clone(), key), answers), cert.pem())
}

fn config(cert: CertificateDer<'static>, key: PrivateKeyDer<'static>) -> Arc<ServerConfig> {
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has cipher suites for them")
        .with_no_client_auth()
        .with_single_cert(vec![cert], key)
        .expect("the key is that of the certificate");
    Arc::new(config)
}

fn no_devices() -> Vec<String> {
    vec![answer("200 OK", "", r#"{"items":[],"next_cursor":null}"#)]
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

#[test]
fn of_a_server_that_speaks_tls_and_no_http_nobody_is_led_to_tls() {
    let (server, certificate) = server(vec!["220 mail.example ESMTP\r\n".to_owned()]);
    let ended = list(&server.url, &certificate);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.err.contains("it does not speak HTTP") && !ended.err.contains("begins with"), "{ended:?}");
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

/// A certificate that `openssl req -x509` made, and its key.
struct Made {
    folder: tempfile::TempDir,
}

impl Made {
    fn with(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let output = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"])
            .args(["-keyout", "key.pem", "-out", "cert.pem"])
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .expect("openssl is there");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self { folder }
    }

    fn cert(&self) -> PathBuf {
        self.folder.path().join("cert.pem")
    }

    fn serve(&self, answers: Vec<String>) -> Scripted {
        let cert = CertificateDer::from_pem_file(self.cert()).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(self.folder.path().join("key.pem")).expect("a key");
        Scripted::with_tls(config(cert, key), answers)
    }
}

fn list_with_ca(url: &str, ca: &Path) -> Ended {
    ended(&program(url).args(["device", "ls", "--ca"]).arg(ca).output().expect("it runs"))
}

/// The same at another name of this machine.
fn at(name: &str, url: &str) -> String {
    url.replace("127.0.0.1", name)
}

#[test]
fn a_certificate_that_openssl_made_is_believed_when_it_is_the_one_given() {
    let subject = ["-subj", "/CN=localhost"];
    for (made, name) in [
        (Made::with(&[subject[0], subject[1], "-addext", "subjectAltName=IP:127.0.0.1"]), "127.0.0.1"),
        (Made::with(&[subject[0], subject[1], "-addext", "subjectAltName=DNS:localhost"]), "localhost"),
        (Made::with(&subject), "localhost"),
        (Made::with(&["-subj", "/O=Site/CN=127.0.0.1"]), "127.0.0.1"),
    ] {
        let server = made.serve(no_devices());
        let listed = list_with_ca(&at(name, &server.url), &made.cert());
        assert_eq!((listed.code, listed.err.as_str()), (Some(0), "no devices\n"), "{name}");
        assert_eq!(server.asked().len(), 1);
        let server = made.serve(no_devices());
        let mut command = program(&at(name, &server.url));
        let output = command.args(["device", "ls"]).env("FIELDPOST_CA", made.cert()).output();
        assert_eq!(ended(&output.expect("it runs")).code, Some(0), "{name}");
    }
}

#[test]
fn variables_that_are_empty_count_as_not_set() {
    let plain = Scripted::new(no_devices());
    let (with_tls, certificate) = server(no_devices());
    let trusted = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(trusted.path(), certificate).expect("written");
    for server in [plain, with_tls] {
        let mut command = program(&server.url);
        command.args(["device", "ls"]).env("SSL_CERT_FILE", trusted.path());
        let output = command.env("FIELDPOST_CA", "").env("FIELDPOST_TOKEN", "").output();
        assert_eq!(ended(&output.expect("it runs")).code, Some(0));
        let asked = server.asked();
        assert!(!asked[0].head.to_lowercase().contains("authorization"), "{asked:?}");
    }
}

/// A server that speaks first, and no TLS.
fn talker() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let url = format!("https://{}", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("it is asked");
        stream.write_all(b"220 mail.example ESMTP\r\n").expect("written");
        // Until the other side has hung up, so that it reads what was said.
        drop(stream.read_to_end(&mut Vec::new()));
    });
    url
}

/// The server's thread may find that it is hung up on, and is not looked at.
#[test]
fn what_is_wrong_with_a_server_is_told_by_its_cause() {
    let (localhost, another) =
        (Made::with(&["-subj", "/CN=localhost"]), Made::with(&["-subj", "/CN=localhost"]));
    let named = Made::with(&["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=DNS:elsewhere.example"]);
    let key = KeyPair::generate().expect("a key");
    let dated = |from: i32, to: i32| {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).expect("a name");
        (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        params.self_signed(&key).expect("signed")
    };
    let folder = tempfile::tempdir().expect("a folder");
    let serve_dated = |name: &str, from, to| {
        let (cert, file) = (dated(from, to), folder.path().join(name));
        std::fs::write(&file, cert.pem()).expect("written");
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        (Scripted::with_tls(config(cert.der().clone(), key), no_devices()).url, file)
    };
    let (expired, of_expired) = serve_dated("expired.pem", 2_000, 2_020);
    let (early, of_early) = serve_dated("early.pem", 2_090, 2_091);
    let bare = localhost.serve(no_devices()).url;
    for (url, ca, says) in [
        (at("localhost", &bare), another.cert(), "its certificate is not trusted"),
        (localhost.serve(no_devices()).url, localhost.cert(), "its certificate is for another name"),
        (named.serve(no_devices()).url, named.cert(), "its certificate is for another name"),
        (expired, of_expired, "its certificate has expired"),
        (early, of_early, "its certificate is not valid yet"),
        (talker(), localhost.cert(), "it does not speak TLS"),
    ] {
        let ended = list_with_ca(&url, &ca);
        assert_eq!((ended.code, ended.out.as_str()), (Some(3), ""), "{says}: {ended:?}");
        assert!(ended.err.contains("TLS failed: ") && ended.err.contains(says), "{says}: {ended:?}");
    }
}

#[test]
fn a_file_that_holds_no_certificate_ends_with_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").expect("written");
    for (file, says) in [(empty, "none in PEM"), (folder.path().join("absent.pem"), "cannot be read")] {
        let ended = list_with_ca("https://127.0.0.1:9", &file);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.err.contains(says) && ended.err.contains(".pem"), "{ended:?}");
    }
}

#[test]
fn a_worker_believes_what_the_other_commands_believe() {
    let made = Made::with(&["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]);
    let told_nothing = r#"{"status":404,"code":"no_control","detail":"none"}"#;
    let no_jobs = answer("200 OK", "", r#"{"jobs":[]}"#);
    let server = made.serve(vec![answer("404 Not Found", "", told_nothing), no_jobs]);
    let worker = program(&server.url)
        .args(["job", "work", "shop", "mail", "--drain", "--ca"])
        .arg(made.cert())
        .args(["--", "true"])
        .output();
    let ended = ended(&worker.expect("it runs"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(server.asked().len(), 2);
}
