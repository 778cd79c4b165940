//! `/v1/limits`: how often something may be done.

use axum::extract::State;
use axum::response::Response;
use engine::coordination::{Coordination, CoordinationName, LimitPage, LimitStatus};
use engine::queries::BoundedPage;
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::body::Text;
use crate::list::{self, List, PageOfList};
use crate::openapi::refusals::OF_COORDINATION;
use crate::openapi::{Call, words};
use crate::params::Params;
use crate::path::NameInPath;
use crate::shape::{self, LimitShape, ListedLimitShape};

pub(super) fn routes() -> Routes {
    let asked = Call::new("Asks whether something may be done now; a refusal costs nothing")
        .takes(shape::limit_asked_schema())
        .gives::<LimitShape>(200, "whether it may")
        .refuses(OF_COORDINATION)
        .refuses(&[
            (422, "invalid_duration"),
            (422, "invalid_number"),
            (422, "missing_field"),
            (422, "unknown_word"),
            (429, "too_many_limits"),
        ]);
    let listed = Call::new("Limits that are used, in order of namespace and name")
        .query("namespace", words::queue_name())
        .lists::<ListedLimitShape<'_>>();
    Routes::default().get("/v1/limits", list, listed).post("/v1/limits/{ns}/{name}", ask, asked)
}

async fn ask(
    State(api): State<ApiState>,
    NameInPath(name): NameInPath,
    body: Text,
) -> Result<ApiAnswer, Refused> {
    let asked = shape::limit_asked(&body)?;
    let answer = api.engine().coordination().ask_limit(&name, &asked).await?;
    Ok(ApiAnswer::ok(&LimitShape::from(answer)))
}

async fn list(State(api): State<ApiState>, mut params: Params) -> Result<Response, Refused> {
    let namespace = params.namespace()?;
    let page = params.page()?;
    let coordination = api.engine().coordination();
    list::answer(&api, page, UsedLimits { coordination, namespace }).await
}

struct UsedLimits {
    coordination: Coordination,
    namespace: Option<String>,
}

impl List for UsedLimits {
    type Key = CoordinationName;
    type Found = LimitStatus;
    type Shown<'a> = ListedLimitShape<'a>;

    fn look(&self, after: Option<&CoordinationName>, limit: usize, _: usize) -> PageOfList<Self> {
        Ok(BoundedPage::indexed(self.coordination.limits(LimitPage {
            namespace: self.namespace.as_deref(),
            after,
            limit,
        })))
    }

    fn key(found: &LimitStatus) -> CoordinationName {
        found.name.clone()
    }

    fn show(found: &LimitStatus) -> ListedLimitShape<'_> {
        found.into()
    }
}
