//! How much of something bounded the tasks and campaigns of each token hold.
//!
//! One token may hold a quarter of the bound, so that others find room. Without tokens everybody is
//! one, who may hold all of it.

use std::collections::BTreeMap;

/// One token may hold the bound divided by this.
const TOKENS_TO_FILL_UP: usize = 4;

/// What one token may hold of a bound.
#[must_use]
pub const fn share_of_token(max: usize) -> usize {
    max / TOKENS_TO_FILL_UP
}

/// Why somebody may hold no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// All together would hold more than the bound. They hold so much.
    Bound(usize),
    /// The token would hold more than its share. It holds so much.
    Share(usize),
}

/// How much is held, altogether and by each token that holds anything.
#[derive(Clone, Debug, Default)]
pub struct TokenUse {
    all: usize,
    by_token: BTreeMap<Box<str>, usize>,
}

impl TokenUse {
    /// How much is held altogether.
    #[must_use]
    pub fn all(&self) -> usize {
        self.all
    }

    /// Whoever has this token, or has none, holds more.
    pub fn add(&mut self, token: Option<&str>, amount: usize) {
        self.all += amount;
        let Some(token) = token.filter(|_| amount > 0) else { return };
        match self.by_token.get_mut(token) {
            Some(held) => *held += amount,
            None => drop(self.by_token.insert(token.into(), amount)),
        }
    }

    /// Whoever has this token, or has none, holds less: no more than was added.
    pub fn release(&mut self, token: Option<&str>, amount: usize) {
        self.all -= amount;
        let Some(token) = token else { return };
        let Some(held) = self.by_token.get_mut(token) else { return };
        *held -= amount;
        if *held == 0 {
            self.by_token.remove(token);
        }
    }

    /// How much more whoever has this token, or has none, may hold of a bound.
    #[must_use]
    pub fn room(&self, token: Option<&str>, max: usize) -> usize {
        let of_all = max.saturating_sub(self.all);
        let of_share = |token| share_of_token(max).saturating_sub(self.of(token));
        token.map_or(of_all, |token| of_all.min(of_share(token)))
    }

    /// Whether so much more fits into the bound, and into the token's share of it.
    ///
    /// # Errors
    /// What it does not fit into.
    pub fn check(&self, token: Option<&str>, more: usize, max: usize) -> Result<(), Exhausted> {
        self.check_share(token, more, max)?;
        if self.all + more > max { Err(Exhausted::Bound(self.all)) } else { Ok(()) }
    }

    /// Whether so much more fits into the token's share of the bound.
    ///
    /// # Errors
    /// When it does not.
    pub fn check_share(&self, token: Option<&str>, more: usize, max: usize) -> Result<(), Exhausted> {
        match token.map(|token| self.of(token)) {
            Some(held) if held + more > share_of_token(max) => Err(Exhausted::Share(held)),
            _ => Ok(()),
        }
    }

    fn of(&self, token: &str) -> usize {
        self.by_token.get(token).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_token_may_hold_a_quarter_and_whoever_has_none_all() {
        let mut held = TokenUse::default();
        held.add(Some("a"), 20);
        for (token, more, expect) in [
            (Some("a"), 5, Ok(())),
            (Some("a"), 6, Err(Exhausted::Share(20))),
            (Some("b"), 25, Ok(())),
            (Some("b"), 26, Err(Exhausted::Share(0))),
            (None, 80, Ok(())),
            (None, 81, Err(Exhausted::Bound(20))),
        ] {
            assert_eq!(held.check(token, more, 100), expect, "{token:?} {more}");
        }
        held.add(None, 70);
        assert_eq!(held.check(Some("b"), 11, 100), Err(Exhausted::Bound(90)));
        assert_eq!(held.check_share(Some("b"), 11, 100), Ok(()));
        let room = [Some("a"), Some("b"), None].map(|token| held.room(token, 100));
        assert_eq!(room, [5, 10, 10]);
    }

    #[test]
    fn who_holds_nothing_is_not_remembered() {
        let mut held = TokenUse::default();
        held.add(Some("a"), 0);
        held.add(Some("b"), 3);
        held.add(Some("b"), 4);
        held.release(Some("b"), 7);
        assert_eq!((held.all(), held.by_token.len()), (0, 0));
    }
}
