//! Reading ids and kinds, with refusals that say what is allowed.

use base::limits::{CLIENT_ID_CHARS_MAX, DEVICE_ID_CHARS_MAX, KIND_CHARS_MAX};
use base::{ClientId, DeviceId, DeviceIdAlphabet, DeviceIdForm, Kind, Problem};

use crate::RegistryRefusal;

/// The id of a device that is to be registered.
///
/// # Errors
/// `invalid_id` when it is not of that form; it names the setting that says so.
pub fn device_id(text: &str, form: DeviceIdForm) -> Result<DeviceId, Problem> {
    let id = DeviceId::new(text);
    id.filter(|id| form.admits(id)).ok_or_else(|| RegistryRefusal::InvalidId.problem(not_an_id(text, form)))
}

fn not_an_id(text: &str, form: DeviceIdForm) -> String {
    let chars_max = form.chars_max.min(DEVICE_ID_CHARS_MAX);
    let chars = text.chars().count();
    if chars > chars_max {
        return format!(
            "the device id has {chars} characters; it may have at most {chars_max} (devices.id_max_len)"
        );
    }
    let beside = match form.alphabet {
        DeviceIdAlphabet::Alnum => " (devices.id_chars can allow more)",
        DeviceIdAlphabet::Extended => ", but not dots alone (devices.id_chars)",
    };
    let chars = form.alphabet.as_words();
    format!("{} is not a device id; an id is 1 to {chars_max} {chars}{beside}", shown(text))
}

/// A client's id.
///
/// # Errors
/// `invalid_id` when it is not `[A-Za-z0-9_-]{1,64}`.
pub fn client_id(text: &str) -> Result<ClientId, Problem> {
    ClientId::new(text).ok_or_else(|| {
        let detail = format!(
            "{} is not a client id; an id is 1 to {CLIENT_ID_CHARS_MAX} ASCII letters, digits, '_' and '-'",
            shown(text)
        );
        RegistryRefusal::InvalidId.problem(detail)
    })
}

/// A kind of device.
///
/// # Errors
/// `invalid_kind` when it is not `[a-z][a-z0-9_-]{0,31}`.
pub fn kind(text: &str) -> Result<Kind, Problem> {
    Kind::new(text).ok_or_else(|| {
        let detail = format!(
            "{} is not a kind; a kind begins with a lower-case letter and has at most {KIND_CHARS_MAX} \
             lower-case letters, digits, '_' and '-'",
            shown(text)
        );
        RegistryRefusal::InvalidKind.problem(detail)
    })
}

/// What was given, quoted, and cut short where it would fill the sentence.
pub(crate) fn shown(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 80;
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((cut, _)) => format!("{:?}...", &text[..cut]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_id_may_be_as_long_as_the_setting_says() {
        let id16 = "0123456789aBcDeF";
        let alphabet = DeviceIdAlphabet::Alnum;
        for (text, chars_max, expect) in [
            (id16, 16, None),
            ("0123456789aBcDeF0", 16, Some("the device id has 17 characters; it may have at most 16")),
            ("0123456789aBcDeF0", 17, None),
            (&"a".repeat(65), 1_000, Some("the device id has 65 characters; it may have at most 64")),
            ("", 16, Some("\"\" is not a device id; an id is 1 to 16 ASCII letters and digits")),
            ("a-b", 16, Some("\"a-b\" is not a device id")),
            ("äöü", 16, Some("\"äöü\" is not a device id")),
        ] {
            let problem = device_id(text, DeviceIdForm { chars_max, alphabet }).err();
            assert_eq!(problem.is_some(), expect.is_some(), "{text}");
            let Some((problem, expect)) = problem.zip(expect) else { continue };
            assert_eq!((problem.status, problem.code), (422, "invalid_id"));
            assert!(problem.detail.starts_with(expect), "{}", problem.detail);
        }
    }

    #[test]
    fn a_device_id_may_have_the_characters_that_the_setting_says() {
        let extended = DeviceIdForm { alphabet: DeviceIdAlphabet::Extended, chars_max: 36 };
        for id in ["SN_7.4-b", "00:1B:44:11:3A:B7", "123e4567-e89b-12d3-a456-426614174000"] {
            assert_eq!(device_id(id, extended).map(|id| id.to_string()), Ok(id.to_owned()));
        }
        for (id, form, says) in [
            ("a-b", DeviceIdForm::DEFAULT, "ASCII letters and digits (devices.id_chars can allow more)"),
            ("a/b", DeviceIdForm::DEFAULT, "devices.id_chars"),
            ("a/b", extended, "'.' and ':', but not dots alone (devices.id_chars)"),
            ("..", extended, "(devices.id_chars)"),
            ("a+", extended, "(devices.id_chars)"),
        ] {
            let problem = device_id(id, form).expect_err(id);
            assert_eq!(problem.code, "invalid_id");
            assert!(problem.detail.contains(says), "{id}: {}", problem.detail);
        }
    }

    #[test]
    fn a_client_id_and_a_kind_keep_to_their_alphabets() {
        assert_eq!(client_id("gate_7-A").map(|id| id.to_string()), Ok("gate_7-A".to_owned()));
        assert_eq!(client_id("gate 7").map_err(|problem| problem.code), Err("invalid_id"));
        assert_eq!(kind("face-2").map(|kind| kind.to_string()), Ok("face-2".to_owned()));
        assert_eq!(kind("Face").map_err(|problem| problem.code), Err("invalid_kind"));
    }

    #[test]
    fn a_refusal_does_not_repeat_endless_text() {
        let problem = client_id(&"ä".repeat(10_000)).expect_err("too long");
        assert!(problem.detail.chars().count() < 250, "{}", problem.detail);
    }
}
