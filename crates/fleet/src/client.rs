//! Registering and changing clients.

use std::fmt;

use base::{ClientId, Incarnation, Problem, Timestamp};
use records::Client;

use crate::device::check_stays;
use crate::{Patch, RegistryRefusal, RegistryRules, check_url, id, text};

/// Shortest secret, in bytes, as Standard Webhooks recommends.
pub const SECRET_BYTES_MIN: usize = 24;
/// Longest secret, in bytes, as Standard Webhooks recommends.
pub const SECRET_BYTES_MAX: usize = 64;

/// A client as a caller asks for it.
#[derive(Clone, PartialEq, Eq)]
pub struct NewClient {
    /// Its id; made when left out.
    pub id: Option<String>,
    /// For people.
    pub name: String,
    /// Where notifications are posted.
    pub url: String,
    /// The key of the signature: the bytes behind `whsec_`; made when left out.
    pub secret: Option<Vec<u8>>,
    /// Whether it is told of notices.
    pub notices: bool,
}

impl fmt::Debug for NewClient {
    /// Leaves the secret out: it must never reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewClient")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// What takes the place of what was left out: made anew for every registration, from an unguessable
/// source.
#[derive(Clone, PartialEq, Eq)]
pub struct Made {
    /// From which an id is made.
    pub id: [u8; 8],
    /// The secret.
    pub secret: [u8; 32],
}

impl fmt::Debug for Made {
    /// Leaves the secret out: it must never reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Made").field("id", &self.id).finish_non_exhaustive()
    }
}

const _: () = assert!(SECRET_BYTES_MIN <= 32 && 32 <= SECRET_BYTES_MAX, "a made secret is a good one");

impl NewClient {
    /// The client, enabled, if it may be registered. Whether its id is free is for the caller to
    /// see.
    ///
    /// # Errors
    /// `invalid_id`, `too_long`, `invalid_url`, `private_address` or `invalid_secret`.
    pub fn register(
        self,
        rules: &RegistryRules,
        made: &Made,
        incarnation: Incarnation,
        created_at: Timestamp,
    ) -> Result<Client, Problem> {
        check_url(&self.url, rules.allow_private)?;
        Ok(Client {
            id: self.id.map_or_else(|| Ok(made_id(made.id)), |id| id::client_id(&id))?,
            incarnation,
            name: text::checked("name", self.name)?,
            url: self.url,
            secret: self.secret.map_or_else(|| Ok(made.secret.to_vec()), checked_secret)?,
            previous_secret: None,
            enabled: true,
            notices: self.notices,
            created_at,
        })
    }
}

/// The id of a client that was registered without one.
fn made_id(bytes: [u8; 8]) -> ClientId {
    ClientId::new(&format!("cl_{:016x}", u64::from_be_bytes(bytes)))
        .expect("hex digits may be in a client id")
}

/// The secret, if notifications may be signed with it.
///
/// # Errors
/// `invalid_secret`.
pub fn checked_secret(secret: Vec<u8>) -> Result<Vec<u8>, Problem> {
    if (SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&secret.len()) {
        return Ok(secret);
    }
    let detail = format!(
        "secret has {} bytes; it may have {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX}, as base64 behind \"whsec_\"",
        secret.len()
    );
    Err(RegistryRefusal::InvalidSecret.problem(detail))
}

/// A change of a client, as a JSON merge patch says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientPatch {
    /// May be named, but stays.
    pub id: Patch<String>,
    /// For people.
    pub name: Patch<String>,
    /// Where notifications are posted.
    pub url: Patch<String>,
    /// Whether it is told anything.
    pub enabled: Patch<bool>,
    /// Whether it is told of notices.
    pub notices: Patch<bool>,
}

impl ClientPatch {
    /// The client after the change. Equal to `present` when there is nothing to change.
    ///
    /// # Errors
    /// `cannot_change`, `cannot_clear`, `too_long`, `invalid_url` or `private_address`; then
    /// nothing changes.
    pub fn merged(self, rules: &RegistryRules, present: &Client) -> Result<Client, Problem> {
        check_stays("id", &self.id, present.id.as_str())?;
        let mut client = present.clone();
        if let Some(name) = named("name", self.name)? {
            client.name = text::checked("name", name)?;
        }
        if let Some(url) = named("url", self.url)? {
            check_url(&url, rules.allow_private)?;
            client.url = url;
        }
        if let Some(enabled) = named("enabled", self.enabled)? {
            client.enabled = enabled;
        }
        if let Some(notices) = named("notices", self.notices)? {
            client.notices = notices;
        }
        Ok(client)
    }
}

