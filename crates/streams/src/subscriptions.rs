//! How far the reader of a subscription has come, and what that means for its stream.
//!
//! A position is the id of the last message that is read; 0 is before the first. It is never ahead
//! of the ids that the stream has given, so nothing that is to come is taken for read.

use base::Problem;
use records::StreamTail;

/// Where a subscription begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionStart {
    /// At the oldest message that is kept.
    Start,
    /// Behind the newest message.
    End,
    /// Behind the message with this id.
    Behind(u64),
}

/// The ids of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamIds {
    /// The oldest message that is kept, or the next one.
    pub first: u64,
    /// The newest message; 0 before the first.
    pub last: u64,
    /// The next message: every id below it may have been given, also where a crash lost its
    /// message.
    pub next: u64,
}

/// The position of a subscription that begins there.
///
/// # Errors
/// 422 `invalid_from` for an id that no message has had.
pub fn begin(start: SubscriptionStart, ids: StreamIds) -> Result<u64, Problem> {
    match start {
        SubscriptionStart::Start => Ok(ids.first.max(1) - 1),
        SubscriptionStart::End => Ok(ids.last),
        SubscriptionStart::Behind(id) if id < ids.next => Ok(id),
        SubscriptionStart::Behind(id) => {
            let detail = format!("from is {id}; the newest message is {}", ids.last);
            Err(Problem::not_allowed("invalid_from", detail))
        }
    }
}

/// The position after a commit of everything up to `id`.
///
/// # Errors
/// 404 `unknown_message` for an id that no message has had; 409 `position_behind` for one before
/// the position, unless the commit rewinds.
pub fn commit(position: u64, id: u64, rewinds: bool, ids: StreamIds) -> Result<u64, Problem> {
    if id >= ids.next.max(1) {
        let detail = format!("there is no message {id} yet; the newest is {}", ids.last);
        return Err(Problem::unknown("unknown_message", detail));
    }
    if id < position && !rewinds {
        let detail = format!("everything up to {position} is read; \"rewind\":true goes back to {id}");
        return Err(Problem::new(409, "position_behind", detail));
    }
    Ok(id)
}

/// How many messages are behind a position: an upper bound where a crash left ids out.
#[must_use]
pub fn lag(position: u64, tail: &StreamTail, kept: u64, next: u64) -> u64 {
    let from = position.saturating_add(1).max(tail.first);
    next.saturating_sub(from).min(kept)
}

/// The first message that one of these positions has not come to: what is from there on is not
/// taken yet by all. `None` without a position.
#[must_use]
pub fn untaken_from(positions: impl IntoIterator<Item = u64>) -> Option<u64> {
    positions.into_iter().min().map(|position| position.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use base::random::Random;
    use base::{Incarnation, Timestamp};

    use super::*;

    const IDS: StreamIds = StreamIds { first: 5, last: 9, next: 12 };

    fn tail(first: u64, next: u64) -> StreamTail {
        let tail = records::StreamTail::begin(Incarnation(1));
        StreamTail { first, next, reserved: next, last_at: Timestamp(0), ..tail }
    }

    #[test]
    fn a_subscription_begins_where_it_is_asked_to() {
        use SubscriptionStart::{Behind, End, Start};

        for (start, expect) in [
            (Start, Ok(4)),
            (End, Ok(9)),
            (Behind(0), Ok(0)),
            (Behind(11), Ok(11)),
            (Behind(12), Err("invalid_from")),
        ] {
            assert_eq!(begin(start, IDS).map_err(|problem| problem.code), expect, "{start:?}");
        }
        let fresh = StreamIds { first: 1, last: 0, next: 1 };
        assert_eq!(begin(Start, fresh), Ok(0));
        assert_eq!(begin(End, fresh), Ok(0));
    }

    #[test]
    fn a_position_goes_back_only_where_that_is_asked_for() {
        for (id, rewinds, expect) in [
            (7, false, Ok(7)),
            (8, false, Ok(8)),
            (11, false, Ok(11)),
            (12, false, Err("unknown_message")),
            (12, true, Err("unknown_message")),
            (6, false, Err("position_behind")),
            (6, true, Ok(6)),
            (0, true, Ok(0)),
        ] {
            let moved = commit(7, id, rewinds, IDS).map_err(|problem| problem.code);
            assert_eq!(moved, expect, "{id} {rewinds}");
        }
    }

    #[test]
    fn what_is_gone_is_not_behind() {
        for (position, expect) in [(0, 5), (4, 5), (5, 4), (9, 0), (11, 0)] {
            assert_eq!(lag(position, &tail(5, 10), 5, 10), expect, "{position}");
        }
        assert_eq!(lag(0, &tail(5, 1_000), 6, 1_000), 6, "never more than there are");
    }

    #[test]
    fn the_slowest_push_says_what_is_not_taken() {
        assert_eq!(untaken_from([7, 3, 9]), Some(4));
        assert_eq!(untaken_from([]), None);
    }

    /// A list of messages, each of which was read or not, beside the rules.
    #[test]
    fn positions_agree_with_a_list_of_what_was_read() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let (mut read, mut first, mut position) = (Vec::<bool>::new(), 1_u64, 0);
            for _ in 0..200 {
                let ids = StreamIds { first, last: read.len() as u64, next: read.len() as u64 + 1 };
                match random.below(4) {
                    0 => read.extend(vec![false; random.below(5) as usize]),
                    1 => first = (first + random.below(3)).min(ids.next),
                    2 => position = begin(SubscriptionStart::Start, ids).expect("a place"),
                    _ => {
                        let (id, rewinds) = (random.below(ids.next + 2), random.below(4) == 0);
                        position = commit(position, id, rewinds, ids).unwrap_or(position);
                    }
                }
                for (place, read) in read.iter_mut().enumerate() {
                    *read = (place as u64) < position;
                }
                let kept = read.len() as u64 + 1 - first;
                let unread = read.iter().skip(first as usize - 1).filter(|read| !**read).count() as u64;
                let next = read.len() as u64 + 1;
                assert_eq!(lag(position, &tail(first, next), kept, next), unread, "seed {seed}");
            }
        }
    }
}
