//! A device's value: one JSON value in canonical text, so that equal values have equal bytes.
//!
//! Canonical means: object keys sorted, no space between tokens, numbers as IEEE doubles in their
//! shortest form (`1.0` is `1`). The edges parse and canonicalise; here a value is only kept,
//! compared and given back.

use std::fmt;

use arcstr::ArcStr;

/// A value in canonical form. Cheap to clone: a number, or shared text.
#[derive(Clone)]
pub enum Value {
    /// A number; never NaN or infinite, and never negative zero.
    Number(f64),
    /// Any other JSON value, as canonical text.
    Text(ArcStr),
}

const _: () = assert!(size_of::<Option<Value>>() == 16, "every device has one in memory");

impl Value {
    /// A number. `None` if JSON cannot write it.
    #[must_use]
    pub fn number(number: f64) -> Option<Self> {
        number.is_finite().then_some(Self::Number(if number == 0.0 { 0.0 } else { number }))
    }

    /// Text that the caller has made canonical, and that is not a number.
    #[must_use]
    pub fn from_canonical(text: &str) -> Self {
        debug_assert!(
            !text.starts_with(|c: char| c == '-' || c.is_ascii_digit()),
            "numbers are kept as numbers"
        );
        Self::Text(ArcStr::from(text))
    }

    /// Whether the value is the number 0 or 1, the only ones a lock knows.
    #[must_use]
    pub fn is_bit(&self) -> bool {
        matches!(self, Self::Number(number) if *number == 0.0 || *number == 1.0)
    }

    /// Appends the canonical JSON text.
    pub fn write_json(&self, out: &mut String) {
        match self {
            Self::Number(number) => out.push_str(ryu_js::Buffer::new().format_finite(*number)),
            Self::Text(text) => out.push_str(text),
        }
    }

    /// The canonical JSON text.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = String::new();
        self.write_json(&mut text);
        text
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.to_bits() == b.to_bits(),
            (Self::Text(a), Self::Text(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Value {}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_their_shortest_form() {
        for (number, text) in
            [(0.0, "0"), (-0.0, "0"), (1.0, "1"), (-1.5, "-1.5"), (1e21, "1e+21"), (0.1, "0.1")]
        {
            let value = Value::number(number).expect("finite");
            assert_eq!(value.to_json(), text);
        }
        assert_eq!(Value::number(f64::NAN), None);
        assert_eq!(Value::number(-0.0), Value::number(0.0));
    }

    #[test]
    fn only_zero_and_one_are_bits() {
        let number = |n| Value::number(n).expect("finite");
        assert!(number(0.0).is_bit() && number(1.0).is_bit());
        assert!(!number(2.0).is_bit() && !Value::from_canonical("true").is_bit());
    }
}
