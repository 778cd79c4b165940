//! Sizes as people write them: `64KB`, `256MB`, `1GiB`. Decimal and binary units are told apart.

const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

/// Reads a whole number and its unit; `None` where the text has another form or is too large to
/// count.
#[must_use]
pub fn parse(text: &str) -> Option<u64> {
    let (name, factor) = UNITS.iter().find(|(name, _)| text.ends_with(name))?;
    let digits = text.strip_suffix(name)?;
    if digits.is_empty() || digits.contains(|c: char| !c.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(*factor)
}

/// Writes a size with the largest unit that keeps it whole.
#[must_use]
pub fn format(bytes: u64) -> String {
    let whole = UNITS.iter().filter(|(_, factor)| bytes.is_multiple_of(*factor) && bytes >= *factor);
    let (name, factor) = whole.max_by_key(|(_, factor)| *factor).unwrap_or(&("B", 1));
    format!("{}{name}", bytes / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written_back() {
        for (text, bytes) in [
            ("0B", 0),
            ("1B", 1),
            ("64KB", 64_000),
            ("256MB", 256_000_000),
            ("1TB", 1_000_000_000_000),
            ("3KiB", 3_072),
            ("1GiB", 1 << 30),
        ] {
            assert_eq!(parse(text), Some(bytes), "{text}");
            assert_eq!(format(bytes), text);
        }
    }

    #[test]
    fn what_is_not_a_size_is_refused() {
        for text in [
            "",
            "5",
            "MB",
            "1.5GB",
            "-1KB",
            "+1KB",
            "1 MB",
            "1mb",
            "1PB",
            "99999999999999999999B",
            "99999999TiB",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
