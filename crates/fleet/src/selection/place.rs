//! Places: some labels in a fixed order, written as one word.

use std::collections::BTreeSet;

use base::Problem;

use super::{Requirement, Selection, SelectionKey, Test};
use crate::Refusal;

/// The devices of a place: its segments are the values of the labels of the setting `fleet.place`,
/// from the first on. Fewer segments mean all below, and `*` means any value.
///
/// # Errors
/// `bad_place` when there are more segments than labels, or an empty one.
pub fn place(text: &str, labels: &[String]) -> Result<Selection, Problem> {
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
        return Err(Refusal::BadPlace.problem(detail));
    }
    if segments.iter().any(|segment| segment.is_empty()) {
        let detail = format!("place {text:?} has an empty segment; * means any value");
        return Err(Refusal::BadPlace.problem(detail));
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
