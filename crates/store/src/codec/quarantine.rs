//! The stored form of a refused report.

use std::borrow::Cow;

use base::{DeviceId, WayIn};
use records::{QuarantineKey, Quarantined};

use super::bytes::{Reader, put_bytes, put_option};
use super::event::{get_entity, put_entity};
use super::key::{self, Key};
use super::{CodecError, Stored};
use crate::record::{Placed, Record};
use crate::table::Table;

/// Version 1: the fields in order.
impl Stored for Quarantined {
    const VERSION: u8 = 1;
    const NAME: &'static str = "a refused report";

    fn put(&self, out: &mut Vec<u8>) {
        put_entity(out, self.id);
        out.push(self.way.index() as u8);
        put_option(out, self.topic.as_ref(), |out, topic| put_bytes(out, topic.as_bytes()));
        put_option(out, self.device.as_ref(), |out, device| put_bytes(out, device.as_str().as_bytes()));
        put_bytes(out, self.code.as_bytes());
        put_bytes(out, self.detail.as_bytes());
        put_bytes(out, &self.payload);
        out.push(u8::from(self.cut));
    }

    fn get(reader: &mut Reader<'_>, _version: u8) -> Result<Self, CodecError> {
        Ok(Self {
            id: get_entity(reader)?,
            way: reader.choice("a way in", &WayIn::ALL)?,
            topic: reader.option("a topic", |reader| Ok(reader.text("a topic")?.to_owned()))?,
            device: reader.option("a device id", |reader| reader.text_as("a device id", DeviceId::new))?,
            code: reader.text("a code")?.to_owned(),
            detail: reader.text("a detail")?.to_owned(),
            payload: reader.bytes("a payload")?.to_vec(),
            cut: reader.bool("a flag")?,
        })
    }
}

impl Record for Quarantined {
    const TABLE: Table = Table::Quarantine;
    type Place = QuarantineKey;

    fn key(at: &Self::Place) -> Key {
        key::moment(*at)
    }
}

impl Placed for Quarantined {
    fn place(&self) -> Cow<'_, Self::Place> {
        Cow::Owned(self.id.into())
    }
}