/// The new value of a field that is always there.
fn named<T>(field: &str, change: Patch<T>) -> Result<Option<T>, Problem> {
    match change {
        Patch::Keep => Ok(None),
        Patch::Set(value) => Ok(Some(value)),
        Patch::Clear => {
            let detail = format!("{field} cannot be null; leave it out to keep it");
            Err(RegistryRefusal::CannotClear.problem(detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: RegistryRules =
        RegistryRules { device_ids: base::DeviceIdForm::DEFAULT, allow_private: false };
    const MADE: Made = Made { id: [0, 1, 2, 3, 4, 5, 6, 255], secret: [9; 32] };

    fn asked() -> NewClient {
        NewClient {
            id: Some("gate_7".to_owned()),
            name: "Gate".to_owned(),
            url: "https://example.com/hook".to_owned(),
            secret: Some(vec![1; 24]),
            notices: false,
        }
    }

    fn register(client: NewClient) -> Result<Client, Problem> {
        client.register(&RULES, &MADE, Incarnation(5), Timestamp(77))
    }

    #[test]
    fn a_client_is_registered_enabled() {
        let expect = Client {
            id: ClientId::new("gate_7").expect("an id"),
            incarnation: Incarnation(5),
            name: "Gate".to_owned(),
            url: "https://example.com/hook".to_owned(),
            secret: vec![1; 24],
            previous_secret: None,
            enabled: true,
            notices: false,
            created_at: Timestamp(77),
        };
        assert_eq!(register(asked()), Ok(expect));
    }

    #[test]
    fn id_and_secret_are_made_when_left_out() {
        let client = register(NewClient { id: None, secret: None, ..asked() }).expect("may be registered");
        assert_eq!((client.id.as_str(), client.secret.as_slice()), ("cl_00010203040506ff", &[9; 32][..]));
    }

    #[test]
    fn a_client_that_may_not_be_is_refused() {
        for (client, expect) in [
            (NewClient { id: Some("gate 7".to_owned()), ..asked() }, "invalid_id"),
            (NewClient { name: "x".repeat(257), ..asked() }, "too_long"),
            (NewClient { url: "ftp://example.com".to_owned(), ..asked() }, "invalid_url"),
            (NewClient { url: "http://127.1/".to_owned(), ..asked() }, "private_address"),
            (NewClient { secret: Some(vec![0; 23]), ..asked() }, "invalid_secret"),
            (NewClient { secret: Some(vec![0; 65]), ..asked() }, "invalid_secret"),
        ] {
            assert_eq!(register(client).map_err(|problem| problem.code), Err(expect));
        }
    }

    #[test]
    fn a_patch_changes_what_it_names() {
        let present = register(asked()).expect("may be registered");
        let set = |text: &str| Patch::Set(text.to_owned());
        for (patch, expect) in [
            (ClientPatch::default(), present.clone()),
            (
                ClientPatch { id: set("gate_7"), name: set("G"), ..ClientPatch::default() },
                Client { name: "G".to_owned(), ..present.clone() },
            ),
            (
                ClientPatch { url: set("http://a.example"), ..ClientPatch::default() },
                Client { url: "http://a.example".to_owned(), ..present.clone() },
            ),
            (
                ClientPatch { enabled: Patch::Set(false), ..ClientPatch::default() },
                Client { enabled: false, ..present.clone() },
            ),
            (
                ClientPatch { notices: Patch::Set(true), ..ClientPatch::default() },
                Client { notices: true, ..present.clone() },
            ),
        ] {
            let name = format!("{patch:?}");
            assert_eq!(patch.merged(&RULES, &present), Ok(expect), "{name}");
        }
    }

    #[test]
    fn a_patch_that_may_not_be_is_refused() {
        let present = register(asked()).expect("may be registered");
        let set = |text: &str| Patch::Set(text.to_owned());
        for (patch, expect) in [
            (ClientPatch { id: set("gate_8"), ..ClientPatch::default() }, "cannot_change"),
            (ClientPatch { id: Patch::Clear, ..ClientPatch::default() }, "cannot_change"),
            (ClientPatch { name: Patch::Clear, ..ClientPatch::default() }, "cannot_clear"),
            (ClientPatch { url: Patch::Clear, ..ClientPatch::default() }, "cannot_clear"),
            (ClientPatch { enabled: Patch::Clear, ..ClientPatch::default() }, "cannot_clear"),
            (ClientPatch { name: Patch::Set("x".repeat(257)), ..ClientPatch::default() }, "too_long"),
            (ClientPatch { url: set("http://[::1]/"), ..ClientPatch::default() }, "private_address"),
        ] {
            let name = format!("{patch:?}");
            assert_eq!(patch.merged(&RULES, &present).map_err(|problem| problem.code), Err(expect), "{name}");
        }
    }
}
