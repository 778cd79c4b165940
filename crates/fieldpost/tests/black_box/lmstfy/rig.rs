//! A server of its own for each test, with both listeners, and the few requests that all of them
//! make.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use simulator::api_client::ApiClient;
use simulator::endpoint::Endpoint;
use simulator::server::{RunningServer, Site};

use crate::wire::{self, Answer};

/// Nothing here takes longer, even on a machine that is busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The namespace of most tests.
pub(crate) const NAMESPACE: &str = "ns";

/// A running server.
pub(crate) struct Rig {
    pub(crate) api: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// A token of [`NAMESPACE`].
    pub(crate) token: String,
    pub(crate) site: Site,
    server: Option<RunningServer>,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        let mut rig = Self::start_bare().await;
        rig.token = rig.new_token(NAMESPACE).await;
        rig
    }

    /// Without a token.
    pub(crate) async fn start_bare() -> Self {
        Self::start_at(site()).await
    }

    /// With these tokens of the REST API, each its own name and its scope.
    pub(crate) async fn start_guarded(tokens: &[(&str, &str)]) -> Self {
        let mut site = site();
        let entry = |(token, scope): &(&str, &str)| {
            let digest: String = Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect();
            format!("[[auth.tokens]]\nname = \"{token}\"\nsha256 = \"{digest}\"\nscopes = [\"{scope}\"]\n")
        };
        let file = site.data_dir().with_file_name("auth.toml");
        std::fs::write(&file, tokens.iter().map(entry).collect::<String>()).expect("written");
        let script = format!("exec \"$@\" --config {}", file.display());
        site.start_through(["sh", "-c", &script, "sh"]);
        Self::start_at(site).await
    }

    async fn start_at(site: Site) -> Self {
        let server = site.start(PATIENCE).await.expect("a server");
        let (api, admin) = addresses(&site);
        Self { api, admin, token: String::new(), site, server: Some(server) }
    }

    /// SIGKILL, and a new process on the same data.
    pub(crate) async fn restart(&mut self) {
        let server = self.server.take().expect("it runs");
        server.kill().await.expect("killed");
        self.server = Some(self.site.start(PATIENCE).await.expect("a server"));
        (self.api, self.admin) = addresses(&self.site);
    }

    /// SIGTERM; whether it ended well.
    pub(crate) async fn stop(&mut self) -> bool {
        let server = self.server.take().expect("it runs");
        server.stop(PATIENCE).await.expect("it ends").success()
    }

    async fn new_token(&self, namespace: &str) -> String {
        let made = self.ask_admin("POST", &format!("/token/{namespace}?description=test"), b"").await;
        assert_eq!(made.status, 201, "{made:?}");
        made.json()["token"].as_str().expect("a token").to_owned()
    }

    /// Asks about [`NAMESPACE`] with its token; `path` begins behind it.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        let token = &self.token;
        let head = format!("{method} /api/{NAMESPACE}/{path} HTTP/1.1\nHost: localhost\nX-Token: {token}");
        wire::send(self.api, &head, body).await
    }

    /// Asks the admin API.
    pub(crate) async fn ask_admin(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        wire::send(self.admin, &format!("{method} {path} HTTP/1.1\nHost: localhost"), body).await
    }

    /// Publishes a job; its id.
    pub(crate) async fn publish(&self, path: &str, body: &[u8]) -> String {
        let published = self.ask("PUT", path, body).await;
        assert_eq!(published.status, 201, "{published:?}");
        published.json()["job_id"].as_str().expect("an id").to_owned()
    }

    /// Consumes a job, which has to be there.
    pub(crate) async fn consume(&self, path: &str) -> Value {
        let consumed = self.ask("GET", path, b"").await;
        assert_eq!(consumed.status, 200, "{consumed:?}");
        consumed.json()
    }

    /// Waits until the size at `path` is `size`.
    pub(crate) async fn until_size(&self, path: &str, size: u64) {
        let api = ApiClient::new(Endpoint::at(self.api), PATIENCE);
        let path = format!("/api/{NAMESPACE}/{path}");
        let _: Value = api
            .until(&path, PATIENCE, |answer: &Value| answer["size"] == json!(size))
            .await
            .expect("it comes to that");
    }

    /// Waits until so many consumers wait.
    pub(crate) async fn until_waiting(&self, count: usize) {
        let line = format!("fieldpost_lmstfy_consumers_waiting {count}\n");
        let asking = async {
            while !self.ask_admin("GET", "/metrics", b"").await.body.contains(&line) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, asking).await.expect("it comes to that");
    }
}

/// A directory and settings for a server with both listeners.
fn site() -> Site {
    let [api, admin] = ["LISTEN", "ADMIN_LISTEN"].map(|key| format!("FIELDPOST_LMSTFY__{key}"));
    let settings = [(api.as_str(), "127.0.0.1:0"), (admin.as_str(), "127.0.0.1:0")];
    Site::new(Path::new(env!("CARGO_BIN_EXE_fieldpost")), &settings).expect("a directory")
}

/// Where the server that is ready says that it listens.
fn addresses(site: &Site) -> (SocketAddr, SocketAddr) {
    let file = site.data_dir().with_file_name("ready.json");
    let ready: Value = serde_json::from_slice(&std::fs::read(file).expect("it is there")).expect("JSON");
    let address = |key: &str| ready[key].as_str().and_then(|text| text.parse().ok()).expect("an address");
    (address("lmstfy"), address("lmstfy_admin"))
}
