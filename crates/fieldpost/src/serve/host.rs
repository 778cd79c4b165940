//! What the API tells of this program and its machine.

use std::path::PathBuf;

use api::{DiskSpace, FailingReceiver, LimitUsage};
use base::Timestamp;
use net::listen::OpenFiles;
use notify::OpenBreakers;
use prometheus_client::metrics::gauge::Gauge;
use serde_json::Value as Json;
use tracing::debug;

use super::open_files::OpenFileShares;
use super::{clock, process};
use crate::config::{InForce, ServerSettings};

/// This program.
#[derive(Debug)]
pub(super) struct ServerProcess {
    started_at: Timestamp,
    data_dir: PathBuf,
    least_free_bytes: u64,
    in_force: InForce,
    files: OpenFiles,
    connections: Vec<ConnectionGauges>,
    pub(super) open_breakers: OpenBreakers,
}

/// Connections of a listener.
#[derive(Debug)]
struct ConnectionGauges {
    name: &'static str,
    now: Gauge,
    most: usize,
    setting: &'static str,
}

impl ServerProcess {
    /// With the connections of the HTTP listener; the others come with their listeners.
    pub(super) fn of(
        settings: &ServerSettings,
        in_force: InForce,
        shares: &OpenFileShares,
        http: Gauge,
    ) -> Self {
        let setting = "http.connections_max";
        let http = ConnectionGauges { name: "HTTP connections", now: http, most: shares.http, setting };
        Self {
            started_at: clock::wall(),
            data_dir: settings.data_dir.clone(),
            least_free_bytes: settings.notices_of_machine.storage_free.unwrap_or(0),
            in_force,
            files: shares.files.clone(),
            connections: vec![http],
            open_breakers: OpenBreakers::default(),
        }
    }

    /// With the connections of the MQTT listener.
    pub(super) fn serves_mqtt(&mut self, now: Gauge, shares: &OpenFileShares) {
        let (most, setting) = (shares.mqtt, "mqtt.connections_max");
        self.connections.push(ConnectionGauges { name: "MQTT connections", now, most, setting });
    }
}

impl api::ServerHost for ServerProcess {
    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    /// A server that runs alone has no name.
    fn node(&self) -> Option<&str> {
        None
    }

    fn started_at(&self) -> Timestamp {
        self.started_at
    }

    fn disk(&self) -> Option<DiskSpace> {
        match rustix::fs::statvfs(self.data_dir.as_path()) {
            Ok(told) => Some(DiskSpace {
                free_bytes: told.f_bavail.saturating_mul(told.f_frsize),
                total_bytes: told.f_blocks.saturating_mul(told.f_frsize),
                least_free_bytes: self.least_free_bytes,
            }),
            Err(error) => {
                debug!(%error, "the disk of the data directory cannot be asked");
                None
            }
        }
    }

    fn resident_bytes(&self) -> Option<u64> {
        process::resident_bytes()
    }

    fn limits(&self) -> Vec<LimitUsage> {
        let connections =
            self.connections.iter().map(|ConnectionGauges { name, now, most, setting }| LimitUsage {
                name,
                used: u64::try_from(now.get()).unwrap_or(0),
                max: *most as u64,
                setting: Some(setting),
            });
        let files = LimitUsage {
            name: "open files for connections",
            used: self.files.taken() as u64,
            max: self.files.most() as u64,
            setting: None,
        };
        connections.chain([files]).collect()
    }

    fn settings(&self) -> &Json {
        self.in_force.json()
    }

    fn open_breakers(&self, limit: usize) -> Vec<FailingReceiver> {
        let open = self.open_breakers.some(limit).into_iter();
        open.map(|notify::OpenBreaker { client, failed, last, since }| FailingReceiver {
            client,
            failed,
            last: last.to_owned(),
            since,
        })
        .collect()
    }
}
