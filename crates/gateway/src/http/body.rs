//! Bodies of reports, with the word that one is counted under that cannot be taken.

use axum::body::{Body, Bytes};
use base::Problem;
use base::limits::JSON_BODY_BYTES_MAX;
use net::body::{BodyPieces, WholeBody};
use net::memory_budget::MemoryPart;
use net::shares::SenderKey;

use super::RequestRefused;

/// Reads a body that is one JSON object. Its memory is kept until the report is durable.
pub(super) async fn whole(
    body: Body,
    memory: &MemoryPart,
    sender: &SenderKey,
) -> Result<WholeBody, RequestRefused> {
    net::body::whole(body, JSON_BODY_BYTES_MAX, memory, sender).await.map_err(not_taken)
}

/// The next piece of an NDJSON body; `None` at its end. Dropping this before it is ready loses
/// nothing.
pub(super) async fn next(body: &mut BodyPieces) -> Result<Option<Bytes>, RequestRefused> {
    body.next().await.map_err(not_taken)
}

fn not_taken(problem: Problem) -> RequestRefused {
    match problem.code {
        "body_too_large" => {
            let detail =
                format!("a JSON body has at most {JSON_BODY_BYTES_MAX} bytes; send many reports as NDJSON");
            RequestRefused::NotTaken("too_large", Problem { detail, ..problem })
        }
        "body_too_slow" => RequestRefused::NotTaken("too_slow", problem),
        "busy" => RequestRefused::NotTaken("busy", problem),
        // The sender is gone, so nobody will read this; it names the request in a log of the layer
        // above.
        _ => RequestRefused::NotTaken("broken_off", problem),
    }
}

#[cfg(test)]
mod tests {
    use net::memory_budget::{FREE_BYTES, MemoryBudget, Purpose, SENDER_BYTES};
    use tokio::time::pause;

    use super::*;

    #[tokio::test]
    async fn a_body_that_is_not_taken_is_counted_by_why() {
        pause();
        let memory = MemoryBudget::default().part(Purpose::Bodies);
        let _all = memory.take(&SenderKey::Unknown, SENDER_BYTES).await;
        for (bytes, expect) in [(FREE_BYTES + 1, "busy"), (JSON_BODY_BYTES_MAX + 1, "too_large")] {
            let refused = whole(Body::from(vec![b' '; bytes]), &memory, &SenderKey::Unknown).await.err();
            let Some(RequestRefused::NotTaken(word, _)) = refused else { panic!("{bytes} bytes are taken") };
            assert_eq!(word, expect);
        }
    }
}
