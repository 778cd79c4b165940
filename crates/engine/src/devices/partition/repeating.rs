//! What requests ask of devices that may come again: done once, and the answer is kept with it.

use std::sync::Arc;

use base::Problem;
use store::StoreError;

use super::{Partition, DeviceStep, answered};
use crate::kernel::reply::Stop;
use crate::kernel::reply::Answered;
use crate::devices::input::Repeatable;
use crate::kernel::idempotency::{Form, Within};

impl Partition {
    pub(super) fn repeatable(
        &mut self,
        act: Repeatable,
        turn: &mut DeviceStep<'_>,
    ) -> Result<Answered<Arc<[u8]>>, StoreError> {
        match act {
            Repeatable::CreateDevice(device, form) => {
                self.once(&form, turn, |partition, turn| Ok(partition.create_device(*device, turn)?))
            }
            Repeatable::RetryDelivery(id, form) => {
                self.once(&form, turn, |partition, turn| partition.retry_delivery(id, turn))
            }
        }
    }

    /// Does what is asked, and keeps the answer in the same batch, unless it was done before: then that is the answer.
    fn once<T>(
        &mut self,
        form: &Form<T>,
        turn: &mut DeviceStep<'_>,
        act: impl FnOnce(&mut Self, &mut DeviceStep<'_>) -> Result<T, Stop>,
    ) -> Result<Result<Arc<[u8]>, Problem>, StoreError> {
        if let Some(once) = form.once {
            match answered(self.answers.recall(once, within(turn)))? {
                Ok(None) => {}
                Ok(Some(kept)) => return Ok(Ok(kept)),
                Err(reused) => return Ok(Err(reused)),
            }
        }
        let answer = answered(act(self, turn))?;
        let written = (form.write)(&answer);
        if let Some(once) = form.once {
            self.answers.remember(once, Arc::clone(&written), within(turn));
        }
        Ok(Ok(written))
    }
}

pub(super) fn within<'a>(turn: &'a mut DeviceStep<'_>) -> Within<'a> {
    Within { now: turn.now, seq: turn.seq, fetch: turn.fetch, ops: &mut turn.batch.ops }
}
