//! What a change says of one field.

/// What becomes of a field: a JSON merge patch leaves out what it keeps, and clears with null.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Patch<T> {
    /// Not named: stays as it is.
    #[default]
    Keep,
    /// Null: back to nothing.
    Clear,
    /// Becomes this.
    Set(T),
}

impl<T> Patch<T> {
    /// The field after the change, where it may be nothing.
    #[must_use]
    pub fn merged(self, present: &Option<T>) -> Option<T>
    where
        T: Clone,
    {
        match self {
            Self::Keep => present.clone(),
            Self::Clear => None,
            Self::Set(value) => Some(value),
        }
    }

    /// The same change with the new value checked.
    pub(crate) fn try_map<U, E>(self, check: impl FnOnce(T) -> Result<U, E>) -> Result<Patch<U>, E> {
        Ok(match self {
            Self::Keep => Patch::Keep,
            Self::Clear => Patch::Clear,
            Self::Set(value) => Patch::Set(check(value)?),
        })
    }
}
