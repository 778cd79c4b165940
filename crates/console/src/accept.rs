//! Which forms of a file a browser takes, by `Accept-Encoding`.

use axum::http::HeaderValue;

/// A form that a file is kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AssetEncoding {
    Brotli,
    Gzip,
    Identity,
}

/// All of them, the smallest first.
const ALL: [AssetEncoding; 3] = [AssetEncoding::Brotli, AssetEncoding::Gzip, AssetEncoding::Identity];

impl AssetEncoding {
    /// As HTTP names it; nothing for a file as it is.
    pub(crate) fn token(self) -> Option<&'static str> {
        match self {
            Self::Brotli => Some("br"),
            Self::Gzip => Some("gzip"),
            Self::Identity => None,
        }
    }

    /// What the name of a file in this form has at its end.
    #[cfg(feature = "embedded")]
    pub(crate) fn ending(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Gzip => ".gz",
            Self::Identity => "",
        }
    }
}

/// The forms to try, in order: what is accepted with any weight but 0. A file as it is comes last,
/// and is given even to those who refuse it: an answer that can be read beats none.
pub(crate) fn accepted<'a>(given: impl Iterator<Item = &'a HeaderValue>) -> Vec<AssetEncoding> {
    let given: Vec<&str> =
        given.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).collect();
    let takes = |encoding: &AssetEncoding| {
        let Some(token) = encoding.token() else { return true };
        given.iter().any(|one| {
            let (name, weight) = one.split_once(';').unwrap_or((one, ""));
            let weight = weight.trim().strip_prefix("q=").map_or(Ok(1.0), str::parse::<f32>);
            name.trim().eq_ignore_ascii_case(token) && weight.is_ok_and(|weight| weight > 0.0)
        })
    };
    ALL.into_iter().filter(takes).collect()
}

#[cfg(test)]
mod tests {
    use super::{AssetEncoding, HeaderValue, accepted};

    fn check(given: &[&'static str], expect: &[AssetEncoding]) {
        let values: Vec<_> = given.iter().map(|value| HeaderValue::from_static(value)).collect();
        assert_eq!(accepted(values.iter()), expect, "{given:?}");
    }

    #[test]
    fn the_smallest_form_that_is_accepted_goes_first() {
        use AssetEncoding::{Brotli, Gzip, Identity};
        check(&[], &[Identity]);
        check(&["gzip, deflate, br, zstd"], &[Brotli, Gzip, Identity]);
        check(&["gzip"], &[Gzip, Identity]);
        check(&["gzip", "BR;q=0.5"], &[Brotli, Gzip, Identity]);
        check(&["br;q=0, gzip;q=0.000"], &[Identity]);
        check(&["br;q=many"], &[Identity]);
    }
}
