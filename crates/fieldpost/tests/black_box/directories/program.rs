//! The built program, run to its end; and copies of directories.

use std::fs;
use std::path::Path;
use std::process::Command;

use simulator::server::Site;

use super::story::SETTINGS;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_fieldpost");

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs the program with these arguments, without any setting of whoever runs the tests.
pub(crate) fn run(arguments: &[&str]) -> Ended {
    let mut command = Command::new(BINARY);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("FIELDPOST_") {
            command.env_remove(&name);
        }
    }
    let output = command.args(arguments).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

/// A path as an argument.
pub(crate) fn word(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// A site on which nothing happens by itself.
pub(crate) fn site() -> Site {
    Site::new(Path::new(BINARY), &SETTINGS).expect("a directory")
}

/// Copies the files of a directory.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("is made");
    for entry in fs::read_dir(from).expect("is listed") {
        let entry = entry.expect("is listed");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("is copied");
    }
}
