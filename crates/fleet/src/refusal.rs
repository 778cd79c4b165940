//! Every reason for which the registry refuses, in one place: its stable code, its status and its
//! meaning.
//!
//! A code, once released, keeps its name and meaning; `docs/operations.md` lists them for the
//! people who meet them.

use base::Problem;

/// Why the registry refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegistryRefusal {
    /// A device or client id is too long or has characters that ids do not have.
    InvalidId,
    /// A kind is not `[a-z][a-z0-9_-]{0,31}`.
    InvalidKind,
    /// A URL is not a plain `http` or `https` URL with a host.
    InvalidUrl,
    /// A URL names a private address, and `notify.allow_private` is off.
    PrivateAddress,
    /// A label's key or value is not what labels may be, or a key is there twice.
    InvalidLabel,
    /// The device would have more labels than a device may have.
    TooManyLabels,
    /// The device would have more clients than a device may have.
    TooManyLinks,
    /// A report interval is too short or too long.
    InvalidInterval,
    /// A device's window or gap for commands is not within its bounds.
    InvalidPace,
    /// A client's secret is too short or too long.
    InvalidSecret,
    /// A name, an address or a URL is longer than it may be.
    TooLong,
    /// The field stays as it was when the thing was registered.
    CannotChange,
    /// The field cannot be cleared.
    CannotClear,
    /// The device's kind does not take this value.
    ValueNotAllowed,
    /// The value is larger than a device's value may be.
    ValueTooLarge,
    /// A selector cannot be read.
    BadSelector,
    /// A place has too many segments, or an empty one.
    BadPlace,
}

impl RegistryRefusal {
    /// Every refusal.
    pub const ALL: [Self; 17] = [
        Self::InvalidId,
        Self::InvalidKind,
        Self::InvalidUrl,
        Self::PrivateAddress,
        Self::InvalidLabel,
        Self::TooManyLabels,
        Self::TooManyLinks,
        Self::InvalidInterval,
        Self::InvalidPace,
        Self::InvalidSecret,
        Self::TooLong,
        Self::CannotChange,
        Self::CannotClear,
        Self::ValueNotAllowed,
        Self::ValueTooLarge,
        Self::BadSelector,
        Self::BadPlace,
    ];

    /// The stable word for programs.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::InvalidId => "invalid_id",
            Self::InvalidKind => "invalid_kind",
            Self::InvalidUrl => "invalid_url",
            Self::PrivateAddress => "private_address",
            Self::InvalidLabel => "invalid_label",
            Self::TooManyLabels => "too_many_labels",
            Self::TooManyLinks => "too_many_links",
            Self::InvalidInterval => "invalid_interval",
            Self::InvalidPace => "invalid_pace",
            Self::InvalidSecret => "invalid_secret",
            Self::TooLong => "too_long",
            Self::CannotChange => "cannot_change",
            Self::CannotClear => "cannot_clear",
            Self::ValueNotAllowed => "value_not_allowed",
            Self::ValueTooLarge => "value_too_large",
            Self::BadSelector => "bad_selector",
            Self::BadPlace => "bad_place",
        }
    }

    /// The HTTP status that says the same: 409 where the rest of the registry stands in the way,
    /// else 422.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::TooManyLinks => 409,
            _ => 422,
        }
    }

    /// The refusal with the sentence that says what was wrong and what would be right.
    #[must_use]
    pub fn problem(self, detail: impl Into<String>) -> Problem {
        Problem::new(self.status(), self.code(), detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_a_snake_case_word_of_its_own() {
        let mut codes: Vec<_> = RegistryRefusal::ALL.iter().map(|refusal| refusal.code()).collect();
        assert!(
            codes.iter().all(|code| code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')),
            "{codes:?}"
        );
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), RegistryRefusal::ALL.len());
    }
}
