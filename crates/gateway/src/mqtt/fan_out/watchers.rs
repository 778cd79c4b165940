//! Who watches what: by device where a filter names one, so that a report costs what its own
//! watchers cost.

use std::collections::HashMap;
use std::sync::Arc;

use base::hash;

use super::queue::Watcher;
use crate::decode::kinds::KindForms;
use crate::mqtt::limits::{WATCHING_ANYWHERE_MAX, WATCHING_DEVICE_MAX};

/// The connections that watch.
pub(in crate::mqtt) struct Watchers<T> {
    /// By the hash of a device's id. On a collision a connection is offered what matches none of
    /// its subscriptions, and ignores it.
    by_device: HashMap<u64, Vec<Arc<Watcher<T>>>>,
    /// With filters that name no device.
    anywhere: Vec<Arc<Watcher<T>>>,
}

impl<T> Default for Watchers<T> {
    fn default() -> Self {
        Self { by_device: HashMap::new(), anywhere: Vec::new() }
    }
}

/// What a connection watches for a filter: a device, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mqtt) enum WatchSubject {
    Device(u64),
    Anywhere,
}

/// What came of watching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mqtt) enum WatchOutcome {
    New,
    Already,
    NoRoom,
}

impl WatchSubject {
    /// What has to be watched for a filter.
    pub(in crate::mqtt) fn of(filter: &str, kinds: &KindForms) -> Self {
        let named = kinds.device_level(filter).filter(|device| !["+", "#"].contains(device));
        named.map_or(Self::Anywhere, Self::device)
    }

    fn device(device: &str) -> Self {
        Self::Device(hash::derived(0, device.as_bytes()))
    }
}

impl<T> Watchers<T> {
    pub(in crate::mqtt) fn add(&mut self, watcher: &Arc<Watcher<T>>, watched: WatchSubject) -> WatchOutcome {
        let (all, most) = match watched {
            WatchSubject::Device(device) => (self.by_device.entry(device).or_default(), WATCHING_DEVICE_MAX),
            WatchSubject::Anywhere => (&mut self.anywhere, WATCHING_ANYWHERE_MAX),
        };
        if all.iter().any(|known| Arc::ptr_eq(known, watcher)) {
            return WatchOutcome::Already;
        }
        if all.len() >= most {
            return WatchOutcome::NoRoom;
        }
        // Most devices are watched by one connection, and many thousands of them are.
        all.reserve_exact(1);
        all.push(Arc::clone(watcher));
        WatchOutcome::New
    }

    /// Whether it was there.
    pub(in crate::mqtt) fn remove(&mut self, watcher: &Arc<Watcher<T>>, watched: WatchSubject) -> bool {
        let all = match watched {
            WatchSubject::Device(device) => self.by_device.get_mut(&device),
            WatchSubject::Anywhere => Some(&mut self.anywhere),
        };
        let Some(all) = all else { return false };
        let before = all.len();
        all.retain(|known| !Arc::ptr_eq(known, watcher));
        let (was_there, is_empty) = (all.len() < before, all.is_empty());
        if let WatchSubject::Device(device) = watched
            && is_empty
        {
            self.by_device.remove(&device);
        }
        was_there
    }

    /// Those who may want what is of this device, each once.
    pub(in crate::mqtt) fn of(&self, device: &str) -> Vec<Arc<Watcher<T>>> {
        let mut all = self.anywhere.clone();
        let WatchSubject::Device(device) = WatchSubject::device(device) else { return all };
        for watcher in self.by_device.get(&device).into_iter().flatten() {
            if !self.anywhere.iter().any(|known| Arc::ptr_eq(known, watcher)) {
                all.push(Arc::clone(watcher));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqtt::mirror::ReportCopy;
    use crate::mqtt::rights::Rights;
    use access::Principal;

    fn watcher() -> Arc<Watcher<ReportCopy>> {
        Arc::new(Watcher::new(&Rights::new(Arc::new(Principal::anybody()))))
    }

    #[test]
    fn a_filter_names_a_device_or_none() {
        for (filter, expect) in [
            ("dev/lock/0xA/#", WatchSubject::device("0xA")),
            ("dev/+/0xA/state", WatchSubject::device("0xA")),
            ("dev/+/+/state", WatchSubject::Anywhere),
            ("dev/lock/#", WatchSubject::Anywhere),
            ("dev/#", WatchSubject::Anywhere),
            ("sensors", WatchSubject::Anywhere),
            ("+/lock/0xA/#", WatchSubject::Anywhere),
        ] {
            assert_eq!(WatchSubject::of(filter, &KindForms::default()), expect, "{filter}");
        }
    }

    #[test]
    fn each_is_found_once_and_nothing_is_left_of_who_goes() {
        let (mut watchers, one, other) = (Watchers::default(), watcher(), watcher());
        for (watcher, device, expect) in [
            (&one, WatchSubject::Anywhere, WatchOutcome::New),
            (&one, WatchSubject::device("0xA"), WatchOutcome::New),
            (&one, WatchSubject::device("0xA"), WatchOutcome::Already),
            (&one, WatchSubject::Anywhere, WatchOutcome::Already),
            (&other, WatchSubject::device("0xA"), WatchOutcome::New),
        ] {
            assert_eq!(watchers.add(watcher, device), expect, "{device:?}");
        }
        let of = |watchers: &Watchers<_>, device| {
            let all = watchers.of(device);
            let has = |watcher| all.iter().filter(|known| Arc::ptr_eq(known, watcher)).count();
            (has(&one), has(&other))
        };
        assert_eq!((of(&watchers, "0xA"), of(&watchers, "0xB")), ((1, 1), (1, 0)));
        assert!(watchers.remove(&one, WatchSubject::Anywhere));
        assert_eq!((of(&watchers, "0xA"), of(&watchers, "0xB")), ((1, 1), (0, 0)));
        assert!(watchers.remove(&one, WatchSubject::device("0xA")));
        assert!(!watchers.remove(&one, WatchSubject::device("0xA")));
        assert!(watchers.remove(&other, WatchSubject::device("0xA")));
        assert!(watchers.by_device.is_empty() && watchers.anywhere.is_empty());
    }

    #[test]
    fn so_many_may_watch_everything() {
        let mut watchers = Watchers::default();
        for _ in 0..WATCHING_ANYWHERE_MAX {
            assert_eq!(watchers.add(&watcher(), WatchSubject::Anywhere), WatchOutcome::New);
        }
        let one_more = watcher();
        assert_eq!(watchers.add(&one_more, WatchSubject::Anywhere), WatchOutcome::NoRoom);
        assert_eq!(watchers.add(&one_more, WatchSubject::device("0xA")), WatchOutcome::New);
    }

    #[test]
    fn so_many_may_watch_a_device() {
        let mut watchers = Watchers::default();
        let first = watcher();
        assert_eq!(watchers.add(&first, WatchSubject::device("0xA")), WatchOutcome::New);
        for _ in 1..WATCHING_DEVICE_MAX {
            assert_eq!(watchers.add(&watcher(), WatchSubject::device("0xA")), WatchOutcome::New);
        }
        let one_more = watcher();
        assert_eq!(watchers.add(&one_more, WatchSubject::device("0xA")), WatchOutcome::NoRoom);
        assert_eq!(watchers.add(&first, WatchSubject::device("0xA")), WatchOutcome::Already);
        assert_eq!(watchers.add(&one_more, WatchSubject::device("0xB")), WatchOutcome::New);
        assert!(watchers.remove(&first, WatchSubject::device("0xA")));
        assert_eq!(watchers.add(&one_more, WatchSubject::device("0xA")), WatchOutcome::New);
    }
}
