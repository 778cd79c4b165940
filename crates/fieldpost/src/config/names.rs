//! Lists of names: in a file a list of texts, in a variable one text with commas.

use axum::http::{HeaderValue, Uri};
use base::limits::LABEL_KEY_CHARS_MAX;

use super::layers::{Given, WrittenValue};
use super::shape::{Exposure, Shape, text};

/// Most names in a list.
const NAMES_MAX: usize = 64;
/// Longest name of a machine, in characters (RFC 1035).
const HOST_CHARS_MAX: usize = 253;

/// What one name of a list is.
pub(super) trait ListedName {
    type Value: Clone + PartialEq;
    /// For people: what a list of them may be.
    const RIGHT: &'static str;

    fn read(&self, text: &str) -> Option<Self::Value>;
}

/// A list of such names.
pub(super) struct NameList<N>(pub(super) N);

impl<N: ListedName> NameList<N> {
    fn one(&self, name: &str) -> Result<N::Value, String> {
        self.0.read(name).ok_or_else(|| format!("{name:?} cannot be one"))
    }
}

impl<N: ListedName> Shape for NameList<N> {
    const EXPOSURE: Exposure = Exposure::Shown;
    type Value = Vec<N::Value>;

    fn parse(&self, written: &WrittenValue) -> Result<Self::Value, String> {
        let names: Vec<_> = match written {
            WrittenValue::List(items) => {
                let one = |item: &Given| self.one(text(&item.value)?);
                items.iter().map(one).collect::<Result<_, _>>()?
            }
            WrittenValue::Untyped(_) => {
                let names = text(written)?.split(',').map(str::trim).filter(|name| !name.is_empty());
                names.map(|name| self.one(name)).collect::<Result<_, _>>()?
            }
            other => return Err(format!("is {}, not a list", other.kind())),
        };
        if names.len() > NAMES_MAX { Err(format!("has {} names", names.len())) } else { Ok(names) }
    }

    fn right(&self) -> String {
        format!("a list of at most {NAMES_MAX}, such as {}", N::RIGHT)
    }
}

/// The name of a machine, without a port.
pub(super) struct Host;

impl ListedName for Host {
    type Value = String;
    const RIGHT: &'static str = "[\"depot.example\"], names without a port";

    fn read(&self, text: &str) -> Option<String> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
        let fits = (1..=HOST_CHARS_MAX).contains(&text.len()) && text.bytes().all(plain);
        fits.then(|| text.to_ascii_lowercase())
    }
}

/// The key of a label.
pub(super) struct LabelKey;

impl ListedName for LabelKey {
    type Value = String;
    const RIGHT: &'static str = "[\"country\", \"city\"], keys of labels";

    fn read(&self, text: &str) -> Option<String> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'.' | b'-');
        let begins = text.bytes().next().is_some_and(|first| first.is_ascii_lowercase());
        let fits = begins && text.len() <= LABEL_KEY_CHARS_MAX && text.bytes().all(plain);
        fits.then(|| text.to_owned())
    }
}

/// The origin of a web page, as browsers write it.
pub(super) struct WebOrigin;

impl ListedName for WebOrigin {
    type Value = HeaderValue;
    const RIGHT: &'static str = "[\"https://console.example\"], without a path";

    fn read(&self, text: &str) -> Option<HeaderValue> {
        let uri: Uri = text.parse().ok()?;
        let (scheme, authority) = (uri.scheme_str()?, uri.authority()?.as_str());
        let default_port = if scheme == "https" { ":443" } else { ":80" };
        let as_browsers_do = ["http", "https"].contains(&scheme)
            && text == format!("{scheme}://{authority}")
            && !authority.contains(['@', '*'])
            && !authority.ends_with(default_port)
            && !authority.bytes().any(|b| b.is_ascii_uppercase());
        as_browsers_do.then(|| HeaderValue::try_from(text).ok()).flatten()
    }
}

/// An origin whose pages may embed one of ours: as it stands in a policy, which it must not end.
pub(super) struct FrameOrigin;

impl ListedName for FrameOrigin {
    type Value = String;
    const RIGHT: &'static str = "[\"https://portal.example\"], without a path";

    fn read(&self, text: &str) -> Option<String> {
        let is_plain = text.bytes().all(|b| b.is_ascii_graphic() && !b";,'\"".contains(&b));
        WebOrigin.read(text).filter(|_| is_plain).map(|_| text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_compared() {
        assert_eq!(Host.read("Depot.example").as_deref(), Some("depot.example"));
        for text in ["", "depot.example:8080", "http://depot.example", "a b", "[::1]"] {
            assert_eq!(Host.read(text), None, "{text:?}");
        }
        assert_eq!(FrameOrigin.read("https://p.example:8443").as_deref(), Some("https://p.example:8443"));
        for text in ["*", "'self'", "https://p.example/", "https://p.example;script-src", "https://*.example"]
        {
            assert_eq!(FrameOrigin.read(text), None, "{text:?}");
        }
        for text in ["https://console.example", "http://localhost:3000", "http://[::1]:3000"] {
            assert_eq!(WebOrigin.read(text).as_ref().map(HeaderValue::as_bytes), Some(text.as_bytes()));
        }
        for text in [
            "",
            "*",
            "null",
            "console.example",
            "https://console.example/",
            "https://console.example:443",
            "https://Console.example",
            "https://*.example",
            "https://a@console.example",
            "ftp://console.example",
        ] {
            assert_eq!(WebOrigin.read(text), None, "{text:?}");
        }
    }
}
