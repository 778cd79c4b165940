//! Counts of what a run saw, declared as a list of names.

use std::fmt::Debug;

/// What a run, or several, saw of each kind.
pub(crate) trait Counted: Copy + Debug + Default + PartialEq + Send {
    /// Adds what another run, or another part of this one, saw.
    fn add(&mut self, other: &Self);

    /// What was never seen.
    fn unseen(&self) -> Vec<&'static str>;
}

impl<A: Counted, B: Counted> Counted for (A, B) {
    fn add(&mut self, other: &Self) {
        self.0.add(&other.0);
        self.1.add(&other.1);
    }

    fn unseen(&self) -> Vec<&'static str> {
        [self.0.unseen(), self.1.unseen()].concat()
    }
}

macro_rules! counts {
    ($(#[$of:meta])* $type:ident: $($(#[$doc:meta])* $name:ident,)*) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct $type {
            $($(#[$doc])* pub(crate) $name: u64,)*
        }

        impl $crate::harness::counts::Counted for $type {
            fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            fn unseen(&self) -> Vec<&'static str> {
                let all = [$((stringify!($name), self.$name)),*];
                all.into_iter().filter(|(_, count)| *count == 0).map(|(name, _)| name).collect()
            }
        }
    };
}

pub(crate) use counts;
