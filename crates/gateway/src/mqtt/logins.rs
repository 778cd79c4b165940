//! Who may connect, and for which devices they may speak. Passwords are known by their SHA-256 only.
//!
//! What a login may do with a topic is in `access.rs`. A listener without logins is open: whoever connects may do everything.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use base::DeviceId;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::limits::{CONNECTIONS_PER_DEVICE_MAX, Limits};

/// So many wrong logins in a second, and so many at once, are refused at once, as a fleet with an old password may make them. The
/// others wait: who tries passwords gets to try few.
const WRONG_PER_SECOND: NonZeroU32 = NonZeroU32::new(10).expect("not 0");
const WRONG_AT_ONCE: NonZeroU32 = NonZeroU32::new(100).expect("not 0");
const WRONG_WAIT: Duration = Duration::from_secs(1);

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
    by_username: HashMap<Arc<str>, Entry>,
    wrong: DefaultDirectRateLimiter,
}

struct Entry {
    password_sha256: [u8; 32],
    known_as: Arc<KnownAs>,
}

/// What a connection was let in as.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KnownAs {
    /// The login's number, from 1; 0 where everybody is let in.
    pub(super) number: u32,
    /// Empty where everybody is let in.
    pub(super) username: Arc<str>,
    pub(super) login: Login,
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
pub(super) struct Credentials {
    pub(super) username: String,
    pub(super) password: Vec<u8>,
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
        f.debug_set().entries(self.by_username.values().map(|entry| &entry.known_as)).finish()
    }
}

impl Logins {
    /// No login: nobody is let in.
    #[must_use]
    pub fn new() -> Self {
        let quota = Quota::per_second(WRONG_PER_SECOND).allow_burst(WRONG_AT_ONCE);
        Self { by_username: HashMap::new(), wrong: RateLimiter::direct(quota) }
    }

    /// How long who gave wrong credentials has to wait for the answer. Nobody else waits because of that.
    pub(super) fn wrong_again(&self) -> Duration {
        if self.wrong.check().is_ok() { Duration::ZERO } else { WRONG_WAIT }
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
        let known_as = Arc::new(KnownAs { number, username: Arc::clone(&username), login });
        self.by_username.insert(username, Entry { password_sha256, known_as });
        Ok(())
    }

    /// How many connections and waiting sessions somebody may have.
    pub(super) fn connections_max(&self, known_as: &KnownAs, limits: &Limits) -> usize {
        let all = limits.connections_max;
        let beside_others = if self.by_username.len() > 1 { all - all / 4 } else { all };
        let most = limits.connections_per_login_max.min(beside_others);
        match known_as.login {
            Login::Device(_) => most.min(CONNECTIONS_PER_DEVICE_MAX),
            Login::Prefix(_) | Login::Label { .. } | Login::Admin => most,
        }
    }

    /// Who gave these credentials; takes the same time for a username that is not known.
    pub(super) fn find(&self, credentials: &Credentials) -> Option<Arc<KnownAs>> {
        let given: [u8; 32] = Sha256::digest(&credentials.password).into();
        let entry = self.by_username.get(&*credentials.username);
        let expected = entry.map_or([0; 32], |entry| entry.password_sha256);
        let same = bool::from(given.ct_eq(&expected));
        entry.filter(|_| same).map(|entry| Arc::clone(&entry.known_as))
    }
}

impl KnownAs {
    /// Whoever connects to a listener without logins.
    pub(super) fn anybody() -> Self {
        Self { number: 0, username: Arc::from(""), login: Login::Admin }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let waits = (0..=WRONG_AT_ONCE.get()).map(|_| logins.wrong_again());
        assert_eq!(waits.filter(|wait| wait.is_zero()).count(), WRONG_AT_ONCE.get() as usize);
    }

    #[test]
    fn no_login_takes_every_place() {
        let of = |username: &str, logins: &Logins, connections_max, connections_per_login_max| {
            let limits = Limits { connections_max, connections_per_login_max, ..Limits::default() };
            let password = b"secret".to_vec();
            let known_as = logins.find(&Credentials { username: username.into(), password }).expect("known");
            logins.connections_max(&known_as, &limits)
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
