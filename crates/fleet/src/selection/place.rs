//! Places: some labels in a fixed order, written as one word.

use std::collections::BTreeSet;

use base::Problem;
use base::limits::{LABEL_VALUE_BYTES_MAX, LABELS_MAX};

use super::{Requirement, Selection, SelectionKey, Test};
use crate::RegistryRefusal;

/// Longest place, in bytes: the longest values of as many labels as a device can have.
pub const PLACE_BYTES_MAX: usize = LABELS_MAX * (LABEL_VALUE_BYTES_MAX + 1);

/// The devices of a place: its segments are the values of the labels of the setting `fleet.place`,
/// from the first on. Fewer segments mean all below, and `*` means any value.
///
/// # Errors
/// `bad_place` when it is too long, has more segments than there are labels, or an empty one.
pub fn place(text: &str, labels: &[String]) -> Result<Selection, Problem> {
    if text.len() > PLACE_BYTES_MAX {
        let detail = format!("place has {} bytes; it may have at most {PLACE_BYTES_MAX}", text.len());
        return Err(RegistryRefusal::BadPlace.problem(detail));
    }
    let segments: Vec<&str> = text.split('_').collect();
    if segments.len() > labels.len() {
        let detail = match labels {
            [] => "place needs the setting [fleet] place, the labels that its segments are".to_owned(),
            _ => format!(
                "place {text:?} has {} segments; there are at most {}, the labels {}",
                segments.len(),
                labels.len(),
                labels.join(", ")
            ),
        };
        return Err(RegistryRefusal::BadPlace.problem(detail));
    }
    if segments.iter().any(|segment| segment.is_empty()) {
        let detail = format!("place {text:?} has an empty segment; * means any value");
        return Err(RegistryRefusal::BadPlace.problem(detail));
    }
    let requirement = |(segment, label): (&&str, &String)| Requirement {
        key: SelectionKey::Label(label.as_str().into()),
        test: match *segment {
            "*" => Test::Exists,
            value => Test::In(BTreeSet::from([value.into()])),
        },
    };
    Ok(Selection { requirements: segments.iter().zip(labels).map(requirement).collect() })
}
