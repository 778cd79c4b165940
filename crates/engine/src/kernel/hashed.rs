//! The hash maps of the hot path. Their keys are numbers that we gave out, or ids that operators
//! chose. Nobody outside can make up any that collide, so they are hashed the fast way, with a seed
//! of each process. The usual hash took an eighth of what a change costs.

/// A map by keys of our own.
pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

/// A set of keys of our own.
pub(crate) type HashSet<K> = std::collections::HashSet<K, foldhash::fast::RandomState>;
