//! Counts of what a run saw, declared as a list of names.

macro_rules! counts {
    ($(#[$of:meta])* $type:ident: $($(#[$doc:meta])* $name:ident,)*) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct $type {
            $($(#[$doc])* pub(crate) $name: u64,)*
        }

        impl $type {
            /// Adds what another run, or another part of this one, saw.
            pub(crate) fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// What was never seen.
            pub(crate) fn unseen(&self) -> Vec<&'static str> {
                let all = [$((stringify!($name), self.$name)),*];
                all.into_iter().filter(|(_, count)| *count == 0).map(|(name, _)| name).collect()
            }
        }
    };
}

pub(crate) use counts;
