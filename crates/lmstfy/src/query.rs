//! Parameters of a query, or of a form, which has the same shape: the first of a name counts,
//! others are not looked at.

use std::borrow::Cow;

use crate::decoding;

/// The parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query<'a>(&'a str);

impl<'a> Query<'a> {
    pub(crate) fn new(text: Option<&'a str>) -> Self {
        Self(text.unwrap_or_default())
    }

    /// The first one of this name.
    pub(crate) fn get(self, name: &str) -> Option<Cow<'a, str>> {
        self.0.split('&').find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoding::form(key) == name).then(|| decoding::form(value))
        })
    }

    /// A whole number of at most `most`; `default` where there is none of this name, `None` where
    /// it is something else.
    pub(crate) fn number(self, name: &str, default: u64, most: u64) -> Option<u64> {
        let Some(text) = self.get(name) else { return Some(default) };
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| is_number && *number <= most)
    }

    /// A whole number, which may have a sign, of at least `least`.
    pub(crate) fn signed(self, name: &str, default: i64, least: i64) -> Option<i64> {
        let Some(text) = self.get(name) else { return Some(default) };
        text.parse().ok().filter(|number| *number >= least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_digits_and_no_more() {
        let most = u64::from(u32::MAX);
        for (text, expect) in [
            ("", Some(7)),
            ("n=12", Some(12)),
            ("a=1&n=0012&n=3", Some(12)),
            ("%6E=5", Some(5)),
            ("n=4294967295", Some(most)),
            ("n=4294967296", None),
            ("n=", None),
            ("n", None),
            ("n=%2B1", None),
            ("n=+1", None),
            ("n=-1", None),
            ("n=1s", None),
        ] {
            assert_eq!(Query::new(Some(text)).number("n", 7, most), expect, "{text:?}");
        }
        assert_eq!(Query::new(None).number("n", 7, most), Some(7));
    }

    #[test]
    fn a_signed_number_is_at_least_something() {
        for (text, expect) in
            [("", Some(1)), ("n=%2B5", Some(5)), ("n=0", None), ("n=-1", None), ("n=x", None)]
        {
            assert_eq!(Query::new(Some(text)).signed("n", 1, 1), expect, "{text:?}");
        }
    }
}
