//! The file in the data directory that holds lmstfy's tokens: JSON, written whole beside its place
//! and moved there, for its owner's eyes only.
//!
//! There are few of them, they change seldom, and they are settings rather than data. So they are
//! in a file that can be read, copied to another server and made by a script. To change its form,
//! raise its version and read this one as well.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use lmstfy::{StoredLimit, StoredToken, StoredTokens};
use serde::{Deserialize, Serialize};

const NAME: &str = "lmstfy-tokens.json";
const VERSION: u32 = 1;
/// Whoever may read it may use the tokens.
const MODE: u32 = 0o600;

/// What the file holds.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenFileContents {
    version: u32,
    tokens: Vec<StoredToken>,
    limits: Vec<StoredLimit>,
}

/// The file's place.
pub(super) fn in_dir(data_dir: &Path) -> PathBuf {
    data_dir.join(NAME)
}

/// What was kept; nothing if there is no file.
pub(super) fn read(file: &Path) -> io::Result<StoredTokens> {
    let file = match File::open(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(StoredTokens::default()),
        file => file?,
    };
    let TokenFileContents { version, tokens, limits } = serde_json::from_reader(BufReader::new(file))?;
    if version != VERSION {
        let text = format!("version {version} is not known to this program, only {VERSION}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(StoredTokens { tokens, limits })
}

/// Makes `kept` durable in place of what was there.
pub(super) fn write(file: &Path, kept: &StoredTokens) -> io::Result<()> {
    let beside = file.with_extension("json.partial");
    let new = OpenOptions::new().write(true).create(true).truncate(true).mode(MODE).open(&beside)?;
    let mut out = BufWriter::new(new);
    let form =
        TokenFileContents { version: VERSION, tokens: kept.tokens.clone(), limits: kept.limits.clone() };
    serde_json::to_writer_pretty(&mut out, &form)?;
    out.write_all(b"\n")?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    fs::rename(&beside, file)?;
    match file.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use lmstfy::Limit;

    use super::*;

    fn kept() -> StoredTokens {
        let (namespace, token) = ("n".to_owned(), "01ARZ3NDEKTSV4RRFFQ69G5FAV".to_owned());
        let limiter = Limit { read: 1, write: 2, interval: 3 };
        StoredTokens {
            tokens: vec![StoredToken {
                namespace: namespace.clone(),
                token: token.clone(),
                description: "\"x\"".to_owned(),
            }],
            limits: vec![StoredLimit { namespace, token, limiter }],
        }
    }

    #[test]
    fn what_is_written_is_read_back_and_is_for_nobody_else() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = in_dir(directory.path());
        assert_eq!(read(&file).expect("no file is no tokens"), StoredTokens::default());
        for kept in [kept(), StoredTokens::default(), kept()] {
            write(&file, &kept).expect("written");
            assert_eq!(read(&file).expect("readable"), kept);
        }
        let mode = fs::metadata(&file).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, MODE);
        assert_eq!(fs::read_dir(directory.path()).expect("lists").count(), 1);
    }

    #[test]
    fn version_1_is_this_text() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = in_dir(directory.path());
        let text = r#"{"version":1,"tokens":[{"namespace":"n","token":"01ARZ3NDEKTSV4RRFFQ69G5FAV","description":"\"x\""}],
            "limits":[{"namespace":"n","token":"01ARZ3NDEKTSV4RRFFQ69G5FAV","limiter":{"read":1,"write":2,"interval":3}}]}"#;
        fs::write(&file, text).expect("written");
        assert_eq!(read(&file).expect("readable"), kept());
    }

    #[test]
    fn what_this_program_does_not_know_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = in_dir(directory.path());
        for text in [
            "",
            "{}",
            r#"{"version":2,"tokens":[],"limits":[]}"#,
            r#"{"version":1,"tokens":[],"limits":[],"more":1}"#,
        ] {
            fs::write(&file, text).expect("written");
            assert!(read(&file).is_err(), "{text}");
        }
    }
}
