//! JSON text without the space between tokens, otherwise as its sender wrote it: for what is kept
//! and shown again, and never compared.

use base::Problem;
use serde_json::Value;
use serde_json::value::RawValue;

use super::canonical::VALUE_DEPTH_MAX;

/// The compact text. `what` names it in refusals.
///
/// # Errors
/// `value_too_large`, `value_too_deep`, `value_not_allowed` (a number beyond a double, half a
/// surrogate pair).
pub(super) fn text(raw: &RawValue, what: &str, bytes_max: usize) -> Result<Box<str>, Problem> {
    let mut squeezed = Squeezed::default();
    for piece in raw.get().split_inclusive(['"', ',', ':', '[', ']', '{', '}']) {
        squeezed.add(piece);
        if squeezed.out.len() > bytes_max {
            let detail = format!("{what} takes over {bytes_max} bytes as compact JSON");
            return Err(Problem::not_allowed("value_too_large", detail));
        }
        if squeezed.depth > VALUE_DEPTH_MAX {
            let detail = format!("{what} is nested deeper than {VALUE_DEPTH_MAX}");
            return Err(Problem::not_allowed("value_too_deep", detail));
        }
    }
    // It is JSON by its grammar. What is left to refuse is what no reader takes.
    let may_be_beyond =
        squeezed.out.len() > f64::MAX_10_EXP as usize || squeezed.out.contains(['e', 'E', '\\']);
    if may_be_beyond && serde_json::from_str::<Value>(&squeezed.out).is_err() {
        let detail = format!("{what} has a number beyond an IEEE double, or half a character");
        return Err(Problem::not_allowed("value_not_allowed", detail));
    }
    Ok(squeezed.out.into())
}

/// Text without the space outside its strings.
#[derive(Default)]
struct Squeezed {
    out: String,
    in_string: bool,
    depth: usize,
}

impl Squeezed {
    /// Adds a piece that ends with a quote or with punctuation, which may be within a string.
    fn add(&mut self, piece: &str) {
        if !self.in_string {
            let (words, last) = match piece.as_bytes().last() {
                Some(b'"' | b',' | b':' | b'[' | b']' | b'{' | b'}') => piece.split_at(piece.len() - 1),
                _ => (piece, ""),
            };
            self.out.push_str(words.trim_ascii());
            self.out.push_str(last);
            match last {
                "\"" => self.in_string = true,
                "[" | "{" => self.depth += 1,
                "]" | "}" => self.depth -= 1,
                _ => {}
            }
            return;
        }
        self.out.push_str(piece);
        if piece.ends_with('"') {
            let before = self.out[..self.out.len() - 1].bytes().rev();
            let backslashes = before.take_while(|byte| *byte == b'\\').count();
            self.in_string = backslashes % 2 == 1;
        }
    }
}
