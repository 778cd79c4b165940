//! A config file, and variables beside it.
//!
//! The input is `text NUL NAME=value NUL NAME=value ...`. Whatever it is, the outcome is settings
//! or a list of mistakes. Each mistake has its line and column in the file or the name of its
//! variable. Empty lines above move every line number and change nothing else; a comment below
//! changes nothing at all.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use crate::binary::config::ServerSettings;

/// How far the text is moved down, in lines.
const MOVED: usize = 3;
const FILE: &str = "fieldpost.toml";

/// Reads the settings.
pub fn run(data: &[u8]) {
    // In memory where there is such a place: each input is some files.
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let directory = directory.expect("the directory for temporary files can be written");
    let path = directory.path().join(FILE);
    let mut parts = data.split(|byte| *byte == 0);
    let text = parts.next().unwrap_or_default();
    let variables: Vec<_> = parts.filter_map(variable).collect();
    let outcome = load(&path, text, &variables);
    let Ok(text) = std::str::from_utf8(text) else {
        let expect = format!("{}: cannot be read", path.display());
        let told = outcome.err().unwrap_or_default();
        assert!(told.iter().any(|told| told.starts_with(&expect)), "{told:?}");
        return;
    };
    match &outcome {
        Ok(settings) => {
            let commented = format!("{text}\n# nothing\n");
            assert_eq!(load(&path, commented.as_bytes(), &variables).as_ref(), Ok(settings), "{text:?}");
        }
        Err(mistakes) => check_places(&path, text, &variables, mistakes),
    }
    if !text.starts_with('\u{feff}') {
        let moved = format!("{}{text}", "\n".repeat(MOVED));
        let expect =
            outcome.map_err(|mistakes| mistakes.iter().map(|told| moved_down(&path, told)).collect());
        assert_eq!(load(&path, moved.as_bytes(), &variables), expect, "{text:?}");
    }
}

type Variables = Vec<(OsString, OsString)>;

fn variable(written: &[u8]) -> Option<(OsString, OsString)> {
    let equals = written.iter().position(|byte| *byte == b'=')?;
    let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    Some((text(&written[..equals]), text(&written[equals + 1..])))
}

fn load(path: &Path, text: &[u8], variables: &Variables) -> Result<String, Vec<String>> {
    std::fs::write(path, text).expect("the directory for temporary files can be written");
    match ServerSettings::load(Some(path), variables.iter().cloned(), None, |_| Vec::new()) {
        Ok(settings) => Ok(format!("{settings:?}")),
        Err(mistakes) => Err(mistakes.to_string().split('\n').map(str::to_owned).collect()),
    }
}

/// Line and column of a mistake, and what is told of it.
fn place<'a>(path: &Path, told: &'a str) -> Option<(usize, usize, &'a str)> {
    let mut parts = told.strip_prefix(&format!("{}:", path.display()))?.splitn(3, ':');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?))
}

fn moved_down(path: &Path, told: &str) -> String {
    match place(path, told) {
        Some((line, column, what)) => format!("{}:{}:{column}:{what}", path.display(), line + MOVED),
        None => told.to_owned(),
    }
}

fn check_places(path: &Path, text: &str, variables: &Variables, mistakes: &[String]) {
    assert!(!mistakes.is_empty(), "a refusal says why");
    let lines: Vec<_> = text.split('\n').collect();
    for told in mistakes {
        if let Some((line, column, _)) = place(path, told) {
            let length = lines.get(line.wrapping_sub(1)).map(|line| line.chars().count());
            assert!(length.is_some_and(|length| (1..=length + 1).contains(&column)), "{told:?} of {text:?}");
        } else {
            // The one mistake of which the parser does not know the place.
            if told.starts_with(&format!("{}: not TOML: recursion limit", path.display())) {
                continue;
            }
            let of = |name: &OsString| told.starts_with(&named(name));
            assert!(
                variables.iter().any(|(name, _)| of(name)),
                "{told:?} names neither a line nor a variable"
            );
        }
    }
}

/// How a mistake names a variable: on one line, whatever its name is.
fn named(variable: &OsString) -> String {
    let name = variable.to_string_lossy();
    let shown =
        name.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() });
    format!("environment variable {}: ", shown.collect::<String>())
}
