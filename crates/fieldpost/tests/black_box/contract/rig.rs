//! A server of its own for each test, and the few calls that all of them make.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use serde_json::{Value, json};
use simulator::api_client::ApiClient;
use simulator::receiver::{Retain, WebhookReceiver};
use simulator::server::{RunningServer, Site};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::ports::free_ports;
use crate::wire::{self, Answer};

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_fieldpost");

/// Nothing here takes longer, even on a machine that is busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Long enough that a test that waits for it fails.
const NEVER: &str = "1h";

/// A running server.
pub(crate) struct Rig {
    pub(crate) api: ApiClient,
    pub(crate) site: Site,
    server: Option<RunningServer>,
}

/// Has the server of a site serve HTTP where it did before, whenever it is started again.
pub(crate) fn in_place(site: &mut Site) -> SocketAddr {
    let [port] = free_ports();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    site.set("FIELDPOST_HTTP__LISTEN", &address.to_string());
    address
}

impl Rig {
    pub(crate) async fn start(settings: &[(&str, &str)]) -> Self {
        Self::on(Site::new(Path::new(BINARY), settings).expect("a directory")).await
    }

    /// At an address that stays over restarts, and that address.
    pub(crate) async fn start_in_place(settings: &[(&str, &str)]) -> (Self, SocketAddr) {
        let mut site = Site::new(Path::new(BINARY), settings).expect("a directory");
        let address = in_place(&mut site);
        (Self::on(site).await, address)
    }

    /// On a site that was prepared.
    pub(crate) async fn on(site: Site) -> Self {
        let server = site.start(PATIENCE).await.expect("a server");
        let api = ApiClient::new(site.http.clone(), PATIENCE);
        Self { api, site, server: Some(server) }
    }

    /// The server of a site, started by a command that becomes it.
    pub(crate) async fn launch(mut site: Site, launcher: impl IntoIterator<Item = String>) -> Self {
        site.start_through(launcher);
        let server = site.start(PATIENCE).await.expect("a server");
        let api = ApiClient::new(site.http.clone(), PATIENCE);
        Self { api, site, server: Some(server) }
    }

    /// SIGTERM; its directory stays until it is dropped.
    pub(crate) async fn stop_keeping_site(mut self) -> Site {
        let server = self.server.take().expect("it runs");
        let status = server.stop(PATIENCE).await.expect("it ends");
        assert!(status.success(), "{status}");
        self.site
    }

    /// A server that may send to this machine, and whose retries come only when something else
    /// makes them.
    pub(crate) async fn start_telling(settings: &[(&str, &str)]) -> Self {
        let telling = [("FIELDPOST_NOTIFY__ALLOW_PRIVATE", "true"), ("FIELDPOST_NOTIFY__RETRY_BASE", NEVER)];
        Self::start(&[&telling, settings].concat()).await
    }

    /// SIGKILL, and a new process on the same data.
    pub(crate) async fn restart(&mut self) {
        self.kill().await;
        self.start_again().await;
    }

    pub(crate) async fn kill(&mut self) {
        let server = self.server.take().expect("it runs");
        server.kill().await.expect("killed");
    }

    pub(crate) async fn start_again(&mut self) {
        self.server = Some(self.site.start(PATIENCE).await.expect("a server"));
    }

    /// The process, while it runs.
    pub(crate) fn process_id(&self) -> Option<u32> {
        self.server.as_ref()?.process_id()
    }

    /// SIGTERM, and a new process on the same data.
    pub(crate) async fn stop_and_start_again(&mut self) {
        let server = self.server.take().expect("it runs");
        let status = server.stop(PATIENCE).await.expect("it ends");
        assert!(status.success(), "{status}");
        self.start_again().await;
    }

    /// SIGTERM; how it ended.
    pub(crate) async fn stop(mut self) -> ExitStatus {
        let server = self.server.take().expect("it runs");
        server.stop(PATIENCE).await.expect("it ends")
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, content_type: &str, body: &str) -> Answer {
        let headers = [("Content-Type", content_type)];
        wire::ask(self.site.http.address().await, method, path, &headers, body.as_bytes()).await
    }

