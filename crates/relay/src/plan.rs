//! The calls that send the rows of one reading: in order for each destination, destinations beside
//! one another. Pure.
//!
//! A call has rows of one destination, and is taken or refused as a whole. One that is refused is
//! cut in halves until the row is found that is to blame: rows act as if each were sent alone. So
//! is one that there is no room for, until what has room is taken.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

use crate::call_sizes::CallSizes;
use crate::outgoing::{OutgoingRow, RowRefusal, RowTarget, target};
use crate::verdict::CallVerdict;

/// Rows of a call; the API takes no more.
pub(crate) const CALL_ROWS_MAX: usize = 1_000;
/// Bytes of the rows of a call; the API takes 16 MiB.
const CALL_BYTES_MAX: usize = 8 * 1_024 * 1_024;
/// Calls at a time.
const CALLS_MAX: usize = 16;

/// What becomes of a row that is refused for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnRefused {
    /// It moves to the table of refused rows, and the rest goes on.
    Skip,
    /// It stays, and its key waits behind it.
    Hold,
}

/// The keys that wait behind a row that is held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldKeys(HashSet<(String, Option<String>)>);

impl HeldKeys {
    /// Rows with this key wait. Jobs without a key have no order, so nothing waits behind one.
    pub(crate) fn hold(&mut self, destination: &str, key: Option<&str>) {
        let is_stream = matches!(target(destination), Some((RowTarget::Stream, _, _)));
        if key.is_some() || is_stream {
            self.0.insert((destination.to_owned(), key.map(str::to_owned)));
        }
    }

    pub(crate) fn holds(&self, destination: &str, key: Option<&str>) -> bool {
        !self.0.is_empty() && self.0.contains(&(destination.to_owned(), key.map(str::to_owned)))
    }

    pub(crate) fn has_all_of(&self, other: &Self) -> bool {
        other.0.is_subset(&self.0)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// A call to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedCall {
    pub(crate) destination: String,
    pub(crate) rows: Vec<OutgoingRow>,
    /// Of the rows, as far as they were added one by one.
    pub(crate) bytes: usize,
}

/// What is to be written down of rows that need no more calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowOutcomes {
    /// Durable at their destination.
    pub(crate) taken: Vec<i64>,
    /// Refused for good.
    pub(crate) refused: Vec<(i64, RowRefusal)>,
}

/// A destination that cannot take anything now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DestinationWait {
    pub(crate) destination: String,
    /// The first row that has not been sent.
    pub(crate) first_id: i64,
    pub(crate) error: String,
    pub(crate) retry_after: Option<Duration>,
}

#[derive(Debug)]
enum PlannedPart {
    Call(PlannedCall),
    /// Nothing has to be asked to know that it is refused.
    Refused {
        id: i64,
        key: Option<String>,
        refusal: RowRefusal,
    },
}

/// What is still to be sent.
#[derive(Debug, Default)]
pub(crate) struct SendPlan(BTreeMap<String, VecDeque<PlannedPart>>);

impl SendPlan {
    /// Adds rows in the order of their ids.
    pub(crate) fn add(
        &mut self,
        id: i64,
        destination: &str,
        key: Option<&str>,
        row: Result<OutgoingRow, RowRefusal>,
    ) {
        let parts = self.0.entry(destination.to_owned()).or_default();
        match row {
            Err(refusal) => {
                parts.push_back(PlannedPart::Refused { id, key: key.map(str::to_owned), refusal });
            }
            Ok(row) => match parts.back_mut() {
                Some(PlannedPart::Call(call)) if call.has_room_for(&row) => {
                    call.bytes += row.body.len() + 1;
                    call.rows.push(row);
                }
                _ => parts.push_back(PlannedPart::Call(PlannedCall {
                    destination: destination.to_owned(),
                    bytes: row.body.len() + 1,
                    rows: vec![row],
                })),
            },
        }
    }

    /// The calls to make next, one for each destination. Rows behind a held one are left out.
    pub(crate) fn next_calls(
        &mut self,
        (held, on_refused): (&mut HeldKeys, OnRefused),
        sizes: &CallSizes,
        outcomes: &mut RowOutcomes,
    ) -> Vec<PlannedCall> {
        let mut calls = Vec::new();
        for (destination, parts) in &mut self.0 {
            while calls.len() < CALLS_MAX {
                let Some(part) = parts.pop_front() else { break };
                match part {
                    PlannedPart::Refused { id, key, refusal } => {
                        if !held.holds(destination, key.as_deref()) {
                            outcomes.refused.push((id, refusal));
                            if on_refused == OnRefused::Hold {
                                held.hold(destination, key.as_deref());
                            }
                        }
                    }
                    PlannedPart::Call(mut call) => {
                        call.rows.retain(|row| !held.holds(destination, row.key.as_deref()));
                        if let Some(rest) = call.cut_to(sizes.rows_max(destination)) {
                            parts.push_front(PlannedPart::Call(rest));
                        }
                        if !call.rows.is_empty() {
                            calls.push(call);
                            break;
                        }
                    }
                }
            }
        }
        self.0.retain(|_, parts| !parts.is_empty());
        calls
    }

