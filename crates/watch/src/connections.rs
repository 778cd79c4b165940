//! How many devices there are of each connection, counted as they move.

use records::Connection;

/// Devices by [`Connection`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Never seen, and not yet missed.
    pub never_seen: u64,
    /// Heard of recently enough.
    pub online: u64,
    /// Silent for too long.
    pub lost: u64,
}

impl Connections {
    pub(crate) fn of(&mut self, connection: Connection) -> &mut u64 {
        match connection {
            Connection::NeverSeen => &mut self.never_seen,
            Connection::Online => &mut self.online,
            Connection::Lost => &mut self.lost,
        }
    }

    /// A device was the one, and is the other.
    pub(crate) fn moved(&mut self, was: Connection, is: Connection) {
        if was != is {
            *self.of(was) -= 1;
            *self.of(is) += 1;
        }
    }
}
