//! `/v1/backup`: everything that is kept, for whoever keeps a copy of it.

use axum::extract::State;
use axum::response::Response;
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::backup::BACKUP_TYPE;
use crate::openapi::Call;
use crate::openapi::refusals::OF_A_READ;

pub(super) fn routes() -> Routes {
    let given = Call::new("A backup of everything that is durable now")
        .gives_text(BACKUP_TYPE, "pieces, each under a checksum; the last says that it is whole")
        .refuses(OF_A_READ);
    Routes::default().get("/v1/backup", give, given)
}

async fn give(State(api): State<ApiState>) -> Result<Response, Refused> {
    Ok(api.shared.backups.answer().await?)
}
