//! What is wrong with the settings, told so that it can be put right: where, which key, what is
//! wrong, what would be right.

use std::fmt;
use std::path::PathBuf;

/// Where a setting was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SettingOrigin {
    /// In `default.toml`, which is part of the program.
    Default,
    /// In the file, at a line and column that count from 1.
    File { path: PathBuf, line: usize, column: usize },
    /// In the file as a whole: it cannot be read.
    WholeFile(PathBuf),
    /// In a variable of this name.
    Variable(String),
    /// On the command line.
    Flag(&'static str),
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => write!(f, "default settings"),
            Self::File { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Self::WholeFile(path) => write!(f, "{}", path.display()),
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::Flag(name) => write!(f, "{name}"),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mistake {
    pub(super) origin: SettingOrigin,
    /// The dotted key, `http.listen`; empty where the text is not TOML at all.
    pub(super) key: String,
    pub(super) wrong: String,
    pub(super) right: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", OnOneLine(&self.origin.to_string()))?;
        if !self.key.is_empty() {
            write!(f, "{}: ", OnOneLine(&self.key))?;
        }
        write!(f, "{}; {}", OnOneLine(&self.wrong), OnOneLine(&self.right))
    }
}

/// Text that may repeat what was written: a mistake has one line, whatever is in the file.
struct OnOneLine<'a>(&'a str);

impl fmt::Display for OnOneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| {
            if c.is_control() { write!(f, "{}", c.escape_default()) } else { write!(f, "{c}") }
        })
    }
}

/// Everything that is wrong with the settings, in the order of the file, then of the variables;
/// never empty.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConfigErrors(Vec<Mistake>);

impl ConfigErrors {
    /// `None` where nothing is wrong.
    pub(super) fn of(mut mistakes: Vec<Mistake>) -> Option<Self> {
        mistakes.sort();
        mistakes.dedup();
        (!mistakes.is_empty()).then_some(Self(mistakes))
    }
}

impl fmt::Display for ConfigErrors {
    /// One line for each mistake.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.0.iter().enumerate() {
            let end_of_last = if index == 0 { "" } else { "\n" };
            write!(f, "{end_of_last}{mistake}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_has_one_line_whatever_was_written() {
        let mistake = Mistake {
            origin: SettingOrigin::Variable("FIELDPOST_HTTP__LISTEN".to_owned()),
            key: "http.new\nline".to_owned(),
            wrong: "\"a\r\nb\" is no address".to_owned(),
            right: "write one".to_owned(),
        };
        let expect = r#"environment variable FIELDPOST_HTTP__LISTEN: http.new\nline: "a\r\nb" is no address; write one"#;
        assert_eq!(mistake.to_string(), expect);
    }
}
