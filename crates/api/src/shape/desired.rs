//! Desired entries of a device in answers.

use engine::records::DesiredState;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::openapi::words;

/// What is wished of a device, and what it has confirmed.
#[derive(Serialize, ToSchema)]
#[schema(as = DesiredEntries)]
pub(crate) struct WishesShape<'a> {
    #[schema(max_items = 1000)]
    items: Vec<WishShape<'a>>,
}

/// A desired entry. Null is no entry: none is wished, or the device has none.
#[derive(Serialize, ToSchema)]
#[schema(as = DesiredEntry)]
pub(crate) struct WishShape<'a> {
    #[schema(schema_with = words::command_name)]
    key: &'a str,
    #[schema(schema_with = words::any, required)]
    desired: Option<&'a RawValue>,
    #[schema(schema_with = words::any, required)]
    confirmed: Option<&'a RawValue>,
    /// Whether a command is on its way that brings the device there.
    pending: bool,
}

impl<'a> From<&'a DesiredState> for WishShape<'a> {
    fn from(desired_state: &'a DesiredState) -> Self {
        let json = |text: &'a Option<Box<str>>| {
            text.as_deref().and_then(|text| serde_json::from_str::<&RawValue>(text).ok())
        };
        Self {
            key: &desired_state.key,
            desired: json(&desired_state.desired),
            confirmed: json(&desired_state.confirmed),
            pending: desired_state.command.is_some(),
        }
    }
}

impl<'a> From<&'a [DesiredState]> for WishesShape<'a> {
    fn from(desired_states: &'a [DesiredState]) -> Self {
        Self { items: desired_states.iter().map(WishShape::from).collect() }
    }
}
