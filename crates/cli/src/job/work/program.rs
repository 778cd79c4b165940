//! The command that works on jobs: looked for before the first job is taken, and noticed when it is
//! there no longer.
//!
//! A job whose command cannot be started is not to blame. The worker takes no more then, and the
//! job goes back at once. Its release uses up a try, so one that died of that is respawned at the
//! end.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::locks::locked;
use fieldpost_client::{CancellationToken, Client, Error, Failure, Job, JobId};

use super::child;

/// Where programs are looked for when nothing says where.
const PATH_DEFAULT: &str = "/bin:/usr/bin";

/// The command that is run for each job. Cheap to clone.
#[derive(Clone)]
pub(super) struct Program {
    words: Arc<[OsString]>,
    broken: Arc<BrokenProgram>,
}

/// What is known once the command could not be started.
#[derive(Default)]
struct BrokenProgram {
    is_so: CancellationToken,
    why: Mutex<Option<String>>,
    /// The queues and ids of jobs whose last try went with that.
    last_tries: Mutex<Vec<(String, JobId)>>,
}

impl Program {
    /// # Errors
    /// When there is no such program.
    pub(super) fn new(words: &[OsString]) -> Result<Self, String> {
        find(&words[0], env::var_os("PATH").as_deref())
            .map_err(|why| format!("{} cannot be started: {why}", words[0].display()))?;
        Ok(Self { words: words.into(), broken: Arc::default() })
    }

    /// Runs it for a job; a job that is lost has nobody to run it for.
    pub(super) async fn run(self, job: Job, lost: CancellationToken) -> Result<(), Failure> {
        let mut child = match child::command(&self.words, &job).spawn() {
            Ok(child) => child,
            Err(error) if is_of_command(&error) => return Err(self.breaks(&job, &error)),
            Err(error) => return Err(Failure::new(self.not_started(&error))),
        };
        child::see_through(&mut child, &job, &lost).await.map_err(|error| {
            Failure::new(format!("{} cannot be followed: {error}", self.words[0].display()))
        })?
    }

    fn not_started(&self, error: &dyn Display) -> String {
        format!("{} cannot be started: {error}", self.words[0].display())
    }

    /// The worker has to stop, and somebody else may have the job at once.
    fn breaks(&self, job: &Job, error: &dyn Display) -> Failure {
        let why = self.not_started(error);
        let BrokenProgram { is_so, why: told, last_tries } = &*self.broken;
        locked(told).get_or_insert_with(|| why.clone());
        if job.is_last_try() {
            let mut last_tries = locked(last_tries);
            last_tries.push((job.queue.clone(), job.id.clone()));
        }
        is_so.cancel();
        Failure::new(why).after(Duration::ZERO)
    }

    /// Resolves when the command could not be started.
    pub(super) async fn is_broken(&self) {
        self.broken.is_so.cancelled().await;
    }

    /// Why the command could not be started, once all jobs are settled; those that died of it are
    /// back in their queues then.
    ///
    /// # Errors
    /// When these could not be brought back.
    pub(super) async fn verdict(&self, client: &Client, namespace: &str) -> Result<Option<String>, Error> {
        let Some(why) = locked(&self.broken.why).take() else {
            return Ok(None);
        };
        let last_tries = std::mem::take(&mut *locked(&self.broken.last_tries));
        for (queue, job) in last_tries {
            client.queue(namespace, queue).respawn(&[job]).await?;
        }
        Ok(Some(why))
    }
}

/// Whether a command cannot be started for any job: for others it may be the job's, or that of the
/// moment.
fn is_of_command(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
        || error.raw_os_error() == Some(libc::ENOEXEC)
}

/// Where the program is that a word means; whether it can be run as far as its file says.
fn find(word: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, String> {
    let as_it_is = Path::new(word);
    if word.is_empty() {
        return Err("it has no name".to_owned());
    }
    if word.as_encoded_bytes().contains(&b'/') {
        return check(as_it_is).map(|()| as_it_is.to_owned());
    }
    let path = path.unwrap_or(OsStr::new(PATH_DEFAULT));
    let mut found = Err("there is no such program in PATH".to_owned());
    for folder in env::split_paths(path) {
        let file = folder.join(as_it_is);
        match check(&file) {
            Ok(()) => return Ok(file),
            // The first that is there and cannot be run is worth telling, if there is no other.
            Err(why) if file.is_file() && found.is_err() => found = Err(format!("{}: {why}", file.display())),
            Err(_) => {}
        }
    }
    found
}

fn check(file: &Path) -> Result<(), String> {
    let about = file.metadata().map_err(|error| error.to_string())?;
    if !about.is_file() {
        return Err("it is not a file".to_owned());
    }
    if about.permissions().mode() & 0o111 == 0 {
        return Err("it may not be executed".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    #[test]
    fn only_what_every_job_would_meet_is_of_the_command() {
        for (error, expect) in [
            (io::Error::from(io::ErrorKind::NotFound), true),
            (io::Error::from(io::ErrorKind::PermissionDenied), true),
            (io::Error::from_raw_os_error(libc::ENOEXEC), true),
            (io::Error::from(io::ErrorKind::InvalidInput), false),
            (io::Error::from(io::ErrorKind::ArgumentListTooLong), false),
            (io::Error::from(io::ErrorKind::WouldBlock), false),
            (io::Error::from(io::ErrorKind::OutOfMemory), false),
        ] {
            assert_eq!(is_of_command(&error), expect, "{error}");
        }
    }

    #[test]
    fn a_program_is_found_as_a_shell_would_find_it() {
        let folders = tempfile::tempdir().expect("a folder");
        let [first, second] = ["first", "second"].map(|name| folders.path().join(name));
        for (folder, name, mode) in
            [(&first, "tool", 0o644), (&second, "tool", 0o755), (&first, "notes", 0o644)]
        {
            fs::create_dir_all(folder).expect("a folder");
            fs::write(folder.join(name), "").expect("written");
            fs::set_permissions(folder.join(name), Permissions::from_mode(mode)).expect("set");
        }
        let path = env::join_paths([&first, &second]).expect("a path");
        let found = |word: &str| find(OsStr::new(word), Some(&path));
        let tool = second.join("tool");
        assert_eq!(found("tool"), Ok(tool.clone()));
        assert_eq!(found(&tool.display().to_string()), Ok(tool));
        let not_executable = format!("{}: it may not be executed", first.join("notes").display());
        let missing = first.join("gone").display().to_string();
        for (word, why) in [
            ("notes", not_executable.as_str()),
            ("gone", "there is no such program in PATH"),
            ("", "it has no name"),
            ("/", "it is not a file"),
            (missing.as_str(), "No such file or directory"),
        ] {
            let told = found(word).expect_err("it cannot be run");
            assert!(told.starts_with(why), "{word:?}: {told}");
        }
    }
}
