//! Copies that move on, begin anew, and share what they send.

use base::Incarnation;
use base::random::Random;

use super::*;

fn copy(direction: CopyDirection) -> StreamCopy {
    let end = ("centre", "shop", "orders");
    let copy = StreamCopy::begin((Incarnation(1), "c"), direction, end, Timestamp(0));
    StreamCopy { start: 2, position: 2, ..copy }
}

fn answered_by(stream: &str) -> PeerIdentity {
    PeerIdentity { node: "dc1".into(), stream: stream.into() }
}

fn step(lane: CopyLane, from: u64, to: u64) -> CopiedSpan {
    CopiedSpan { copied: to - from, ..CopiedSpan::of_nothing(lane, (from, to), answered_by("dc1.a")) }
}

fn block(first: u64, last: u64) -> StreamBlock {
    StreamBlock {
        stream: Incarnation(1),
        first,
        last,
        messages: (last + 1 - first) as u32,
        bytes: 1,
        stored_bytes: 1,
        checksum: 0,
        storage: "local".into(),
        brought_by: base::Lineage(0),
        created_at: Timestamp(0),
        last_at: Timestamp(0),
        segments: vec!["east".into()],
        any_segment: false,
    }
}

#[test]
fn a_position_moves_from_where_it_is_and_from_nowhere_else() {
    let mut one = copy(CopyDirection::To);
    for (from, to, expect, position) in [
        (2, 5, CopyProgress::Moved, 5),
        (2, 9, CopyProgress::Elsewhere, 5),
        (6, 9, CopyProgress::Elsewhere, 5),
        (5, 9, CopyProgress::Moved, 9),
    ] {
        let moved = advance(&mut one, &step(CopyLane::Backlog, from, to), Timestamp(0));
        assert_eq!((moved, one.position), (expect, position), "{from} {to}");
    }
    assert_eq!((one.copied, one.peer.as_deref(), one.peer_node.as_deref()), (7, Some("dc1.a"), Some("dc1")));
    let lost = advance(&mut one, &step(CopyLane::Live, 9, 10), Timestamp(0));
    assert_eq!(lost, CopyProgress::Elsewhere, "there is no live lane");
}

#[test]
fn a_stream_that_was_made_anew_is_copied_anew() {
    for (direction, expect) in [(CopyDirection::To, 2), (CopyDirection::From, 0)] {
        let mut one = copy(direction);
        advance(&mut one, &step(CopyLane::Backlog, 2, 9), Timestamp(0));
        begin_live(&mut one, 20, &answered_by("dc1.a"));
        let other = CopiedSpan { peer: answered_by("dc1.b"), ..step(CopyLane::Backlog, 9, 12) };
        assert_eq!(advance(&mut one, &other, Timestamp(7)), CopyProgress::Reset);
        assert_eq!((one.position, one.live, one.reset_at), (expect, None, Some(Timestamp(7))));
        assert_eq!(one.copied, 7, "what went to the other one counts when it goes again");
        let again = CopiedSpan { peer: answered_by("dc1.b"), ..step(CopyLane::Backlog, expect, 12) };
        assert_eq!(advance(&mut one, &again, Timestamp(8)), CopyProgress::Moved);
    }
}

#[test]
fn what_is_of_others_moves_a_copy_whoever_is_there() {
    let mut one = copy(CopyDirection::To);
    let of_others = |from, to| CopiedSpan {
        peer: PeerIdentity::default(),
        ..CopiedSpan::of_nothing(CopyLane::Backlog, (from, to), answered_by("dc1.a"))
    };
    assert_eq!(advance(&mut one, &of_others(2, 9), Timestamp(0)), CopyProgress::Moved);
    assert_eq!((one.position, &one.peer, &one.peer_node), (9, &None, &None));
    advance(&mut one, &step(CopyLane::Backlog, 9, 10), Timestamp(0));
    assert_eq!(advance(&mut one, &of_others(10, 12), Timestamp(0)), CopyProgress::Moved);
    assert_eq!((one.position, one.peer.as_deref(), one.reset_at), (12, Some("dc1.a"), None));
}

#[test]
fn a_stream_that_is_gone_is_forgotten_once() {
    let mut one = copy(CopyDirection::To);
    advance(&mut one, &step(CopyLane::Backlog, 2, 9), Timestamp(0));
    assert_eq!(forget_peer(&mut one, "dc1.z", Timestamp(7)), CopyProgress::Elsewhere);
    assert_eq!(forget_peer(&mut one, "dc1.a", Timestamp(7)), CopyProgress::Reset);
    assert_eq!((one.position, &one.peer, &one.peer_node), (2, &None, &None));
    assert_eq!(one.reset_at, Some(Timestamp(7)));
    assert_eq!(forget_peer(&mut one, "dc1.a", Timestamp(8)), CopyProgress::Elsewhere);
    let other = CopiedSpan { peer: answered_by("dc1.b"), ..step(CopyLane::Backlog, 2, 4) };
    assert_eq!(advance(&mut one, &other, Timestamp(9)), CopyProgress::Moved);
    assert_eq!(one.reset_at, Some(Timestamp(7)));
    assert_eq!(forget_peer(&mut copy(CopyDirection::From), "", Timestamp(0)), CopyProgress::Elsewhere);
}

