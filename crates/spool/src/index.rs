//! What is in the segments, as far as it has to be known in memory: how much of each destination
//! waits in which segment. Nothing of the records themselves is held.

use std::collections::{BTreeMap, HashMap};

use base::Timestamp;

use crate::destination::Destination;
use crate::record::FollowPosition;
use crate::state::{CallInFlight, LaneState, SpoolState, SpoolTotals};

/// Destinations that may have something waiting at a time.
pub(crate) const DESTINATIONS_MAX: usize = 1_024;

/// Stands for a destination in the counts of segments.
pub(crate) type LaneId = u32;

/// How much of a destination waits somewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitingCount {
    pub(crate) records: u64,
    pub(crate) items: u64,
    pub(crate) bytes: u64,
}

impl WaitingCount {
    pub(crate) fn of(items: u32, bytes: usize) -> Self {
        Self { records: 1, items: items.into(), bytes: bytes as u64 }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.records += other.records;
        self.items += other.items;
        self.bytes += other.bytes;
    }

    pub(crate) fn subtract(&mut self, other: Self) {
        self.records = self.records.saturating_sub(other.records);
        self.items = self.items.saturating_sub(other.items);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }
}

/// A segment. Its first number is its name.
#[derive(Clone, Debug, Default)]
pub(crate) struct SegmentSummary {
    /// Rises when the segment is written anew: places within it are others then.
    pub(crate) generation: u32,
    /// Bytes that hold records.
    pub(crate) length: u64,
    pub(crate) waiting: HashMap<LaneId, WaitingCount>,
    /// Nothing more is appended.
    pub(crate) is_closed: bool,
    /// It is being appended to now.
    pub(crate) is_written: bool,
}

impl SegmentSummary {
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.waiting.values().map(|waiting| waiting.bytes).sum()
    }
}

/// A destination that has something waiting.
#[derive(Clone, Debug)]
pub(crate) struct WaitingLane {
    pub(crate) id: LaneId,
    /// Everything up to this number is done.
    pub(crate) cursor: u64,
    pub(crate) in_flight: Option<CallInFlight>,
    pub(crate) waiting: WaitingCount,
    /// When the oldest of it was received, as far as it is known.
    pub(crate) oldest: Timestamp,
    /// Why it does not move.
    pub(crate) error: Option<String>,
}

/// A record that is done, or was given up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DoneRecord {
    pub(crate) number: u64,
    pub(crate) items: u32,
    pub(crate) bytes: usize,
}

/// Everything that is known of the segments.
#[derive(Debug, Default)]
pub(crate) struct WaitingIndex {
    /// By first number.
    pub(crate) segments: BTreeMap<u64, SegmentSummary>,
    pub(crate) lanes: HashMap<Destination, WaitingLane>,
    lane_ids: LaneId,
    /// The newest number that is durable.
    pub(crate) newest: u64,
    pub(crate) newest_received: Timestamp,
    pub(crate) totals: SpoolTotals,
    pub(crate) follow: Option<FollowPosition>,
    /// A hash of the path that was followed; 0 where it is not known.
    pub(crate) followed_path: u64,
}

impl WaitingIndex {
    /// What a state remembers, before the segments are looked at.
    pub(crate) fn of(state: &SpoolState) -> Self {
        Self {
            newest: state.floor,
            newest_received: state.newest_received,
            totals: state.totals,
            follow: state.follow,
            followed_path: state.followed_path,
            ..Self::default()
        }
    }

