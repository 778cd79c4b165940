//! A wall clock for a server that a test can set, by libfaketime.
//!
//! It is loaded into the server's process and asks a file, at every look at `CLOCK_REALTIME`, how
//! far the time is off. The other clocks are left alone, as they are when somebody sets the clock
//! of a machine.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use simulator::server::Site;
use simulator::wire_time::wall_now_ms;
use tempfile::TempDir;

/// See the module.
pub(crate) struct WallClock {
    directory: TempDir,
}

impl WallClock {
    /// Gives `site` a wall clock that is `ahead` of the machine's.
    pub(crate) fn of(site: &mut Site, ahead: Duration) -> io::Result<Self> {
        let clock = Self { directory: tempfile::tempdir()? };
        clock.set(ahead)?;
        site.set("LD_PRELOAD", &library()?.display().to_string());
        site.set("FAKETIME_TIMESTAMP_FILE", &clock.file().display().to_string());
        site.set("FAKETIME_NO_CACHE", "1");
        site.set("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        site.set("NO_FAKE_STAT", "1");
        Ok(clock)
    }

    /// Steps to `ahead` of the machine's clock.
    pub(crate) fn set(&self, ahead: Duration) -> io::Result<()> {
        self.write(&format!("+{}", ahead.as_secs()))
    }

    /// Steps to a time long before there was this program.
    pub(crate) fn unset(&self) -> io::Result<()> {
        self.write("-20y")
    }

    /// Whoever reads meanwhile finds the one or the other.
    fn write(&self, off: &str) -> io::Result<()> {
        let beside = self.directory.path().join("next");
        fs::write(&beside, off)?;
        fs::rename(beside, self.file())
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("off")
    }
}

/// What a clock says that is `ahead` of the machine's, in milliseconds since 1970.
pub(crate) fn time(ahead: Duration) -> i64 {
    wall_now_ms() + ahead.as_millis() as i64
}

/// Debian puts it into a folder of the architecture.
fn library() -> io::Result<PathBuf> {
    let found = fs::read_dir("/usr/lib")?.filter_map(Result::ok);
    let mut found = found.map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"));
    found
        .find(|path| path.exists())
        .ok_or_else(|| io::Error::other("libfaketime is not installed; scripts/setup test installs it"))
}
