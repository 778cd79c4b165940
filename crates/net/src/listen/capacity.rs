//! Capacity for so many of a thing: connections of a listener, and the open files that all
//! listeners share.
//!
//! A place costs its holder one pointer, because an idle connection is to be little more than its
//! socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The open files that connections may take, shared by listeners. What else the process opens - the
/// log, the tables, connections to receivers - is not counted here. So whoever makes this leaves
/// room for it: a listener must never be why a file of the log cannot be opened.
#[derive(Clone, Debug)]
pub struct OpenFiles(Arc<Capacity>);

impl OpenFiles {
    /// So many at most.
    #[must_use]
    pub fn new(files_max: usize) -> Self {
        Self(Arc::new(Capacity::new(files_max)))
    }

    /// How many are taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.0.taken()
    }

    /// How many may be.
    #[must_use]
    pub fn most(&self) -> usize {
        self.0.places_max
    }
}

impl Default for OpenFiles {
    /// As many as the operating system gives.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

/// So many places.
#[derive(Debug)]
pub struct Capacity {
    taken: AtomicUsize,
    places_max: usize,
    /// What a place here takes a place of too.
    within: Option<OpenFiles>,
    left: Notify,
}

/// A place; free again when this is dropped.
#[derive(Debug)]
pub struct CapacityPermit(Option<Arc<Capacity>>);

impl Capacity {
    /// So many places.
    #[must_use]
    pub fn new(places_max: usize) -> Self {
        Self { taken: AtomicUsize::new(0), places_max, within: None, left: Notify::new() }
    }

    /// Places of which each takes an open file.
    #[must_use]
    pub fn within(places_max: usize, files: OpenFiles) -> Self {
        Self { within: Some(files), ..Self::new(places_max) }
    }

    pub(crate) fn places_max(&self) -> usize {
        self.places_max
    }

    /// A place, if there is one.
    pub fn take(self: &Arc<Self>) -> Option<CapacityPermit> {
        self.try_take().then(|| CapacityPermit(Some(Arc::clone(self))))
    }

    /// Resolves when somebody leaves after this was called, polled or not.
    pub fn somebody_leaves(&self) -> impl Future<Output = ()> {
        self.left.notified()
    }

    /// Resolves when nobody is here.
    pub async fn all_left(&self) {
        loop {
            // Before the look, so that nobody leaves unseen between the two.
            let left = self.left.notified();
            if self.taken() == 0 {
                return;
            }
            left.await;
        }
    }

    fn taken(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }

    fn try_take(&self) -> bool {
        let more = |taken: usize| (taken < self.places_max).then_some(taken + 1);
        if self.taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_err() {
            return false;
        }
        let has_room = self.within.as_ref().is_none_or(|files| files.0.try_take());
        if !has_room {
            self.give_back();
        }
        has_room
    }

    fn give_back(&self) {
        self.taken.fetch_sub(1, Ordering::SeqCst);
        self.left.notify_waiters();
    }
}

impl CapacityPermit {
    /// Gives the place back and keeps the open file that came with it, if one did.
    pub(crate) fn into_file(mut self) -> Option<CapacityPermit> {
        let room = self.0.take()?;
        room.give_back();
        room.within.as_ref().map(|files| CapacityPermit(Some(Arc::clone(&files.0))))
    }
}

impl Drop for CapacityPermit {
    fn drop(&mut self) {
        let Some(room) = &self.0 else { return };
        if let Some(files) = &room.within {
            files.0.give_back();
        }
        room.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_given_out_up_to_the_limit_and_come_back() {
        let room = Arc::new(Capacity::new(2));
        let places = [room.take(), room.take()];
        assert!(places.iter().all(Option::is_some));
        assert!(room.take().is_none());
        drop(places);
        assert_eq!(room.taken(), 0);
        assert!(room.take().is_some());
    }

    #[test]
    fn rooms_share_the_open_files() {
        let files = OpenFiles::new(3);
        let (one, other) =
            (Arc::new(Capacity::within(2, files.clone())), Arc::new(Capacity::within(9, files)));
        let of_one = [one.take(), one.take(), one.take()];
        assert_eq!(of_one.iter().flatten().count(), 2, "its own limit");
        let of_other = [other.take(), other.take()];
        assert_eq!(of_other.iter().flatten().count(), 1, "what is left of the files");
        assert_eq!(other.taken(), 1, "who was refused a file takes no place");
        drop(of_one);
        assert!(other.take().is_some());
    }

    #[test]
    fn a_file_may_be_kept_longer_than_the_place() {
        let files = OpenFiles::new(1);
        let (one, other) =
            (Arc::new(Capacity::within(1, files.clone())), Arc::new(Capacity::within(1, files)));
        let file = one.take().and_then(CapacityPermit::into_file);
        assert_eq!(one.taken(), 0);
        assert!(other.take().is_none());
        drop(file);
        assert!(other.take().is_some());
        assert!(Arc::new(Capacity::new(1)).take().and_then(CapacityPermit::into_file).is_none());
    }

    #[tokio::test]
    async fn it_is_known_when_all_have_left() {
        let room = Arc::new(Capacity::new(1));
        room.all_left().await;
        let place = room.take();
        let waiting = tokio::spawn({
            let room = Arc::clone(&room);
            async move { room.all_left().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(place);
        waiting.await.expect("no panic");
    }
}
