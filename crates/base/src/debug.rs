//! How types are shown that hold sockets, secrets or callbacks.

/// Gives a type a `Debug` that shows its name, and nothing of what it holds.
#[macro_export]
macro_rules! debug_as_name {
    ($kind:ident) => {
        impl ::std::fmt::Debug for $kind {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(stringify!($kind))
            }
        }
    };
}
