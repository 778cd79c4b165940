//! The token that opens a server. It is sent and never shown: not in help, not in errors, not in
//! debugging output.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// A bearer token.
#[derive(Clone)]
pub(super) struct BearerToken(String);

impl BearerToken {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The token itself, for the header that carries it.
    pub(super) fn secret(&self) -> &str {
        &self.0
    }
}

/// Every text is taken here: a refusal of the command line would repeat it.
impl FromStr for BearerToken {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> BearerToken {
        let Ok(token) = text.parse();
        token
    }

    #[test]
    fn a_token_is_sent_and_not_shown() {
        assert_eq!(token("s3cret").secret(), "s3cret");
        assert_eq!(format!("{:?}", token("s3cret")), "Token(..)");
    }
}
