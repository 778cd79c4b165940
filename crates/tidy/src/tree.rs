//! The files of the working tree, without what is built, stored or fetched.

use std::path::{Path, PathBuf};

/// Folders that are not the project's text.
const NOT_OURS: [&str; 4] = [".git", "fieldpost-data", "node_modules", "target"];

/// The folder of the workspace.
///
/// # Panics
/// When this crate does not lie in `crates/` of the workspace.
#[must_use]
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("this crate lies in crates/ of the workspace").to_owned()
}

/// Every file whose name ends so, in order, as paths below the root.
#[must_use]
pub fn files(endings: &[&str]) -> Vec<PathBuf> {
    let root = root();
    let mut found = Vec::new();
    collect(&root, &mut found);
    found.retain(|path| endings.iter().any(|ending| path.to_string_lossy().ends_with(ending)));
    let mut below: Vec<_> =
        found.iter().filter_map(|path| path.strip_prefix(&root).ok()).map(Path::to_owned).collect();
    below.sort();
    below
}

/// The text of a file below the root.
///
/// # Panics
/// When it cannot be read as UTF-8.
#[must_use]
pub fn read(path: &Path) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        let ours = !NOT_OURS.iter().any(|name| path.ends_with(name));
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && ours => collect(&path, found),
            Ok(kind) if kind.is_file() => found.push(path),
            _ => {}
        }
    }
}
