//! Stored forms of rollouts, of how far they have come, and of their devices.

use std::borrow::Cow;

use base::Incarnation;
use records::{
    MemberPlace, MemberStatus, Rollout, RolloutCommand, RolloutCounts, RolloutCursor, RolloutDevices,
    RolloutEntry, RolloutMember, RolloutStage, RolloutStanding, RolloutState, RolloutStop, RolloutWait,
    RolloutWindow, RolloutWork,
};

use super::field::{Field, choices, fields, stored, variants};
use super::key;
use super::{ByteReader, CodecError, Stored};
use crate::record::{Index, record};
use crate::table::Table;

stored!(
    Rollout, "a rollout", version 1:
    id, incarnation, created_at, request, work, selector, is_named, rate, in_flight, stages, window, stop,
    include_later
);

stored!(
    RolloutCommand, "a rollout's command", version 1:
    payload, ttl_ms, not_before, ack_timeout_ms, run_timeout_ms, attempts_max, origin, key, priority, notify
);

stored!(
    RolloutState, "how far a rollout has come", version 1:
    id, standing, collecting, counts, stage, boundary, stage_ended, last_ended_at, approved, next_us, ended,
    failed, waits_for, passed_at, ended_at
);

stored!(
    RolloutDevices, "devices of a rollout", version 1:
    rollout, number, devices
);

stored!(
    RolloutMember, "a device of a rollout", version 1:
    place, status, is_recalled, turn, handed_at, command, tz
);

/// Version 1: its fields in order. Within a member it has no version of its own.
impl Stored for MemberPlace {
    const VERSION: u8 = 1;
    const NAME: &'static str = "a place in a rollout";

    fn put(&self, out: &mut Vec<u8>) {
        self.put_field(out);
    }

    fn get(reader: &mut ByteReader<'_>, _version: u8) -> Result<Self, CodecError> {
        Field::get_field(reader)
    }
}

fields! {
    MemberPlace: rollout, rank, device, entry;
    RolloutStage: share_ppm, soak_ms, approve;
    RolloutStop: failed_ppm, after;
    RolloutWindow: cron, for_ms, tz;
    RolloutEntry: key, value;
}

choices! {
    RolloutStanding, "whether a rollout goes on": Running = 0, Paused = 1, Stopped = 2, Cancelled = 3,
        Done = 4;
    // Programs that stored whether a rollout waits, and not for what, wrote 0 and 1. A rollout with
    // 1 soaks, until the first step after the start says better.
    RolloutWait, "what a rollout waits for": Nothing = 0, Soak = 1, Approval = 2, Window = 3;
    MemberStatus, "where a device of a rollout stands": Waiting = 0, Scheduled = 1, Published = 2,
        Acknowledged = 3, Failed = 4, Expired = 5, Superseded = 6, Cancelled = 7;
}

variants! {
    RolloutWork, "what a rollout does": Command { 0: command } = 0, Entries { 0: entries } = 1;
    RolloutCursor, "where a rollout looks for devices":
        Named { 0: number } = 0, Partition { 0: partition, 1: after } = 1;
}

impl Field for RolloutCounts {
    fn put_field(&self, out: &mut Vec<u8>) {
        self.0.iter().for_each(|count| count.put_field(out));
    }

    fn get_field(reader: &mut ByteReader<'_>) -> Result<Self, CodecError> {
        let mut counts = Self::default();
        for count in &mut counts.0 {
            *count = Field::get_field(reader)?;
        }
        Ok(counts)
    }
}

record!(
    Rollout: Rollouts by Box<str>,
    key: |id| key::rollout(id),
    place: |rollout| Cow::Borrowed(&rollout.id),
);

record!(
    RolloutState: RolloutStates by Box<str>,
    key: |id| key::rollout(id),
    place: |state| Cow::Borrowed(&state.id),
);

record!(
    RolloutDevices: RolloutDevices by (Incarnation, u32),
    key: |(rollout, number)| key::rollout_devices(*rollout, *number),
    place: |devices| Cow::Owned((devices.rollout, devices.number)),
);

record!(
    RolloutMember: RolloutMembers by (MemberPlace, MemberStatus),
    key: |(place, _)| key::member(place),
    place: |member| Cow::Owned((member.place.clone(), member.status)),
    indexes: [Index {
        table: Table::MembersByStatus,
        rows: |(place, status), row| row(key::member_of_status(place, *status), &[]),
        names: |row, _| key::member_from(row),
    }],
);