#[test]
fn a_live_lane_ends_where_the_backlog_comes_to_it() {
    let mut one = copy(CopyDirection::To);
    begin_live(&mut one, 50, &answered_by("dc0.a"));
    begin_live(&mut one, 60, &answered_by("dc0.a"));
    assert_eq!(one.peer, None, "the source of a copy to another node is here");
    advance(&mut one, &step(CopyLane::Live, 50, 55), Timestamp(0));
    let taken = |one: &StreamCopy| [2, 3, 50, 51, 55, 56].map(|id| is_taken(one, id));
    // It began behind 2, which never went.
    assert_eq!(taken(&one), [false, false, false, true, true, false]);
    advance(&mut one, &step(CopyLane::Backlog, 2, 50), Timestamp(0));
    assert_eq!((one.position, one.live), (55, None));
    assert_eq!(taken(&one), [false, true, true, true, true, false]);
}

#[test]
fn a_live_lane_goes_with_the_source_that_it_was_begun_for() {
    let mut one = copy(CopyDirection::From);
    assert_eq!(begin_live(&mut one, 50, &answered_by("dc1.a")), CopyProgress::Moved);
    assert_eq!(begin_live(&mut one, 9, &answered_by("dc1.b")), CopyProgress::Elsewhere);
    let other = CopiedSpan { peer: answered_by("dc1.b"), ..step(CopyLane::Backlog, 2, 9) };
    assert_eq!(advance(&mut one, &other, Timestamp(0)), CopyProgress::Reset);
    assert_eq!((one.position, one.live), (0, None));
}

#[test]
fn what_goes_untaken_is_counted() {
    let mut one = copy(CopyDirection::To);
    assert_eq!([block(1, 2), block(1, 5), block(3, 5)].map(|gone| dropped(&one, &gone)), [0, 3, 3]);
    one.live = Some(LiveLane { from: 6, position: 8 });
    assert_eq!([block(5, 7), block(7, 8), block(8, 10)].map(|gone| dropped(&one, &gone)), [2, 0, 2]);
    one.segments = vec!["west".into()];
    assert_eq!(dropped(&one, &block(1, 5)), 0);
    assert_eq!(dropped(&copy(CopyDirection::From), &block(3, 5)), 0);
}

#[test]
fn the_live_lane_has_its_share() {
    for (permille, expect) in [(0, 0), (250, 25), (900, 90), (1_000, 100)] {
        let mut sent = LaneBytes::default();
        for _ in 0..100 {
            sent.add(sent.next(permille), 10);
        }
        assert!(sent.live.abs_diff(expect * 10) <= 10, "{permille}: {sent:?}");
    }
}

#[test]
fn no_more_goes_than_the_rate_says() {
    let mut pace = CopyPace::new(Some(1_000), Timestamp(0));
    let (mut now, mut sent) = (Timestamp(0), 0);
    let most = pace.bytes_together(1 << 20) as u64;
    while now < Timestamp(10_000) {
        now = now.max(pace.next_at());
        pace.spend(most, now);
        sent += most;
    }
    assert!((9_500..=10_750).contains(&sent), "{sent}");
    let free = CopyPace::new(None, Timestamp(0));
    assert!(free.next_at() < Timestamp(0) && free.bytes_together(7) == 7);
}

#[test]
fn pauses_grow_and_stay_short_enough() {
    for seed in 0..100 {
        let pauses: Vec<Duration> = (1..40).map(|failures| pause(failures, seed)).collect();
        assert!(pauses.iter().all(|pause| *pause <= PAUSE.1 && *pause >= PAUSE.0 / 2), "{pauses:?}");
        assert!(pauses[10] > pauses[0]);
    }
}

/// A copy whose steps are lost, repeated and reordered, and whose peer is made anew, beside a
/// list of what the peer holds.
#[test]
fn whatever_a_copy_takes_for_copied_is_there() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut one = StreamCopy { start: 0, position: 0, ..copy(CopyDirection::To) };
        let (mut peer, mut held) = (0_u64, std::collections::BTreeSet::<u64>::new());
        let mut answers: Vec<(CopyLane, u64, u64, u64)> = Vec::new();
        let mut newest = 0;
        for _ in 0..300 {
            newest += random.below(4);
            match random.below(10) {
                0 => _ = begin_live(&mut one, newest, &PeerIdentity::default()),
                1 if random.below(6) == 0 => {
                    // Answers of the one before are not waited for: its node is not there.
                    (peer, held) = (peer + 1, std::collections::BTreeSet::new());
                    answers.clear();
                }
                2..=5 => {
                    let live = one.live.filter(|_| random.below(2) == 0);
                    let lane = if live.is_some() { CopyLane::Live } else { CopyLane::Backlog };
                    let from = live.map_or(one.position, |live| live.position);
                    let until = match one.live {
                        Some(lane) if live.is_none() => lane.from,
                        _ => newest,
                    };
                    let to = (from + random.below(5)).min(until).max(from);
                    held.extend(from + 1..=to);
                    answers.push((lane, from, to, peer));
                }
                _ if !answers.is_empty() => {
                    let at = random.below(answers.len() as u64) as usize;
                    let (lane, from, to, of) = match random.below(3) {
                        0 => answers[at],
                        _ => answers.remove(at),
                    };
                    let name = format!("dc1.{of}");
                    let answer = CopiedSpan { peer: answered_by(&name), ..step(lane, from, to) };
                    advance(&mut one, &answer, Timestamp(0));
                }
                _ => {}
            }
            if one.peer.as_deref() == Some(&*format!("dc1.{peer}")) {
                let taken = (1..=newest).filter(|id| is_taken(&one, *id));
                assert!(taken.into_iter().all(|id| held.contains(&id)), "seed {seed}: {one:?}");
            }
        }
    }
}
