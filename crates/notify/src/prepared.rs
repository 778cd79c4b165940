//! What of a client is the same at every attempt, worked out once: its URL taken apart and its
//! signing key.
//!
//! An entry belongs to one version of a client: the very record in the directory. So a changed URL
//! or secret is seen at the next attempt. What no attempt has used between two sweeps is dropped,
//! deleted clients with it.

use std::sync::{Arc, Mutex};

use base::Timestamp;
use base::locks::locked;
use engine::records::Client;

use crate::by_client::ByClient;
use crate::signature::SigningKey;
use crate::target::{NotATarget, WebhookTarget};

const AGENT: &str = concat!("fieldpost/", env!("CARGO_PKG_VERSION"));
/// Most clients that are kept prepared.
const PREPARED_MAX: usize = 4_096;

/// A client, ready to be posted to.
#[derive(Debug)]
pub(crate) struct PreparedClient {
    pub(crate) target: WebhookTarget,
    /// What the head of every request begins with.
    pub(crate) opening: String,
    pub(crate) key: SigningKey,
    /// The key before, which is signed with too until then.
    pub(crate) previous: Option<(SigningKey, Timestamp)>,
}

impl PreparedClient {
    fn of(client: &Client) -> Result<Self, NotATarget> {
        let previous = client.previous_secret.as_ref();
        let target = WebhookTarget::parse(&client.url)?;
        let opening = format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\nuser-agent: {AGENT}\r\ncontent-type: application/json\r\n",
            target.path, target.host
        );
        Ok(Self {
            target,
            opening,
            key: SigningKey::new(&client.secret),
            previous: previous.map(|previous| (SigningKey::new(&previous.secret), previous.until)),
        })
    }

    /// The value of `webhook-signature`: one signature for each secret that holds at `now`, the
    /// newest first.
    pub(crate) fn sign(&self, now: Timestamp, id: &str, seconds: &str, body: &[u8]) -> String {
        let mut signatures = self.key.sign(id, seconds, body);
        if let Some((previous, _)) = self.previous.as_ref().filter(|(_, until)| now < *until) {
            signatures.push(' ');
            signatures.push_str(&previous.sign(id, seconds, body));
        }
        signatures
    }
}

/// The prepared clients.
#[derive(Debug, Default)]
pub(crate) struct PreparedClients {
    entries: Mutex<ByClient<PreparedEntry>>,
}

#[derive(Debug)]
struct PreparedEntry {
    /// Held, so that no other record can have its address.
    version: Arc<Client>,
    prepared: Arc<PreparedClient>,
    used: bool,
}

impl PreparedClients {
    /// The client, prepared.
    pub(crate) fn get(&self, client: &Arc<Client>) -> Result<Arc<PreparedClient>, NotATarget> {
        if let Some(entry) = locked(&self.entries).get_mut(&client.incarnation)
            && Arc::ptr_eq(&entry.version, client)
        {
            entry.used = true;
            return Ok(Arc::clone(&entry.prepared));
        }
        let prepared = Arc::new(PreparedClient::of(client)?);
        let entry =
            PreparedEntry { version: Arc::clone(client), prepared: Arc::clone(&prepared), used: true };
        let mut entries = locked(&self.entries);
        if entries.len() < PREPARED_MAX || entries.contains_key(&client.incarnation) {
            entries.insert(client.incarnation, entry);
        }
        Ok(prepared)
    }

    /// Drops what was not used since the last sweep.
    pub(crate) fn sweep(&self) {
        locked(&self.entries).retain(|_, entry| std::mem::take(&mut entry.used));
    }
}

#[cfg(test)]
mod tests {
    use base::{ClientId, Incarnation};

    use super::*;

    fn client(url: &str) -> Arc<Client> {
        Arc::new(Client {
            id: ClientId::new("a").expect("an id"),
            incarnation: Incarnation(1),
            name: String::new(),
            url: url.to_owned(),
            secret: b"secret".to_vec(),
            previous_secret: None,
            enabled: true,
            notices: false,
            created_at: Timestamp(0),
        })
    }

    #[test]
    fn a_changed_client_is_prepared_anew() {
        let clients = PreparedClients::default();
        let old = client("http://a.example/old");
        let first = clients.get(&old).expect("a target");
        assert!(Arc::ptr_eq(&first, &clients.get(&old).expect("a target")));
        let changed = clients.get(&client("http://a.example/new")).expect("a target");
        assert_eq!(changed.target.path, "/new");
        assert_eq!(clients.get(&client("mailto:a@example.com")).err(), Some(NotATarget));
    }

    #[test]
    fn a_secret_that_was_rotated_away_is_signed_with_until_it_is_over() {
        let clients = PreparedClients::default();
        let mut rotated = (*client("http://a.example/")).clone();
        let until = Timestamp(1_000);
        rotated.previous_secret = Some(engine::records::PreviousSecret { secret: b"before".to_vec(), until });
        let prepared = clients.get(&Arc::new(rotated)).expect("a target");
        let sign = |key: &[u8]| SigningKey::new(key).sign("id", "1", b"body");
        let both = format!("{} {}", sign(b"secret"), sign(b"before"));
        assert_eq!(prepared.sign(Timestamp(999), "id", "1", b"body"), both);
        assert_eq!(prepared.sign(until, "id", "1", b"body"), sign(b"secret"));
    }

    #[test]
    fn what_is_not_used_is_dropped() {
        let clients = PreparedClients::default();
        let version = client("http://a.example/");
        clients.get(&version).expect("a target");
        clients.sweep();
        assert_eq!(locked(&clients.entries).len(), 1);
        clients.sweep();
        assert_eq!(locked(&clients.entries).len(), 0);
        assert_eq!(Arc::strong_count(&version), 1);
    }
}
