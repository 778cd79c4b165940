//! The stored forms of copies and of nodes.

use std::borrow::Cow;

use base::Incarnation;
use records::{CopyBegin, CopyDirection, LiveLane, PeerNode, ReportsCopy, StreamCopy};

use super::CodecError;
use super::bytes::ByteReader;
use super::field::{Field, choices, fields, stored};
use super::key::{self, TableKey};
use crate::record::record;

stored!(
    StreamCopy, "a copy", version 2:
    stream, name, direction, node, other_namespace, other_name, segments, live_permille, rate, paused, start,
    begins, position, live, peer, peer_node, reset_at, copied, duplicates, dropped, created_at;
    since 2: reports
);

stored!(
    ReportsCopy, "what a copy of reports has", version 1:
    gather, selector, refused
);

stored!(
    PeerNode, "a node", version 1:
    name, url, token, created_at
);

fields! {
    LiveLane: from, position;
}

impl Field for CopyBegin {
    fn put_field(&self, out: &mut Vec<u8>) {
        let at = match self {
            Self::End => None,
            Self::Time(at) => Some(*at),
        };
        at.put_field(out);
    }

    fn get_field(reader: &mut ByteReader<'_>) -> Result<Self, CodecError> {
        Ok(Option::get_field(reader)?.map_or(Self::End, Self::Time))
    }
}

choices! {
    CopyDirection, "where a copy goes": To = 0, From = 1;
}

record!(
    StreamCopy: StreamCopies by (Incarnation, Box<str>),
    key: |(stream, name)| key::subscription(*stream, name),
    place: |copy| Cow::Owned((copy.stream, copy.name.clone())),
);

record!(
    PeerNode: PeerNodes by Box<str>,
    key: |name| TableKey::from_slice(name.as_bytes()),
    place: |node| Cow::Borrowed(&node.name),
);
