//! The stored form of an answer that a repeat gets.

use std::sync::Arc;

use base::Timestamp;
use records::{AnswerKey, KeptAnswer};

use super::bytes::{Reader, put_bytes, put_i64};
use super::{CodecError, Stored};

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
