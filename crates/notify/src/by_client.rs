//! What is known of clients, looked up several times for each attempt.

use base::Incarnation;

/// Something of each client, by its registration. That is a number we gave out: nobody outside can
/// make up any that meet, so it is hashed the fast way.
pub(crate) type ByClient<T> = std::collections::HashMap<Incarnation, T, foldhash::fast::RandomState>;
