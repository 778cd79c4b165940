//! The names that the contract has for the values of an enum.

/// Gives an enum without fields its values as `ALL`, in this order, and each of them its name.
#[macro_export]
macro_rules! names {
    ($(#[$about:meta])+ $vis:vis $kind:ident: $($value:ident = $name:literal),+) => {
        impl $kind {
            $(#[$about])+
            $vis const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// The name that the contract uses.
            #[must_use]
            $vis const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)+
                }
            }
        }
    };
}
