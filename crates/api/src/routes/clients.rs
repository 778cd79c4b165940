//! `/v1/clients`: the applications that are told.

use axum::Router;
use axum::extract::State;
use axum::routing::get;

use crate::ApiState;
use crate::answer::Answer;
use crate::body::Text;
use crate::idempotency::Creation;
use crate::params::Params;
use crate::path::{ClientInPath, unknown_client};
use crate::problem::Refused;
use crate::shape::{self, ClientShape, NewClientShape};

pub(super) fn routes() -> Router<ApiState> {
    Router::new()
        .route("/v1/clients", get(list).post(create))
        .route("/v1/clients/{id}", get(show).patch(change).delete(remove))
}

async fn create(State(api): State<ApiState>, creation: Creation) -> Result<Answer, Refused> {
    let create = async |api: ApiState, body: String| {
        let client = api.engine().create_client(shape::new_client(&body)?).await?;
        Ok(Answer::created(&NewClientShape::from(&client)))
    };
    creation.once(&api, create).await
}

async fn list(State(api): State<ApiState>, params: Params) -> Result<Answer, Refused> {
    let page = params.page()?;
    let clients = api.queries().clients(page.after.as_ref(), page.to_read());
    let shapes: Vec<_> = clients.iter().map(|client| (&client.id, ClientShape::from(&**client))).collect();
    Ok(page.show(shapes, |(id, _)| (*id).clone(), |(_, shape)| shape))
}

async fn show(State(api): State<ApiState>, ClientInPath(id): ClientInPath) -> Result<Answer, Refused> {
    let client = api.queries().client(&id).ok_or_else(|| unknown_client(id.as_str()))?;
    Ok(Answer::ok(&ClientShape::from(&*client)))
}

async fn change(
    State(api): State<ApiState>,
    ClientInPath(id): ClientInPath,
    Text(body): Text,
) -> Result<Answer, Refused> {
    let client = api.engine().patch_client(id, shape::change_of_client(&body)?).await?;
    Ok(Answer::ok(&ClientShape::from(&client)))
}

async fn remove(State(api): State<ApiState>, ClientInPath(id): ClientInPath) -> Result<Answer, Refused> {
    api.engine().delete_client(id).await?;
    Ok(Answer::nothing())
}
