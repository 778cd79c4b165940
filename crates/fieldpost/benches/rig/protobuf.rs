//! What lean gRPC clients write: fields of protobuf messages, and messages that stay bytes.

use bytes::{Buf, BufMut, Bytes};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

pub(crate) fn put_number(out: &mut Vec<u8>, field: u8, number: u64) {
    out.push(field << 3);
    put_varint(out, number);
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    out.push(field << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Messages as they are.
#[derive(Clone, Copy)]
pub(crate) struct AsBytes;

impl Codec for AsBytes {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for AsBytes {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(message);
        Ok(())
    }
}

impl Decoder for AsBytes {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, read: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(read.copy_to_bytes(read.remaining())))
    }
}
