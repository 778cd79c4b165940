//! The agent: opens the spool, listens, forwards, and stops in order.

use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use base::machine::IDENTITY_FILES;
use base::{LogLimit, hash};
use blocklog::{Disk, RealDisk};
use fieldpost_client::Client;
use net::http::{HttpListener, WebAccess};
use net::listen::{self, Listener};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::destination::Destination;
use crate::disk_threads::{IsDiskFull, RecordArrivals, SpoolIntake, start_saving, start_writer};
use crate::follow::FileFollower;
use crate::forwarder::{CALLS_MAX, Forwarder, Forwarding};
use crate::http::{self, SpoolHttp};
use crate::log::{SpoolFullChoice, SpoolLog, SpoolLogOptions};
use crate::metrics::SpoolMetrics;
use crate::mqtt::{self, MqttIntake};
use crate::refused::RefusedFile;

/// Damaged places are kept in this folder of the spool's own.
const DAMAGED_FOLDER: &str = "damaged";

/// After this time everything that an idle agent does has been done once.
const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// What an agent is to do.
#[derive(Clone, Debug)]
pub struct SpoolConfig {
    /// Where it is forwarded to.
    pub server: Client,
    /// Where everything is kept.
    pub directory: PathBuf,
    /// Where HTTP is taken.
    pub listen: SocketAddr,
    /// Where MQTT is taken.
    pub mqtt: Option<SocketAddr>,
    /// Most bytes of what waits on disk.
    pub bytes_max: u64,
    /// When there are as many.
    pub when_full: SpoolFullChoice,
    /// Older items are given up.
    pub max_age: Option<Duration>,
    /// Room that is left to others on the file system.
    pub keep_free: KeepFree,
    /// A file whose lines become messages of a stream.
    pub follow: Option<(PathBuf, Destination)>,
    /// Written once everything listens.
    pub ready_file: Option<PathBuf>,
    /// Gives back memory that only the start needed: called once everything listens, and again a
    /// little later, when everything has run once.
    pub release_memory: ReleaseMemory,
}

/// What gives back memory.
#[derive(Clone)]
pub struct ReleaseMemory(pub Arc<dyn Fn() + Send + Sync>);

base::debug_as_name!(ReleaseMemory);

/// Room of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepFree {
    /// Hundredths of all of it.
    Percent(u8),
    /// Bytes.
    Bytes(u64),
}

impl KeepFree {
    /// Reads `5%` or a size such as `200MB`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_suffix('%') {
            Some(percent) => percent.parse().ok().filter(|percent| *percent <= 99).map(Self::Percent),
            None => base::size::parse(text).map(Self::Bytes),
        }
    }

    fn is_short(self, free: u64, all: u64) -> bool {
        match self {
            Self::Percent(percent) => u128::from(free) * 100 < u128::from(all) * u128::from(percent),
            Self::Bytes(bytes) => free < bytes,
        }
    }
}

/// Why an agent does not run.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// Another agent has the directory.
    #[error("{0} is in use by another spool")]
    InUse(PathBuf),
    /// The directory cannot be used.
    #[error("{directory} cannot be used: {cause}")]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// A listener's address cannot be used.
    #[error("{address} cannot be listened on: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// The ready file cannot be written.
    #[error("{file} cannot be written: {cause}")]
    ReadyFile {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// The operating system gives no thread or no signal.
    #[error("the operating system: {0}")]
    System(#[from] io::Error),
}

/// Runs an agent until SIGTERM or SIGINT.
///
/// # Errors
/// When it cannot start.
pub async fn run(config: SpoolConfig) -> Result<(), SpoolError> {
    let mut signals = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
    let mut agent = Agent::start(&config).await?;
    warn_of_remote_access(&agent.addresses);
    let ReleaseMemory(release_memory) = config.release_memory.clone();
    release_memory();
    let settled = tokio::spawn(async move {
        tokio::time::sleep(SETTLED_AFTER).await;
        release_memory();
    });
    if let Some(file) = &config.ready_file {
        let unwritable = |cause| SpoolError::ReadyFile { file: file.clone(), cause };
        write_ready_file(file, &agent.addresses).map_err(unwritable)?;
    }
    let [terminate, interrupt] = &mut signals;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = agent.forward() => {}
    }
    settled.abort();
    agent.stop().await
}

