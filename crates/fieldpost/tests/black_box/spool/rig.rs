//! A server and an agent beside it, and the few calls that all tests make.

use std::path::Path;
use std::process::ExitStatus;

use serde_json::{Value, json};
use simulator::api_client::Api;
use simulator::spool::{RunningSpool, SpoolSite};

pub(super) use crate::contract::rig::PATIENCE;
use crate::contract::rig::{BINARY, Rig};
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
        let api = Api::new(self.site.http.clone(), PATIENCE);
        match api.until("/v1/spool", PATIENCE, is_so).await {
            Ok(state) => state,
            Err(error) => panic!("{error}: {}\n{}", self.state().await, self.site.log()),
        }
    }

    /// The payloads of all messages of a stream.
    pub(super) async fn payloads(&self, stream: &str) -> Vec<Value> {
        let (mut all, mut after) = (Vec::new(), "0".to_owned());
        loop {
            let page =
                self.server.get(&format!("/v1/streams/{stream}/messages?limit=1000&after={after}")).await;
            let items = each(&page["items"], "payload");
            if items.is_empty() {
                return all;
            }
            all.extend(items);
            page["next_after"].as_str().expect("an id").clone_into(&mut after);
        }
    }

    /// Takes all jobs of a queue, and ends them; their payloads in order.
    pub(super) async fn consumed(&self, queue: &str) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let path = format!("/v1/queues/{queue}/consume");
            let taken = self.server.json("POST", &path, &json!({"max": 1_000}).to_string()).await.json();
            let jobs = each(&taken["jobs"], "payload");
            if jobs.is_empty() {
                return all;
            }
            let ack = json!({"reservations": each(&taken["jobs"], "reservation")});
            let path = format!("/v1/queues/{queue}/ack");
            assert_eq!(self.server.json("POST", &path, &ack.to_string()).await.status, 200);
            all.extend(jobs);
        }
    }

    /// The lines of `refused.ndjson`.
    pub(super) fn refused(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.site.dir().join("refused.ndjson")).expect("it is there");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

/// One member of each.
pub(super) fn each(items: &Value, member: &str) -> Vec<Value> {
    items.as_array().expect("a list").iter().map(|item| item[member].clone()).collect()
}
