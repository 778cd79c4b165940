//! The stored form of a client.

use std::borrow::Cow;

use base::ClientId;
use records::Client;

use super::bytes::ByteReader;
use super::field::Field;
use super::{CodecError, Stored, key};
use crate::record::record;

/// Version 2: the fields in order. Version 1 ended before `notices`: no client was told of any.
impl Stored for Client {
    const VERSION: u8 = 2;
    const NAME: &'static str = "a client";

    fn put(&self, out: &mut Vec<u8>) {
        self.id.put_field(out);
        self.incarnation.put_field(out);
        self.name.put_field(out);
        self.url.put_field(out);
        self.secret.put_field(out);
        self.previous_secret.put_field(out);
        self.enabled.put_field(out);
        self.created_at.put_field(out);
        self.notices.put_field(out);
    }

    fn get(reader: &mut ByteReader<'_>, version: u8) -> Result<Self, CodecError> {
        Ok(Self {
            id: Field::get_field(reader)?,
            incarnation: Field::get_field(reader)?,
            name: Field::get_field(reader)?,
            url: Field::get_field(reader)?,
            secret: Field::get_field(reader)?,
            previous_secret: Field::get_field(reader)?,
            enabled: Field::get_field(reader)?,
            created_at: Field::get_field(reader)?,
            notices: if version < 2 { false } else { Field::get_field(reader)? },
        })
    }
}

record!(
    Client: Clients by ClientId,
    key: |id| key::client(id),
    place: |client| Cow::Borrowed(&client.id),
);
