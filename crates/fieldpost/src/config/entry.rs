//! One entry of a list of sections, such as `[[auth.tokens]]`, or one section with a name of the
//! user's own, such as `[kinds.face]`. Its fields are read by their shape, and those nobody asked
//! for are mistakes.
//!
//! Unlike the other settings a field has no default: it is there or it is not.

use std::collections::BTreeMap;

use super::layers::{Given, nearest};
use super::mistake::SettingOrigin;
use super::reader::SettingsReader;
use super::shape::Shape;

/// The fields of one entry.
#[derive(Debug)]
pub(super) struct SectionEntry {
    /// The key of the list or section: `auth.tokens`, `kinds.face`.
    key: String,
    /// As a file writes it: `[[auth.tokens]]`, `[kinds.face]`.
    heading: String,
    /// Where the entry begins.
    pub(super) origin: SettingOrigin,
    fields: BTreeMap<String, Given>,
    /// The fields that were asked for.
    known: Vec<&'static str>,
}

impl SectionEntry {
    /// An entry that was written at a place.
    pub(super) fn new(
        key: String,
        heading: String,
        origin: SettingOrigin,
        fields: Vec<(String, Given)>,
    ) -> Self {
        Self { key, heading, origin, fields: fields.into_iter().collect(), known: Vec::new() }
    }

    /// Where a field was written, unless it was taken.
    pub(super) fn origin_of(&self, field: &str) -> Option<SettingOrigin> {
        self.fields.get(field).map(|given| given.origin.clone())
    }

    /// A field as it was written.
    pub(super) fn take(&mut self, field: &'static str) -> Option<Given> {
        self.known.push(field);
        self.fields.remove(field)
    }

    /// A field that need not be there; where it is wrong, that is noted.
    pub(super) fn optional<S: Shape>(
        &mut self,
        from: &mut SettingsReader,
        field: &'static str,
        shape: &S,
    ) -> Option<S::Value> {
        let given = self.take(field)?;
        self.parse(from, field, &given, shape)
    }

    /// A field that has to be there.
    pub(super) fn required<S: Shape>(
        &mut self,
        from: &mut SettingsReader,
        field: &'static str,
        shape: &S,
    ) -> Option<S::Value> {
        let Some(given) = self.take(field) else {
            self.refuse(from, field, "is missing", &format!("write {}", shape.right()));
            return None;
        };
        self.parse(from, field, &given, shape)
    }

    /// Reads a value of a field.
    pub(super) fn parse<S: Shape>(
        &self,
        from: &mut SettingsReader,
        field: &str,
        given: &Given,
        shape: &S,
    ) -> Option<S::Value> {
        from.note_exposure(&self.key_of(field), S::EXPOSURE);
        match shape.parse(&given.value) {
            Ok(value) => Some(value),
            Err(wrong) => {
                let right = format!("write {}", shape.right());
                from.refuse_at(given.origin.clone(), &self.key_of(field), wrong, right);
                None
            }
        }
    }

    /// Notes a mistake that the entry as a whole is.
    pub(super) fn refuse(&self, from: &mut SettingsReader, field: &str, wrong: &str, right: &str) {
        from.refuse_at(self.origin.clone(), &self.key_of(field), wrong.to_owned(), right.to_owned());
    }

    /// Notes that the section's own name is a mistake.
    pub(super) fn refuse_name(&self, from: &mut SettingsReader, wrong: &str, right: &str) {
        from.refuse_at(self.origin.clone(), &self.key, wrong.to_owned(), right.to_owned());
    }

    /// What nobody asked for is a mistake.
    pub(super) fn finish(self, from: &mut SettingsReader) {
        for (field, given) in &self.fields {
            let right = match nearest(field, self.known.iter().copied()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("the fields of {} are {}", self.heading, self.known.join(", ")),
            };
            from.refuse_at(given.origin.clone(), &self.key_of(field), "unknown key".to_owned(), right);
        }
    }

    /// The whole key of a field.
    pub(super) fn key_of(&self, field: &str) -> String {
        format!("{}.{field}", self.key)
    }
}
