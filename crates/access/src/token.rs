//! A token as the settings list it: never the token itself, only what recognises it.

use std::fmt;
use std::num::NonZeroU32;

use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::{PickLimits, Scope};

/// The SHA-256 of a token. It is not shown: who has it can try tokens against it.
#[derive(Clone, Copy)]
pub struct Digest([u8; Self::BYTES]);

impl Digest {
    /// How many bytes it has.
    pub const BYTES: usize = 32;

    /// The digest that consists of these bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Its bytes, for where it is kept.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0
    }

    /// The digest of a token.
    #[must_use]
    pub fn of(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }
}

impl ConstantTimeEq for Digest {
    fn ct_eq(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        self.ct_eq(other).into()
    }
}

impl Eq for Digest {}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(..)")
    }
}

/// One token: what recognises it, what it may do, and how much of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// For people and metrics; unique among the tokens.
    pub name: String,
    /// What recognises it; unique among the tokens.
    pub digest: Digest,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// Requests that it may make in a second, so many at once at most; no limit if `None`.
    pub requests_per_second: Option<NonZeroU32>,
    /// Requests that may be under way at a time, until the last byte of the answer; no limit if
    /// `None`.
    pub requests_in_flight: Option<NonZeroU32>,
    /// What its tasks and campaigns may ask for.
    pub picks: PickLimits,
}

impl Token {
    /// A token without limits that is itself what it is called, for tests.
    #[cfg(any(test, feature = "for-tests"))]
    #[must_use]
    pub fn for_tests(name: &str, scopes: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            digest: Digest::of(name.as_bytes()),
            scopes: scopes.iter().map(|scope| Scope::parse(scope).expect("a scope")).collect(),
            requests_per_second: None,
            requests_in_flight: None,
            picks: PickLimits::default(),
        }
    }
}
