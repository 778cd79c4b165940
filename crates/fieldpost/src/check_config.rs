//! `fieldpost check-config FILE`: says what is wrong with a file, and nothing about the variables
//! of this shell.

use std::io::{self, Write};
use std::path::Path;

use crate::certificate;
use crate::config::ServerSettings;

/// Writes every mistake on a line of its own, or that there is none, behind what has no effect.
/// Whether the file is right.
///
/// # Errors
/// When `out` cannot be written.
pub(crate) fn run(file: &Path, out: &mut impl Write) -> io::Result<bool> {
    match ServerSettings::load(Some(file), [], None, certificate::faults) {
        Ok(settings) => {
            settings.warnings.iter().try_for_each(|warning| writeln!(out, "warning: {warning}"))?;
            writeln!(out, "{}: ok", file.display()).map(|()| true)
        }
        Err(errors) => writeln!(out, "{errors}").map(|()| false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, right: bool, says: &str) {
        let file =
            std::env::temp_dir().join(format!("check-config-{}-{}.toml", std::process::id(), text.len()));
        std::fs::write(&file, text).expect("the directory for temporary files can be written");
        let mut out = Vec::new();
        let outcome = run(&file, &mut out).expect("a vector takes every write");
        std::fs::remove_file(&file).expect("it was just written");
        assert_eq!(outcome, right);
        let expect = says.replace("FILE", &file.display().to_string());
        assert_eq!(String::from_utf8(out).expect("text"), expect);
    }

    #[test]
    fn a_right_file_is_ok() {
        check("[http]\nlisten = \"127.0.0.1:0\"\n", true, "FILE: ok\n");
        let warning = "warning: FILE:2:1: http.origins: has no effect without [[auth.tokens]]; \
                       list tokens, or leave it out: only the server's own pages may call it\n";
        let file = "[http]\norigins = [\"https://console.example\"]\n";
        check(file, true, &format!("{warning}FILE: ok\n"));
    }

    #[test]
    fn a_wrong_file_is_told_line_by_line() {
        check(
            "[http]\nlitsen = \"127.0.0.1:0\"\n[notify]\nmax_attempts = 0\n",
            false,
            "FILE:2:1: http.litsen: unknown key; did you mean http.listen?\n\
             FILE:4:1: notify.max_attempts: 0 is out of range; write a whole number from 1 to 1000\n",
        );
    }

    #[test]
    fn a_secret_that_cannot_be_read_is_told_where_its_file_is_named() {
        check(
            "[[storages]]\nname = \"bucket\"\nkind = \"s3\"\nurl = \"s3://blocks\"\naccess_key = \"a\"\n\
             secret_key_file = \"/nope/secret\"\n\
             [[storages]]\nname = \"table\"\nkind = \"postgres\"\nurl = \"postgres://u@db/blocks\"\n\
             password_file = \"/dev/null\"\n",
            false,
            "FILE:6:1: storages.secret_key_file: /nope/secret cannot be read: No such file or directory \
             (os error 2); write the path of a file that holds the secret and nothing else\n\
             FILE:11:1: storages.password_file: /dev/null is empty; write the path of a file that holds \
             the secret and nothing else\n",
        );
    }
}
