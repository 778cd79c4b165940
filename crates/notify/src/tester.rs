//! One `client.test`, sent when somebody asks whether a client can be reached: not stored, not
//! repeated.

use std::sync::Arc;

use base::{Clock, EntityId, Problem, random};
use engine::AttemptEnd;
use engine::records::Client;
use tokio::sync::Semaphore;

use crate::body;
use crate::sender::Sender;

/// Tests under way at a time; others wait for their turn.
const TESTS_IN_FLIGHT_MAX: usize = 32;

/// Sends tests. Cheap to clone.
#[derive(Clone)]
pub struct Tester {
    sender: Arc<Sender>,
    clock: Arc<dyn Clock>,
    places: Arc<Semaphore>,
}

base::debug_as_name!(Tester);

impl Tester {
    pub(crate) fn new(sender: Arc<Sender>, clock: Arc<dyn Clock>) -> Self {
        Self { sender, clock, places: Arc::new(Semaphore::new(TESTS_IN_FLIGHT_MAX)) }
    }

    /// Posts one test to a client, enabled or not, and says what came of it.
    ///
    /// # Errors
    /// 503 when the system has no source of randomness for its id.
    pub async fn test(&self, client: &Arc<Client>) -> Result<AttemptEnd, Problem> {
        let id = random::unguessable().map(|bytes| EntityId::from_bytes(&bytes));
        let id = id.map_err(|_| Problem::unavailable("the system has no source of randomness"))?;
        let _place = self.places.acquire().await;
        let body = body::test(client.id.as_str(), self.clock.now());
        Ok(self.sender.attempt(client, id, Arc::from(body)).await)
    }
}
