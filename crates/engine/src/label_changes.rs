//! When labels of devices change. Whoever remembers labels, as the listeners do for logins of
//! sites, asks here whether what it remembers still holds.

use std::sync::atomic::{AtomicU64, Ordering};

use base::{DeviceId, hash};

/// Devices share so many numbers: a busy import makes few others be looked up again.
const NUMBERS: usize = 1_024;

/// Counts the changes of labels.
#[derive(Debug)]
pub struct LabelChanges(Box<[AtomicU64]>);

impl LabelChanges {
    pub(crate) fn new() -> Self {
        Self((0..NUMBERS).map(|_| AtomicU64::new(0)).collect())
    }

    /// A number of this device that is another one once its labels have changed. It changes when
    /// the new labels can be read, and before whoever changed them is answered. So it is to be read
    /// in front of the labels.
    #[must_use]
    pub fn number(&self, device: &DeviceId) -> u64 {
        self.of(device).load(Ordering::SeqCst)
    }

    /// The labels of the device have changed.
    pub(crate) fn note(&self, device: &DeviceId) {
        self.of(device).fetch_add(1, Ordering::SeqCst);
    }

    fn of(&self, device: &DeviceId) -> &AtomicU64 {
        let place = hash::device_hash(device.as_str()) % NUMBERS as u64;
        &self.0[place as usize]
    }
}
