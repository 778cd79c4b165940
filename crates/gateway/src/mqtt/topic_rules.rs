//! What MQTT allows as the name of a topic and as a filter. NUL and broken UTF-8 are refused when
//! text is read.

use super::limits::FILTER_BYTES_MAX;

/// Whether something can be published to it.
pub(super) fn is_name(topic: &str) -> bool {
    !topic.is_empty() && !topic.contains(['+', '#'])
}

/// Whether a subscription may ask for it: `+` stands for a whole level, `#` for all that is left.
pub(super) fn is_filter(filter: &str) -> bool {
    let fits = (1..=FILTER_BYTES_MAX).contains(&filter.len()) && !filter.contains('\0');
    let (above, last) = filter.rsplit_once('/').unwrap_or(("", filter));
    let level = |level: &str| level == "+" || !level.contains(['+', '#']);
    fits && above.split('/').all(level) && (last == "#" || level(last))
}

/// A subscription shared by several clients; we have none.
pub(super) fn is_shared(filter: &str) -> bool {
    filter.starts_with("$share/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_wildcards() {
        for (topic, expect) in
            [("a", true), ("/", true), ("a/b c", true), ("", false), ("a/+", false), ("#", false)]
        {
            assert_eq!(is_name(topic), expect, "{topic}");
        }
    }

    #[test]
    fn wildcards_of_a_filter_are_whole_levels() {
        let long = "x".repeat(FILTER_BYTES_MAX + 1);
        for (filter, expect) in [
            ("a", true),
            ("#", true),
            ("+", true),
            ("/", true),
            ("+/a/+/#", true),
            ("dev/+/0xA/#", true),
            ("", false),
            ("a#", false),
            ("#/a", false),
            ("a/#/b", false),
            ("a+/b", false),
            ("a/b+", false),
            ("a/\0", false),
            (&long, false),
        ] {
            assert_eq!(is_filter(filter), expect, "{filter}");
        }
    }
}