struct Agent {
    log: Arc<SpoolLog>,
    arrivals: Arc<RecordArrivals>,
    forwarding: Arc<Forwarding>,
    forwarders: JoinSet<()>,
    listeners: JoinSet<()>,
    follower: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
    threads: Vec<JoinHandle<()>>,
    /// HTTP, and MQTT where that is on.
    addresses: (SocketAddr, Option<SocketAddr>),
    stop: watch::Sender<bool>,
}

fn log_options(config: &SpoolConfig) -> io::Result<SpoolLogOptions> {
    let [machine_id, ..] = IDENTITY_FILES;
    Ok(SpoolLogOptions {
        bytes_max: config.bytes_max,
        when_full: config.when_full,
        place: place(&config.directory, &IDENTITY_FILES)?,
        earlier_place: earlier_place(&config.directory, Path::new(machine_id))?,
    })
}

impl Agent {
    async fn start(config: &SpoolConfig) -> Result<Self, SpoolError> {
        let unusable = |cause| match io::Error::kind(&cause) {
            io::ErrorKind::WouldBlock => SpoolError::InUse(config.directory.clone()),
            _ => SpoolError::Directory { directory: config.directory.clone(), cause },
        };
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open_dir(&config.directory, true).map_err(unusable)?);
        let damaged = RealDisk::open_dir(config.directory.join(DAMAGED_FOLDER), true).map_err(unusable)?;
        let options = log_options(config).map_err(unusable)?;
        let refused = Arc::new(RefusedFile::open(Arc::clone(&disk)).map_err(unusable)?);
        let (log, writer) = SpoolLog::open(disk, Arc::new(damaged), options).map_err(unusable)?;
        let http = bind(config.listen)?;
        let mqtt = config.mqtt.map(bind).transpose()?;
        let addresses = (http.local_addr()?, mqtt.as_ref().map(TcpListener::local_addr).transpose()?);

        let stop = watch::Sender::new(false);
        let arrivals = Arc::<RecordArrivals>::default();
        let is_disk_full = is_disk_full(config.directory.clone(), config.keep_free);
        let (intake, writing) = start_writer(writer, Arc::clone(&arrivals), is_disk_full)?;
        let (saves, saving) = start_saving(Arc::clone(&log))?;
        let mut listeners = JoinSet::new();
        listen(&mut listeners, (http, mqtt), &intake, &log, &stop);
        let follower = config.follow.as_ref().map(|(path, to)| {
            let follower =
                FileFollower::new(path, to.clone(), intake.clone(), Arc::clone(&log), Arc::clone(&refused));
            let (stop, stopped) = mpsc::channel();
            let builder = std::thread::Builder::new().name("spool-follow".to_owned());
            Ok::<_, io::Error>((stop, builder.spawn(move || follower.run(&stopped))?))
        });
        let follower = follower.transpose()?;
        for destination in log.destinations() {
            arrivals.tell(&destination);
        }
        let forwarding = Arc::new(Forwarding {
            log: Arc::clone(&log),
            client: config.server.clone(),
            refused,
            saves,
            arrivals: Arc::clone(&arrivals),
            calls: Semaphore::new(CALLS_MAX),
            conflicts_noted: LogLimit::default(),
            max_age: config.max_age,
            stop: stop.subscribe(),
        });
        Ok(Self {
            log,
            arrivals,
            forwarding,
            forwarders: JoinSet::new(),
            listeners,
            follower,
            threads: vec![writing, saving],
            addresses,
            stop,
        })
    }

    /// Begins a forwarder for each destination that has something waiting; for ever.
    async fn forward(&mut self) {
        loop {
            for (destination, arrival) in self.arrivals.take_newcomers() {
                let forwarder = Forwarder::new(Arc::clone(&self.forwarding), destination, arrival);
                self.forwarders.spawn(forwarder.run());
            }
            tokio::select! {
                () = self.arrivals.newcomer.notified() => {}
                Some(ended) = self.forwarders.join_next(), if !self.forwarders.is_empty() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "a forwarder ended wrongly");
                    }
                }
            }
        }
    }

    /// Takes no more, answers what is under way, and saves.
    async fn stop(self) -> Result<(), SpoolError> {
        let Self { log, forwarding, mut forwarders, mut listeners, follower, threads, stop, .. } = self;
        stop.send_replace(true);
        while listeners.join_next().await.is_some() {}
        while forwarders.join_next().await.is_some() {}
        let mut ending = threads;
        if let Some((stop, following)) = follower {
            drop(stop);
            ending.push(following);
        }
        drop(forwarding);
        for thread in ending.into_iter().rev() {
            if thread.join().is_err() {
                tracing::error!("a thread of the spool ended wrongly");
            }
        }
        Ok(log.save()?)
    }
}

