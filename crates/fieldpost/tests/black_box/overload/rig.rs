//! A server of its own for each test, and what it takes of this machine's memory.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use simulator::api_client::ApiClient;
use simulator::server::{RunningServer, Site};

/// Nothing here takes longer, even on a machine that is busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at a figure, which has no signal.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A running server.
pub(crate) struct Rig {
    pub(crate) api: ApiClient,
    pub(crate) site: Site,
    pub(crate) http: SocketAddr,
    pub(crate) mqtt: SocketAddr,
    server: RunningServer,
    /// What it took of its own when it had started, in MiB.
    own_at_first_mib: u64,
}

impl Rig {
    /// Devices register by reporting, unless the settings say otherwise; webhooks may go to this
    /// machine.
    pub(crate) async fn start(settings: &[(&str, &str)]) -> Self {
        Self::start_with("", settings).await
    }

    /// With these lines in a config file.
    pub(crate) async fn start_with(config: &str, settings: &[(&str, &str)]) -> Self {
        rlimit::increase_nofile_limit(u64::MAX).expect("a limit of open files");
        let usual = [("FIELDPOST_DEVICES__UNKNOWN", "register"), ("FIELDPOST_NOTIFY__ALLOW_PRIVATE", "true")];
        let site = Site::new(Path::new(env!("CARGO_BIN_EXE_fieldpost")), &[&usual, settings].concat());
        let mut site = site.expect("a directory");
        let file = site.log_path().with_file_name("fieldpost.toml");
        fs::write(&file, config).expect("written");
        let with_config = format!("exec \"$@\" --config '{}'", file.display());
        site.start_through(["sh", "-c", &with_config, "sh"]);
        let server = site.start(PATIENCE).await.expect("a server");
        let api = ApiClient::new(site.http.clone(), PATIENCE);
        let (http, mqtt) = (site.http.address().await, site.mqtt.address().await);
        let process = server.process_id().expect("it runs");
        // What the start itself took is no growth: the peak begins anew.
        fs::write(format!("/proc/{process}/clear_refs"), "5").expect("the peak is reset");
        let own_at_first_mib = status_mib(&server, "RssAnon:");
        Self { api, site, http, mqtt, server, own_at_first_mib }
    }

    /// At most the server took so much memory beyond what it had taken at first, in MiB. Pages of
    /// the program's file do not count: they only come, so at the peak there were no more than now.
    pub(crate) fn has_grown_less_than(&self, mib: u64) {
        let [peak, of_file] = ["VmHWM:", "RssFile:"].map(|field| status_mib(&self.server, field));
        let grown = peak.saturating_sub(of_file + self.own_at_first_mib);
        eprintln!("the server grew by {grown} MiB at most");
        assert!(grown < mib, "{grown} MiB");
    }

    /// A figure that `/metrics` shows: the sum over all labels.
    pub(crate) async fn metric(&self, name: &str) -> u64 {
        let metrics = self.api.any(hyper::Method::GET, "/metrics", None).await.expect("metrics");
        let text = String::from_utf8_lossy(&metrics.body).into_owned();
        let of_it = text
            .lines()
            .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{'])));
        let values = of_it.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        values.sum::<f64>() as u64
    }

    /// Waits until such a figure is no more than this.
    pub(crate) async fn until_at_most(&self, name: &str, most: u64) {
        let mut look = tokio::time::interval(LOOK_EVERY);
        let fits = async {
            while self.metric(name).await > most {
                look.tick().await;
            }
        };
        tokio::time::timeout(PATIENCE, fits).await.unwrap_or_else(|_| panic!("{name} stays above {most}"));
    }

    /// Everything works as it does on an idle server: a device over either way in, and who asks for
    /// it.
    pub(crate) async fn is_well(&self, device: &str) {
        let mut mqtt = crate::overload::raw::Mqtt::open(self.mqtt).await.expect("accepted");
        assert_eq!(mqtt.connect(device).await.expect("answered"), 0);
        mqtt.report(device, 1).await.expect("acknowledged");
        let report = json!({"device_id": device, "data": 0});
        let tally: Value = self.api.post("/v1/reports", &report).await.expect("taken");
        assert_eq!(tally["accepted"], 1);
        assert_eq!(self.readings(device).await, [json!(1), json!(0)]);
    }

    /// The values that the device's last readings have, oldest first.
    pub(crate) async fn readings(&self, device: &str) -> Vec<Value> {
        let path = format!("/v1/devices/{device}/readings?order=asc&limit=1000");
        let list: Value = self.api.get(&path).await.expect("readings");
        let items = list["items"].as_array().expect("items");
        items.iter().map(|reading| reading["data"].clone()).collect()
    }

    /// SIGTERM; it has to end well.
    pub(crate) async fn stop(self) {
        let status = self.server.stop(PATIENCE).await.expect("it ends");
        assert!(status.success(), "{status}");
    }
}

fn status_mib(server: &RunningServer, field: &str) -> u64 {
    let process = server.process_id().expect("it runs");
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("the field");
    let kib: u64 = line.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("a number");
    kib / 1_024
}
