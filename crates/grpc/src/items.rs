//! How many items a message may have, counted before it is decoded.
//!
//! An empty item is two bytes on the wire, and hundreds once it is decoded. So 16 MiB of them would
//! be gigabytes before a call could say that it takes a thousand. Requests are counted here, by
//! what the description of the protocol says of them; calls have lower limits of their own.

use std::marker::PhantomData;

use base::Problem;
use base::limits::{MESSAGE_HEADERS_MAX, MESSAGES_PER_CALL_MAX};
use bytes::Buf;
use engine::rollouts::DEVICES_MAX;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use prost::{DecodeError, Message};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder};
use tonic_prost::{ProstDecoder, ProstEncoder};

use crate::status::status;
use crate::work::SETTLEMENTS_PER_MESSAGE_MAX;

/// Items of a message that are messages: of all calls, a batch for streams has most, as each of its
/// messages may have headers.
const MESSAGES_MAX: usize = MESSAGES_PER_CALL_MAX * (1 + MESSAGE_HEADERS_MAX);
/// Items of a message that are texts: a rollout may name very many devices. A text is small, so
/// that all of them take 24 MiB. Other fields count as texts too: one that nobody knows takes the
/// time of one.
const TEXTS_MAX: usize = 1 << 20;
/// The least that an item takes on the wire, in bytes.
const ITEM_BYTES_MIN: usize = 2;

const _: () = assert!(SETTLEMENTS_PER_MESSAGE_MAX <= MESSAGES_MAX, "a worker may say so much in a message");
const _: () = assert!(DEVICES_MAX < TEXTS_MAX, "what is little above its limit, the call refuses");

/// A message of the protocol. What it can have many of is made from its description.
pub(crate) trait HasItems {
    /// `None` where it is not sent to the server.
    const FIELDS: Option<&'static [ItemField]>;
}

/// A field that can have many items, or is a message.
#[derive(Debug)]
pub(crate) struct ItemField {
    pub(crate) number: u32,
    /// What it has many of, if it can.
    pub(crate) items: Option<ItemKind>,
    /// Those of its message, if it is one.
    pub(crate) fields: Option<&'static [ItemField]>,
}

/// What there can be many of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ItemKind {
    /// Entries of maps are messages too.
    Message,
    Text,
}

/// The usual codec, which counts before it decodes.
#[derive(Debug)]
pub(crate) struct ItemCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for ItemCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for ItemCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + HasItems + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = ItemDecoder<U>;

    fn encoder(&mut self) -> ProstEncoder<T> {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> ItemDecoder<U> {
        ItemDecoder::default()
    }
}

/// The usual decoder, behind the count.
#[derive(Debug)]
pub(crate) struct ItemDecoder<U>(ProstDecoder<U>);

impl<U> Default for ItemDecoder<U> {
    fn default() -> Self {
        Self(ProstDecoder::default())
    }
}

impl<U: Message + Default + HasItems> Decoder for ItemDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // It has the whole message, in one piece.
        check(source.chunk(), U::FIELDS)?;
        self.0.decode(source)
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}

/// Refuses a message with too many items, and one that cannot be read. The decoder could find more
/// items in that one than are counted, before it came to the place where it fails.
fn check(message: &[u8], fields: Option<&[ItemField]>) -> Result<(), Status> {
    let Some(fields) = fields else { return Ok(()) };
    if message.len() <= ITEM_BYTES_MIN * MESSAGES_MAX {
        return Ok(());
    }
    let mut found = ItemCounts::default();
    // The decoder would say the same.
    found.count(message, fields).map_err(|unreadable| Status::internal(unreadable.to_string()))?;
    if found.are_too_many() {
        let detail = format!("a message has at most {MESSAGES_MAX} items, or {TEXTS_MAX} that are texts");
        return Err(status(&Problem::not_allowed("too_many_items", detail)));
    }
    Ok(())
}

/// The items of a message, as far as it was looked at.
#[derive(Debug, Default, PartialEq, Eq)]
struct ItemCounts {
    messages: usize,
    texts: usize,
}

impl ItemCounts {
    fn are_too_many(&self) -> bool {
        self.messages > MESSAGES_MAX || self.texts > TEXTS_MAX
    }