fn listen(
    listeners: &mut JoinSet<()>,
    (http, mqtt): (TcpListener, Option<TcpListener>),
    intake: &SpoolIntake,
    log: &Arc<SpoolLog>,
    stop: &watch::Sender<bool>,
) {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(SpoolMetrics(Arc::clone(log))));
    if let Some(mqtt) = mqtt {
        let ignored = Counter::default();
        let help = "MQTT publishes that are no reports: acknowledged and not kept";
        registry.register("fieldpost_spool_mqtt_ignored", help, ignored.clone());
        let listener = Listener::new(mqtt, "mqtt", mqtt::CONNECTIONS_MAX);
        listener.register_metrics(&mut registry);
        let protocol = MqttIntake { intake: intake.clone(), ignored, stop: stop.subscribe() };
        listeners.spawn(listener.run(protocol, stop.subscribe()));
    }
    let web = WebAccess::open(&[]).without_settings();
    web.register_metrics(&mut registry);
    let app = SpoolHttp::new(intake.clone(), Arc::clone(log), registry).routes();
    let listener = HttpListener::new(http, app, http::busy(), http::CONNECTIONS_MAX, web);
    listeners.spawn(listener.run(stop.subscribe()));
}

/// The agent asks nobody who they are, and passes everything on with its own token.
fn warn_of_remote_access(addresses: &(SocketAddr, Option<SocketAddr>)) {
    for (option, address) in open_to_others(addresses) {
        tracing::warn!(
            "{option} {address} can be reached from other machines: whoever reaches it may send, and what is \
             sent goes on with the token of this spool; let a firewall say who does"
        );
    }
}

/// The addresses that other machines can reach, each with its option.
fn open_to_others((http, mqtt): &(SocketAddr, Option<SocketAddr>)) -> Vec<(&'static str, SocketAddr)> {
    let all = [("--listen", Some(*http)), ("--mqtt", *mqtt)];
    let listening = all.into_iter().filter_map(|(option, address)| Some((option, address?)));
    listening.filter(|(_, address)| !address.ip().to_canonical().is_loopback()).collect()
}

fn bind(address: SocketAddr) -> Result<TcpListener, SpoolError> {
    listen::bind(address).map_err(|cause| SpoolError::Listen { address, cause })
}

fn is_disk_full(directory: PathBuf, keep_free: KeepFree) -> IsDiskFull {
    Box::new(move || {
        let all = rustix::fs::statvfs(&directory)?;
        Ok(keep_free.is_short(all.f_bavail * all.f_frsize, all.f_blocks * all.f_frsize))
    })
}

/// This machine and this folder: files that were copied to another place are told from those that
/// were always here.
fn place(directory: &Path, of_machine: &[impl AsRef<Path>]) -> io::Result<u64> {
    let mut bytes = std::fs::metadata(directory)?.ino().to_le_bytes().to_vec();
    for file in of_machine {
        bytes.push(0);
        bytes.extend_from_slice(&of_system(file.as_ref())?);
    }
    Ok(hash::derived(1, &bytes))
}

