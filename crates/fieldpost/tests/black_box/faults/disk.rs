//! The disk below a data directory: it can be filled, made read-only, and put right.
//!
//! Best is a small file system of its own, in memory, mounted for this test and its servers alone.
//! That takes root or the kernel's leave to make user namespaces, which containers often withhold.
//! [`Disk::without_mounts`] needs neither. There the disk is full for a server because a limit of
//! file sizes makes its writes fail. It is read-only because of the directory's mode. That holds
//! for root too once the server is started without the power to override it.

use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rlimit::Resource;
use simulator::server::Site;

/// Room enough for the first minutes of a log and its tables: half of it is used.
const ROOM: &str = "size=192m";
/// A server without mounts cannot write behind this place in any file. Its own log, which is short,
/// goes on.
const FILE_BYTES_MAX: u64 = 128 << 10;
/// Fills what is left. `cat` ends when nothing more can be written.
pub(crate) const FILL: &str = "cat /dev/zero > \"$0/ballast\"; test -s \"$0/ballast\"";
pub(crate) const MAKE_ROOM: &str = "rm \"$0/ballast\"";
/// Nothing new can be opened for writing; what is open stays so.
const PROTECT: &str = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\"";
const UNPROTECT: &str = "umount -l \"$0\"";

/// See the module.
pub(crate) struct Disk {
    data_dir: PathBuf,
    way: Way,
}

enum Way {
    Mounted(Namespace),
    Limited,
}

impl Disk {
    /// Puts the best disk that this machine allows below the data directory of `site`.
    pub(crate) fn below(site: &mut Site) -> io::Result<Self> {
        let data_dir = made(site)?;
        let Some(namespace) = Namespace::with_disk_at(&data_dir, ROOM)? else {
            eprintln!("nothing can be mounted here: limits and modes take its place");
            return Self::without_mounts(site);
        };
        site.start_through(namespace.enter());
        Ok(Self { data_dir, way: Way::Mounted(namespace) })
    }

    /// The same for a machine on which nothing can be mounted.
    pub(crate) fn without_mounts(site: &mut Site) -> io::Result<Self> {
        let data_dir = made(site)?;
        // Whoever is not root has no such power, and may not give it up either.
        if fs::metadata("/proc/self")?.uid() == 0 {
            site.start_through(["setpriv", "--bounding-set=-dac_override", "--"]);
        }
        Ok(Self { data_dir, way: Way::Limited })
    }

    /// A small file system of its own below the data directory of `site`; `None` where nothing can
    /// be mounted.
    pub(crate) fn mounted(site: &mut Site) -> io::Result<Option<Self>> {
        let data_dir = made(site)?;
        let Some(namespace) = Namespace::with_disk_at(&data_dir, ROOM)? else { return Ok(None) };
        site.start_through(namespace.enter());
        Ok(Some(Self { data_dir, way: Way::Mounted(namespace) }))
    }

    /// Leaves so many bytes of a mounted disk.
    pub(crate) fn leave(&self, bytes: u64) -> io::Result<()> {
        let Way::Mounted(namespace) = &self.way else { return Err(io::Error::other("nothing is mounted")) };
        let free = "$(df --output=avail -B1 \"$0\" | tail -n 1)";
        namespace.run(&format!("head -c $(({free} - {bytes})) /dev/zero > \"$0/ballast\""), &self.data_dir)
    }

    /// Leaves no room for the process of a server.
    pub(crate) fn fill(&self, process_id: Option<u32>) -> io::Result<()> {
        match &self.way {
            Way::Mounted(namespace) => namespace.run(FILL, &self.data_dir),
            Way::Limited => {
                let process_id = process_id.and_then(|id| id.try_into().ok());
                let process_id = process_id.ok_or_else(|| io::Error::other("the server has ended"))?;
                let limit = (FILE_BYTES_MAX, FILE_BYTES_MAX);
                rlimit::prlimit(process_id, Resource::FSIZE, Some(limit), None)
            }
        }
    }

    /// Makes room for the next server.
    pub(crate) fn make_room(&self) -> io::Result<()> {
        match &self.way {
            Way::Mounted(namespace) => namespace.run(MAKE_ROOM, &self.data_dir),
            // A limit goes with its process.
            Way::Limited => Ok(()),
        }
    }

    /// Lets nobody open or make a file for writing.
    pub(crate) fn protect(&self) -> io::Result<()> {
        match &self.way {
            Way::Mounted(namespace) => namespace.run(PROTECT, &self.data_dir),
            Way::Limited => self.set_modes(0o500, 0o400),
        }
    }

    /// Undoes [`Disk::protect`].
    pub(crate) fn unprotect(&self) -> io::Result<()> {
        match &self.way {
            Way::Mounted(namespace) => namespace.run(UNPROTECT, &self.data_dir),
            Way::Limited => self.set_modes(0o700, 0o600),
        }
    }

    fn set_modes(&self, directory: u32, file: u32) -> io::Result<()> {
        for entry in fs::read_dir(&self.data_dir)? {
            fs::set_permissions(entry?.path(), Permissions::from_mode(file))?;
        }
        fs::set_permissions(&self.data_dir, Permissions::from_mode(directory))
    }

    /// What the operating system says of a write where there is no room, and of one where nobody
    /// may write.
    pub(crate) fn errors(&self) -> (&'static str, &'static str) {
        match &self.way {
            Way::Mounted(_) => ("No space left on device", "Read-only file system"),
            Way::Limited => ("File too large", "Permission denied"),
        }
    }
}

fn made(site: &Site) -> io::Result<PathBuf> {
    let data_dir = site.data_dir();
    fs::create_dir_all(&data_dir)?;
    Ok(data_dir)
}

/// A mount namespace with a small file system, which lives as long as this.
pub(crate) struct Namespace {
    holder: Child,
    has_users: bool,
}

impl Namespace {
    /// One of this size. `None` where that is not allowed.
    pub(crate) fn with_disk_at(place: &Path, room: &str) -> io::Result<Option<Self>> {
        for (unshare, has_users) in [(&["-Urm"][..], true), (&["-m"], false)] {
            let script =
                format!("mount -t tmpfs -o {room},mode=700 tmpfs \"$0\" && echo mounted && exec cat");
            let mut holder = Command::new("unshare")
                .args(unshare)
                .args(["sh", "-c", &script])
                .arg(place)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()?;
            let said = holder.stdout.take().map(|said| BufReader::new(said).lines().next());
            if let Some(Some(Ok(_mounted))) = said {
                return Ok(Some(Self { holder, has_users }));
            }
            holder.wait()?;
        }
        Ok(None)
    }

    /// What starts a program in here.
    pub(crate) fn enter(&self) -> Vec<String> {
        let target = self.holder.id().to_string();
        let users: &[&str] = if self.has_users { &["--user", "--preserve-credentials"] } else { &[] };
        let words = ["nsenter", "--mount", "--target", &target].into_iter();
        words.chain(users.iter().copied()).chain(["--"]).map(str::to_owned).collect()
    }

    pub(crate) fn run(&self, script: &str, place: &Path) -> io::Result<()> {
        let enter = self.enter();
        let done =
            Command::new(&enter[0]).args(&enter[1..]).args(["sh", "-c", script]).arg(place).output()?;
        let said = String::from_utf8_lossy(&done.stderr);
        done.status.success().then_some(()).ok_or_else(|| io::Error::other(format!("{script}: {said}")))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // `cat` ends with its input; an error means that it has ended already.
        drop(self.holder.stdin.take());
        let _ended = self.holder.wait();
    }
}
