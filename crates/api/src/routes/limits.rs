//! `/v1/limits`: how often something may be done.

use axum::extract::State;
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::answer::Answer;
use crate::body::Text;
use crate::openapi::Call;
use crate::openapi::refusals::OF_COORDINATION;
use crate::path::NameInPath;
use crate::shape::{self, LimitShape};

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
    Routes::default().post("/v1/limits/{ns}/{name}", ask, asked)
}

async fn ask(
    State(api): State<ApiState>,
    NameInPath(name): NameInPath,
    Text(body): Text,
) -> Result<Answer, Refused> {
    let asked = shape::limit_asked(&body)?;
    let answer = api.engine().coordination().ask_limit(&name, &asked).await?;
    Ok(Answer::ok(&LimitShape::from(answer)))
}
