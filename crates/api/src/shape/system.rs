//! The server itself, in answers.

use base::Timestamp;
use serde::Serialize;
use serde_json::Value as Json;
use utoipa::ToSchema;
use utoipa::openapi::Schema;

use super::text::Time;
use crate::openapi::words;
use crate::{ApiState, LimitUsage, system};

/// The server itself.
#[derive(Serialize, ToSchema)]
#[schema(as = System)]
pub(crate) struct SystemShape<'a> {
    version: &'a str,
    /// The name of this node; null where it has none.
    #[schema(required)]
    node: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Time>,
    /// What is accepted can be made durable.
    ready: bool,
    /// Why it is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    health: Vec<HealthShape>,
    store: StoreShape,
    memory: MemoryShape,
    limits: Vec<UsedLimitShape>,
    /// The settings in force, by section and key. A secret is "(hidden)".
    #[schema(schema_with = settings)]
    settings: &'a Json,
}

/// Whether a part of the server is well.
#[derive(Serialize, ToSchema)]
#[schema(as = Health)]
struct HealthShape {
    what: &'static str,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

/// What the store takes.
#[derive(Serialize, ToSchema)]
#[schema(as = StoreSizes)]
struct StoreShape {
    /// The tables' file.
    data_bytes: u64,
    /// What of the log no checkpoint covers.
    log_bytes: u64,
    /// Checkpoints since the start.
    checkpoints: u64,
    /// When the last of them was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_checkpoint_at: Option<Time>,
    /// What may still be written to the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    disk_free_bytes: Option<u64>,
}

/// Memory of the process.
#[derive(Serialize, ToSchema)]
#[schema(as = Memory)]
struct MemoryShape {
    /// What of it is in RAM.
    #[serde(skip_serializing_if = "Option::is_none")]
    resident_bytes: Option<u64>,
    /// What bodies of requests and answers may take together.
    budget_bytes: u64,
    budget_used_bytes: u64,
}

/// Something of which there may be so much.
#[derive(Serialize, ToSchema)]
#[schema(as = Limit)]
struct UsedLimitShape {
    name: &'static str,
    used: u64,
    max: u64,
    /// The setting that says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    setting: Option<&'static str>,
}

fn settings() -> Schema {
    words::sections()
}

impl<'a> SystemShape<'a> {
    /// The server as it is now.
    pub(crate) fn of(api: &'a ApiState) -> Self {
        let (host, failure) = (api.host(), api.engine().failure());
        let disk = host.and_then(crate::ServerHost::disk);
        let store = HealthShape {
            what: "store",
            ok: failure.is_none(),
            detail: failure.as_ref().map(|failure| failure.to_string()),
        };
        let disk_health = disk.map(|disk| HealthShape {
            what: "disk",
            ok: !disk.is_nearly_full(),
            detail: Some(format!("{} of {} bytes are free", disk.free_bytes, disk.total_bytes)),
        });
        let metrics = api.engine().store_metrics();
        let figure =
            |name: &str| metrics.iter().find(|metric| metric.name == name).map(|metric| metric.value);
        let size = |name: &str| figure(name).map_or(0, |value| value as u64);
        let memory = &api.shared.memory;
        Self {
            version: host.map_or("", crate::ServerHost::version),
            node: host.and_then(crate::ServerHost::node),
            started_at: host.map(|host| Time(host.started_at())),
            ready: failure.is_none(),
            reason: failure.map(|failure| format!("the store has failed: {failure}")),
            health: std::iter::once(store).chain(disk_health).collect(),
            store: StoreShape {
                data_bytes: size("fieldpost_store_tables_bytes"),
                log_bytes: size("fieldpost_store_log_bytes"),
                checkpoints: size("fieldpost_store_checkpoints_total"),
                last_checkpoint_at: figure("fieldpost_store_last_checkpoint_seconds")
                    .map(|seconds| Time(Timestamp((seconds * 1e3).round() as i64))),
                disk_free_bytes: disk.map(|disk| disk.free_bytes),
            },
            memory: MemoryShape {
                resident_bytes: host.and_then(crate::ServerHost::resident_bytes),
                budget_bytes: memory.bytes() as u64,
                budget_used_bytes: memory.held_bytes() as u64,
            },
            limits: system::limits(api).into_iter().map(UsedLimitShape::from).collect(),
            settings: host.map_or(&Json::Null, crate::ServerHost::settings),
        }
    }
}

impl From<LimitUsage> for UsedLimitShape {
    fn from(LimitUsage { name, used, max, setting }: LimitUsage) -> Self {
        Self { name, used, max, setting }
    }
}
