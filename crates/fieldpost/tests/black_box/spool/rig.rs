//! A server and an agent beside it, and the few calls that all tests make.

use std::path::Path;
use std::process::ExitStatus;

use serde_json::Value;
use simulator::api_client::ApiClient;
use simulator::spool::{RunningSpool, SpoolSite};

use crate::contract::rig::{BINARY, Rig};
pub(super) use crate::contract::rig::{PATIENCE, each_in};
use crate::wire::{self, Answer};

/// A server whose port stays, and an agent that forwards to it.
pub(super) struct SpoolRig {
    pub(super) server: Rig,
    pub(super) site: SpoolSite,
    agent: Option<RunningSpool>,
}

impl SpoolRig {
    pub(super) async fn start(flags: &[&str]) -> Self {
        let (server, url) = Self::server().await;
        Self::beside(server, &url, flags).await
    }

    /// A server whose port stays, and its URL.
    pub(super) async fn server() -> (Rig, String) {
        let (server, address) = Rig::start_in_place(&[]).await;
        (server, format!("http://{address}"))
    }

    /// Beside a server, with an agent that forwards elsewhere.
    pub(super) async fn beside(server: Rig, to: &str, flags: &[&str]) -> Self {
        let site = SpoolSite::new(Path::new(BINARY), to, flags).expect("a directory");
        Self::at(server, site).await
    }

    /// Beside a server, with an agent that is set up.
    pub(super) async fn at(server: Rig, site: SpoolSite) -> Self {
        let agent = site.start(PATIENCE).await.expect("an agent");
        Self { server, site, agent: Some(agent) }
    }

    pub(super) async fn kill(&mut self) {
        self.agent.take().expect("it runs").kill().await.expect("killed");
    }

    pub(super) async fn start_again(&mut self) {
        self.agent = Some(self.site.start(PATIENCE).await.expect("it always starts"));
    }

    /// SIGTERM; how it ended.
    pub(super) async fn stop(mut self) -> ExitStatus {
        self.agent.take().expect("it runs").stop(PATIENCE).await.expect("it ends")
    }

    pub(super) async fn send(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        wire::ask(self.site.http.address().await, "POST", path, headers, body).await
    }

    pub(super) async fn ask(&self, method: &str, path: &str, content_type: &str, body: &str) -> Answer {
        let headers = [("Content-Type", content_type)];
        wire::ask(self.site.http.address().await, method, path, &headers, body.as_bytes()).await
    }

    pub(super) async fn json(&self, method: &str, path: &str, body: &str) -> Answer {
        self.ask(method, path, "application/json", body).await
    }

    /// How many items were accepted of what has to be.
    pub(super) async fn spooled(&self, path: &str, body: &Value) -> u64 {
        let answer = self.json("POST", path, &body.to_string()).await;
        assert_eq!(answer.status, 202, "{path} {body}: {answer:?}");
        answer.json()["spooled"].as_u64().expect("a number")
    }

    pub(super) async fn state(&self) -> Value {
        self.json("GET", "/v1/spool", "").await.json()
    }

    /// What the agent says of itself once it is so.
    pub(super) async fn until(&self, is_so: impl Fn(&Value) -> bool) -> Value {
        let api = ApiClient::new(self.site.http.clone(), PATIENCE);
        match api.until("/v1/spool", PATIENCE, is_so).await {
            Ok(state) => state,
            Err(error) => panic!("{error}: {}\n{}", self.state().await, self.site.log()),
        }
    }

    /// The lines of `refused.ndjson`.
    pub(super) fn refused(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.site.dir().join("refused.ndjson")).expect("it is there");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}
