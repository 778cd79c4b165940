//! Watches the disk with the data for streams: where it gets full, they make room or refuse before
//! the store finds that it cannot write.

use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::Engine;
use engine::streams::{DiskBounds, FreeSpace};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

/// How often the disk is looked at, whatever fills it or makes room on it. A look is one call of
/// the system, of some microseconds.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Bytes of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Space {
    /// What may still be written.
    pub(super) free: u64,
    /// All of it.
    pub(super) all: u64,
}

/// Tells streams how much room they have. They leave `free_bytes_max` free, or less on a small
/// disk. While streams grow fast the disk is looked at more often.
pub(super) async fn watch_for_streams(
    engine: Engine,
    data_dir: PathBuf,
    free_bytes_max: u64,
    mut stop: watch::Receiver<bool>,
) {
    let streams = engine.streams();
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut room = FreeSpace::Enough;
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            _ = ticks.tick() => {}
            () = streams.disk_look_is_due() => {}
        }
        let Some(space) = space_of(&data_dir).await else { continue };
        let bounds = DiskBounds::of_disk(space.all, free_bytes_max);
        let before = room;
        room = bounds.room(space.free, before);
        if before != room {
            tracing::info!(?room, free_bytes = space.free, "the free disk space for streams has changed");
        }
        let told = streams.disk_has(room, bounds.look_after_bytes(space.free));
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            told = told => if told.is_err() {
                tracing::debug!("streams are not told how full the disk is");
            },
        }
    }
}

/// How much of the disk below a folder there is, where the disk tells.
pub(super) async fn space_of(folder: &Path) -> Option<Space> {
    let folder = folder.to_owned();
    let asked = spawn_blocking(move || rustix::fs::statvfs(&folder)).await;
    let Ok(Ok(disk)) = asked else {
        tracing::debug!("the disk does not say how much of it is free");
        return None;
    };
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    Some(Space { free: bytes(disk.f_bavail), all: bytes(disk.f_blocks) })
}