    /// Bytes of all segments.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.segments.values().map(|segment| segment.length).sum()
    }

    /// Everything that waits.
    pub(crate) fn waiting(&self) -> WaitingCount {
        let mut all = WaitingCount::default();
        for lane in self.lanes.values() {
            all.add(lane.waiting);
        }
        all
    }

    /// A record waits in the segment that begins with `segment`. Whether its destination had
    /// nothing waiting before.
    pub(crate) fn wait(
        &mut self,
        segment: u64,
        destination: &Destination,
        (number, received): (u64, Timestamp),
        waiting: WaitingCount,
    ) -> bool {
        let is_new = !self.lanes.contains_key(destination);
        if is_new {
            self.lane_ids += 1;
            let lane = WaitingLane {
                id: self.lane_ids,
                cursor: number - 1,
                in_flight: None,
                waiting: WaitingCount::default(),
                oldest: received,
                error: None,
            };
            self.lanes.insert(destination.clone(), lane);
        }
        if let Some(lane) = self.lanes.get_mut(destination) {
            lane.waiting.add(waiting);
            let id = lane.id;
            self.segments.entry(segment).or_default().waiting.entry(id).or_default().add(waiting);
        }
        is_new
    }

    /// These records of a destination are done; up to the last of them nothing is left. A
    /// destination with nothing waiting is forgotten.
    pub(crate) fn done(&mut self, destination: &Destination, records: &[DoneRecord]) -> u64 {
        let Some(lane) = self.lanes.get_mut(destination) else { return 0 };
        let mut items = 0;
        for record in records.iter().filter(|record| record.number > lane.cursor) {
            let waiting = WaitingCount::of(record.items, record.bytes);
            lane.waiting.subtract(waiting);
            items += waiting.items;
            let mut before = self.segments.range_mut(..=record.number).rev();
            let holder = before.find(|(_, segment)| segment.waiting.contains_key(&lane.id));
            if let Some((_, segment)) = holder
                && let Some(there) = segment.waiting.get_mut(&lane.id)
            {
                there.subtract(waiting);
                if there.records == 0 {
                    segment.waiting.remove(&lane.id);
                }
            }
        }
        lane.cursor = lane.cursor.max(records.last().map_or(0, |record| record.number));
        lane.in_flight = None;
        if lane.waiting.records == 0 {
            self.lanes.remove(destination);
        }
        items
    }

    /// Everything that waits in a segment is given up; its items. A call that reaches beyond the
    /// segment stays known: it may have taken effect as a whole, so its rest is not forwarded.
    pub(crate) fn give_up(&mut self, first: u64) -> u64 {
        let next = self.segments.range(first + 1..).next().map_or(self.newest, |(next, _)| next - 1);
        let Some(segment) = self.segments.remove(&first) else { return 0 };
        let mut items = 0;
        for lane in self.lanes.values_mut() {
            let Some(waiting) = segment.waiting.get(&lane.id) else { continue };
            lane.waiting.subtract(*waiting);
            lane.cursor = lane.cursor.max(next);
            lane.in_flight = lane.in_flight.filter(|call| call.end > next);
            items += waiting.items;
        }
        self.lanes.retain(|_, lane| lane.waiting.records > 0);
        items
    }

    /// What is found in a segment, or several that became one, in place of what was known: places
    /// that were damaged held something. The items that are lost.
    pub(crate) fn correct(&mut self, first: u64, mut found: SegmentSummary, merged: &[u64]) -> u64 {
        let mut before = HashMap::<LaneId, WaitingCount>::new();
        for segment in merged.iter().filter_map(|first| self.segments.remove(first)) {
            for (lane, waiting) in segment.waiting {
                before.entry(lane).or_default().add(waiting);
            }
        }
        let mut lost = 0;
        for lane in self.lanes.values_mut() {
            let (was, is) = (before.get(&lane.id), found.waiting.get(&lane.id).copied().unwrap_or_default());
            let was = was.copied().unwrap_or_default();
            lost += was.items.saturating_sub(is.items);
            lane.waiting.subtract(was);
            lane.waiting.add(is);
        }
        self.lanes.retain(|_, lane| lane.waiting.records > 0);
        found.waiting.retain(|_, waiting| waiting.records > 0);
        if !found.waiting.is_empty() {
            self.segments.insert(first, found);
        }
        lost
    }

    /// What has to be remembered; the caller adds what only it knows.
    pub(crate) fn state(&self) -> SpoolState {
        let lanes = self.lanes.iter().map(|(destination, lane)| LaneState {
            destination: destination.clone(),
            cursor: lane.cursor,
            in_flight: lane.in_flight,
        });
        SpoolState {
            floor: self.newest,
            newest_received: self.newest_received,
            totals: self.totals,
            follow: self.follow,
            followed_path: self.followed_path,
            lanes: lanes.collect(),
            ..SpoolState::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str) -> Destination {
        Destination::queue("ns", name).expect("right names")
    }

    /// Numbers from 1 on, three to a segment, turn by turn for `a` and `b`.
    fn index(count: u64) -> WaitingIndex {
        let mut index = WaitingIndex::default();
        for number in 1..=count {
            let destination = queue(if number.is_multiple_of(2) { "b" } else { "a" });
            let at = (number, Timestamp(0));
            index.wait((number - 1) / 3 * 3 + 1, &destination, at, WaitingCount::of(1, 10));
            index.newest = number;
        }
        index
    }

    fn done(numbers: &[u64]) -> Vec<DoneRecord> {
        numbers.iter().map(|number| DoneRecord { number: *number, items: 1, bytes: 10 }).collect()
    }

    #[test]
    fn a_destination_is_there_while_something_of_it_waits() {
        let mut index = index(6);
        assert_eq!(index.waiting(), WaitingCount { records: 6, items: 6, bytes: 60 });
        assert_eq!(index.done(&queue("a"), &done(&[1, 3])), 2);
        assert_eq!(index.done(&queue("a"), &done(&[1, 3])), 0, "once only");
        assert_eq!(index.lanes[&queue("a")].cursor, 3);
        assert_eq!(index.segments[&1].waiting.len(), 1, "only b waits there");
        assert_eq!(index.done(&queue("a"), &done(&[5])), 1);
        assert!(!index.lanes.contains_key(&queue("a")));
        assert_eq!(index.state().lanes.len(), 1);
    }

    #[test]
    fn what_is_given_up_is_counted_and_passed_by() {
        let mut index = index(7);
        index.done(&queue("a"), &done(&[1]));
        assert_eq!(index.give_up(1), 2);
        assert_eq!((index.lanes[&queue("a")].cursor, index.lanes[&queue("b")].cursor), (3, 3));
        assert_eq!(index.waiting().records, 4);
        assert_eq!(index.give_up(4) + index.give_up(7), 4);
        assert!(index.lanes.is_empty() && index.segments.is_empty());
    }

    #[test]
    fn a_call_that_reaches_beyond_what_is_given_up_stays_known() {
        let mut index = index(7);
        let call = CallInFlight { end: 5, begun: Timestamp(1), records: 3 };
        index.lanes.get_mut(&queue("a")).expect("it waits").in_flight = Some(call);
        index.give_up(1);
        assert_eq!(index.lanes[&queue("a")].in_flight, Some(call));
        assert_eq!(index.lanes[&queue("b")].in_flight, None);
        index.give_up(4);
        assert_eq!(index.lanes[&queue("a")].in_flight, None, "nothing of it is left");
    }

    #[test]
    fn what_is_damaged_no_longer_waits() {
        let mut index = index(6);
        let id = index.lanes[&queue("b")].id;
        let found =
            SegmentSummary { waiting: [(id, WaitingCount::of(1, 10))].into(), ..SegmentSummary::default() };
        assert_eq!(index.correct(1, found, &[1, 4]), 5, "only one record was found of six");
        assert_eq!(index.waiting().records, 1);
        assert_eq!(index.segments.keys().collect::<Vec<_>>(), [&1]);
    }
}