    /// Counts until there are too many.
    fn count(&mut self, mut message: &[u8], fields: &[ItemField]) -> Result<(), DecodeError> {
        while !message.is_empty() && !self.are_too_many() {
            let (number, wire_type) = decode_key(&mut message)?;
            let from_here = message;
            let Some(field) = fields.iter().find(|field| field.number == number) else {
                self.texts += 1;
                // What is within a group is counted as well.
                if !matches!(wire_type, WireType::StartGroup | WireType::EndGroup) {
                    skip_field(wire_type, number, &mut message, DecodeContext::default())?;
                }
                continue;
            };
            skip_field(wire_type, number, &mut message, DecodeContext::default())?;
            match field.items {
                Some(ItemKind::Message) => self.messages += 1,
                Some(ItemKind::Text) => self.texts += 1,
                None => {}
            }
            if let Some(fields) = field.fields
                && wire_type == WireType::LengthDelimited
            {
                let mut inner = &from_here[..from_here.len() - message.len()];
                decode_varint(&mut inner)?;
                self.count(inner, fields)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prost::encoding::{encode_key, encode_varint};
    use tonic::Code;

    use super::*;
    use crate::proto::work_request::{Acks, Extension, Open, Release};
    use crate::proto::{
        AckRequest, AppendRequest, CreateRolloutRequest, PublishRequest, PublishResponse, WorkRequest,
    };
    use crate::status::CODE;

    /// The head of a field with so many bytes.
    fn head(number: u32, bytes: usize) -> Vec<u8> {
        let mut head = Vec::new();
        encode_key(number, WireType::LengthDelimited, &mut head);
        encode_varint(bytes as u64, &mut head);
        head
    }

    fn within(number: u32, bytes: &[u8]) -> Vec<u8> {
        [head(number, bytes.len()).as_slice(), bytes].concat()
    }

    fn empty_items(number: u32, count: usize) -> Vec<u8> {
        head(number, 0).repeat(count)
    }

    fn group(number: u32, bytes: &[u8]) -> Vec<u8> {
        let mut group = Vec::new();
        encode_key(number, WireType::StartGroup, &mut group);
        group.extend(bytes);
        encode_key(number, WireType::EndGroup, &mut group);
        group
    }

    /// The status and the code of a refusal.
    fn refused(message: &[u8], fields: Option<&[ItemField]>) -> Option<(Code, String)> {
        let status = check(message, fields).err()?;
        let code = status.metadata().get(CODE).map(|code| code.to_str().expect("a word").to_owned());
        Some((status.code(), code.unwrap_or_default()))
    }

    #[test]
    fn a_message_of_too_many_empty_items_is_refused_without_being_decoded() {
        type Make = fn(usize) -> Vec<u8>;
        let rows: [(Option<&[ItemField]>, Make, usize); 8] = [
            (PublishRequest::FIELDS, |count| empty_items(3, count), MESSAGES_MAX),
            (AckRequest::FIELDS, |count| empty_items(3, count), TEXTS_MAX),
            (WorkRequest::FIELDS, |count| within(3, &empty_items(2, count)), TEXTS_MAX),
            (AppendRequest::FIELDS, |count| within(3, &empty_items(8, count - 1)), MESSAGES_MAX),
            (CreateRolloutRequest::FIELDS, |count| within(1, &within(4, &empty_items(1, count))), TEXTS_MAX),
            // What the protocol does not know.
            (AckRequest::FIELDS, |count| empty_items(99, count), TEXTS_MAX),
            (PublishRequest::FIELDS, |count| within(3, &empty_items(99, count)), TEXTS_MAX),
            (PublishRequest::FIELDS, |count| group(99, &empty_items(98, count - 2)), TEXTS_MAX),
        ];
        for (row, (fields, message, most)) in rows.into_iter().enumerate() {
            assert_eq!(refused(&message(most), fields), None, "{row}");
            let too_many = [message(most + 1), vec![0xff]].concat();
            let expect = (Code::InvalidArgument, "too_many_items".to_owned());
            assert_eq!(refused(&too_many, fields), Some(expect), "{row}: what is behind is not looked at");
        }
    }

    #[test]
    fn a_message_that_reaches_out_of_another_is_not_decoded() {
        let ids = empty_items(1, TEXTS_MAX + 1);
        let devices = head(4, ids.len());
        let reaching = [within(1, &devices), ids].concat();
        assert_eq!(refused(&reaching, CreateRolloutRequest::FIELDS), Some((Code::Internal, String::new())));
    }

    #[test]
    fn what_is_counted_is_what_is_sent() {
        let texts = |count| vec!["text".to_owned(); count];
        let message = WorkRequest {
            open: Some(Open { queues: texts(2), ..Open::default() }),
            credits: 7,
            acks: vec![Acks { queue: "q".to_owned(), reservations: texts(3) }; 4],
            releases: vec![Release { error: "e".repeat(300), ..Release::default() }],
            extensions: vec![Extension {
                ttr: Some(prost_types::Duration::default()),
                ..Extension::default()
            }],
        };
        let mut found = ItemCounts::default();
        let fields = WorkRequest::FIELDS.expect("it is sent to the server");
        found.count(&message.encode_to_vec(), fields).expect("it can be read");
        // The credits, the queues of acks and the error of a release count as texts.
        assert_eq!(found, ItemCounts { messages: 4 + 1 + 1, texts: 2 + 1 + 4 * (1 + 3) + 1 });
    }

    #[test]
    fn what_the_server_sends_is_not_counted() {
        let answered = empty_items(1, TEXTS_MAX + 1);
        assert_eq!(refused(&answered, PublishResponse::FIELDS), None);
    }
}
