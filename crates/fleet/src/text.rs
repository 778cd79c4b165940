//! Text for people: names of clients and addresses of devices.

use base::Problem;
use base::limits::TEXT_CHARS_MAX;

use crate::RegistryRefusal;

/// The text, if it is short enough.
pub(crate) fn checked(field: &str, text: String) -> Result<String, Problem> {
    let chars = text.chars().count();
    if chars <= TEXT_CHARS_MAX {
        return Ok(text);
    }
    let detail = format!("{field} has {chars} characters; it may have at most {TEXT_CHARS_MAX}");
    Err(RegistryRefusal::TooLong.problem(detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_measured_in_characters() {
        for (text, expect) in
            [(String::new(), None), ("ж".repeat(256), None), ("ж".repeat(257), Some("too_long"))]
        {
            assert_eq!(checked("address", text).err().map(|problem| problem.code), expect);
        }
    }
}
