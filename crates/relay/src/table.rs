//! Names of tables, and of all that belongs to an outbox table. Pure.

use std::fmt;

/// PostgreSQL cuts longer names, in bytes.
const NAME_BYTES_MAX: usize = 63;
/// What is left for the name of an outbox, so that names made of it are not cut.
const OUTBOX_BYTES_MAX: usize = 48;
/// What the bodies of our functions end with.
const FORBIDDEN: &str = "$fieldpost$";
/// Where a table is that is named without its schema.
const SCHEMA: &str = "public";

/// A table with its schema. Its text is quoted, as SQL has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TableName {
    schema: Box<str>,
    table: Box<str>,
}

/// Why a text names no table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TableNameError(&'static str);

impl TableName {
    /// Reads `table` or `schema.table`, each part as it is, capitals too; a part in double quotes
    /// may contain dots, and `""` for a quote. Without a schema it is in `public`.
    ///
    /// # Errors
    /// When it is no such name.
    pub fn parse(text: &str) -> Result<Self, TableNameError> {
        let mut parts = parts(text)?;
        let table = parts.pop().ok_or(TableNameError("it is empty"))?;
        let schema = parts.pop().unwrap_or_else(|| SCHEMA.to_owned());
        if !parts.is_empty() {
            return Err(TableNameError("write it as table or schema.table"));
        }
        for part in [&schema, &table] {
            if part.is_empty() || part.len() > NAME_BYTES_MAX || part.contains('\0') {
                return Err(TableNameError("a name has 1 to 63 bytes"));
            }
            if part.contains(FORBIDDEN) {
                return Err(TableNameError("a name may not contain $fieldpost$"));
            }
        }
        Ok(Self { schema: schema.into(), table: table.into() })
    }

    /// The same for an outbox, whose name has at most 48 bytes.
    ///
    /// # Errors
    /// When it is none.
    pub fn outbox(text: &str) -> Result<Self, TableNameError> {
        let table = Self::parse(text)?;
        if table.table.len() > OUTBOX_BYTES_MAX {
            return Err(TableNameError("the name of an outbox has at most 48 bytes"));
        }
        Ok(table)
    }

    /// A table of the same schema.
    #[must_use]
    pub fn beside(&self, table: &str) -> Self {
        Self { schema: self.schema.clone(), table: table.into() }
    }

    /// A thing of the same schema, whose name ends so.
    pub(crate) fn with(&self, ending: &str) -> Self {
        Self { schema: self.schema.clone(), table: format!("{}{ending}", self.table).into() }
    }

    /// Its own name without the schema, as SQL has it.
    pub(crate) fn own(&self) -> String {
        identifier(&self.table)
    }

    /// The schema, as SQL has it.
    pub(crate) fn schema(&self) -> String {
        identifier(&self.schema)
    }

    /// The schema and the name as they are.
    pub(crate) fn parts(&self) -> (&str, &str) {
        (&self.schema, &self.table)
    }

    /// What names it on a command line of a shell.
    pub(crate) fn argument(&self) -> String {
        let part = |name: &str| if name.contains(['.', '"']) { identifier(name) } else { name.to_owned() };
        let text = format!("{}.{}", part(&self.schema), part(&self.table));
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-');
        if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
    }

    /// `schema.table` for people.
    #[must_use]
    pub fn display_name(&self) -> String {
        format!("{}.{}", self.schema, self.table)
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema(), self.own())
    }
}

/// A name as SQL has it, in quotes.
pub(crate) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as SQL has it. What a backslash means does not depend on settings.
pub(crate) fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if quoted.contains('\\') { format!("E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}

fn parts(text: &str) -> Result<Vec<String>, TableNameError> {
    let mut parts = vec![String::new()];
    let (mut in_quotes, mut letters) = (false, text.chars().peekable());
    while let Some(letter) = letters.next() {
        let part = parts.last_mut().ok_or(TableNameError("it is empty"))?;
        match letter {
            '"' if in_quotes && letters.peek() == Some(&'"') => {
                letters.next();
                part.push('"');
            }
            '"' if in_quotes => in_quotes = false,
            '"' if part.is_empty() => in_quotes = true,
            '"' => return Err(TableNameError("a quote stands in the middle of a name")),
            '.' if !in_quotes => parts.push(String::new()),
            other => part.push(other),
        }
    }
    if in_quotes { Err(TableNameError("a quote is not closed")) } else { Ok(parts) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_quoted_as_it_is() {
        for (text, sql) in [
            ("outbox", "\"public\".\"outbox\""),
            ("shop.Outbox", "\"shop\".\"Outbox\""),
            ("\"my.shop\".\"a \"\"b\"\"\"", "\"my.shop\".\"a \"\"b\"\"\""),
        ] {
            assert_eq!(TableName::parse(text).map(|table| table.to_string()), Ok(sql.to_owned()), "{text}");
        }
        assert_eq!(
            TableName::parse("a.Out").map(|table| table.with("_refused").to_string()),
            Ok("\"a\".\"Out_refused\"".to_owned())
        );
        for (text, argument) in [
            ("outbox", "public.outbox"),
            ("\"my.shop\".Out", "'\"my.shop\".Out'"),
            ("a.it's", "'a.it'\\''s'"),
        ] {
            let table = TableName::parse(text).expect("a right name");
            assert_eq!(table.argument(), argument);
        }
        assert_eq!((literal("it's"), literal("a\\b")), ("'it''s'".to_owned(), "E'a\\\\b'".to_owned()));
    }

    #[test]
    fn other_texts_are_no_names() {
        let long = "x".repeat(64);
        for text in ["", ".", "a.", "a.b.c", "\"a", "a\"b", long.as_str()] {
            assert!(TableName::parse(text).is_err(), "{text}");
        }
        assert!(TableName::outbox(&"x".repeat(49)).is_err());
    }
}
