//! What fails right now, worst first: what stops the whole server before what stops one client.

use base::Timestamp;
use engine::overview::OverviewCounts;

use crate::ApiState;

/// Entries that are shown at most.
const FAILING_MAX: usize = 100;

/// One thing that somebody should look at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failing {
    pub what: FailingKind,
    /// What it is about: "client acme".
    pub subject: String,
    pub detail: String,
    pub count: Option<u64>,
    pub since: Option<Timestamp>,
    /// Where the console shows it.
    pub link: Option<String>,
}

/// What fails, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailingKind {
    Store,
    Disk,
    BlockStorage,
    Limit,
    ClientBreakerOpen,
    ClientStaleDevices,
    QueueDeadLetters,
    Quarantine,
    QueuePaused,
    ClientDisabled,
}

base::names! {
    /// Every kind.
    pub(crate) FailingKind: Store = "store", Disk = "disk", BlockStorage = "storage", Limit = "limit",
        ClientBreakerOpen = "client_breaker_open", ClientStaleDevices = "client_stale_devices",
        QueueDeadLetters = "queue_dead_letters", Quarantine = "quarantine", QueuePaused = "queue_paused",
        ClientDisabled = "client_disabled"
}

impl FailingKind {
    fn about(self, subject: impl Into<String>, detail: impl Into<String>) -> Failing {
        let (subject, detail) = (subject.into(), detail.into());
        Failing { what: self, subject, detail, count: None, since: None, link: None }
    }
}

impl Failing {
    fn counting(self, count: u64) -> Self {
        Self { count: Some(count), ..self }
    }

    fn since(self, since: Timestamp) -> Self {
        Self { since: Some(since), ..self }
    }

    fn at(self, link: impl Into<String>) -> Self {
        Self { link: Some(link.into()), ..self }
    }
}

/// All that fails now, given these counts.
pub(super) fn all(api: &ApiState, counts: &OverviewCounts) -> Vec<Failing> {
    let mut all = of_the_server(api);
    all.extend(of_clients(api));
    all.extend(of_queues(api));
    all.extend(of_quarantine(counts));
    // Within a sort they stay in their order.
    all.sort_by_key(|failing| failing.what as u8);
    all.truncate(FAILING_MAX);
    all
}

fn of_the_server(api: &ApiState) -> Vec<Failing> {
    let mut all = Vec::new();
    if let Some(failure) = api.engine().failure() {
        let detail = format!("it accepts nothing more until the server is started again: {failure}");
        all.push(FailingKind::Store.about("store", detail).at("/system"));
    }
    let disk = api.host().and_then(crate::ServerHost::disk);
    if let Some(disk) = disk.filter(crate::host::DiskSpace::is_nearly_full) {
        let detail = format!("{} of {} bytes are free", disk.free_bytes, disk.total_bytes);
        all.push(FailingKind::Disk.about("disk", detail).counting(disk.free_bytes).at("/system"));
    }
    for (storage, why) in api.streams().storages_away() {
        all.push(FailingKind::BlockStorage.about(format!("storage {storage}"), why));
    }
    for limit in crate::system::limits(api).into_iter().filter(crate::host::LimitUsage::is_near) {
        let setting = limit.setting.map(|setting| format!("; the setting is {setting}")).unwrap_or_default();
        let detail = format!("{} of {} are used{setting}", limit.used, limit.max);
        all.push(FailingKind::Limit.about(limit.name, detail).counting(limit.used).at("/system"));
    }
    all
}

fn of_clients(api: &ApiState) -> Vec<Failing> {
    let about = |what: FailingKind, client: &base::ClientId, detail: String| {
        let link = format!("/clients/{}", client.as_str());
        what.about(format!("client {}", client.as_str()), detail).at(link)
    };
    let breakers = api.host().map(|host| host.open_breakers(FAILING_MAX)).unwrap_or_default();
    let open = breakers.iter().map(|open| {
        let detail = format!("{} attempts failed in a row, the last with {}", open.failed, open.last);
        about(FailingKind::ClientBreakerOpen, &open.client, detail)
            .counting(open.failed.into())
            .since(open.since)
    });
    let engine = api.engine();
    let stale = engine.stale_clients(FAILING_MAX);
    let stale = stale.iter().map(|client| {
        let detail = "the newest notification of some of its devices has failed for good".to_owned();
        about(FailingKind::ClientStaleDevices, client, detail)
    });
    let disabled = engine.directory().disabled(FAILING_MAX);
    let disabled = disabled.iter().map(|client| {
        about(FailingKind::ClientDisabled, client, "it gets no notifications until it is enabled".to_owned())
    });
    open.chain(stale).chain(disabled).collect()
}

fn of_queues(api: &ApiState) -> Vec<Failing> {
    let mut all = Vec::new();
    for queue in api.engine().troubled_queues(FAILING_MAX) {
        let (subject, link) = (format!("queue {}", queue.name), format!("/queues/{}", queue.name));
        if queue.dead > 0 {
            let detail = "jobs failed for good and wait to be respawned or deleted";
            all.push(
                FailingKind::QueueDeadLetters
                    .about(&*subject, detail)
                    .counting(queue.dead)
                    .at(format!("{link}/dead")),
            );
        }
        if queue.paused {
            let detail = "it hands out no jobs until it is resumed";
            all.push(FailingKind::QueuePaused.about(subject, detail).at(link));
        }
    }
    all
}

fn of_quarantine(counts: &OverviewCounts) -> Option<Failing> {
    let quarantined = counts.devices.quarantined;
    let detail = "reports were refused and are kept as they came";
    let failing =
        || FailingKind::Quarantine.about("quarantine", detail).counting(quarantined).at("/quarantine");
    (quarantined > 0).then(failing)
}