    /// Asks with a JSON body.
    pub(crate) async fn json(&self, method: &str, path: &str, body: &str) -> Answer {
        self.ask(method, path, "application/json", body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.api.get(path).await.expect("readable")
    }

    pub(crate) async fn items(&self, path: &str) -> Vec<Value> {
        self.api.list(path).await.expect("a list")
    }

    /// All items of a feed, once there are `count`: it may be a moment behind what was answered.
    pub(crate) async fn feed(&self, path: &str, count: usize) -> Vec<Value> {
        let complete = |list: &Value| list["items"].as_array().is_some_and(|items| items.len() == count);
        let list: Value = self.api.until(path, PATIENCE, complete).await.expect("it comes to that");
        list["items"].as_array().expect("items").clone()
    }

    pub(crate) async fn device(&self, device: &Value) {
        let _: Value = self.api.post("/v1/devices", device).await.expect("registered");
    }

    pub(crate) async fn report(&self, device: &str, data: impl Into<Value>) {
        let report = json!({"device_id": device, "data": data.into()});
        let answer: Value = self.api.post("/v1/reports", &report).await.expect("taken");
        assert_eq!(answer["accepted"], 1);
    }

    /// A receiver that trusts the client `id`, which is linked to `devices`.
    pub(crate) async fn receiver(&self, id: &str, devices: &[&str]) -> WebhookReceiver {
        let receiver = WebhookReceiver::open(Retain::Everything).expect("a port");
        simulator::registration::register_client(&self.api, id, &receiver).await.expect("registered");
        for device in devices {
            self.api.put(&format!("/v1/devices/{device}/clients/{id}")).await.expect("linked");
        }
        receiver
    }

    /// The device's notifications, oldest first, once there are `count` and the newest satisfies
    /// `done`.
    pub(crate) async fn deliveries(
        &self,
        device: &str,
        count: usize,
        done: impl Fn(&Value) -> bool,
    ) -> Vec<Value> {
        let path = format!("/v1/deliveries?device={device}&order=asc");
        let complete = |list: &Value| {
            let items = list["items"].as_array().expect("items");
            items.len() == count && items.last().is_some_and(&done)
        };
        let list: Value = self.api.until(&path, PATIENCE, complete).await.expect("it comes to that");
        list["items"].as_array().expect("items").clone()
    }

    /// The last of the device's `count` notifications with its attempts, once it satisfies `done`.
    pub(crate) async fn last_of(&self, count: usize, device: &str, done: impl Fn(&Value) -> bool) -> Value {
        let last = self.deliveries(device, count, |_| true).await.pop().expect("one at least");
        let path = format!("/v1/deliveries/{}", last["id"].as_str().expect("an id"));
        self.api.until(&path, PATIENCE, done).await.expect("it comes to that")
    }

    /// The payloads of all messages of a stream.
    pub(crate) async fn payloads(&self, stream: &str) -> Vec<Value> {
        let (mut all, mut after) = (Vec::new(), "0".to_owned());
        loop {
            let page = self.get(&format!("/v1/streams/{stream}/messages?limit=1000&after={after}")).await;
            let items = each_in(&page["items"], "payload");
            if items.is_empty() {
                return all;
            }
            all.extend(items);
            page["next_after"].as_str().expect("an id").clone_into(&mut after);
        }
    }

    /// Takes all jobs of a queue, and ends them; their payloads in order.
    pub(crate) async fn consumed(&self, queue: &str) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let path = format!("/v1/queues/{queue}/consume");
            let taken = self.json("POST", &path, &json!({"max": 1_000}).to_string()).await.json();
            let jobs = each_in(&taken["jobs"], "payload");
            if jobs.is_empty() {
                return all;
            }
            let ack = json!({"reservations": each_in(&taken["jobs"], "reservation")});
            let path = format!("/v1/queues/{queue}/ack");
            assert_eq!(self.json("POST", &path, &ack.to_string()).await.status, 200);
            all.extend(jobs);
        }
    }
}

/// Whether a notification has that status.
pub(crate) fn has_status(status: &str) -> impl Fn(&Value) -> bool {
    move |delivery| delivery["status"] == status
}

/// Whether so many attempts of a notification are recorded.
pub(crate) fn has_attempts(attempts: usize) -> impl Fn(&Value) -> bool {
    move |delivery| delivery["attempts"].as_array().is_some_and(|recorded| recorded.len() == attempts)
}

/// One member of each.
pub(crate) fn each(items: &[Value], member: &str) -> Vec<Value> {
    items.iter().map(|item| item[member].clone()).collect()
}

/// One member of each of a list.
pub(crate) fn each_in(list: &Value, member: &str) -> Vec<Value> {
    each(list.as_array().expect("a list"), member)
}

/// Takes one request with 200; its head in lower case, and its body.
pub(crate) async fn one_request(listener: TcpListener) -> (String, Value) {
    let (mut stream, _) = listener.accept().await.expect("a connection");
    let mut request = Vec::new();
    loop {
        stream.read_buf(&mut request).await.expect("a request");
        let text = String::from_utf8_lossy(&request);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        if let Ok(body) = serde_json::from_str(body) {
            let head = head.to_lowercase();
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.write_all(answer).await.expect("it reads");
            return (head, body);
        }
    }
}
