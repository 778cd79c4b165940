//! A client in requests and answers. Its secret is in the answer to its registration and to its
//! rotation, and in no other.

use base::Problem;
use base64::Engine as _;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use engine::records::Client;
use engine::{ClientPatch, NewClient};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::Schema;

use super::text::Time;
use crate::fields::{ObjectFields, boolean, string};
use crate::openapi::words;
use crate::row::{Cells, CsvRow};

/// What a secret's text begins with, by Standard Webhooks.
pub(super) const SECRET_PREFIX: &str = "whsec_";
/// Secrets made elsewhere come with and without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A client.
#[derive(Serialize, ToSchema)]
#[schema(as = Client)]
pub(crate) struct ClientShape<'a> {
    #[schema(schema_with = words::client_id)]
    id: &'a str,
    #[schema(schema_with = words::name)]
    name: &'a str,
    #[schema(schema_with = words::url)]
    url: &'a str,
    enabled: bool,
    /// Whether it is told of notices.
    notices: bool,
    created_at: Time,
}

/// A client that was just registered.
#[derive(Serialize, ToSchema)]
#[schema(as = NewClient)]
pub(crate) struct NewClientShape<'a> {
    #[serde(flatten)]
    client: ClientShape<'a>,
    #[schema(schema_with = words::secret)]
    secret: String,
}

impl<'a> From<&'a Client> for ClientShape<'a> {
    fn from(client: &'a Client) -> Self {
        Self {
            id: client.id.as_str(),
            name: &client.name,
            url: &client.url,
            enabled: client.enabled,
            notices: client.notices,
            created_at: Time(client.created_at),
        }
    }
}

impl<'a> From<&'a Client> for NewClientShape<'a> {
    fn from(client: &'a Client) -> Self {
        Self { client: client.into(), secret: secret_of(client) }
    }
}

/// A client's new secret.
#[derive(Serialize, ToSchema)]
#[schema(as = Secret)]
pub(crate) struct SecretShape {
    #[schema(schema_with = words::secret)]
    secret: String,
}

impl From<&Client> for SecretShape {
    fn from(client: &Client) -> Self {
        Self { secret: secret_of(client) }
    }
}

fn secret_of(client: &Client) -> String {
    format!("{SECRET_PREFIX}{}", STANDARD.encode(&client.secret))
}

impl CsvRow for ClientShape<'_> {
    const COLUMNS: &'static [&'static str] = &["id", "name", "url", "enabled", "created_at", "notices"];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.text(self.id).text(self.name).text(self.url).shown(self.enabled);
        cells.shown(self.created_at).shown(self.notices);
    }
}

/// The schema of a client to be registered.
pub(crate) fn new_client_schema() -> Schema {
    words::body(&[
        ("id?", words::client_id()),
        ("name", words::name()),
        ("url", words::url()),
        ("secret?", words::secret()),
        ("notices?", words::flag()),
    ])
}

/// The schema of a change of a client.
pub(crate) fn client_changes_schema() -> Schema {
    words::changes(&[
        ("name", words::name()),
        ("url", words::url()),
        ("enabled", words::flag()),
        ("notices", words::flag()),
    ])
}

/// A client as the body of a request asks for it.
pub(crate) fn new_client(text: &str) -> Result<NewClient, Problem> {
    let fields = ObjectFields::read(text, &["id", "name", "url", "secret", "notices"])?;
    Ok(NewClient {
        id: fields.optional("id", string)?,
        name: fields.required("name", string)?,
        url: fields.required("url", string)?,
        secret: fields.optional("secret", secret)?,
        notices: fields.optional("notices", boolean)?.unwrap_or(false),
    })
}

/// A change of a client as the body of a request asks for it.
pub(crate) fn change_of_client(text: &str) -> Result<ClientPatch, Problem> {
    let fields = ObjectFields::read(text, &["id", "name", "url", "enabled", "notices"])?;
    Ok(ClientPatch {
        id: fields.patch("id", string)?,
        name: fields.patch("name", string)?,
        url: fields.patch("url", string)?,
        enabled: fields.patch("enabled", boolean)?,
        notices: fields.patch("notices", boolean)?,
    })
}

/// The bytes of a secret. What was given is not shown: refusals are logged.
pub(super) fn secret(name: &str, json: &str) -> Result<Vec<u8>, Problem> {
    let text = string(name, json)?;
    let bytes = text.strip_prefix(SECRET_PREFIX).and_then(|digits| LENIENT.decode(digits).ok());
    bytes.ok_or_else(|| {
        let detail = format!("{name} must be \"{SECRET_PREFIX}\" and base64 behind it");
        Problem::not_allowed("invalid_secret", detail)
    })
}
