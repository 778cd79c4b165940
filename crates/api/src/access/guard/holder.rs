//! Tokens that callers show in other ways than as a bearer token: known and limited like all others.

use base::Problem;

use super::super::limits::UnderWay;
use super::super::{Access, Scope};
use super::{Guard, Known};

/// Whoever shows one of the tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder<'a> {
    guard: &'a Guard,
    known: &'a Known,
}

impl Access {
    /// Whether nobody has to show a token.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }

    /// Who shows this token; `None` for one that is not known.
    pub(crate) fn holder(&self, token: &[u8]) -> Option<Holder<'_>> {
        let Self::Guarded(guard) = self else { return None };
        guard.find(token).map(|known| Holder { guard, known })
    }
}

impl<'a> Holder<'a> {
    /// The token's name.
    pub(crate) fn name(self) -> &'a str {
        self.known.caller.name()
    }

    pub(crate) fn scopes(self) -> &'a [Scope] {
        self.known.caller.scopes()
    }

    /// Takes a request in, which is under way as long as what is returned lives.
    ///
    /// # Errors
    /// 429 for one who calls too often.
    pub(crate) fn admit(self) -> Result<UnderWay, Problem> {
        let Self { guard, known } = self;
        match known.limits.take() {
            Ok(under_way) => {
                guard.figures.judged(self.name(), "admitted");
                Ok(under_way)
            }
            Err(beyond) => {
                guard.figures.judged(self.name(), "limited");
                Err(super::beyond(&known.caller, beyond))
            }
        }
    }

    /// The token may not do what it was shown for.
    pub(crate) fn is_forbidden(self) {
        self.guard.figures.judged(self.name(), "forbidden");
    }
}
