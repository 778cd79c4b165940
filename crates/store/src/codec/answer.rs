//! The stored form of an answer that a repeat gets.

use std::borrow::Cow;
use std::sync::Arc;

use base::Timestamp;
use records::{AnswerKey, KeptAnswer};

use super::bytes::{Reader, put_bytes, put_i64};
use super::key::{self, Key};
use super::{CodecError, Stored};
use crate::record::{Index, Placed, Record};
use crate::table::Table;

/// Version 1: the fields in order.
impl Stored for KeptAnswer {
    const VERSION: u8 = 1;
    const NAME: &'static str = "a kept answer";

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.key.0.to_le_bytes());
        put_i64(out, self.at.0);
        out.extend_from_slice(&self.body.to_le_bytes());
        put_bytes(out, &self.answer);
    }

    fn get(reader: &mut Reader<'_>, _version: u8) -> Result<Self, CodecError> {
        Ok(Self {
            key: AnswerKey(u128::from_le_bytes(reader.array("a key")?)),
            at: Timestamp(reader.i64("a time")?),
            body: u128::from_le_bytes(reader.array("a hash")?),
            answer: Arc::from(reader.bytes("an answer")?),
        })
    }
}

impl Record for KeptAnswer {
    const TABLE: Table = Table::Answers;
    type Place = (AnswerKey, Timestamp);
    const INDEXES: &'static [Index<Self::Place>] = &[Index {
        table: Table::AnswersByTime,
        rows: |(answer, at), row| row(key::answer_at(*at, *answer), &[]),
        names: |row, _| key::answer_from_key(row).map(|(_, answer)| key::answer(answer)),
    }];

    fn key((answer, _): &Self::Place) -> Key {
        key::answer(*answer)
    }
}

impl Placed for KeptAnswer {
    fn place(&self) -> Cow<'_, Self::Place> {
        Cow::Owned((self.key, self.at))
    }
}
