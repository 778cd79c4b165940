//! How often something may be done in a span of time, over all programs that ask.

use std::time::Duration;

use hyper::Method;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::client::Client;
use crate::error::Error;
use crate::path::Path;
use crate::request::Request;
use crate::retry::Repeat;
use crate::span::Milliseconds;

/// The shortest time between two questions of one that waits.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// A limit by its name. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Limiter {
    client: Client,
    path: Path,
    limit: u64,
    per: Duration,
    kind: &'static str,
}

/// Whether something may be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitAnswer {
    /// Whether it may. If not, it cost nothing.
    pub allowed: bool,
    /// How much may still come now.
    pub remaining: u64,
    /// After how long the same is allowed if nothing else comes.
    pub retry_after: Duration,
}

#[derive(Serialize)]
struct LimitQuestion {
    limit: u64,
    per: Milliseconds,
    cost: u64,
    kind: &'static str,
}

impl Limiter {
    pub(crate) fn new(client: Client, namespace: &str, name: &str, limit: u64, per: Duration) -> Self {
        let path = Path::of(&["limits", namespace, name]);
        Self { client, path, limit, per, kind: "smooth" }
    }

    /// Counts in spans that are aligned to the clock. Around the border of two, twice the limit may
    /// come; without this, never more than the limit in any span.
    #[must_use]
    pub fn window(self) -> Self {
        Self { kind: "window", ..self }
    }

    /// Whether so much may be done now.
    ///
    /// It is not asked again where an answer was lost: the first may have counted.
    ///
    /// # Errors
    /// 422 where `cost` is over the limit; see [`Error`].
    pub async fn ask(&self, cost: u64) -> Result<LimitAnswer, Error> {
        #[derive(Deserialize)]
        struct Wire {
            allowed: bool,
            remaining: u64,
            retry_after_ms: u64,
        }
        let body = LimitQuestion { limit: self.limit, per: Milliseconds(self.per), cost, kind: self.kind };
        let request = Request::document(Method::POST, self.path.clone(), &body)?;
        let Wire { allowed, remaining, retry_after_ms } =
            self.client.fetch(&request, Repeat::Harmful).await?;
        Ok(LimitAnswer { allowed, remaining, retry_after: Duration::from_millis(retry_after_ms) })
    }

    /// Returns once so much may be done, however long that takes.
    ///
    /// # Errors
    /// See [`Limiter::ask`].
    pub async fn until_allowed(&self, cost: u64) -> Result<(), Error> {
        loop {
            let answer = self.ask(cost).await?;
            if answer.allowed {
                return Ok(());
            }
            sleep(answer.retry_after.max(PAUSE_MIN)).await;
        }
    }
}
