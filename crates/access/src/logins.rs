//! Logins of devices: who may connect, and for which devices they may speak. Passwords are known by
//! their SHA-256 only.
//!
//! What a login may do with a topic is for the listener to know. One without logins is open:
//! whoever connects may do everything.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base::DeviceId;
use governor::clock::DefaultClock;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::failed_auth::FailedAuth;

/// Most connections and waiting sessions of a login that is one device: it needs one, and leaves
/// some behind when its network fails.
const CONNECTIONS_PER_DEVICE_MAX: usize = 16;

/// For which devices a login may speak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Login {
    /// For one.
    Device(DeviceId),
    /// For a site: the devices whose ids begin with this text, registered or not.
    Prefix(String),
    /// For a site: the registered devices with this label.
    Label {
        /// The label's key.
        key: String,
        /// Its value.
        value: String,
    },
    /// For all, and everywhere.
    Admin,
}

/// The logins of a listener.
pub struct Logins {
    by_username: HashMap<Arc<str>, LoginEntry>,
    failed: FailedAuth,
}

struct LoginEntry {
    password_sha256: [u8; 32],
    principal: Arc<Principal>,
}

/// What a connection was let in as.
#[derive(Debug, PartialEq, Eq)]
pub struct Principal {
    /// The login's number, from 1; 0 where everybody is let in.
    pub number: u32,
    /// Empty where everybody is let in.
    pub username: Arc<str>,
    /// For which devices it may speak.
    pub login: Login,
}

/// There is a login of that name already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsernameTaken(pub String);

impl fmt::Display for UsernameTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there are two MQTT logins with the username {:?}", self.0)
    }
}

impl std::error::Error for UsernameTaken {}

/// What a CONNECT gave as a proof.
pub struct Credentials {
    /// The username.
    pub username: String,
    /// The password, as it came.
    pub password: Vec<u8>,
}

/// Shows no password.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("username", &self.username).finish_non_exhaustive()
    }
}

impl Default for Logins {
    fn default() -> Self {
        Self::new()
    }
}

/// Shows no hash of a password.
impl fmt::Debug for Logins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_username.values().map(|entry| &entry.principal)).finish()
    }
}

impl Logins {
    /// No login: nobody is let in.
    #[must_use]
    pub fn new() -> Self {
        Self { by_username: HashMap::new(), failed: FailedAuth::new(DefaultClock::default()) }
    }

    /// How long who gave wrong credentials has to wait for the answer. Nobody else waits because of
    /// that.
    #[must_use]
    pub fn failed_delay(&self) -> Duration {
        self.failed.delay()
    }

    /// Adds a login with the SHA-256 of its password.
    ///
    /// # Errors
    /// When there is one of that name.
    pub fn add(
        &mut self,
        username: &str,
        password_sha256: [u8; 32],
        login: Login,
    ) -> Result<(), UsernameTaken> {
        if self.by_username.contains_key(username) {
            return Err(UsernameTaken(username.into()));
        }
        let number = self.by_username.len() as u32 + 1;
        let username: Arc<str> = Arc::from(username);
        let principal = Arc::new(Principal { number, username: Arc::clone(&username), login });
        self.by_username.insert(username, LoginEntry { password_sha256, principal });
        Ok(())
    }

    /// How many connections and waiting sessions somebody may have, where there are `all`, and
    /// `per_login_max` for one login.
    #[must_use]
    pub fn connections_max(&self, principal: &Principal, all: usize, per_login_max: usize) -> usize {
        let beside_others = if self.by_username.len() > 1 { all - all / 4 } else { all };
        let most = per_login_max.min(beside_others);
        match principal.login {
            Login::Device(_) => most.min(CONNECTIONS_PER_DEVICE_MAX),
            Login::Prefix(_) | Login::Label { .. } | Login::Admin => most,
        }
    }

    /// Who gave these credentials; takes the same time for a username that is not known.
    #[must_use]
    pub fn find(&self, credentials: &Credentials) -> Option<Arc<Principal>> {
        let given: [u8; 32] = Sha256::digest(&credentials.password).into();
        let entry = self.by_username.get(&*credentials.username);
        let expected = entry.map_or([0; 32], |entry| entry.password_sha256);
        let same = bool::from(given.ct_eq(&expected));
        entry.filter(|_| same).map(|entry| Arc::clone(&entry.principal))
    }
}

impl Principal {
    /// Whoever connects to a listener without logins.
    #[must_use]
    pub fn anybody() -> Self {
        Self { number: 0, username: Arc::from(""), login: Login::Admin }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failed_auth::AT_ONCE;

    fn logins() -> Logins {
        let mut logins = Logins::new();
        logins.add("ops", Sha256::digest("secret").into(), Login::Admin).expect("a new name");
        logins
    }

    #[test]
    fn only_the_right_password_lets_in() {
        let logins = logins();
        for (username, password, expect) in
            [("ops", "secret", Some(1)), ("ops", "Secret", None), ("ops", "", None), ("ob", "secret", None)]
        {
            let credentials = Credentials { username: username.into(), password: password.into() };
            assert_eq!(logins.find(&credentials).map(|known| known.number), expect, "{username} {password}");
        }
    }

    #[test]
    fn many_wrong_logins_wait() {
        let logins = logins();
        let waits = (0..=AT_ONCE.get()).map(|_| logins.failed_delay());
        assert_eq!(waits.filter(|wait| wait.is_zero()).count(), AT_ONCE.get() as usize);
    }

    #[test]
    fn no_login_takes_every_place() {
        let of = |username: &str, logins: &Logins, connections_max, per_login_max| {
            let password = b"secret".to_vec();
            let principal = logins.find(&Credentials { username: username.into(), password }).expect("known");
            logins.connections_max(&principal, connections_max, per_login_max)
        };
        let mut logins = logins();
        assert_eq!(of("ops", &logins, 50, 100), 50, "there is nobody else");
        let device = Login::Device(DeviceId::new("0xA").expect("an id"));
        logins.add("one", Sha256::digest("secret").into(), device).expect("a new name");
        assert_eq!(of("ops", &logins, 50, 100), 38);
        assert_eq!(of("ops", &logins, 50, 20), 20);
        assert_eq!((of("one", &logins, 50, 20), of("one", &logins, 50, 9)), (16, 9));
    }

    #[test]
    fn a_username_is_given_once() {
        assert_eq!(logins().add("ops", [0; 32], Login::Admin), Err(UsernameTaken("ops".into())));
    }

    #[test]
    fn nothing_secret_is_shown() {
        let credentials = Credentials { username: "ops".into(), password: "secret".into() };
        let shown = format!("{:?} {credentials:?}", logins());
        assert!(shown.contains("ops") && !shown.contains("secret") && !shown.contains("sha256"), "{shown}");
    }
}
