//! An edge node and a centre in one virtual world, and a copy of kind `reports` between them. Each
//! is production's partition of devices and its partition of streams in one process, over its own
//! simulated disk.
//!
//! # What goes wrong
//! All that goes wrong with a machine, on each node for itself; and the network, as between
//! [other nodes](super). Besides, a call breaks off: the centre takes some of its lines, and nobody
//! is answered. A call that its sender gave up comes before the next one, or never: its connection
//! is closed.
//!
//! Devices report to the edge, in slices, with ids and without. Their values change, some of them
//! late. Some are values that their kind does not have, or are of another kind. A slice with ids
//! that nobody answered comes again, and so do some that were answered. One device is of another
//! kind at the centre, which refuses some of what the edge accepted. The copy is paused and
//! resumed.
//!
//! # What is checked
//! At any moment a device's readings at the centre are a prefix of those at the edge. What the
//! centre's kind refuses is left out. What the edge acknowledged is there. While something of that
//! is not at the centre, the copy's `lag` is not 0. At the end all faults stop. Then both nodes
//! have the same readings, the copy is idle and without lag, and it has counted what was refused.
//!
//! Not simulated: the tasks of `copies::gathered_reports`, whose steps the world takes itself;
//! selectors; devices that are registered by their reports; a full stream.

mod counts;
mod fault_tests;
mod node;
mod plan;
mod seeds;
mod world;

use base::PartitionId;
use engine::streams::{CopyKey, PeerIdentity};

use super::plan::node_name;
use crate::streams::world::stream_name;

/// Where devices report.
const EDGE: usize = 0;
/// Where their reports come to.
const CENTRE: usize = 1;

/// The one partition of devices of a node.
const DEVICES: PartitionId = PartitionId(0);

/// Its one partition of streams.
fn streams_partition() -> PartitionId {
    PartitionId::of_streams(0)
}

/// The copy that brings reports to the centre.
fn copy_key() -> CopyKey {
    CopyKey { stream: stream_name("reports"), copy: "centre".into() }
}

/// What the centre says of itself as the other end of a copy.
fn centre_identity() -> PeerIdentity {
    PeerIdentity { node: node_name(CENTRE).into(), stream: "reports".into() }
}
