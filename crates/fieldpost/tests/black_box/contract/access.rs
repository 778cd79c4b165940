//! Who is let in: tokens and their scopes and limits, TLS and its certificates, what is never
//! shown.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use simulator::server::{RunningServer, Site};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::contract::rig::{BINARY, PATIENCE, Rig};
use crate::wire::{self, Answer};

/// Each token is called like its name.
const TOKENS: &[(&str, &str)] = &[
    ("admin", r#"["admin"]"#),
    ("read", r#"["read"]"#),
    ("report", r#"["report"]"#),
    ("jobs", r#"["jobs:mail"]"#),
    ("streams", r#"["streams:shop"]"#),
    ("reader", r#"["streams:shop:read", "streams:post:read"]"#),
    ("producer", r#"["streams:shop:append"]"#),
    ("acme", r#"["client:acme"]"#),
    ("operate", r#"["operate"]"#),
    ("slow", "[\"read\"]\nrequests_per_second = 1"),
];

/// A server with a config file of its own.
pub(crate) struct Guarded {
    site: Site,
    folder: tempfile::TempDir,
    server: Option<RunningServer>,
}

impl Guarded {
    /// With these lines in the file, and the tokens.
    pub(super) async fn start(lines: &str) -> Self {
        Self::start_in(tempfile::tempdir().expect("a folder"), lines).await
    }

    /// The server is started by a script, which adds the file and leaves its process id.
    async fn start_in(folder: tempfile::TempDir, lines: &str) -> Self {
        let path = |name: &str| folder.path().join(name);
        fs::write(path("f.toml"), format!("{lines}\n{}", tokens())).expect("written");
        let (pid, file) = (path("pid"), path("f.toml"));
        let script = format!(
            "#!/bin/sh\necho $$ > {}\nexec {BINARY} \"$@\" --config {}\n",
            pid.display(),
            file.display()
        );
        fs::write(path("start"), script).expect("written");
        fs::set_permissions(path("start"), fs::Permissions::from_mode(0o755)).expect("runnable");
        let site = Site::new(&path("start"), &[("RUST_LOG", "trace")]).expect("a directory");
        let server = site.start(PATIENCE).await.expect("a server");
        Self { site, folder, server: Some(server) }
    }

    fn hang_up(&self) {
        let pid = fs::read_to_string(self.folder.path().join("pid")).expect("the script wrote it");
        let asked = Command::new("sh").arg("-c").arg(format!("kill -HUP {pid}")).status().expect("a shell");
        assert!(asked.success());
    }

    pub(super) async fn ask(&self, token: Option<&str>, method: &str, path: &str, body: &str) -> Answer {
        let authorization = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = authorization.iter().map(|value| ("Authorization", value.as_str())).collect();
        wire::ask(self.site.http.address().await, method, path, &headers, body.as_bytes()).await
    }

    pub(super) async fn check(&self, token: &str, method: &str, path: &str, body: &str, status: u16) {
        let answer = self.ask(Some(token), method, path, body).await;
        assert_eq!(answer.status, status, "{method} {path} with {token}: {answer:?}");
    }

    /// SIGKILL, and a new process on the same data, of whose settings this is replaced by that.
    pub(super) async fn restart_with(&mut self, this: &str, that: &str) {
        self.server.take().expect("it runs").kill().await.expect("killed");
        let file = self.folder.path().join("f.toml");
        let settings = fs::read_to_string(&file).expect("readable");
        assert!(settings.contains(this), "{this} is set");
        fs::write(file, settings.replace(this, that)).expect("written");
        self.server = Some(self.site.start(PATIENCE).await.expect("a server"));
    }

    pub(super) async fn stop(mut self) {
        let server = self.server.take().expect("it runs");
        assert!(server.stop(PATIENCE).await.expect("it ends").success());
    }
}

fn sha256(text: &str) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn tokens() -> String {
    let entry = |(name, scopes): &(&str, &str)| {
        format!("[[auth.tokens]]\nname = \"{name}\"\nsha256 = \"{}\"\nscopes = {scopes}\n", sha256(name))
    };
    TOKENS.iter().map(entry).collect()
}

#[tokio::test]
async fn without_a_valid_token_nothing_is_told() {
    let guarded = Guarded::start("").await;
    for (method, path, body) in [
        ("GET", "/v1/devices", ""),
        ("GET", "/metrics", ""),
        ("GET", "/nothing", ""),
        ("POST", "/v1/devices", "{\"id\":\"d1\"}"),
        ("POST", "/v1/reports", "{\"device_id\":\"d1\",\"data\":0}"),
        ("POST", "/v1/devices", "not even JSON"),
    ] {
        for (token, challenge) in [(None, "Bearer realm=\"fieldpost\""), (Some("wrong"), "invalid_token")] {
            let answer = guarded.ask(token, method, path, body).await;
            assert_eq!((answer.status, answer.text("code").as_str()), (401, "unauthorized"), "{answer:?}");
            assert!(answer.headers["www-authenticate"].contains(challenge), "{answer:?}");
        }
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(guarded.ask(None, "GET", path, "").await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn a_token_reaches_what_its_scopes_name() {
    let guarded = Guarded::start("notify.allow_private = true").await;
    for client in ["acme", "other"] {
        let body = format!("{{\"id\":\"{client}\",\"name\":\"n\",\"url\":\"http://127.0.0.1:9/{client}\"}}");
        guarded.check("admin", "POST", "/v1/clients", &body, 201).await;
    }
    for (device, client) in [("d1", "acme"), ("d2", "other")] {
        guarded.check("admin", "POST", "/v1/devices", &format!("{{\"id\":\"{device}\"}}"), 201).await;
        guarded.check("admin", "PUT", &format!("/v1/devices/{device}/clients/{client}"), "", 204).await;
    }
    for (token, method, path, status) in [
        ("read", "GET", "/v1/devices", 200),
        ("read", "GET", "/metrics", 200),
        ("read", "POST", "/v1/devices", 403),
        ("read", "POST", "/v1/reports", 403),
        ("report", "GET", "/v1/devices", 403),
        ("report", "POST", "/v1/reports", 400),
        ("jobs", "GET", "/v1/devices", 403),
        ("jobs", "POST", "/v1/reports", 403),
        ("acme", "GET", "/v1/clients/acme", 200),
        ("acme", "GET", "/v1/clients/other", 403),
        ("acme", "GET", "/v1/clients/acme/devices", 200),
        ("acme", "GET", "/v1/devices/d1", 200),
        ("acme", "GET", "/v1/devices/d2", 403),
        ("acme", "GET", "/v1/devices/d3", 403),
        ("acme", "GET", "/v1/devices/d1/readings", 200),
        ("acme", "GET", "/v1/events?device=d1", 200),
        ("acme", "GET", "/v1/deliveries?client=acme", 200),
        ("acme", "GET", "/v1/deliveries?client=other", 403),
        ("acme", "GET", "/v1/deliveries", 403),
        ("acme", "PATCH", "/v1/clients/acme", 403),
        ("acme", "DELETE", "/v1/clients/acme", 403),
        ("acme", "DELETE", "/v1/devices/d1", 403),
        ("admin", "DELETE", "/v1/devices/d1", 204),
    ] {
        guarded.check(token, method, path, "", status).await;
    }
    let report = "{\"device_id\":\"d2\",\"data\":1}";
    guarded.check("report", "POST", "/v1/reports", report, 200).await;
}

#[tokio::test]
async fn scopes_of_streams_reach_their_namespace() {
    const ORDERS: &str = "/v1/streams/shop/orders";
    const OTHER: &str = "/v1/streams/other/orders";

    let guarded = Guarded::start("").await;
    let message = r#"{"payload":1}"#;
    for (token, method, path, body, status) in [
        ("producer", "POST", &*format!("{ORDERS}/messages"), message, 201),
        ("producer", "POST", &format!("{OTHER}/messages"), message, 403),
        ("producer", "GET", &format!("{ORDERS}/messages"), "", 403),
        ("producer", "GET", ORDERS, "", 403),
        ("producer", "GET", "/v1/streams", "", 403),
        ("producer", "PUT", &format!("{ORDERS}/settings"), "{}", 403),
        ("reader", "GET", &format!("{ORDERS}/messages"), "", 200),
        ("reader", "GET", &format!("{ORDERS}/messages/1"), "", 200),
        ("reader", "GET", ORDERS, "", 200),
        ("reader", "GET", &format!("{ORDERS}/blocks"), "", 200),
        ("reader", "GET", &format!("{ORDERS}/handlers"), "", 200),
        ("reader", "GET", OTHER, "", 403),
        ("reader", "POST", &format!("{ORDERS}/messages"), message, 403),
        ("reader", "DELETE", ORDERS, "", 403),
        ("admin", "POST", &format!("{OTHER}/messages"), message, 201),
        ("admin", "POST", "/v1/streams/post/out/messages", message, 201),
        ("streams", "PUT", &format!("{ORDERS}/settings"), "{}", 204),
        ("streams", "POST", &format!("{ORDERS}/messages"), message, 201),
        ("streams", "DELETE", OTHER, "", 403),
        ("read", "GET", &format!("{OTHER}/messages"), "", 200),
        ("read", "POST", &format!("{OTHER}/messages"), message, 403),
        ("operate", "GET", OTHER, "", 200),
        ("jobs", "GET", ORDERS, "", 403),
    ] {
        guarded.check(token, method, path, body, status).await;
    }
    for (token, query, seen) in [
        ("read", "", &["other", "post", "shop"][..]),
        ("streams", "", &["shop"]),
        ("reader", "", &["post", "shop"]),
        ("reader", "?limit=1", &["post"]),
        ("reader", "?namespace=shop", &["shop"]),
        ("streams", "?namespace=other", &[]),
    ] {
        let answer = guarded.ask(Some(token), "GET", &format!("/v1/streams{query}"), "").await.json();
        let items = answer["items"].as_array().expect("items").iter();
        let namespaces: Vec<_> = items.map(|item| item["namespace"].as_str().expect("a name")).collect();
        assert_eq!(namespaces, seen, "{token} {query}");
    }
    guarded.check("streams", "DELETE", ORDERS, "", 204).await;
}

/// The description of the API is the list of what there is to guard.
#[tokio::test]
async fn every_call_there_is_takes_a_token() {
    let guarded = Guarded::start("").await;
    let description = guarded.ask(Some("read"), "GET", "/openapi.json", "").await.json();
    let paths = description["paths"].as_object().expect("paths");
    assert!(paths.len() > 15, "{:?}", paths.keys());
    for (path, calls) in paths {
        for method in ["get", "post", "put", "patch", "delete"] {
            if calls.get(method).is_none() {
                continue;
            }
            let (method, path) = (method.to_uppercase(), path.replace(['{', '}'], ""));
            let open = ["/healthz", "/readyz"].contains(&path.as_str());
            let status = guarded.ask(None, &method, &path, "").await.status;
            assert_eq!(status == 401, !open, "{method} {path}: {status}");
            // Who calls is told to anybody with a token; of a stream each topic takes its own
            // scope.
            let for_any_token = ["/v1/caller", "/v1/live"].contains(&path.as_str());
            // A relay of jobs says so.
            let for_jobs = method == "PUT" && path == "/v1/relays/name";
            let status = guarded.ask(Some("jobs"), &method, &path, "").await.status;
            assert_eq!(
                status == 403,
                !open && !for_any_token && !for_jobs,
                "{method} {path} with a scope for something else: {status}"
            );
        }
    }
}

#[tokio::test]
async fn a_token_over_its_limit_is_told_when_to_come_back() {
    let guarded = Guarded::start("").await;
    let asked = async {
        loop {
            let answer = guarded.ask(Some("slow"), "GET", "/v1/devices", "").await;
            if answer.status != 200 {
                return answer;
            }
        }
    };
    let answer = timeout(PATIENCE, asked).await.expect("one a second is soon too much");
    assert_eq!((answer.status, answer.text("code").as_str()), (429, "too_many_requests"), "{answer:?}");
    assert_eq!(answer.headers["retry-after"], "1");
    guarded.check("read", "GET", "/v1/devices", "", 200).await;
}

#[tokio::test]
async fn what_is_secret_is_neither_logged_nor_told() {
    let guarded = Guarded::start("").await;
    let secret = "a-secret-that-nobody-else-would-write";
    for token in ["read", secret] {
        let _ = guarded.ask(Some(token), "GET", "/v1/devices", "").await;
    }
    let told = guarded.ask(Some("read"), "GET", "/metrics", "").await.body;
    assert!(told.contains("fieldpost_access_requests_total{token=\"read\",result=\"admitted\"}"), "{told}");
    let system = guarded.ask(Some("read"), "GET", "/v1/system", "").await.body;
    assert!(system.contains("\"sha256\":\"(hidden)\""), "{system}");
    let log = guarded.site.log_path();
    let logged = fs::read_to_string(log).expect("a log");
    for hidden in [secret, &sha256("read"), &sha256(secret)] {
        let is_shown = [&logged, &told, &system].iter().any(|text| text.contains(hidden));
        assert!(!is_shown, "{hidden} is shown");
    }
    guarded.stop().await;
}

#[tokio::test]
async fn without_tokens_a_foreign_page_may_do_nothing_and_the_log_says_what_is_open() {
    let rig = Rig::start(&[("FIELDPOST_HTTP__HOSTS", "depot.example")]).await;
    let address = rig.site.http.address().await;
    let own = format!("http://{address}");
    for (host, origin, status) in [
        ("localhost", "", 201),
        ("depot.example:8080", "", 201),
        (&*address.to_string(), &*own, 201),
        ("evil.example", "", 403),
        ("localhost", "http://evil.example", 403),
        ("localhost", "null", 403),
    ] {
        let origin = if origin.is_empty() { String::new() } else { format!("\nOrigin: {origin}") };
        let head = format!("POST /v1/clients HTTP/1.1\nHost: {host}{origin}");
        let answer = wire::send(address, &head, br#"{"name":"n","url":"https://a.example/"}"#).await;
        assert_eq!(answer.status, status, "{head}: {answer:?}");
        assert!(status == 201 || answer.text("code") == "foreign_origin", "{answer:?}");
    }
    let log = fs::read_to_string(rig.site.log_path()).expect("a log");
    let warnings = log.lines().filter(|line| line.contains("there are no [[auth.tokens]]"));
    assert_eq!(warnings.filter(|line| line.contains("WARN")).count(), 1, "{log}");
}

#[tokio::test]
async fn with_tokens_a_listed_origin_may_call() {
    let guarded = Guarded::start("http.origins = [\"https://console.example\"]").await;
    let address = guarded.site.http.address().await;
    let origin = ("Origin", "https://console.example");
    let asked = [
        origin,
        ("Access-Control-Request-Method", "PATCH"),
        ("Access-Control-Request-Headers", "authorization"),
    ];
    let preflight = wire::ask(address, "OPTIONS", "/v1/devices/d1", &asked, b"").await;
    assert_eq!((preflight.status, &*preflight.headers["access-control-allow-origin"]), (200, origin.1));
    assert_eq!(preflight.headers["access-control-allow-headers"], "authorization");
    let read =
        wire::ask(address, "GET", "/v1/devices", &[origin, ("Authorization", "Bearer read")], b"").await;
    assert_eq!((read.status, &*read.headers["access-control-allow-origin"]), (200, origin.1));
    let other = [("Origin", "https://evil.example"), ("Authorization", "Bearer read")];
    let read = wire::ask(address, "GET", "/v1/devices", &other, b"").await;
    assert!(!read.headers.contains_key("access-control-allow-origin"), "{read:?}");
}

#[tokio::test]
async fn a_hangup_does_not_end_a_server_without_a_certificate() {
    let guarded = Guarded::start("").await;
    guarded.hang_up();
    let told = async {
        let log = guarded.site.log_path();
        while !fs::read_to_string(&log).expect("a log").contains("no certificate to read again") {
            guarded.check("read", "GET", "/v1/devices", "", 200).await;
        }
    };
    timeout(PATIENCE, told).await.expect("it is told");
    guarded.stop().await;
}

/// A certificate for this machine, in the files that the server reads.
fn certify(folder: &Path) -> CertificateDer<'static> {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let cert = params.self_signed(&key).expect("signed");
    fs::write(folder.join("key.pem"), key.serialize_pem()).expect("written");
    fs::write(folder.join("cert.pem"), cert.pem()).expect("written");
    cert.der().clone()
}

fn tls_lines(folder: &Path) -> String {
    format!("[tls]\ncert = \"{0}/cert.pem\"\nkey = \"{0}/key.pem\"", folder.display())
}

/// A connection that trusts these certificates and no other.
async fn connect(
    address: std::net::SocketAddr,
    trusted: &[&CertificateDer<'static>],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    for certificate in trusted {
        roots.add((*certificate).clone()).expect("a certificate");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("versions").with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

fn shown(stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    let chain = stream.get_ref().1.peer_certificates().expect("a server shows one");
    chain.first().expect("its own").clone().into_owned()
}

#[tokio::test]
async fn every_listener_speaks_tls() {
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = certify(folder.path());
    let lines = tls_lines(folder.path());
    let guarded = Guarded::start_in(folder, &lines).await;
    let (http, mqtt) = (guarded.site.http.address().await, guarded.site.mqtt.address().await);
    for address in [http, mqtt] {
        let stream = timeout(PATIENCE, connect(address, &[&certificate])).await.expect("in time");
        assert_eq!(shown(&stream.expect("it speaks TLS")), certificate, "{address}");
    }
    let mut plain = TcpStream::connect(http).await.expect("it listens");
    plain.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").await.expect("it reads");
    let mut answer = Vec::new();
    timeout(PATIENCE, plain.read_to_end(&mut answer)).await.expect("in time").expect("it ends");
    assert!(!answer.starts_with(b"HTTP"), "plain HTTP is not answered");
    let told = async || {
        let stream = connect(http, &[&certificate]).await.expect("it speaks TLS");
        let headers = [("Authorization", "Bearer read")];
        let answer = wire::ask_over(stream, "GET", "/metrics", &headers, b"").await;
        assert_eq!(answer.status, 200);
        answer.body
    };
    assert!(told().await.contains("fieldpost_tls_certificate_expiry_seconds "));
    for result in ["agreed", "failed"] {
        let counted = format!("fieldpost_http_tls_handshakes_total{{result=\"{result}\"}}");
        // One that failed is counted when its connection is closed already.
        let is_counted = async { while !told().await.contains(&counted) {} };
        timeout(PATIENCE, is_counted).await.unwrap_or_else(|_| panic!("{counted} is not there"));
    }
    let silent = TcpStream::connect(http).await.expect("it listens");
    guarded.stop().await;
    drop(silent);
}

#[tokio::test]
async fn a_new_certificate_is_served_without_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = certify(folder.path());
    let lines = tls_lines(folder.path());
    let guarded = Guarded::start_in(folder, &lines).await;
    let (http, mqtt) = (guarded.site.http.address().await, guarded.site.mqtt.address().await);
    let old_connection = connect(http, &[&first]).await.expect("it speaks TLS");

    fs::write(guarded.folder.path().join("cert.pem"), "half a certif").expect("written");
    guarded.hang_up();
    let told = async {
        let log = guarded.site.log_path();
        while !fs::read_to_string(&log).expect("a log").contains("the certificate of before is served on") {
            let stream = connect(http, &[&first]).await.expect("the certificate of before");
            assert_eq!(shown(&stream), first);
        }
    };
    timeout(PATIENCE, told).await.expect("it is told");

    let second = certify(guarded.folder.path());
    guarded.hang_up();
    for address in [http, mqtt] {
        let renewed = async {
            while shown(&connect(address, &[&first, &second]).await.expect("one of the two")) != second {}
        };
        timeout(PATIENCE, renewed).await.expect("it is served");
    }
    let headers = [("Authorization", "Bearer read")];
    let answer = wire::ask_over(old_connection, "GET", "/v1/devices", &headers, b"").await;
    assert_eq!(answer.status, 200, "what was connected stays so");
    guarded.stop().await;
}

#[test]
fn a_certificate_that_cannot_be_used_ends_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    certify(folder.path());
    fs::remove_file(folder.path().join("key.pem")).expect("removed");
    fs::write(folder.path().join("f.toml"), tls_lines(folder.path())).expect("written");
    let output = Command::new(BINARY)
        .args(["serve", "--config", "f.toml", "--data-dir", "data"])
        .envs([("FIELDPOST_HTTP__LISTEN", "127.0.0.1:0"), ("FIELDPOST_MQTT__LISTEN", "127.0.0.1:0")])
        .env("FIELDPOST_GRPC__LISTEN", "127.0.0.1:0")
        .current_dir(folder.path())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.starts_with("f.toml:")
            && said.contains(": tls.key: ")
            && said.contains("key.pem cannot be read"),
        "{said}"
    );
    assert!(!folder.path().join("data").exists(), "nothing was opened");
}
