//! The context of one call: what time it is, and where its changes and wake-ups go.

use records::{Batch, QueueKey};

use crate::clocks::Moment;
use crate::recurrence::Calendar;

/// What one call is given and may add to.
pub(crate) struct StepContext<'a> {
    pub(crate) time: Moment,
    pub(crate) calendar: &'a mut dyn Calendar,
    pub(crate) batch: &'a mut Batch,
    /// `None` while loading.
    pub(crate) wakes: Option<&'a mut Vec<QueueKey>>,
}

impl StepContext<'_> {
    /// Whether jobs are being loaded: nothing is due then, and nobody is woken.
    pub(crate) fn is_loading(&self) -> bool {
        self.wakes.is_none()
    }

    /// Names a queue to the caller, if something of it can be leased now and could not be before.
    pub(crate) fn wake(&mut self, opened: Option<QueueKey>) {
        if let Some(wakes) = &mut self.wakes {
            wakes.extend(opened);
        }
    }
}