/// The same, as the first two versions of the state have it.
fn earlier_place(directory: &Path, machine_id: &Path) -> io::Result<u64> {
    let mut bytes = std::fs::metadata(directory)?.ino().to_le_bytes().to_vec();
    bytes.extend_from_slice(&of_system(machine_id)?);
    Ok(hash::derived(1, &bytes))
}

/// What a file of the system says; nothing where there is none, or it is not for the agent. No
/// system has all of them. Any other failure may pass, and would make this another place.
fn of_system(file: &Path) -> io::Result<Vec<u8>> {
    match std::fs::read(file) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            Ok(Vec::new())
        }
        read => read.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display()))),
    }
}

/// Written beside its place and moved there, so that nobody reads half of it.
fn write_ready_file(path: &Path, (http, mqtt): &(SocketAddr, Option<SocketAddr>)) -> io::Result<()> {
    let mqtt = mqtt.map_or_else(String::new, |mqtt| format!(",\"mqtt\":\"{mqtt}\""));
    let mut beside = path.as_os_str().to_owned();
    beside.push(".partial");
    let mut file = File::create(&beside)?;
    writeln!(file, "{{\"http\":\"{http}\"{mqtt}}}")?;
    file.sync_data()?;
    std::fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_other_machines_can_reach_are_found() {
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
        for (http, mqtt, expect) in [
            ("127.0.0.1:8090", None, &[][..]),
            ("[::1]:8090", Some("[::ffff:127.0.0.1]:1883"), &[]),
            ("0.0.0.0:8090", Some("127.0.0.1:1883"), &["--listen"]),
            ("127.0.0.1:8090", Some("[::]:1883"), &["--mqtt"]),
            ("192.168.1.2:8090", Some("192.168.1.2:1883"), &["--listen", "--mqtt"]),
        ] {
            let open = open_to_others(&(address(http), mqtt.map(address)));
            assert_eq!(open.iter().map(|(option, _)| *option).collect::<Vec<_>>(), expect, "{http} {mqtt:?}");
        }
    }

    #[test]
    fn a_folder_is_another_place_on_a_machine_that_differs_in_anything() {
        let folder = tempfile::tempdir().expect("a directory");
        let of_machine = ["machine-id", "serial-number", "product_uuid"].map(|name| folder.path().join(name));
        let mut places = Vec::new();
        for told in
            [[None; 3], [Some("a"), None, None], [Some("a"), Some("b"), None], [Some("a"), None, Some("b")]]
        {
            for (file, text) in of_machine.iter().zip(told) {
                std::fs::write(file, text.unwrap_or_default()).expect("written");
            }
            places.push(place(folder.path(), &of_machine).expect("a place"));
            assert_eq!(place(folder.path(), &of_machine).ok(), places.last().copied(), "it stays");
        }
        let count = places.len();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), count, "{places:?}");
    }

    #[test]
    fn what_the_system_does_not_have_makes_no_other_place_and_a_failure_makes_none() {
        let folder = tempfile::tempdir().expect("a directory");
        let (missing, empty) = (folder.path().join("missing"), folder.path().join("empty"));
        std::fs::write(&empty, "").expect("written");
        assert_eq!(place(folder.path(), &[&missing]).ok(), place(folder.path(), &[&empty]).ok());
        assert!(place(folder.path(), &[folder.path()]).is_err(), "a folder cannot be read");
        assert!(earlier_place(folder.path(), folder.path()).is_err());
    }

    #[test]
    fn room_is_kept_free_in_hundredths_or_in_bytes() {
        for (text, free, short) in
            [("5%", 4, true), ("5%", 5, false), ("0%", 0, false), ("7B", 6, true), ("7B", 7, false)]
        {
            let keep_free = KeepFree::parse(text).expect("right");
            assert_eq!(keep_free.is_short(free, 100), short, "{text} {free}");
        }
        for text in ["", "%", "100%", "5", "-1%", "x"] {
            assert_eq!(KeepFree::parse(text), None, "{text}");
        }
    }
}
