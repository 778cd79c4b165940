//! Stored forms of a device's profile and state.

use std::borrow::Cow;

use base::hash::label_hash;
use base::{Incarnation, Timestamp, Value};
use records::{Connection, DeviceProfile, DeviceSlot, DeviceState};

use super::bytes::{ByteReader, put_i64, put_u64};
use super::field::stored;
use super::key::{self, TableKey};
use super::value::{get_value, put_value};
use super::{CodecError, Stored};
use crate::record::{Index, record};
use crate::table::Table;

stored!(
    /// Version 3: the fields in order; optional ones behind a byte, lists behind their length.
    /// Version 2 has no pace, version 1 neither, and ids of letters and digits only.
    DeviceProfile, "a device", version 3:
    id, incarnation, slot, kind, address, labels, report_interval_ms, registered_at, expected_from, clients;
    since 3: pace
);

const CONNECTIONS: [Connection; 3] = [Connection::NeverSeen, Connection::Online, Connection::Lost];
const HAS_VALUE: u8 = 1 << 2;
const HAS_CHANGED_AT: u8 = 1 << 3;

/// Version 1: a byte with the connection and what is there, then what is there, and the sequence.
impl Stored for DeviceState {
    const VERSION: u8 = 1;
    const NAME: &'static str = "a device's state";

    fn put(&self, out: &mut Vec<u8>) {
        let connection = match self.connection {
            Connection::NeverSeen => 0,
            Connection::Online => 1,
            Connection::Lost => 2,
        };
        let flag = |is_there, flag| if is_there { flag } else { 0 };
        out.push(
            connection
                | flag(self.value.is_some(), HAS_VALUE)
                | flag(self.changed_at.is_some(), HAS_CHANGED_AT),
        );
        put_u64(out, self.sequence);
        if let Some(value) = &self.value {
            put_value(out, value);
        }
        if let Some(changed_at) = self.changed_at {
            put_i64(out, changed_at.0);
        }
    }

    fn get(reader: &mut ByteReader<'_>, _version: u8) -> Result<Self, CodecError> {
        let flags = reader.u8(Self::NAME)?;
        let connection = CONNECTIONS.get(usize::from(flags & 3)).copied();
        if flags >= HAS_CHANGED_AT << 1 {
            return Err(reader.invalid(Self::NAME));
        }
        let sequence = reader.u64("a sequence")?;
        let value: Option<Value> = present(reader, flags, HAS_VALUE, get_value)?;
        let time = |reader: &mut ByteReader<'_>| Ok(Timestamp(reader.i64("a time")?));
        Ok(Self {
            connection: connection.ok_or_else(|| reader.invalid("a connection"))?,
            sequence,
            value,
            changed_at: present(reader, flags, HAS_CHANGED_AT, time)?,
        })
    }
}

fn present<T>(
    reader: &mut ByteReader<'_>,
    flags: u8,
    flag: u8,
    get: impl FnOnce(&mut ByteReader<'_>) -> Result<T, CodecError>,
) -> Result<Option<T>, CodecError> {
    if flags & flag == 0 { Ok(None) } else { get(reader).map(Some) }
}

record!(
    /// Its indexes only add between two checkpoints. What a row of them says is looked up in the
    /// profile. A checkpoint writes the difference of the profiles.
    DeviceProfile: Devices by DeviceProfile,
    key: |device| key::device(&device.id),
    place: |device| Cow::Borrowed(device),
    indexes: [
        Index {
            table: Table::DevicesByClient,
            rows: |device, row| {
                let key = |client: &Incarnation| key::link(*client, device.id.as_str().as_bytes());
                device.clients.iter().for_each(|client| row(key(client), &[]));
            },
            names: |row, _| behind_number(row),
        },
        Index {
            table: Table::DevicesByLabel,
            rows: |device, row| {
                for (name, value) in &device.labels {
                    row(key::label(label_hash(name, value), device.id.as_str().as_bytes()), &[]);
                }
            },
            names: |row, _| behind_number(row),
        },
        Index {
            table: Table::DevicesByKind,
            rows: |device, row| row(key::kind(&device.kind, device.id.as_str().as_bytes()), &[]),
            names: |row, _| match row.iter().position(|byte| *byte == 0) {
                Some(zero) => Ok(TableKey::from_slice(&row[zero + 1..])),
                None => Err(CodecError::Truncated { what: "the key of a kind", at: row.len() }),
            },
        },
    ],
);

/// The id of a device behind the number of a client or the hash of a label.
fn behind_number(row: &[u8]) -> Result<TableKey, CodecError> {
    let id = row.get(size_of::<u64>()..).filter(|id| !id.is_empty());
    let short = CodecError::Truncated { what: "the key of a device", at: row.len() };
    id.map(TableKey::from_slice).ok_or(short)
}

record!(
    DeviceState: States by DeviceSlot,
    key: |slot| key::slot(*slot),
);
