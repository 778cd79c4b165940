//! What became of commands as the public API tells it: how many stand where.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::api_client::{ApiClient, ApiError};

/// How many commands there are of each status.
pub type Outcomes = BTreeMap<String, u64>;

/// Counts the commands of an origin by their status. The origin is one that needs no escape in a
/// URL.
///
/// # Errors
/// A refusal, an unreadable answer, or none in time.
pub async fn outcomes(api: &ApiClient, origin: &str) -> Result<Outcomes, ApiError> {
    #[derive(Deserialize)]
    struct Command {
        status: String,
    }
    let mut outcomes = Outcomes::new();
    for Command { status } in api.list(&format!("/v1/commands?origin={origin}")).await? {
        *outcomes.entry(status).or_default() += 1;
    }
    Ok(outcomes)
}
