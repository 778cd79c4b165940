//! What the tables say of the data directory and of each partition besides its rows.

use base::Lineage;
use blocklog::{LogId, Position};
use records::PartitionHead;

use crate::codec::{ByteReader, CodecError, Stored, put_u64};

/// The data directory: written once, when it is made.
///
/// The version of this record is the version of the whole directory: a build that does not know it
/// opens nothing else. To change the meaning of anything that has no version of its own - a table's
/// key, which tables there are - raise it. An opening makes what a directory of an earlier version
/// lacks, and writes the newest version. Version 1 has no partitions of queues, and no tables for
/// them: they are empty. Version 2 has no tables for commands, desired entries, sessions, timelines
/// and rollouts. Version 3 has none for operations, portals and notices. Version 4 has no partition
/// of campaigns, and no tables for it. Version 5 has no partitions of streams, and no tables for
/// them. Version 6 has no table for gathered reports. Version 7 has parked jobs under their ids, in
/// tables of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DataDirectory {
    pub(super) lineage: Lineage,
    /// Device partitions, without the registry.
    pub(super) partitions: u16,
    pub(super) log: LogId,
}

impl Stored for DataDirectory {
    const VERSION: u8 = 8;
    const NAME: &'static str = "the data directory";

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.lineage.0.to_le_bytes());
        out.extend_from_slice(&self.partitions.to_le_bytes());
        out.extend_from_slice(&self.log.0.to_le_bytes());
    }

    fn get(reader: &mut ByteReader<'_>, _version: u8) -> Result<Self, CodecError> {
        Ok(Self {
            lineage: Lineage(u64::from_le_bytes(reader.array("a lineage")?)),
            partitions: u16::from_le_bytes(reader.array("a number of partitions")?),
            log: LogId(u64::from_le_bytes(reader.array("a log id")?)),
        })
    }
}

/// What the tables hold of a partition: everything up to a position in the log, and nothing after
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Covered {
    pub(super) position: Position,
    pub(super) head: PartitionHead,
}

/// Version 1: the position, and the head with its own version.
impl Stored for Covered {
    const VERSION: u8 = 1;
    const NAME: &'static str = "a partition's position";

    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.position.0);
        self.head.write(out);
    }

    fn get(reader: &mut ByteReader<'_>, _version: u8) -> Result<Self, CodecError> {
        Ok(Self { position: Position(reader.u64("a position")?), head: PartitionHead::read(reader)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_survive_their_rows() {
        let directory = DataDirectory { lineage: Lineage(7), partitions: 16, log: LogId(u64::MAX) };
        assert_eq!(DataDirectory::from_row(&directory.to_row()), Ok(directory));
        let covered = Covered { position: Position(1 << 40), head: PartitionHead::default() };
        assert_eq!(Covered::from_row(&covered.to_row()), Ok(covered));
    }
}
