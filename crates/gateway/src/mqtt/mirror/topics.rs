//! Which topics a filter matches, and which filters can match a report at all.

use crate::decode::kinds::KindForms;

/// The topics that reports come on, level by level; `None` stands for any kind or id.
const OF_REPORTS: [&[Option<&str>]; 6] = [
    &[Some("dev"), None, None, Some("state")],
    &[Some("dev"), None, None, Some("heartbeat")],
    &[Some("dev"), None, None, Some("ack")],
    &[Some("dev"), None, None, Some("Ack")],
    &[Some("dev"), None, None, Some("confirmed")],
    &[Some("sensors")],
];

/// Whether there are reports that the filter matches.
pub(in crate::mqtt) fn may_match(filter: &str, kinds: &KindForms) -> bool {
    OF_REPORTS.iter().any(|topic| matches_levels(filter, topic.iter().copied())) || kinds.may_match(filter)
}

/// Whether a valid filter matches a topic, which begins with no `$`.
pub(in crate::mqtt) fn matches(filter: &str, topic: &str) -> bool {
    matches_levels(filter, topic.split('/').map(Some))
}

fn matches_levels<'a>(filter: &str, mut topic: impl Iterator<Item = Option<&'a str>>) -> bool {
    for wanted in filter.split('/') {
        if wanted == "#" {
            return true;
        }
        match topic.next() {
            None => return false,
            Some(None) => {}
            Some(Some(level)) if wanted == "+" || wanted == level => {}
            Some(Some(_)) => return false,
        }
    }
    topic.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_stand_for_levels() {
        for (filter, topic, expect) in [
            ("dev/lock/0xA/state", "dev/lock/0xA/state", true),
            ("dev/+/0xA/+", "dev/lock/0xA/state", true),
            ("dev/#", "dev/lock/0xA/state", true),
            ("dev/lock/0xA/state/#", "dev/lock/0xA/state", true),
            ("#", "sensors", true),
            ("+", "sensors", true),
            ("+", "dev/lock/0xA/state", false),
            ("dev/+/0xA", "dev/lock/0xA/state", false),
            ("dev/+/0xB/#", "dev/lock/0xA/state", false),
            ("dev/lock/0xA/state/+", "dev/lock/0xA/state", false),
        ] {
            // `a/#` matches `a` too.
            assert_eq!(matches(filter, topic), expect, "{filter} {topic}");
        }
    }

    #[test]
    fn some_filters_match_no_report() {
        for (filter, expect) in [
            ("#", true),
            ("dev/#", true),
            ("dev/lock/0xA/#", true),
            ("dev/+/+/heartbeat", true),
            ("+/+/+/state", true),
            ("sensors", true),
            ("dev/lock/0xA", false),
            ("dev/lock/0xA/ack", true),
            ("dev/+/+/confirmed", true),
            ("dev/lock/0xA/answer", false),
            ("elsewhere/#", false),
            ("$SYS/#", false),
        ] {
            assert_eq!(may_match(filter, &KindForms::default()), expect, "{filter}");
        }
    }
}
