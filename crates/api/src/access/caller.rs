//! Who makes a request: the token it came with, once that is recognised.

use std::sync::Arc;

use super::{Scope, Token};

/// The token of a request that was let through; an extension of the request.
#[derive(Clone, Debug)]
pub(crate) struct Caller(Arc<Token>);

impl Caller {
    pub(super) fn new(token: Token) -> Self {
        Self(Arc::new(token))
    }

    /// The token's name.
    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    pub(super) fn token(&self) -> &Token {
        &self.0
    }

    pub(super) fn scopes(&self) -> &[Scope] {
        &self.0.scopes
    }
}
