//! The hashes that stored data depends on. They are part of the format and never change.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed, xxh3_128};

use crate::id::{DeviceId, PartitionId};

/// The 64-bit hash of a device id, from which its partition and its place in hash tables are
/// computed.
#[must_use]
pub fn device_hash(id: &str) -> u64 {
    xxh3_64(id.as_bytes())
}

/// The part of [`device_hash`] that is written into ids: enough to find the partition.
#[must_use]
pub fn routing_hash(device_hash: u64) -> u32 {
    (device_hash >> 32) as u32
}

/// The partition of a routing hash. Uses the high bits, so that tables keyed by the low bits stay
/// even.
#[must_use]
pub fn partition_of(routing_hash: u32, partitions: u16) -> PartitionId {
    let scaled = (u64::from(routing_hash) * u64::from(partitions)) >> 32;
    PartitionId(scaled as u16)
}

/// The partition of a device.
#[must_use]
pub fn device_partition(id: &DeviceId, partitions: u16) -> PartitionId {
    partition_of(routing_hash(device_hash(id.as_str())), partitions)
}

/// The partition of a queue, by its index among those of queues.
#[must_use]
pub fn queue_partition(namespace: &str, queue: &str, partitions: u16) -> PartitionId {
    PartitionId::of_queues(partition_of(name_routing(namespace, queue), partitions).0)
}

/// The partition of a stream, by its index among those of streams.
#[must_use]
pub fn stream_partition(namespace: &str, stream: &str, partitions: u16) -> PartitionId {
    PartitionId::of_streams(partition_of(name_routing(namespace, stream), partitions).0)
}

fn name_routing(namespace: &str, name: &str) -> u32 {
    routing_hash(xxh3_64_with_seed(name.as_bytes(), xxh3_64(namespace.as_bytes())))
}

/// A 128-bit hash of `bytes`, for names whose meeting must be beyond chance.
#[must_use]
pub fn wide(bytes: &[u8]) -> u128 {
    xxh3_128(bytes)
}

/// A seeded 64-bit hash of `bytes`, for ids that are derived from their cause.
#[must_use]
pub fn derived(seed: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, seed)
}

/// The hash of a label, by which devices are found and counted: of its key, a byte that no key
/// holds, and its value.
#[must_use]
pub fn label_hash(key: &str, value: &str) -> u64 {
    let mut bytes = Vec::with_capacity(key.len() + 1 + value.len());
    bytes.extend_from_slice(key.as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(value.as_bytes());
    xxh3_64(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_device_id_is_fixed_in_the_format() {
        assert_eq!(device_hash("0xA"), 0xd77f_99d0_673a_fc58);
    }

    #[test]
    fn the_hash_of_a_label_is_fixed_in_the_format() {
        assert_eq!(label_hash("site", "12"), xxh3_64(b"site\x0012"));
        assert_ne!(label_hash("site", "12"), label_hash("site1", "2"));
    }

    #[test]
    fn devices_spread_evenly_over_partitions() {
        let mut counts = [0_u32; 16];
        for n in 0..16_000 {
            let partition = partition_of(routing_hash(device_hash(&format!("dev{n}"))), 16);
            counts[usize::from(partition.0)] += 1;
        }
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }
}
