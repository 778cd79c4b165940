//! The stored form of the ids of a device's latest reports.

use base::limits::REPORT_IDS_KEPT;
use records::{DeviceSlot, ReportIds};

use super::bytes::ByteReader;
use super::key;
use super::{CodecError, Stored};
use crate::record::record;

/// Version 1: how many, and their hashes, oldest first.
impl Stored for ReportIds {
    const VERSION: u8 = 1;
    const NAME: &'static str = "ids of reports";

    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.as_slice().len() as u8);
        self.as_slice().iter().for_each(|id| out.extend_from_slice(&id.to_le_bytes()));
    }

    fn get(reader: &mut ByteReader<'_>, _version: u8) -> Result<Self, CodecError> {
        let count = usize::from(reader.u8(Self::NAME)?);
        if count > REPORT_IDS_KEPT {
            return Err(reader.invalid(Self::NAME));
        }
        (0..count).map(|_| Ok(u64::from_le_bytes(reader.array("an id")?))).collect()
    }
}

record!(
    ReportIds: ReportIds by DeviceSlot,
    key: |slot| key::slot(*slot),
);
