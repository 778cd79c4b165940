//! Ids that callers choose for what the server does over time: rollouts and campaigns.

use base::Problem;

/// Longest id that a caller chooses, in characters.
pub(crate) const CHOSEN_ID_CHARS_MAX: usize = 64;
/// Characters that a refusal shows of an id.
const SHOWN_CHARS_MAX: usize = 80;

/// Whether a caller may choose this id. `whose` names the owner in a refusal.
pub(crate) fn check_chosen_id(whose: &str, id: &str) -> Result<(), Problem> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if (1..=CHOSEN_ID_CHARS_MAX).contains(&id.len()) && id.bytes().all(plain) {
        return Ok(());
    }
    let detail = format!(
        "{} is no {whose}'s id, which has 1 to {CHOSEN_ID_CHARS_MAX} letters, digits, '-' and '_'",
        shown(id)
    );
    Err(Problem::not_allowed("invalid_id", detail))
}

/// An id as a refusal shows it: not all of one that is far too long.
pub(crate) fn shown(id: &str) -> String {
    match id.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{:?}...", &id[..end]),
        None => format!("{id:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_id_is_shown_with_its_owner() {
        assert_eq!(check_chosen_id("campaign", "firmware-7_b"), Ok(()));
        for id in ["", "a.b", &"x".repeat(65)] {
            let refused = check_chosen_id("campaign", id).expect_err("no id");
            assert!(refused.code == "invalid_id", "{refused:?}");
            assert!(refused.detail.contains("is no campaign's id"), "{refused:?}");
        }
    }
}
