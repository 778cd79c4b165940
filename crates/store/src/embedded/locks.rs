//! Taking locks. Nothing under a lock of this module panics, so a poisoned one means that memory
//! cannot be trusted.

use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

const INVARIANT: &str = "no thread of the store panics while it holds a lock";

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect(INVARIANT)
}

pub(super) fn reading<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().expect(INVARIANT)
}

pub(super) fn writing<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().expect(INVARIANT)
}
