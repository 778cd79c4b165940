//! `/v1/relays`: the outbox relays that are there.

use access::Caller;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use base::{Problem, Timestamp};
use engine::queries::BoundedPage;
use engine::streams::is_label;
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::body::Text;
use crate::cursor::NameKey;
use crate::list::{self, List, PageOfList};
use crate::openapi::Call;
use crate::params::Params;
use crate::path::RelayInPath;
use crate::relays::{KnownRelay, KnownRelays};
use crate::shape::{self, RelayShape};

pub(super) fn routes() -> Routes {
    let listed = Call::new("The outbox relays that are there, in order of name").lists::<RelayShape<'_>>();
    let said = Call::new("What a relay says of itself; it is forgotten when it says stopped, or ten seconds after the last time")
        .takes(shape::relay_word_schema())
        .gives_nothing(204, "it is shown from now on")
        .refuses(&[
            (422, "invalid_name"),
            (422, "invalid_number"),
            (422, "invalid_time"),
            (422, "missing_field"),
            (503, "too_many_relays"),
        ]);
    Routes::default().get("/v1/relays", list, listed).put("/v1/relays/{name}", heard, said)
}

/// The relays as they are at this time.
struct RelayList {
    relays: KnownRelays,
    now: Timestamp,
}

impl List for RelayList {
    type Key = NameKey;
    type Found = (KnownRelay, Timestamp);
    type Shown<'a> = RelayShape<'a>;

    fn look(&self, after: Option<&NameKey>, limit: usize, _: usize) -> PageOfList<Self> {
        let mut found = self.relays.all(after.map(|NameKey(name)| &**name), self.now);
        found.truncate(limit);
        Ok(BoundedPage::indexed(found.into_iter().map(|relay| (relay, self.now)).collect()))
    }

    fn key((relay, _): &Self::Found) -> NameKey {
        NameKey(relay.name.clone())
    }

    fn show((relay, now): &Self::Found) -> RelayShape<'_> {
        RelayShape::of(relay, *now)
    }
}

async fn list(State(api): State<ApiState>, params: Params) -> Result<Response, Refused> {
    let page = params.page()?;
    let list = RelayList { relays: api.shared.relays.clone(), now: api.engine().clock().now() };
    list::answer(&api, page, list).await
}

async fn heard(
    State(api): State<ApiState>,
    caller: Option<Extension<Caller>>,
    RelayInPath(name): RelayInPath,
    body: Text,
) -> Result<ApiAnswer, Refused> {
    if !is_label(&name) {
        let detail = "the name of a relay has 1 to 64 of A-Z a-z 0-9 _ . : and -";
        return Err(Problem::not_allowed("invalid_name", detail).into());
    }
    let word = shape::relay_word(&body)?;
    let by = caller.as_ref().map_or("", |Extension(caller)| caller.name());
    api.shared.relays.heard((&name, by), word, api.engine().clock().now())?;
    Ok(ApiAnswer::nothing())
}
