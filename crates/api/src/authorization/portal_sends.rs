//! How often the portals of a client may have something sent to it that costs the server more than
//! an answer. A test makes a connection out, and a resend goes through all devices of the client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::locks::locked;
use base::{ClientId, Problem, Timestamp};

/// Time from one test of a client to the next, over all its portals.
const TEST_EVERY: Duration = Duration::from_secs(5);
/// When to ask again while a resend is under way: nobody knows when it ends.
const RESEND_AGAIN_SECONDS: u64 = 1;

/// What the portals of each client have had sent.
#[derive(Debug, Default)]
pub(super) struct PortalSends {
    /// When the next test may go; clients that may have one are not here.
    tests: Mutex<HashMap<ClientId, Timestamp>>,
    resends: Arc<Mutex<Vec<ClientId>>>,
}

/// A resend that a portal asked for, as long as it is under way; an extension of the request.
#[derive(Clone, Debug)]
pub(crate) struct ResendOfPortal {
    _under_way: Arc<ResendUnderWay>,
}

#[derive(Debug)]
struct ResendUnderWay {
    client: ClientId,
    resends: Arc<Mutex<Vec<ClientId>>>,
}

impl PortalSends {
    /// Takes a test in.
    ///
    /// # Errors
    /// The refusal, and after how many seconds the next may come.
    pub(super) fn test(&self, client: &ClientId, now: Timestamp) -> Result<(), (Problem, u64)> {
        let mut tests = locked(&self.tests);
        tests.retain(|_, next| now < *next);
        if let Some(next) = tests.get(client) {
            let seconds = (next.0 - now.0).max(1).cast_unsigned().div_ceil(1_000);
            let detail = format!("the portals of client {client} have a test sent every 5 seconds at most");
            return Err((Problem::new(429, "too_many_requests", detail), seconds));
        }
        tests.insert(client.clone(), now.after(TEST_EVERY));
        Ok(())
    }

    /// Takes a resend in, which is under way as long as what is returned lives.
    ///
    /// # Errors
    /// The refusal, and after how many seconds the next may come.
    pub(super) fn resend(&self, client: &ClientId) -> Result<ResendOfPortal, (Problem, u64)> {
        let mut resends = locked(&self.resends);
        if resends.contains(client) {
            let detail = format!(
                "a portal of client {client} has everything sent again already; ask when that is over"
            );
            return Err((Problem::new(429, "too_many_requests", detail), RESEND_AGAIN_SECONDS));
        }
        resends.push(client.clone());
        let resends = Arc::clone(&self.resends);
        Ok(ResendOfPortal { _under_way: Arc::new(ResendUnderWay { client: client.clone(), resends }) })
    }
}

impl Drop for ResendUnderWay {
    fn drop(&mut self) {
        locked(&self.resends).retain(|client| *client != self.client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(id: &str) -> ClientId {
        ClientId::new(id).expect("an id")
    }

    #[test]
    fn the_portals_of_a_client_have_one_test_in_five_seconds() {
        let sends = PortalSends::default();
        let told = |id: &str, at: i64| {
            let refused = sends.test(&client(id), Timestamp(at)).err();
            refused.map(|(problem, seconds)| (problem.status, seconds))
        };
        for (id, at, expect) in [
            ("acme", 1_000, None),
            ("acme", 1_001, Some((429, 5))),
            ("other", 1_001, None),
            ("acme", 5_999, Some((429, 1))),
            ("acme", 6_000, None),
            ("other", 6_000, Some((429, 1))),
        ] {
            assert_eq!(told(id, at), expect, "{id} at {at}");
        }
        assert_eq!(told("last", 60_000), None);
        assert_eq!(sends.tests.lock().expect("unpoisoned").len(), 1, "who may have one is forgotten");
    }

    #[test]
    fn a_client_has_one_resend_of_a_portal_under_way() {
        let sends = PortalSends::default();
        let first = sends.resend(&client("acme")).expect("none is under way");
        let again = first.clone();
        assert_eq!(sends.resend(&client("acme")).err().map(|(problem, _)| problem.status), Some(429));
        assert!(sends.resend(&client("other")).is_ok());
        drop(first);
        assert!(sends.resend(&client("acme")).is_err(), "the task that sends has it still");
        drop(again);
        assert!(sends.resend(&client("acme")).is_ok());
    }
}
