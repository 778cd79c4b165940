//! Stored forms of a device's session, and of what happened to a device besides its events.

use std::borrow::Cow;

use records::{DeviceSession, DeviceSlot, DisconnectReason, Happening, TimelineEntry, TimelineEntryKey};

use super::field::{choices, stored, variants};
use super::key::{self, FeedEntryKey};
use crate::record::record;

stored!(
    DeviceSession, "a device's session", version 1:
    slot, number, since, address
);

stored!(
    TimelineEntry, "an entry of a timeline", version 1:
    slot, at, number, what
);

variants! {
    Happening, "what happened to a device":
        Connected { address: address } = 0,
        Disconnected { reason: reason, address: address, since: since } = 1,
        DeliveryAttempt { 0: delivery, 1: attempt } = 2,
        Delivery { 0: delivery, 1: status } = 3,
        Command { id: id, status: status, tries: tries } = 4,
        Link { client: client, linked: linked } = 5;
}

choices! {
    DisconnectReason, "why a session ended": ClientDisconnect = 0, ConnectionLost = 1, KeepAlive = 2,
        TakenOver = 3, ServerStopped = 4, Kicked = 5, ProtocolError = 6;
}

record!(
    DeviceSession: DeviceSessions by DeviceSlot,
    key: |slot| key::slot(*slot),
    place: |session| Cow::Borrowed(&session.slot),
);

record!(
    TimelineEntry: Timeline by (DeviceSlot, TimelineEntryKey),
    key: |(slot, entry)| FeedEntryKey::from(*entry).below(&key::slot(*slot)),
    place: |entry| Cow::Owned((entry.slot, entry.into())),
);
