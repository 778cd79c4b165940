//! Labels: short key and value pairs by which devices are found and addressed together.

use base::Problem;
use base::limits::{LABEL_KEY_CHARS_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX};

use crate::RegistryRefusal;
use crate::id::shown;

/// What a merge patch says of one label: its new value, or `None` where the label goes.
pub type LabelChange = (String, Option<String>);

/// The labels as they are kept: sorted by key.
pub(crate) fn checked(mut labels: Vec<(String, String)>) -> Result<Vec<(String, String)>, Problem> {
    labels.iter().try_for_each(|(key, value)| check(key, value))?;
    labels.sort_unstable();
    if let Some(twice) = labels.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let detail = format!("label {:?} is there twice; a key may be there once", twice[0].0);
        return Err(RegistryRefusal::InvalidLabel.problem(detail));
    }
    check_count(labels.len())?;
    Ok(labels)
}

/// The labels after a merge patch; of changes with the same key the last one holds.
pub(crate) fn merged(
    present: &[(String, String)],
    changes: Vec<LabelChange>,
) -> Result<Vec<(String, String)>, Problem> {
    let mut labels = present.to_vec();
    for (key, change) in changes {
        let place = labels.binary_search_by(|(other, _)| other.as_str().cmp(&key));
        match (change, place) {
            (None, Ok(at)) => drop(labels.remove(at)),
            (None, Err(_)) => {}
            (Some(value), place) => {
                check(&key, &value)?;
                match place {
                    Ok(at) => labels[at].1 = value,
                    Err(at) => labels.insert(at, (key, value)),
                }
            }
        }
    }
    check_count(labels.len())?;
    Ok(labels)
}

fn check_count(count: usize) -> Result<(), Problem> {
    if count <= LABELS_MAX {
        return Ok(());
    }
    let detail = format!("the device would have {count} labels; it may have at most {LABELS_MAX}");
    Err(RegistryRefusal::TooManyLabels.problem(detail))
}

fn check(key: &str, value: &str) -> Result<(), Problem> {
    if !is_key(key) {
        let detail = format!(
            "{} is not a key of a label; a key begins with a lower-case letter and has at most \
             {LABEL_KEY_CHARS_MAX} lower-case letters, digits, '_', '.' and '-'",
            shown(key)
        );
        return Err(RegistryRefusal::InvalidLabel.problem(detail));
    }
    if value.len() > LABEL_VALUE_BYTES_MAX {
        let detail = format!(
            "the value of label {key:?} has {} bytes; it may have at most {LABEL_VALUE_BYTES_MAX}",
            value.len()
        );
        return Err(RegistryRefusal::InvalidLabel.problem(detail));
    }
    Ok(())
}

pub(crate) fn is_key(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'.' | b'-');
    text.len() <= LABEL_KEY_CHARS_MAX
        && text.bytes().next().is_some_and(|b| b.is_ascii_lowercase())
        && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        let owned = |pair: &str| pair.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        text.split_whitespace().filter_map(owned).collect()
    }

    fn numbered(count: usize) -> Vec<(String, String)> {
        (0..count).map(|n| (format!("k{n:02}"), String::new())).collect()
    }

    #[test]
    fn labels_are_checked_and_sorted() {
        let long = |n| "x".repeat(n);
        for (labels, expect) in [
            (pairs("site=12 a.b-c_9=x floor="), Ok(pairs("a.b-c_9=x floor= site=12"))),
            (vec![(long(32), long(128))], Ok(vec![(long(32), long(128))])),
            (numbered(16), Ok(numbered(16))),
            (numbered(17), Err("too_many_labels")),
            (pairs("a=1 b=2 a=3"), Err("invalid_label")),
            (vec![(long(33), String::new())], Err("invalid_label")),
            (vec![("a".to_owned(), "ж".repeat(65))], Err("invalid_label")),
            (pairs("=x"), Err("invalid_label")),
            (pairs("Site=x"), Err("invalid_label")),
            (pairs("1st=x"), Err("invalid_label")),
            (pairs("a/b=x"), Err("invalid_label")),
        ] {
            let name = format!("{labels:?}");
            assert_eq!(checked(labels).map_err(|problem| problem.code), expect, "{name}");
        }
    }

    #[test]
    fn a_change_names_the_labels_it_touches() {
        let set = |key: &str, value: &str| (key.to_owned(), Some(value.to_owned()));
        let drop = |key: &str| (key.to_owned(), None);
        for (present, changes, expect) in [
            ("a=1 c=3", vec![set("b", "2"), set("c", "4")], Ok(pairs("a=1 b=2 c=4"))),
            ("a=1 c=3", vec![drop("a"), drop("b")], Ok(pairs("c=3"))),
            ("a=1", vec![], Ok(pairs("a=1"))),
            ("a=1", vec![set("B", "2")], Err("invalid_label")),
        ] {
            let name = format!("{present} {changes:?}");
            let result = merged(&pairs(present), changes).map_err(|problem| problem.code);
            assert_eq!(result, expect, "{name}");
        }
    }

    #[test]
    fn a_full_device_may_exchange_a_label_in_one_change() {
        let exchange = vec![("new".to_owned(), Some("1".to_owned())), ("k00".to_owned(), None)];
        assert_eq!(merged(&numbered(16), exchange).map(|labels| labels.len()), Ok(16));
        let add = vec![("new".to_owned(), Some("1".to_owned()))];
        assert_eq!(merged(&numbered(16), add).map_err(|problem| problem.code), Err("too_many_labels"));
    }
}