    /// Takes note of what became of a call.
    pub(crate) fn ended(
        &mut self,
        call: PlannedCall,
        verdict: CallVerdict,
        (held, on_refused): (&mut HeldKeys, OnRefused),
        sizes: &mut CallSizes,
        outcomes: &mut RowOutcomes,
    ) -> Option<DestinationWait> {
        match verdict {
            CallVerdict::Taken => {
                sizes.took(&call.destination);
                outcomes.taken.extend(call.rows.iter().map(|row| row.id));
            }
            CallVerdict::Refused(_) if call.rows.len() > 1 => {
                let PlannedCall { destination, mut rows, .. } = call;
                let second = rows.split_off(rows.len() / 2);
                let parts = self.0.entry(destination.clone()).or_default();
                for rows in [second, rows] {
                    let half = PlannedCall { destination: destination.clone(), rows, bytes: 0 };
                    parts.push_front(PlannedPart::Call(half));
                }
            }
            CallVerdict::Refused(refusal) => {
                for row in &call.rows {
                    outcomes.refused.push((row.id, refusal.clone()));
                    if on_refused == OnRefused::Hold {
                        held.hold(&call.destination, row.key.as_deref());
                    }
                }
            }
            CallVerdict::NoRoom { error, retry_after } => {
                sizes.had_no_room(&call.destination, call.rows.len());
                if call.rows.len() == 1 {
                    return Some(self.wait(call, error, retry_after));
                }
                let parts = self.0.entry(call.destination.clone()).or_default();
                parts.push_front(PlannedPart::Call(call));
            }
            CallVerdict::Wait { error, retry_after } | CallVerdict::Again { error, retry_after } => {
                return Some(self.wait(call, error, retry_after));
            }
        }
        None
    }

    /// Takes out all that is still to be sent where this call was to go.
    fn wait(&mut self, call: PlannedCall, error: String, retry_after: Option<Duration>) -> DestinationWait {
        self.0.remove(&call.destination);
        let first_id = call.rows.first().map_or(i64::MAX, |row| row.id);
        DestinationWait { destination: call.destination, first_id, error, retry_after }
    }
}

impl PlannedCall {
    fn has_room_for(&self, row: &OutgoingRow) -> bool {
        let is_repeated = row.alias.is_some() && self.rows.iter().any(|other| other.alias == row.alias);
        self.rows.len() < CALL_ROWS_MAX && self.bytes + row.body.len() <= CALL_BYTES_MAX && !is_repeated
    }

    /// Leaves it so many rows; gives the rest, if there is any.
    fn cut_to(&mut self, rows_max: usize) -> Option<Self> {
        if self.rows.len() <= rows_max {
            return None;
        }
        let rows = self.rows.split_off(rows_max);
        Some(Self { destination: self.destination.clone(), rows, bytes: 0 })
    }

    /// Rows go once they are durable, whatever the save mode of their stream.
    pub(crate) fn parameter(&self) -> Option<(&'static str, &'static str)> {
        let is_stream = target(&self.destination).is_some_and(|(kind, ..)| kind == RowTarget::Stream);
        is_stream.then_some(("durable", "true"))
    }

    /// The names of its path, and its body.
    pub(crate) fn request(&self) -> Option<(Vec<String>, Vec<u8>)> {
        let (kind, namespace, name) = target(&self.destination)?;
        let (root, items) = match kind {
            RowTarget::Queue => ("queues", "jobs"),
            RowTarget::Stream => ("streams", "messages"),
        };
        let path = [root, namespace, name, items].map(str::to_owned).to_vec();
        let bytes: usize = self.rows.iter().map(|row| row.body.len() + 1).sum();
        let mut body = Vec::with_capacity(bytes + 16);
        body.extend_from_slice(format!("{{\"{items}\":[").as_bytes());
        for (place, row) in self.rows.iter().enumerate() {
            if place > 0 {
                body.push(b',');
            }
            body.extend_from_slice(row.body.as_bytes());
        }
        body.extend_from_slice(b"]}");
        Some((path, body))
    }
}

#[cfg(test)]
mod tests;
