//! Who makes a request, for parts that do not know how that was found out.

use std::sync::Arc;

/// The name of the token or login of a request that was let in: for people, in logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerName(pub Arc<str>);
