//! Taking locks of data that a panic leaves whole.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The data of a mutex, also where a thread panicked that had it.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
