//! The kinds of device that subscriptions cover: some, or all but some.

use base::Kind;

/// Kinds of device. Equal ones are written alike, if made by the methods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindSet {
    /// Any.
    Any,
    /// This one: a device of another is not reached.
    Only(Kind),
    /// These, in order and each once; none if empty.
    Among(Box<[Kind]>),
    /// Any but these, in order and each once.
    Except(Box<[Kind]>),
}

impl KindSet {
    /// These.
    #[must_use]
    pub fn among(kinds: impl IntoIterator<Item = Kind>) -> Self {
        Self::made(false, sorted(kinds.into_iter().collect()))
    }

    /// Any but these.
    #[must_use]
    pub fn except(kinds: impl IntoIterator<Item = Kind>) -> Self {
        Self::made(true, sorted(kinds.into_iter().collect()))
    }

    /// Whether a device of this kind is covered.
    #[must_use]
    pub fn covers(&self, kind: &Kind) -> bool {
        match self {
            Self::Any => true,
            Self::Only(only) => only == kind,
            Self::Among(kinds) => kinds.contains(kind),
            Self::Except(kinds) => !kinds.contains(kind),
        }
    }

    /// Whether no device is covered.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        matches!(self, Self::Among(kinds) if kinds.is_empty())
    }

    /// What either covers.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        if self == other {
            return self;
        }
        let ((all_but, mut kinds), (other_all_but, mut others)) = (self.parts(), other.parts());
        match (all_but, other_all_but) {
            (false, false) => {
                kinds.append(&mut others);
                Self::made(false, sorted(kinds))
            }
            (true, true) => {
                kinds.retain(|kind| others.contains(kind));
                Self::made(true, kinds)
            }
            (true, false) => {
                kinds.retain(|kind| !others.contains(kind));
                Self::made(true, kinds)
            }
            (false, true) => {
                others.retain(|kind| !kinds.contains(kind));
                Self::made(true, others)
            }
        }
    }

    /// What both cover.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.complement().or(other.complement()).complement()
    }

    fn complement(self) -> Self {
        let (all_but, kinds) = self.parts();
        Self::made(!all_but, kinds)
    }

    /// Whether it is all but the kinds, and the kinds.
    fn parts(self) -> (bool, Vec<Kind>) {
        match self {
            Self::Any => (true, Vec::new()),
            Self::Only(kind) => (false, vec![kind]),
            Self::Among(kinds) => (false, kinds.into_vec()),
            Self::Except(kinds) => (true, kinds.into_vec()),
        }
    }

    fn made(all_but: bool, mut kinds: Vec<Kind>) -> Self {
        match (all_but, kinds.len()) {
            (true, 0) => Self::Any,
            (true, _) => Self::Except(kinds.into_boxed_slice()),
            (false, 1) => Self::Only(kinds.remove(0)),
            (false, _) => Self::Among(kinds.into_boxed_slice()),
        }
    }
}

fn sorted(mut kinds: Vec<Kind>) -> Vec<Kind> {
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_together_covers_what_its_parts_cover() {
        let kinds: Vec<Kind> = ["a", "b", "c"].iter().filter_map(|name| Kind::new(name)).collect();
        let subset = |bits: usize| {
            let chosen = kinds.iter().enumerate().filter(move |(at, _)| bits >> at & 1 == 1);
            chosen.map(|(_, kind)| kind.clone()).collect::<Vec<_>>()
        };
        let all: Vec<KindSet> =
            (0..8).flat_map(|bits| [KindSet::among(subset(bits)), KindSet::except(subset(bits))]).collect();
        let other = Kind::new("other").expect("a kind");
        for (one, two) in all.iter().flat_map(|one| all.iter().map(move |two| (one, two))) {
            let (or, and) = (one.clone().or(two.clone()), one.clone().and(two.clone()));
            for kind in kinds.iter().chain([&other]) {
                assert_eq!(or.covers(kind), one.covers(kind) || two.covers(kind), "{one:?} {two:?} {kind}");
                assert_eq!(and.covers(kind), one.covers(kind) && two.covers(kind), "{one:?} {two:?} {kind}");
            }
            assert!(all.contains(&or) && all.contains(&and), "equal ones are written alike: {or:?} {and:?}");
        }
        assert!(KindSet::among([]).is_nothing() && !KindSet::Any.is_nothing());
    }
}
