//! Which values a device of a kind may report.

use base::limits::VALUE_BYTES_MAX;
use base::{Kind, Problem, Value};

use crate::RegistryRefusal;

/// Whether a device of `kind` may have `value`: a lock the numbers 0 and 1, every other kind what
/// is not too large.
///
/// # Errors
/// `value_not_allowed` or `value_too_large`.
pub fn check_value(kind: &Kind, value: &Value) -> Result<(), Problem> {
    if let Value::Text(text) = value
        && text.len() > VALUE_BYTES_MAX
    {
        let detail = format!(
            "the value has {} bytes as compact JSON; it may have at most {VALUE_BYTES_MAX}",
            text.len()
        );
        return Err(RegistryRefusal::ValueTooLarge.problem(detail));
    }
    if kind.is_lock() && !value.is_bit() {
        let detail = "the value of a lock is the number 0 or the number 1";
        return Err(RegistryRefusal::ValueNotAllowed.problem(detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_takes_bits_and_other_kinds_take_what_fits() {
        let face = Kind::new("face").expect("a kind");
        let number = |n| Value::number(n).expect("finite");
        let string_of = |bytes: usize| Value::from_canonical(&format!("\"{}\"", "x".repeat(bytes - 2)));
        for (kind, value, expect) in [
            (Kind::lock(), number(0.0), None),
            (Kind::lock(), number(1.0), None),
            (Kind::lock(), number(2.0), Some("value_not_allowed")),
            (Kind::lock(), number(0.5), Some("value_not_allowed")),
            (Kind::lock(), Value::from_canonical("true"), Some("value_not_allowed")),
            (Kind::lock(), Value::from_canonical("\"1\""), Some("value_not_allowed")),
            (Kind::lock(), Value::from_canonical("null"), Some("value_not_allowed")),
            (Kind::lock(), string_of(5_000), Some("value_too_large")),
            (face.clone(), number(36.6), None),
            (face.clone(), Value::from_canonical("null"), None),
            (face.clone(), Value::from_canonical("{\"a\":[1]}"), None),
            (face.clone(), string_of(4_096), None),
            (face, string_of(4_097), Some("value_too_large")),
        ] {
            let code = check_value(&kind, &value).err().map(|problem| problem.code);
            assert_eq!(code, expect, "{kind} {value:?}");
        }
    }
}
