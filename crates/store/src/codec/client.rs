//! The stored form of a client.

use std::borrow::Cow;

use base::{ClientId, Incarnation, Timestamp};
use records::{Client, PreviousSecret};

use super::bytes::{Reader, put_bytes, put_i64, put_option, put_u64};
use super::key::{self, Key};
use super::{CodecError, Stored};
use crate::record::{Placed, Record};
use crate::table::Table;

/// Version 1: the fields in order.
impl Stored for Client {
    const VERSION: u8 = 1;
    const NAME: &'static str = "a client";

    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.id.as_str().as_bytes());
        put_u64(out, self.incarnation.0);
        put_bytes(out, self.name.as_bytes());
        put_bytes(out, self.url.as_bytes());
        put_bytes(out, &self.secret);
        put_option(out, self.previous_secret.as_ref(), |out, previous| {
            put_bytes(out, &previous.secret);
            put_i64(out, previous.until.0);
        });
        out.push(u8::from(self.enabled));
        put_i64(out, self.created_at.0);
    }

    fn get(reader: &mut Reader<'_>, _version: u8) -> Result<Self, CodecError> {
        Ok(Self {
            id: reader.text_as("a client id", ClientId::new)?,
            incarnation: Incarnation(reader.u64("an incarnation")?),
            name: reader.text("a name")?.to_owned(),
            url: reader.text("a url")?.to_owned(),
            secret: reader.bytes("a secret")?.to_vec(),
            previous_secret: reader.option("a secret", |reader| {
                Ok(PreviousSecret {
                    secret: reader.bytes("a secret")?.to_vec(),
                    until: Timestamp(reader.i64("a time")?),
                })
            })?,
            enabled: reader.bool("a flag")?,
            created_at: Timestamp(reader.i64("a time")?),
        })
    }
}

impl Record for Client {
    const TABLE: Table = Table::Clients;
    type Place = ClientId;

    fn key(id: &Self::Place) -> Key {
        key::client(id)
    }
}

impl Placed for Client {
    fn place(&self) -> Cow<'_, Self::Place> {
        Cow::Borrowed(&self.id)
    }
}
