//! A portal in requests and answers. Its token is in the answer to its making, and in no other.

use std::time::Duration;

use base::Problem;
use engine::records::{PortalRights, PortalToken};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::Schema;

use super::text::Time;
use crate::fields::{ObjectFields, duration, strings};
use crate::openapi::words;
use crate::path::PORTAL_ID_PREFIX;
use crate::row::{Cells, CsvRow};

/// Where the console shows the portal whose token follows.
const PAGE: &str = "/console/portal#";

/// What a portal may be opened for.
pub(crate) const PORTAL_RIGHTS: [&str; 3] = ["read", "retry", "url"];

/// The words for these rights.
pub(crate) fn right_words(PortalRights { read, retry, url }: PortalRights) -> Vec<&'static str> {
    let rights = PORTAL_RIGHTS.into_iter().zip([read, retry, url]);
    rights.filter_map(|(word, may)| may.then_some(word)).collect()
}

/// A portal that is open.
#[derive(Serialize, ToSchema)]
#[schema(as = Portal)]
pub(crate) struct PortalShape {
    #[schema(schema_with = words::portal_id)]
    id: String,
    #[schema(schema_with = words::portal_rights)]
    may: Vec<&'static str>,
    created_at: Time,
    expires_at: Time,
    /// The name of the token that asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    by: Option<String>,
}

/// A portal that was just opened.
#[derive(Serialize, ToSchema)]
#[schema(as = NewPortal)]
pub(crate) struct NewPortalShape {
    #[serde(flatten)]
    portal: PortalShape,
    /// The path of its page, with the token behind `#`, so that no server is told it by a link.
    url: String,
    token: String,
}

impl From<&PortalToken> for PortalShape {
    fn from(token: &PortalToken) -> Self {
        Self {
            id: format!("{PORTAL_ID_PREFIX}{}", token.id.0),
            may: right_words(token.may),
            created_at: Time(token.created_at),
            expires_at: Time(token.expires_at),
            by: token.by.as_deref().map(str::to_owned),
        }
    }
}

impl NewPortalShape {
    /// A portal with its token.
    pub(crate) fn of(portal: &PortalToken, token: String) -> Self {
        Self { portal: portal.into(), url: format!("{PAGE}{token}"), token }
    }
}

impl CsvRow for PortalShape {
    const COLUMNS: &'static [&'static str] = &["id", "may", "created_at", "expires_at", "by"];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.text(&self.id).text(&self.may.join(" ")).shown(self.created_at).shown(self.expires_at);
        cells.shown_or_empty(self.by.as_deref());
    }
}

/// The schema of a portal to be opened.
pub(crate) fn new_portal_schema() -> Schema {
    words::body(&[("ttl", words::duration()), ("may", words::portal_rights())])
}

/// How long a portal is to be open, and what its holder may do.
pub(crate) fn new_portal(text: &str) -> Result<(Duration, PortalRights), Problem> {
    let fields = ObjectFields::read(text, &["ttl", "may"])?;
    let mut rights = [false; PORTAL_RIGHTS.len()];
    for word in fields.required("may", strings)? {
        let Some(right) = PORTAL_RIGHTS.iter().position(|right| *right == word) else {
            let detail = "may names read, retry and url, and nothing else";
            return Err(Problem::not_allowed("unknown_word", detail));
        };
        rights[right] = true;
    }
    let [read, retry, url] = rights;
    let may = PortalRights { read, retry, url };
    if may == PortalRights::default() {
        return Err(Problem::not_allowed(
            "unknown_word",
            "may must name at least one of read, retry and url",
        ));
    }
    Ok((fields.required("ttl", duration)?, may))
}
